#include "golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ops/hc_post.h"
#include "ops/router.h"
#include "ops/topk.h"

void golden_open(hd_st_file *out, const char *name)
{
    char     path[256];
    hd_error err = {0};
    snprintf(path, sizeof path, "tests/golden/model/%s.safetensors", name);
    if (hd_st_open(out, path, &err) != HD_OK) fail_msg("%s", err.message);
}

static const hd_st_tensor *find(const hd_st_file *f, const char *prompt, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", prompt, name);
    return hd_st_find(f, full);
}

bool golden_has(const hd_st_file *f, const char *prompt, const char *name)
{
    return find(f, prompt, name) != NULL;
}

const hd_st_tensor *golden_tensor(const hd_st_file *f, const char *prompt, const char *name)
{
    const hd_st_tensor *const t = find(f, prompt, name);
    if (!t) fail_msg("no expected value %s.%s", prompt, name);
    return t;
}

static const void *data_of(const hd_st_file *f, const char *prompt, const char *name,
                           hd_st_dtype dtype, int64_t *count)
{
    const hd_st_tensor *const t = golden_tensor(f, prompt, name);
    assert_int_equal(t->dtype, dtype);
    assert_int_equal((uintptr_t)t->data % 4, 0);
    if (count) *count = hd_st_tensor_count(t);
    return t->data;
}

const float *golden_f32(const hd_st_file *f, const char *prompt, const char *name, int64_t *count)
{
    return data_of(f, prompt, name, HD_ST_F32, count);
}

const int32_t *golden_i32(const hd_st_file *f, const char *prompt, const char *name, int64_t *count)
{
    return data_of(f, prompt, name, HD_ST_I32, count);
}

double worst_row(const float *got, const float *want, int64_t rows, int64_t cols)
{
    double worst = 0;
    for (int64_t r = 0; r < rows; r++) {
        double difference = 0, norm = 0;
        for (int64_t c = 0; c < cols; c++) {
            double const w = want[r * cols + c], e = got[r * cols + c] - w;
            difference += e * e;
            norm += w * w;
        }
        double const error = sqrt(difference) / (norm > 0 ? sqrt(norm) : 1);
        if (!(error <= worst)) worst = error == error ? error : INFINITY;
    }
    return worst;
}

hd_engine *open_engine(const char *model, hd_act act, int32_t context, int32_t chunk)
{
    return open_engine_on(0, model, act, context, chunk);
}

hd_engine *open_engine_on(uint32_t isa, const char *model, hd_act act, int32_t context,
                          int32_t chunk)
{
    hd_error         err = {0};
    hd_engine       *e = NULL;
    hd_options const o = {.model = model,
                          .act = act,
                          .max_tokens = context,
                          .chunk = chunk,
                          .isa = isa,
                          .has_mtp = true};
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s: %s", model, err.message);
    return e;
}

void record_open(recorded *r, const hd_engine *e, int32_t n)
{
    const hd_config *const c = e->model.config;
    size_t const           rows = ((size_t)c->n_layers + 1) * (size_t)n;
    *r = (recorded){.n = n,
                    .n_layers = c->n_layers,
                    .m = c->hc_mult,
                    .d = c->d_model,
                    .n_experts_used = c->n_experts_used,
                    .topk = c->index_topk};
    r->streams = hd_memory_alloc(rows * (size_t)(r->m * r->d) * sizeof(float));
    r->experts = hd_memory_alloc(rows * (size_t)r->n_experts_used * sizeof(int32_t));
    r->rows = hd_memory_alloc(rows * (size_t)r->topk * sizeof(int32_t));
    assert_true(r->streams && r->experts && r->rows);
}

void record_close(recorded *r)
{
    hd_memory_free(r->streams);
    hd_memory_free(r->experts);
    hd_memory_free(r->rows);
}

/* Copies [n, width] elements of four bytes to the layer's place. */
static void keep(const recorded *r, int32_t layer, int64_t width, const void *from, void *to)
{
    int64_t const at = layer == HD_LAYER_MTP ? r->n_layers : layer;
    memcpy((char *)to + at * r->n * width * 4, from, (size_t)(r->n * width) * 4);
}

static int64_t count_saturated(const hd_step *step)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = step->kernel->op->describe(step->args, o);
    int64_t       sum = 0;
    for (int32_t i = 0; i < n; i++) {
        if (strcmp(o[i].name, "saturated") != 0) continue;
        const int32_t *const v = hd_operand_pointer(step->args, &o[i]);
        for (int64_t j = 0; j < hd_operand_count(&o[i]); j++) sum += v[j];
    }
    return sum;
}

hd_status record_step(void *user, const hd_step *step, hd_error *err)
{
    recorded *const    r = user;
    const hd_op *const op = step->kernel->op;
    (void)err;
    if (op == &hd_op_hc_post && strcmp(step->label, "hc_ffn_post") == 0)
        keep(r, step->layer, (int64_t)r->m * r->d, ((const hd_hc_post_args *)step->args)->s,
             r->streams);
    if (op == &hd_op_router)
        keep(r, step->layer, r->n_experts_used, ((const hd_router_args *)step->args)->ids,
             r->experts);
    if (op == &hd_op_topk)
        keep(r, step->layer, r->topk, ((const hd_topk_args *)step->args)->ids, r->rows);
    r->n_saturated += count_saturated(step);
    return HD_OK;
}
