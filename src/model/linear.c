#include "model/parts.h"
#include "ops/gemm.h"
#include "ops/hadamard.h"
#include "ops/quant_fp8.h"
#include "ops/quant_mxfp4.h"
#include "ops/quant_nvfp4.h"
#include "ops/rmsnorm.h"

/* Blocks that the released code rounds activations and KV rows in. */
#define ACT_BLOCK 128
#define ROW_BLOCK 64

static bool is_quantized(hd_format f)
{
    return f == HD_FMT_FP8 || f == HD_FMT_MXFP4 || f == HD_FMT_NVFP4;
}

static int32_t n_groups(const hd_linear *l) { return l->groups ? l->groups : 1; }

static const float *round_input(const hd_site *s, const hd_linear *l)
{
    int32_t const k = n_groups(l) * l->w->k;
    if (s->m->act == HD_ACT_OFFICIAL && l->input == HD_INPUT_ROUNDED &&
        is_quantized(l->w->format)) {
        float *const y = hd_plan_room(s->p, l->t, k);
        HD_ADD(s->p, l->round_label, quant_fp8, .x = l->x, .y = y, .t = l->t, .k = k,
               .block = ACT_BLOCK);
        return y;
    }
    if (s->m->act == HD_ACT_NVFP4 && l->w->format == HD_FMT_NVFP4) {
        float *const y = hd_plan_room(s->p, l->t, k);
        HD_ADD(s->p, l->round_label, quant_nvfp4, .x = l->x, .scale = l->w->input_scale_at, .y = y,
               .saturated = hd_plan_room(s->p, l->t, 1), .t = l->t, .s = 1, .k = k, .e = 1);
        return y;
    }
    return l->x;
}

float *hd_add_linear(const hd_site *s, const hd_linear *l)
{
    const hd_matrix *const    w = l->w;
    int32_t const             n = w->n / n_groups(l);
    float *const              y = l->y ? l->y : hd_plan_room(s->p, l->t, w->n);
    hd_gemm_args const        a = {.x = round_input(s, l),
                                   .w = w->w,
                                   .sf = w->sf,
                                   .y = y,
                                   .t = l->t,
                                   .n = n,
                                   .k = w->k,
                                   .g = n_groups(l),
                                   .w_scale = w->scale};
    static const hd_op *const ops[HD_N_FORMATS] = {
        [HD_FMT_F32] = &hd_op_gemm_f32,     [HD_FMT_BF16] = &hd_op_gemm_bf16,
        [HD_FMT_FP8] = &hd_op_gemm_fp8,     [HD_FMT_MXFP4] = &hd_op_gemm_mxfp4,
        [HD_FMT_NVFP4] = &hd_op_gemm_nvfp4,
    };
    hd_plan_add(s->p, l->label, ops[w->format], &a);
    return y;
}

void hd_add_norm(const hd_site *s, const char *label, float *x, const float *w, int32_t rows,
                 int32_t d)
{
    HD_ADD(s->p, label, rmsnorm, .x = x, .w = w, .y = x, .t = rows, .d = d,
           .eps = s->m->config->rms_eps, .has_w = w != NULL);
}

/* Whether storing a row rounds it. */
static bool is_coded(const hd_cache_pool *p)
{
    return p->layout.format != HD_ROW_F32 && p->layout.format != HD_ROW_BF16;
}

void hd_add_row_rounding(const hd_site *s, const char *label, float *x, int32_t rows)
{
    const hd_config *const c = s->m->config;
    if (s->m->act != HD_ACT_OFFICIAL || is_coded(&s->cache->win)) return;
    HD_ADD(s->p, label, quant_fp8, .x = x, .y = x, .t = rows, .k = c->head_dim, .block = ROW_BLOCK,
           .tail = c->rope_dim);
}

void hd_add_index_rounding(const hd_site *s, const char *label, const char *round_label, float *x,
                           int32_t rows, bool is_key)
{
    int32_t const k = s->m->config->index_dim;
    bool const    is_official = s->m->act == HD_ACT_OFFICIAL;
    bool const    is_fp4 = is_coded(&s->cache->index_rows);
    if (!is_official && !is_fp4) return;
    HD_ADD(s->p, label, hadamard, .x = x, .t = rows, .k = k);
    if (!is_official || (is_key && is_fp4)) return;
    HD_ADD(s->p, round_label, quant_mxfp4, .x = x, .y = x, .t = rows, .k = k);
}
