#include "model/parts.h"
#include "ops/gemm.h"
#include "ops/matrix_operands.h"
#include "ops/quant_fp8.h"
#include "ops/rmsnorm.h"
#include "quant/fp4.h"

/* Blocks that the released code rounds activations in. */
#define ACT_BLOCK 128

static bool is_quantized(hd_format f) { return f != HD_FMT_F32 && f != HD_FMT_BF16; }

static bool is_nvfp4(hd_format f) { return hd_format_in_rows(f) == HD_FMT_NVFP4; }

static int32_t n_groups(const hd_linear *l) { return l->groups ? l->groups : 1; }

static void *make_bytes(hd_plan *p, int64_t rows, int32_t n)
{
    return hd_arena_alloc(p->act, (size_t)rows * (size_t)n);
}

hd_rows_in hd_make_nvfp4_room(const hd_site *s, hd_quant_nvfp4_args *a)
{
    int64_t const rows = (int64_t)a->t * a->s;
    a->y = hd_plan_room(s->p, rows, a->k);
    a->saturated = hd_plan_room(s->p, rows, HD_NVFP4_PARTS(a->k));
    if (a->has_codes) {
        a->codes = make_bytes(s->p, rows, a->k / 2);
        a->sf = make_bytes(s->p, rows, a->k / HD_NVFP4_BLOCK);
        a->g = hd_plan_room(s->p, rows, 1);
    }
    return (hd_rows_in){a->y, a->has_codes, a->codes, a->sf, a->g};
}

hd_rows_in hd_add_nvfp4_rounding(const hd_site *s, const char *label, hd_quant_nvfp4_args a)
{
    hd_rows_in const out = hd_make_nvfp4_room(s, &a);
    hd_plan_add(s->p, label, &hd_op_quant_nvfp4, &a);
    return out;
}

bool hd_codes_matter(const hd_site *s, const hd_op *op, const void *plain, const void *coded)
{
    return hd_kernel_select(s->p->choice, op, plain) != hd_kernel_select(s->p->choice, op, coded);
}

#define OP(suffix, format) [HD_FMT_##format] = &hd_op_gemm_##suffix,
static const hd_op *const ops[HD_N_FORMATS] = {HD_EACH_MATRIX_FORMAT(OP)};
#undef OP

static bool wants_codes(const hd_site *s, const hd_op *op, const hd_gemm_args *a)
{
    hd_gemm_args coded = *a;
    coded.has_codes = true;
    return hd_codes_matter(s, op, a, &coded);
}

/* What reads l->x, without its input and output. */
static hd_gemm_args make_product(const hd_linear *l)
{
    const hd_matrix *const w = l->w;
    return (hd_gemm_args){.w = w->w,
                          .sf = w->sf,
                          .t = l->t,
                          .n = w->n / n_groups(l),
                          .k = w->k,
                          .g = n_groups(l),
                          .w_scale = w->scale};
}

/* ---- norms, and the roundings that go with them ---- */

bool hd_is_rounded_for(const hd_site *s, hd_format f)
{
    return s->m->act == HD_ACT_NVFP4 && is_nvfp4(f);
}

bool hd_wants_codes(const hd_site *s, const hd_matrix *w)
{
    hd_gemm_args const product = make_product(&(hd_linear){.w = w, .t = s->t});
    return wants_codes(s, ops[w->format], &product);
}

/* The readers that want rounded rows, and which of them want codes. */
static hd_normed list_readers(const hd_site *s, const hd_norm *n)
{
    hd_normed out = {.x = n->x};
    for (int32_t i = 0; i < HD_NORM_COPIES && n->readers[i]; i++) {
        const hd_matrix *const w = n->readers[i];
        if (!hd_is_rounded_for(s, w->format)) continue;
        out.reader[out.n] = w;
        out.in[out.n++].has_codes = hd_wants_codes(s, w);
    }
    return out;
}

