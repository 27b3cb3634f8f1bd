#include "doctor/trace.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/safetensors_write.h"
#include "doctor/pass_walk.h"

#define MAX_NAME 96
#define N_META   4 /* beside the kernels */

typedef struct tracer {
    hd_engine              *e;
    const hd_trace_options *opt;
    const int32_t          *ids;
    int32_t                 n;
    hd_st_tensor           *list; /* [cap] what the file will hold, in the order of writing */
    int32_t                 used, cap, written, n_steps;
    hd_st_meta             *meta; /* [cap_meta] */
    int32_t                 n_meta, cap_meta;
    int64_t                 bytes;   /* written */
    float                  *streams; /* [layers, n, m, d]; NULL: not wanted */
    void                   *fetched; /* room for the largest output, on an accelerator */
    hd_st_writer            writer;
    hd_pool                 pool;
} tracer;

static bool is_wanted(const tracer *t, const char *name)
{
    return !t->opt->steps || fnmatch(t->opt->steps, name, 0) == 0;
}

static bool is_step_wanted(const tracer *t, const hd_step *step)
{
    char label[MAX_NAME];
    hd_step_name(step, label, sizeof label);
    return is_wanted(t, label);
}

/* ---- the list of tensors ---- */

static hd_status add_tensor(tracer *t, const char *name, hd_st_dtype dtype, const hd_operand *shape,
                            hd_error *err)
{
    hd_st_tensor *const s = t->used < t->cap ? &t->list[t->used] : NULL;
    const char *const   copy = hd_pool_copy(&t->pool, name, strlen(name));
    if (!s || !copy) HD_FAIL(err, HD_ERR_MEMORY, "no memory to trace %s", name);
    *s = (hd_st_tensor){.name = copy, .dtype = dtype, .rank = shape->rank};
    for (int32_t i = 0; i < shape->rank; i++) s->shape[i] = shape->shape[i];
    t->used++;
    return HD_OK;
}

static hd_status add_meta(tracer *t, const char *key, const char *value, size_t bytes,
                          hd_error *err)
{
    const char *const k = hd_pool_copy(&t->pool, key, strlen(key));
    const char *const v = hd_pool_copy(&t->pool, value, bytes);
    if (!k || !v || t->n_meta == t->cap_meta)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for the metadata of a trace");
    t->meta[t->n_meta++] = (hd_st_meta){k, v};
    return HD_OK;
}

static hd_st_dtype file_dtype(hd_dtype d)
{
    static const hd_st_dtype dtypes[] = {
        [HD_F32] = HD_ST_F32, [HD_BF16] = HD_ST_BF16, [HD_U8] = HD_ST_U8, [HD_I32] = HD_ST_I32};
    return dtypes[d];
}

static hd_status list_step(tracer *t, const hd_step *step, hd_error *err)
{
    hd_operand        o[HD_MAX_OPERANDS];
    char              label[MAX_NAME], name[2 * MAX_NAME];
    int32_t const     n = step->kernel->op->describe(step->args, o);
    const char *const kernel = step->kernel->name;
    hd_step_name(step, label, sizeof label);
    if (!is_wanted(t, label)) return HD_OK;
    for (int32_t i = 0; i < n; i++) {
        if (o[i].role == HD_IN) continue;
        snprintf(name, sizeof name, "%s.%s", label, o[i].name);
        HD_TRY(add_tensor(t, name, file_dtype(o[i].dtype), &o[i], err));
    }
    snprintf(name, sizeof name, "kernel.%s", label);
    return add_meta(t, name, kernel, strlen(kernel), err);
}

static hd_status list_plan(tracer *t, const hd_pass_walk *w, bool is_mtp, hd_error *err)
{
    const hd_plan *plan = NULL;
    HD_TRY(hd_pass_walk_plan(t->e, w, is_mtp, &plan, err));
    for (int32_t i = 0; i < plan->n; i++) HD_TRY(list_step(t, &plan->steps[i], err));
    return HD_OK;
}

static hd_status list_result(tracer *t, const char *name, int32_t rank, int64_t a, int64_t b,
                             hd_error *err)
{
    const hd_config *const c = t->e->model.config;
    hd_operand const       shape = {.rank = rank, .shape = {a, b, c->hc_mult, c->d_model}};
    return is_wanted(t, name) ? add_tensor(t, name, HD_ST_F32, &shape, err) : HD_OK;
}

static hd_status list_options(tracer *t, hd_error *err)
{
    hd_buffer               ids = {0};
    const hd_options *const o = &t->e->options;
    const char *const       texts[][2] = {
              {"model", o->model}, {"act", hd_act_name(o->act)}, {"kv", hd_kv_name(o->kv)}};
    for (int i = 0; i < N_META - 1; i++)
        HD_TRY(add_meta(t, texts[i][0], texts[i][1], strlen(texts[i][1]), err));
    for (int32_t i = 0; i < t->n; i++) hd_buffer_printf(&ids, "%s%d", i ? "," : "", t->ids[i]);
    hd_status const s = ids.failed
                            ? hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for %d ids", t->n)
                            : add_meta(t, "ids", ids.data, ids.used, err);
    hd_buffer_free(&ids);
    return s;
}

