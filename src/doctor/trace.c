#include "doctor/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/safetensors_write.h"
#include "engine/engine.h"

#define MAX_NAME 96

typedef struct tracer {
    hd_engine     *e;
    const int32_t *ids;
    int32_t       *next; /* [n] ids one place later */
    int32_t        n;
    hd_st_tensor  *list; /* [cap] what the file will hold, in the order of writing */
    int32_t        used, cap, written, n_steps;
    int64_t        bytes;   /* written */
    float         *streams; /* [layers, n, m, d] */
    void          *fetched; /* room for the largest output, on an accelerator */
    hd_st_writer   writer;
    hd_pool        pool;
} tracer;

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

static hd_st_dtype file_dtype(hd_dtype d)
{
    static const hd_st_dtype dtypes[] = {
        [HD_F32] = HD_ST_F32, [HD_BF16] = HD_ST_BF16, [HD_U8] = HD_ST_U8, [HD_I32] = HD_ST_I32};
    return dtypes[d];
}

static hd_status list_step(tracer *t, const hd_step *step, hd_error *err)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = step->kernel->op->describe(step->args, o);
    for (int32_t i = 0; i < n; i++) {
        char label[MAX_NAME], name[2 * MAX_NAME];
        if (o[i].role == HD_IN) continue;
        hd_step_name(step, label, sizeof label);
        snprintf(name, sizeof name, "%s.%s", label, o[i].name);
        HD_TRY(add_tensor(t, name, file_dtype(o[i].dtype), &o[i], err));
    }
    return HD_OK;
}

static hd_status list_plan(tracer *t, const hd_pass_run *run, hd_error *err)
{
    const hd_plan *plan = NULL;
    HD_TRY(hd_engine_plan(t->e, run, &plan, err));
    for (int32_t i = 0; i < plan->n; i++) HD_TRY(list_step(t, &plan->steps[i], err));
    return HD_OK;
}

static hd_status list_result(tracer *t, const char *name, int32_t rank, int64_t a, int64_t b,
                             hd_error *err)
{
    const hd_config *const c = t->e->model.config;
    hd_operand const       shape = {.rank = rank, .shape = {a, b, c->hc_mult, c->d_model}};
    return add_tensor(t, name, HD_ST_F32, &shape, err);
}

