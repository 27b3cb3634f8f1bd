#include "ops/gemm.h"

#include "ops/matrix_operands.h"
#include "ops/op_errors.h"
#include "quant/fp4.h"
#include "quant/tiles.h"

static int32_t describe(const hd_gemm_args *a, hd_format f, hd_operand out[HD_MAX_OPERANDS])
{
    int64_t const rows = (int64_t)a->g * a->n;
    int32_t       n = 0;
    int64_t const k = (int64_t)a->g * a->k;
    out[n++] = HD_OPERAND(gemm, x, HD_IN, HD_F32, a->t, k);
    if (a->has_codes) {
        out[n++] = HD_OPERAND(gemm, x_codes, HD_IN, HD_U8, a->t, k / 2);
        out[n++] = HD_OPERAND(gemm, x_sf, HD_IN, HD_U8, a->t, k / HD_NVFP4_BLOCK);
        out[n++] = HD_OPERAND(gemm, x_scale, HD_IN, HD_F32, a->t);
    }
    out[n++] = hd_matrix_w_operand(f, offsetof(hd_gemm_args, w), rows, a->k);
    if (f >= HD_FMT_FP8) out[n++] = hd_matrix_sf_operand(f, offsetof(hd_gemm_args, sf), rows, a->k);
    out[n++] = HD_OPERAND(gemm, y, HD_OUT, HD_F32, a->t, (int64_t)a->g * a->n);
    return n;
}

static const char *breaks(const hd_gemm_args *a, hd_format f)
{
    if (a->g < 1) return "g >= 1";
    return hd_matrix_broken_limit(f, a->n, a->k);
}

static void allow(const hd_op_runs *r, hd_format f, const hd_operand *o, int64_t row,
                  double *allowed)
{
    const hd_gemm_args *const a = r->in;
    hd_matrix_view const      m = {f, a->k, a->w, a->sf, a->w_scale};
    int64_t const             cols = hd_operand_cols(o);
    for (int64_t i = 0; i < cols; i++) {
        const float *const x = a->x + row * a->g * a->k + i / a->n * a->k;
        allowed[i] = hd_matrix_dot_error(&m, i, x, hd_sum_error(a->k));
    }
}

#define OP(suffix, format) HD_MATRIX_OP(gemm, suffix, format)
HD_EACH_MATRIX_FORMAT(OP)