static void make_room(const hd_site *s, hd_rmsnorm_nvfp4_args *a)
{
    hd_quant_nvfp4_args q = {.t = a->t, .s = a->c, .k = a->d, .has_codes = a->has_codes};
    a->y = hd_plan_room(s->p, a->t, a->d);
    hd_make_nvfp4_room(s, &q);
    a->rounded = q.y;
    a->saturated = q.saturated;
    a->codes = q.codes;
    a->sf = q.sf;
    a->g = q.g;
}

/* The copy that a step leaves for reader i; while a plan is measured there is none. */
static void find_copy(const hd_rmsnorm_nvfp4_args *a, int32_t i, hd_rows_in *in)
{
    if (!a->rounded) return;
    hd_quant_nvfp4_args const q = hd_rmsnorm_nvfp4_rounding(a, i);
    in->x = q.y;
    in->codes = q.codes;
    in->sf = q.sf;
    in->scale = q.g;
}

hd_normed hd_add_norm_for(const hd_site *s, const hd_norm *n)
{
    hd_normed             out = list_readers(s, n);
    hd_rmsnorm_nvfp4_args a = {.x = n->x,
                               .w = n->w,
                               .t = s->t,
                               .d = n->d,
                               .c = out.n,
                               .eps = s->m->config->rms_eps,
                               .has_w = true};
    if (out.n == 0) {
        hd_add_norm(s, n->label, n->x, n->w, s->t, n->d);
        return out;
    }
    for (int32_t i = 0; i < out.n; i++) {
        a.scale[i] = out.reader[i]->input_scale_at;
        a.has_codes |= out.in[i].has_codes;
    }
    make_room(s, &a);
    hd_plan_add(s->p, n->label, &hd_op_rmsnorm_nvfp4, &a);
    out.x = a.y;
    for (int32_t i = 0; i < out.n; i++) find_copy(&a, i, &out.in[i]);
    return out;
}

/* ---- products ---- */

/* Where the norm in front has rounded x for this matrix already. */
static const hd_rows_in *find_rounded(const hd_linear *l)
{
    for (int32_t i = 0; l->from && i < l->from->n; i++)
        if (l->from->reader[i] == l->w) return &l->from->in[i];
    return NULL;
}

/* The input of the product a, whose dimensions are set. */
static hd_rows_in round_input(const hd_site *s, const hd_linear *l, const hd_gemm_args *a)
{
    int32_t const           k = n_groups(l) * l->w->k;
    const hd_rows_in *const rounded = find_rounded(l);
    if (rounded) return *rounded;
    if (s->m->act == HD_ACT_OFFICIAL && l->input == HD_INPUT_ROUNDED &&
        is_quantized(l->w->format)) {
        float *const y = hd_plan_room(s->p, l->t, k);
        HD_ADD(s->p, l->round_label, quant_fp8, .x = l->x, .y = y, .t = l->t, .k = k,
               .block = ACT_BLOCK);
        return (hd_rows_in){.x = y};
    }
    if (hd_is_rounded_for(s, l->w->format))
        return hd_add_nvfp4_rounding(
            s, l->round_label,
            (hd_quant_nvfp4_args){.x = l->x,
                                  .scale = l->w->input_scale_at,
                                  .t = l->t,
                                  .s = 1,
                                  .k = k,
                                  .e = 1,
                                  .has_codes = wants_codes(s, ops[l->w->format], a)});
    return (hd_rows_in){.x = l->x};
}

float *hd_add_linear(const hd_site *s, const hd_linear *l)
{
    hd_gemm_args     a = make_product(l);
    hd_rows_in const in = round_input(s, l, &a);
    a.y = l->y ? l->y : hd_plan_room(s->p, l->t, l->w->n);
    a.x = in.x;
    a.has_codes = in.has_codes;
    a.x_codes = in.codes;
    a.x_sf = in.sf;
    a.x_scale = in.scale;
    hd_plan_add(s->p, l->label, ops[l->w->format], &a);
    return a.y;
}

void hd_add_norm(const hd_site *s, const char *label, float *x, const float *w, int32_t rows,
                 int32_t d)
{
    HD_ADD(s->p, label, rmsnorm, .x = x, .w = w, .y = x, .t = rows, .d = d,
           .eps = s->m->config->rms_eps, .has_w = w != NULL);
}
