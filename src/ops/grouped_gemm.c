#include "ops/grouped_gemm.h"

#include "ops/matrix_operands.h"
#include "ops/op_errors.h"
#include "quant/fp4.h"
#include "quant/tiles.h"

/* One such tensor for each expert. */
static hd_operand of_experts(const hd_grouped_gemm_args *a, hd_operand o)
{
    o.list = a->e;
    return o;
}

static int32_t describe(const hd_grouped_gemm_args *a, hd_format f, hd_operand out[HD_MAX_OPERANDS])
{
    int32_t n = 0;
    out[n++] = HD_OPERAND(grouped_gemm, x, HD_IN, HD_F32, a->t, a->xs, a->k);
    if (a->has_codes) {
        out[n++] = HD_OPERAND(grouped_gemm, x_codes, HD_IN, HD_U8, a->t, a->xs, a->k / 2);
        out[n++] = HD_OPERAND(grouped_gemm, x_sf, HD_IN, HD_U8, a->t, a->xs, a->k / HD_NVFP4_BLOCK);
        out[n++] = HD_OPERAND(grouped_gemm, x_scale, HD_IN, HD_F32, a->t, a->xs);
    }
    out[n++] = HD_OPERAND(grouped_gemm, ids, HD_IN, HD_I32, a->t, a->s);
    out[n++] = of_experts(a, hd_matrix_w_operand(f, offsetof(hd_grouped_gemm_args, w), a->n, a->k));
    if (f >= HD_FMT_FP8)
        out[n++] =
            of_experts(a, hd_matrix_sf_operand(f, offsetof(hd_grouped_gemm_args, sf), a->n, a->k));
    if (hd_format_in_rows(f) == HD_FMT_NVFP4)
        out[n++] = HD_OPERAND(grouped_gemm, w_scale, HD_IN, HD_F32, a->e);
    out[n++] = HD_OPERAND(grouped_gemm, y, HD_OUT, HD_F32, a->t, a->s, a->n);
    return n;
}

static const char *breaks(const hd_grouped_gemm_args *a, hd_format f)
{
    if (a->xs != 1 && a->xs != a->s) return "xs is 1 or s";
    return hd_matrix_broken_limit(f, a->n, a->k);
}

static void allow(const hd_op_runs *r, hd_format f, const hd_operand *o, int64_t row,
                  double *allowed)
{
    const hd_grouped_gemm_args *const a = r->in;
    int32_t const                     e = a->ids[row];
    bool const                        has_scale = hd_format_in_rows(f) == HD_FMT_NVFP4;
    hd_matrix_view const              m = {f, a->k, a->w[e], f >= HD_FMT_FP8 ? a->sf[e] : NULL,
                              has_scale ? (double)a->w_scale[e] : 1.0};
    const float *const                x = a->x + (a->xs == 1 ? row / a->s : row) * a->k;
    (void)o;
    for (int32_t i = 0; i < a->n; i++)
        allowed[i] = hd_matrix_dot_error(&m, i, x, hd_sum_error(a->k));
}

#define OP(suffix, format) HD_MATRIX_OP(grouped_gemm, suffix, format)
HD_EACH_MATRIX_FORMAT(OP)
