#include "model/parts.h"
#include "ops/grouped_gemm.h"
#include "ops/matrix_operands.h"
#include "ops/moe_sum.h"
#include "ops/quant_fp8.h"
#include "ops/router.h"
#include "ops/swiglu.h"

typedef struct routing {
    int32_t *ids;   /* [t, s]                                       */
    int32_t *pairs; /* [t, s, 2] of w1 and w3, which lie in one list */
    float   *w;     /* [t, s]                                       */
} routing;

static routing add_router(const hd_site *s, const float *x)
{
    static const hd_router_score scores[] = {
        [HD_SCORING_SQRTSOFTPLUS] = HD_ROUTER_SQRTSOFTPLUS,
        [HD_SCORING_SIGMOID] = HD_ROUTER_SIGMOID,
        [HD_SCORING_SOFTMAX] = HD_ROUTER_SOFTMAX,
    };
    const hd_config *const c = s->m->config;
    int32_t const          k = c->n_experts_used;
    routing const          r = {hd_plan_room(s->p, s->t, k), hd_plan_room(s->p, s->t, 2 * k),
                                hd_plan_room(s->p, s->t, k)};
    float *const           logits = HD_LINEAR(s, "gate", .w = &s->w->gate, .x = x, .t = s->t);
    HD_ADD(s->p, "router", router, .logits = logits, .bias = s->w->gate_bias,
           .table = s->w->tid2eid, .token = s->b->token, .ids = r.ids, .w = r.w, .t = s->t, .s = k,
           .e = c->n_experts, .vocab = c->n_vocab, .scale = c->routed_scale,
           .scoring = scores[c->scoring], .is_hash = s->w->tid2eid != NULL, .has_pairs = true,
           .pairs = r.pairs);
    return r;
}

/* A product of the routed experts: y [t, slots, n] of x [t, xs, k].  W4A4 rounds the input
 * with each matrix' own scale, so every slot then has its own. */
typedef struct projection {
    const char       *label, *round_label;
    const hd_experts *w;
    const float      *x;
    const int32_t    *ids; /* [t, slots] */
    int32_t           slots, xs;
} projection;

#define OP(suffix, format) [HD_FMT_##format] = &hd_op_grouped_gemm_##suffix,
static const hd_op *const ops[HD_N_FORMATS] = {HD_EACH_MATRIX_FORMAT(OP)};
#undef OP

static bool wants_codes(const hd_site *s, const hd_op *op, const hd_grouped_gemm_args *a)
{
    hd_grouped_gemm_args coded = *a;
    coded.has_codes = true;
    return hd_codes_matter(s, op, a, &coded);
}

/* The input of the product a, whose dimensions are set but for xs, which may change. */
static hd_rows_in round_slots(const hd_site *s, const projection *j, hd_grouped_gemm_args *a)
{
    int32_t const from = j->xs;
    bool const    is_fp = j->w->format == HD_FMT_F32 || j->w->format == HD_FMT_BF16;
    if (s->m->act == HD_ACT_OFFICIAL && !is_fp) {
        float *const y = hd_plan_room(s->p, (int64_t)s->t * from, j->w->k);
        HD_ADD(s->p, j->round_label, quant_fp8, .x = j->x, .y = y, .t = s->t * from, .k = j->w->k,
               .block = 128);
        return (hd_rows_in){.x = y};
    }
    if (s->m->act != HD_ACT_NVFP4 || hd_format_in_rows(j->w->format) != HD_FMT_NVFP4)
        return (hd_rows_in){.x = j->x};
    a->xs = j->slots;
    return hd_add_nvfp4_rounding(
        s, j->round_label,
        (hd_quant_nvfp4_args){.x = j->x,
                              .ids = j->ids,
                              .scale = j->w->input_scale,
                              .t = s->t * from,
                              .s = j->slots / from,
                              .k = j->w->k,
                              .e = j->w->e,
                              .has_ids = true,
                              .has_codes = wants_codes(s, ops[j->w->format], a)});
}

static float *add_projection(const hd_site *s, const projection *j)
{
    hd_grouped_gemm_args a = {.ids = j->ids,
                              .w = j->w->w,
                              .sf = j->w->sf,
                              .w_scale = j->w->scale,
                              .y = hd_plan_room(s->p, (int64_t)s->t * j->slots, j->w->n),
                              .t = s->t,
                              .s = j->slots,
                              .xs = j->xs,
                              .n = j->w->n,
                              .k = j->w->k,
                              .e = j->w->e};
    hd_rows_in const     in = round_slots(s, j, &a);
    a.x = in.x;
    a.has_codes = in.has_codes;
    a.x_codes = in.codes;
    a.x_sf = in.sf;
    a.x_scale = in.scale;
    hd_plan_add(s->p, j->label, ops[j->w->format], &a);
    return a.y;
}

static float *add_shared_expert(const hd_site *s, const hd_normed *in)
{
    const hd_config *const c = s->m->config;
    float *const gate = HD_LINEAR(s, "shared_w1", .w = &s->w->shared_w1, .x = in->x, .from = in,
                                  .t = s->t, .input = HD_INPUT_ROUNDED);
    float *const up = HD_LINEAR(s, "shared_w3", .w = &s->w->shared_w3, .x = in->x, .from = in,
                                .t = s->t, .input = HD_INPUT_ROUNDED);
    HD_ADD(s->p, "shared_swiglu", swiglu, .gate = gate, .up = up, .y = gate, .r = s->t,
           .n = c->d_expert, .limit = c->swiglu_limit);
    return HD_LINEAR(s, "shared_w2", .w = &s->w->shared_w2, .x = gate, .t = s->t,
                     .input = HD_INPUT_ROUNDED);
}

/* The released code multiplies the routing weight in front of w2, where its rounding sees it;
 * everything else behind w2.  Without rounding the two are equal. */
float *hd_add_moe(const hd_site *s, const hd_normed *in)
{
    const hd_config *const c = s->m->config;
    const float *const     x = in->x;
    int32_t const          k = c->n_experts_used;
    bool const             w_first = s->m->act == HD_ACT_OFFICIAL;
    routing const          r = add_router(s, x);
    projection const       w1_w3 = {"w1_w3", "w1_w3_in", &s->w->w1_w3, x, r.pairs, 2 * k, 1};
    float *const           gate_up = add_projection(s, &w1_w3);
    float *const           h = hd_plan_room(s->p, (int64_t)s->t * k, c->d_expert);
    HD_ADD(s->p, "swiglu", swiglu, .gate_up = gate_up, .w = r.w, .y = h, .r = s->t * k,
           .n = c->d_expert, .limit = c->swiglu_limit, .has_w = w_first, .is_paired = true);
    projection const w2 = {"w2", "w2_in", &s->w->w2, h, r.ids, k, k};
    float *const     y = add_projection(s, &w2);
    float *const     out = add_shared_expert(s, in);
    HD_ADD(s->p, "moe_sum", moe_sum, .y = y, .w = r.w, .shared = out, .out = out, .t = s->t, .s = k,
           .d = c->d_model, .has_w = !w_first);
    return out;
}