static hd_status list_all(tracer *t, const hd_pass_walk *w, hd_error *err)
{
    const hd_config *const c = t->e->model.config;
    int32_t const          n_steps = 2 * hd_model_max_steps(&t->e->model);
    t->cap = n_steps * HD_MAX_OPERANDS;
    t->cap_meta = n_steps + N_META;
    t->list = hd_pool_alloc(&t->pool, (size_t)t->cap * sizeof *t->list);
    t->meta = hd_pool_alloc(&t->pool, (size_t)t->cap_meta * sizeof *t->meta);
    if (!t->list || !t->meta) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the list of tensors");
    HD_TRY(list_options(t, err));
    HD_TRY(list_plan(t, w, false, err));
    HD_TRY(list_result(t, "logits", 2, t->n, c->n_vocab, err));
    HD_TRY(list_result(t, "streams", 4, c->n_layers, t->n, err));
    if (t->e->options.has_mtp) {
        HD_TRY(list_plan(t, w, true, err));
        HD_TRY(list_result(t, "mtp.logits", 2, t->n, c->n_vocab, err));
    }
    if (t->used == 0) HD_FAIL(err, HD_ERR_INVALID, "no step is called %.200s", t->opt->steps);
    return HD_OK;
}

/* ---- writing ---- */

static hd_status put(tracer *t, const void *data, hd_error *err)
{
    size_t                    bytes = 0;
    const hd_st_tensor *const s = &t->list[t->written];
    if (!hd_st_tensor_bytes(s->dtype, s->rank, s->shape, &bytes))
        HD_FAIL(err, HD_ERR_LIMIT, "tensor %s is too large", s->name);
    t->bytes += (int64_t)bytes;
    return hd_st_writer_put(&t->writer, t->written++, data, bytes, err);
}

/* The streams as a layer leaves them: the step that ends it is the FFN's hc_post, in place. */
static hd_status keep_streams(tracer *t, const hd_step *step, hd_error *err)
{
    const hd_config *const c = t->e->model.config;
    int64_t const          count = (int64_t)t->n * c->hc_mult * c->d_model;
    if (!t->streams || step->layer < 0 || strcmp(step->label, "hc_ffn_post") != 0) return HD_OK;
    return hd_device_read(t->e->device, t->streams + step->layer * count, t->e->pass.streams,
                          (size_t)count * sizeof *t->streams, err);
}

static hd_status write_outputs(tracer *t, const hd_step *step, hd_error *err)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = step->kernel->op->describe(step->args, o);
    for (int32_t i = 0; i < n; i++) {
        const void *data = NULL;
        if (o[i].role == HD_IN) continue;
        HD_TRY(hd_operand_fetch(t->e, step, &o[i], t->fetched, &data, err));
        HD_TRY(put(t, data, err));
    }
    return HD_OK;
}

static hd_status on_step(void *user, const hd_step *step, hd_error *err)
{
    tracer *const t = user;
    if (is_step_wanted(t, step)) HD_TRY(write_outputs(t, step, err));
    t->n_steps++;
    return keep_streams(t, step, err);
}

static hd_status on_logits(void *user, bool is_mtp, const float *logits, hd_error *err)
{
    tracer *const t = user;
    if (is_wanted(t, is_mtp ? "mtp.logits" : "logits")) HD_TRY(put(t, logits, err));
    return !is_mtp && t->streams ? put(t, t->streams, err) : HD_OK;
}

/* ---- the run ---- */

static hd_status prepare(tracer *t, const hd_pass_walk *w, hd_error *err)
{
    const hd_config *const c = t->e->model.config;
    const hd_plan         *plan = NULL;
    size_t const           stream = (size_t)c->hc_mult * (size_t)c->d_model * sizeof(float);
    size_t                 largest = 0;
    for (int is_mtp = 0; is_mtp <= t->e->options.has_mtp; is_mtp++) {
        HD_TRY(hd_pass_walk_plan(t->e, w, is_mtp, &plan, err));
        size_t const bytes = hd_plan_largest_output(plan);
        if (bytes > largest) largest = bytes;
    }
    if (is_wanted(t, "streams")) {
        t->streams = hd_pool_alloc(&t->pool, (size_t)c->n_layers * (size_t)t->n * stream);
        if (!t->streams)
            HD_FAIL(err, HD_ERR_MEMORY, "no memory for the streams of %d tokens", t->n);
    }
    t->fetched = t->e->device ? hd_pool_alloc(&t->pool, largest) : NULL;
    if (t->e->device && !t->fetched)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory to fetch %zu bytes", largest);
    return HD_OK;
}

static hd_status trace(tracer *t, hd_trace_result *out, hd_error *err)
{
    hd_pass_walk const w = {
        .ids = t->ids, .n = t->n, .on_step = on_step, .on_logits = on_logits, .user = t};
    HD_TRY(prepare(t, &w, err));
    HD_TRY(list_all(t, &w, err));
    hd_st_layout const layout = {
        .tensors = t->list, .n_tensors = t->used, .meta = t->meta, .n_meta = t->n_meta};
    HD_TRY(hd_st_writer_begin(&t->writer, t->opt->path, &layout, err));
    hd_status s = hd_pass_walk_run(t->e, &w, &out->greedy, err);
    if (s == HD_OK) s = hd_st_writer_commit(&t->writer, err);
    if (s != HD_OK) hd_st_writer_abort(&t->writer);
    return s;
}

hd_status hd_trace(hd_engine *e, const int32_t *ids, int32_t n, const hd_trace_options *opt,
                   hd_trace_result *out, hd_error *err)
{
    tracer t = {.e = e, .opt = opt, .ids = ids, .n = n};
    HD_TRY(hd_pass_walk_check(e, ids, n, err));
    *out = (hd_trace_result){0};
    hd_status const s = trace(&t, out, err);
    out->n_steps = t.n_steps;
    out->n_tensors = t.written;
    out->bytes = t.bytes;
    hd_pool_free(&t.pool);
    return s;
}
