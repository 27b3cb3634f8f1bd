#ifndef HD_OPS_MATRIX_OPERANDS_H
#define HD_OPS_MATRIX_OPERANDS_H

#include "ops/op.h"
#include "quant/matrix.h"

HD_BEGIN_C

/* An op on matrices is one for each format: X(suffix of the name, format without HD_FMT_). */
#define HD_EACH_MATRIX_FORMAT(X) \
    X(f32, F32)                  \
    X(bf16, BF16)                \
    X(fp8, FP8)                  \
    X(mxfp4, MXFP4) X(nvfp4, NVFP4) X(mxfp4_tiles, MXFP4_TILES) X(nvfp4_tiles, NVFP4_TILES)

/* hd_op_<op>_<suffix>, in a file that has describe(), breaks() and allow() for any format. */
#define HD_MATRIX_OP(op, suffix, format)                                                           \
    static int32_t describe_##suffix(const void *args, hd_operand out[HD_MAX_OPERANDS])            \
    {                                                                                              \
        return describe(args, HD_FMT_##format, out);                                               \
    }                                                                                              \
    static const char *breaks_##suffix(const void *args) { return breaks(args, HD_FMT_##format); } \
    static void        allow_##suffix(const hd_op_runs *r, const hd_operand *o, int64_t row,       \
                                      double *allowed)                                             \
    {                                                                                              \
        allow(r, HD_FMT_##format, o, row, allowed);                                                \
    }                                                                                              \
    const hd_op hd_op_##op##_##suffix = {.name = #op "_" #suffix,                                  \
                                         .args_bytes = sizeof(hd_##op##_args),                     \
                                         .describe = describe_##suffix,                            \
                                         .breaks = breaks_##suffix,                                \
                                         .allow = allow_##suffix};

/* For breaks(): what a matrix [n, k] of a format must have and this one has not, or NULL. */
const char *hd_matrix_broken_limit(hd_format f, int32_t n, int32_t k);

/* For describe(): the operands `w` and `sf` of a matrix [n, k] of a format, whose pointers are at
 * byte `slot` of the args. */
hd_operand hd_matrix_w_operand(hd_format f, size_t slot, int64_t n, int32_t k);
/* Only for formats with block scales. */
hd_operand hd_matrix_sf_operand(hd_format f, size_t slot, int64_t n, int32_t k);

/* A matrix [n, k] and how far sums of its products may be off, for the limits of ops. */
typedef struct hd_matrix_view {
    hd_format   format;
    int32_t     k;
    const void *w, *sf;
    double      scale; /* NVFP4 */
} hd_matrix_view;

/* W[i,j] by the formula in ops/gemm.h. */
double hd_matrix_at(const hd_matrix_view *m, int64_t i, int32_t j);
/* How far the sum over j of W[i,j] * x[j] may be off: `share` of the sum of magnitudes, and what it
 * is off because an element of either may be, by 2^-124. */
double hd_matrix_dot_error(const hd_matrix_view *m, int64_t i, const float *x, double share);

HD_END_C
#endif