static hd_status list_all(tracer *t, const hd_pass_run *run, const hd_pass_run *mtp, hd_error *err)
{
    const hd_config *const c = t->e->model.config;
    t->cap = 2 * hd_model_max_steps(&t->e->model) * HD_MAX_OPERANDS;
    t->list = hd_pool_alloc(&t->pool, (size_t)t->cap * sizeof *t->list);
    if (!t->list) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the list of tensors");
    HD_TRY(list_plan(t, run, err));
    HD_TRY(list_result(t, "logits", 2, t->n, c->n_vocab, err));
    HD_TRY(list_result(t, "streams", 4, c->n_layers, t->n, err));
    if (!t->e->options.has_mtp) return HD_OK;
    HD_TRY(list_plan(t, mtp, err));
    return list_result(t, "mtp.logits", 2, t->n, c->n_vocab, err);
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

/* The same for what a kernel wrote, which may be in an accelerator's memory. */
static hd_status put_output(tracer *t, const void *data, hd_error *err)
{
    size_t                    bytes = 0;
    const hd_st_tensor *const s = &t->list[t->written];
    if (!t->e->device || !hd_st_tensor_bytes(s->dtype, s->rank, s->shape, &bytes))
        return put(t, data, err);
    HD_TRY(hd_device_read(t->e->device, t->fetched, data, bytes, err));
    return put(t, t->fetched, err);
}

/* The streams as a layer leaves them: the step that ends it is the FFN's hc_post, in place. */
static hd_status keep_streams(tracer *t, const hd_step *step, hd_error *err)
{
    const hd_config *const c = t->e->model.config;
    int64_t const          count = (int64_t)t->n * c->hc_mult * c->d_model;
    if (step->layer < 0 || strcmp(step->label, "hc_ffn_post") != 0) return HD_OK;
    return hd_device_read(t->e->device, t->streams + step->layer * count, t->e->pass.streams,
                          (size_t)count * sizeof *t->streams, err);
}

static hd_status write_step(void *user, const hd_step *step, hd_error *err)
{
    tracer *const t = user;
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = step->kernel->op->describe(step->args, o);
    for (int32_t i = 0; i < n; i++)
        if (o[i].role != HD_IN) HD_TRY(put_output(t, hd_operand_pointer(step->args, &o[i]), err));
    t->n_steps++;
    return keep_streams(t, step, err);
}

/* ---- the run ---- */

/* Room for the largest tensor, when outputs must be fetched first. */
static hd_status prepare_fetching(tracer *t, hd_error *err)
{
    size_t largest = 0;
    if (!t->e->device) return HD_OK;
    for (int32_t i = 0; i < t->used; i++) {
        size_t bytes = 0;
        if (!hd_st_tensor_bytes(t->list[i].dtype, t->list[i].rank, t->list[i].shape, &bytes))
            HD_FAIL(err, HD_ERR_LIMIT, "tensor %s is too large", t->list[i].name);
        if (bytes > largest) largest = bytes;
    }
    t->fetched = hd_pool_alloc(&t->pool, largest);
    if (!t->fetched) HD_FAIL(err, HD_ERR_MEMORY, "no memory to fetch %zu bytes", largest);
    return HD_OK;
}

/* -1 when a logit is no number. */
static int32_t greedy_token(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!isfinite(logits[i])) return -1;
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

static hd_status run_all(tracer *t, const hd_pass_run *run, const hd_pass_run *mtp,
                         hd_trace_result *out, hd_error *err)
{
    int32_t const vocab = t->e->model.config->n_vocab;
    HD_TRY(hd_engine_run(t->e, run, err));
    HD_TRY(put(t, t->e->logits, err));
    HD_TRY(put(t, t->streams, err));
    out->greedy = greedy_token(t->e->logits + (int64_t)(t->n - 1) * vocab, vocab);
    if (!t->e->options.has_mtp) return HD_OK;
    t->next[t->n - 1] = out->greedy < 0 ? 0 : out->greedy;
    HD_TRY(hd_engine_run(t->e, mtp, err));
    return put(t, t->e->logits, err);
}

static hd_status prepare(tracer *t, hd_error *err)
{
    const hd_config *const c = t->e->model.config;
    size_t const           stream = (size_t)c->hc_mult * (size_t)c->d_model * sizeof(float);
    t->next = hd_pool_alloc(&t->pool, (size_t)t->n * sizeof *t->next);
    t->streams = hd_pool_alloc(&t->pool, (size_t)c->n_layers * (size_t)t->n * stream);
    if (!t->next || !t->streams)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for the streams of %d tokens", t->n);
    memcpy(t->next, t->ids + 1, (size_t)(t->n - 1) * sizeof *t->next);
    return HD_OK;
}

static hd_status trace(tracer *t, const char *path, hd_trace_result *out, hd_error *err)
{
    hd_pass_run const run = {
        .tokens = t->ids, .n = t->n, .rows = HD_LOGITS_ALL, .after = write_step, .user = t};
    HD_TRY(prepare(t, err));
    hd_pass_run mtp = run;
    mtp.is_mtp = true;
    mtp.next = t->next;
    HD_TRY(list_all(t, &run, &mtp, err));
    HD_TRY(prepare_fetching(t, err));
    HD_TRY(hd_st_writer_begin(&t->writer, path,
                              &(hd_st_layout){.tensors = t->list, .n_tensors = t->used}, err));
    hd_status s = run_all(t, &run, &mtp, out, err);
    if (s == HD_OK) s = hd_st_writer_commit(&t->writer, err);
    if (s != HD_OK) hd_st_writer_abort(&t->writer);
    return s;
}

static hd_status check(const hd_engine *e, const int32_t *ids, int32_t n, hd_error *err)
{
    int32_t const vocab = e->model.config->n_vocab;
    if (n < 1) HD_FAIL(err, HD_ERR_INVALID, "no tokens to trace");
    if (n > e->options.chunk || n > e->options.max_tokens)
        HD_FAIL(err, HD_ERR_INVALID, "%d tokens to trace, the engine takes %d in a pass", n,
                e->options.chunk);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            HD_FAIL(err, HD_ERR_INVALID, "token %d has id %d, the vocabulary is 0 .. %d", i, ids[i],
                    vocab - 1);
    return HD_OK;
}

hd_status hd_trace(hd_engine *e, const int32_t *ids, int32_t n, const char *path,
                   hd_trace_result *out, hd_error *err)
{
    tracer t = {.e = e, .ids = ids, .n = n};
    HD_TRY(check(e, ids, n, err));
    pthread_mutex_lock(&e->lock);
    *out = (hd_trace_result){0};
    hd_status const s = trace(&t, path, out, err);
    out->n_steps = t.n_steps;
    out->n_tensors = t.written;
    out->bytes = t.bytes;
    pthread_mutex_unlock(&e->lock);
    hd_pool_free(&t.pool);
    return s;
}
