#include "model/parts.h"
#include "ops/grouped_gemm.h"
#include "ops/matrix_operands.h"
#include "ops/moe_sum.h"
#include "ops/quant_fp8.h"
#include "ops/router.h"
#include "ops/swiglu_nvfp4.h"

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
    const hd_rows_in *rounded; /* x as the step in front has rounded it for w; or NULL */
    const int32_t    *ids;     /* [t, slots] */
    int32_t           slots, xs;
} projection;

#define OP(suffix, format) [HD_FMT_##format] = &hd_op_grouped_gemm_##suffix,
static const hd_op *const ops[HD_N_FORMATS] = {HD_EACH_MATRIX_FORMAT(OP)};
#undef OP

/* The product without its input and output. */
static hd_grouped_gemm_args make_product(const hd_site *s, const projection *j)
{
    return (hd_grouped_gemm_args){.ids = j->ids,
                                  .w = j->w->w,
                                  .sf = j->w->sf,
                                  .w_scale = j->w->scale,
                                  .t = s->t,
                                  .s = j->slots,
                                  .xs = j->xs,
                                  .n = j->w->n,
                                  .k = j->w->k,
                                  .e = j->w->e};
}

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
    if (j->rounded) return *j->rounded;
    if (s->m->act == HD_ACT_OFFICIAL && !is_fp) {
        float *const y = hd_plan_room(s->p, (int64_t)s->t * from, j->w->k);
        HD_ADD(s->p, j->round_label, quant_fp8, .x = j->x, .y = y, .t = s->t * from, .k = j->w->k,
               .block = 128);
        return (hd_rows_in){.x = y};
    }
    if (!hd_is_rounded_for(s, j->w->format)) return (hd_rows_in){.x = j->x};
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
    hd_grouped_gemm_args a = make_product(s, j);
    hd_rows_in const     in = round_slots(s, j, &a);
    a.y = hd_plan_room(s->p, (int64_t)s->t * j->slots, j->w->n);
    a.x = in.x;
    a.has_codes = in.has_codes;
    a.x_codes = in.codes;
    a.x_sf = in.sf;
    a.x_scale = in.scale;
    hd_plan_add(s->p, j->label, ops[j->w->format], &a);
    return a.y;
}

/* Gates the halves in a, r rows of them, for the product behind, and rounds them in the same step
 * where that wants it; without rounding w, which may be NULL, weights the rows. */
static hd_rows_in add_gating(const hd_site *s, const char *label, hd_swiglu_nvfp4_args a,
                             const float *w, bool is_rounded)
{
    a.n = s->m->config->d_expert;
    a.limit = s->m->config->swiglu_limit;
    a.y = hd_plan_room(s->p, a.r, a.n);
    if (!is_rounded) {
        hd_swiglu_args gating = hd_swiglu_nvfp4_gating(&a);
        gating.w = w;
        gating.has_w = w != NULL;
        hd_plan_add(s->p, label, &hd_op_swiglu, &gating);
        return (hd_rows_in){.x = a.y};
    }
    hd_quant_nvfp4_args q = hd_swiglu_nvfp4_rounding(&a);
    hd_rows_in const    out = hd_make_nvfp4_room(s, &q);
    a.rounded = q.y;
    a.saturated = q.saturated;
    a.codes = q.codes;
    a.sf = q.sf;
    a.g = q.g;
    hd_plan_add(s->p, label, &hd_op_swiglu_nvfp4, &a);
    return out;
}

static float *add_shared_expert(const hd_site *s, const hd_normed *in)
{
    const hd_matrix *const w2 = &s->w->shared_w2;
    bool const             is_rounded = hd_is_rounded_for(s, w2->format);
    hd_swiglu_nvfp4_args   a = {.scale = w2->input_scale_at, .r = s->t, .e = 1};
    a.gate = HD_LINEAR(s, "shared_w1", .w = &s->w->shared_w1, .x = in->x, .from = in, .t = s->t,
                       .input = HD_INPUT_ROUNDED);
    a.up = HD_LINEAR(s, "shared_w3", .w = &s->w->shared_w3, .x = in->x, .from = in, .t = s->t,
                     .input = HD_INPUT_ROUNDED);
    a.has_codes = is_rounded && hd_wants_codes(s, w2);
    hd_rows_in const h = add_gating(s, "shared_swiglu", a, NULL, is_rounded);
    hd_normed const  gated = {.x = h.x, .n = is_rounded, .reader = {w2}, .in = {h}};
    return HD_LINEAR(s, "shared_w2", .w = w2, .x = h.x, .from = &gated, .t = s->t,
                     .input = HD_INPUT_ROUNDED);
}

/* w2 of what the halves gate up to; w, which may be NULL, weights it in front. */
static float *add_down(const hd_site *s, const float *gate_up, const routing *r, const float *w)
{
    const hd_experts *const    w2 = &s->w->w2;
    int32_t const              k = s->m->config->n_experts_used;
    bool const                 is_rounded = hd_is_rounded_for(s, w2->format);
    projection                 j = {"w2", "w2_in", w2, NULL, NULL, r->ids, k, k};
    hd_grouped_gemm_args const product = make_product(s, &j);
    hd_swiglu_nvfp4_args const a = {.gate_up = gate_up,
                                    .ids = r->ids,
                                    .scale = w2->input_scale,
                                    .r = s->t * k,
                                    .e = w2->e,
                                    .is_paired = true,
                                    .has_ids = true,
                                    .has_codes = wants_codes(s, ops[w2->format], &product)};
    hd_rows_in const           h = add_gating(s, "swiglu", a, w, is_rounded);
    j.x = h.x;
    j.rounded = is_rounded ? &h : NULL;
    return add_projection(s, &j);
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
    projection const       w1_w3 = {"w1_w3", "w1_w3_in", &s->w->w1_w3, x, NULL, r.pairs, 2 * k, 1};
    float *const           gate_up = add_projection(s, &w1_w3);
    float *const           y = add_down(s, gate_up, &r, w_first ? r.w : NULL);
    float *const           out = add_shared_expert(s, in);
    HD_ADD(s->p, "moe_sum", moe_sum, .y = y, .w = r.w, .shared = out, .out = out, .t = s->t, .s = k,
           .d = c->d_model, .has_w = !w_first);
    return out;
}
