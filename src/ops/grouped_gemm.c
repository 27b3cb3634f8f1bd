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

static int32_t describe_f32(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, HD_FMT_F32, out);
}
static int32_t describe_bf16(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, HD_FMT_BF16, out);
}
static int32_t describe_fp8(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, HD_FMT_FP8, out);
}
static int32_t describe_mxfp4(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, HD_FMT_MXFP4, out);
}
static int32_t describe_nvfp4(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, HD_FMT_NVFP4, out);
}
static int32_t describe_mxfp4_tiles(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, HD_FMT_MXFP4_TILES, out);
}
static int32_t describe_nvfp4_tiles(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, HD_FMT_NVFP4_TILES, out);
}

/* Limits that all formats share. */
static const char *breaks(const void *args)
{
    const hd_grouped_gemm_args *const a = args;
    if (a->xs != 1 && a->xs != a->s) return "xs is 1 or s";
    return NULL;
}
static const char *breaks_mxfp4(const void *args)
{
    const hd_grouped_gemm_args *const a = args;
    return a->k % 32 ? "k % 32 == 0" : breaks(args);
}
static const char *breaks_nvfp4(const void *args)
{
    const hd_grouped_gemm_args *const a = args;
    return a->k % 16 ? "k % 16 == 0" : breaks(args);
}
static const char *breaks_tiles(const void *args)
{
    const hd_grouped_gemm_args *const a = args;
    if (a->n % HD_TILES_ROWS) return "n % 32 == 0";
    return a->k % HD_TILES_COLS ? "k % 64 == 0" : breaks(args);
}

static void allow(const hd_op_runs *r, hd_format f, const hd_operand *o, int64_t row,
                  double *allowed)
{
    const hd_grouped_gemm_args *const a = r->in;
    int32_t const                     e = a->ids[row];
    hd_matrix_view const              m = {f, a->k, a->w[e], a->sf ? a->sf[e] : NULL,
                              a->w_scale ? (double)a->w_scale[e] : 1.0};
    const float *const                x = a->x + (a->xs == 1 ? row / a->s : row) * a->k;
    (void)o;
    for (int32_t i = 0; i < a->n; i++)
        allowed[i] =
            hd_sum_error(a->k) * hd_matrix_dot_magnitude(&m, i, x) + hd_matrix_dot_tiny(&m, i, x);
}

static void allow_f32(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    allow(r, HD_FMT_F32, o, row, allowed);
}
static void allow_bf16(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    allow(r, HD_FMT_BF16, o, row, allowed);
}
static void allow_fp8(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    allow(r, HD_FMT_FP8, o, row, allowed);
}
static void allow_mxfp4(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    allow(r, HD_FMT_MXFP4, o, row, allowed);
}
static void allow_nvfp4(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    allow(r, HD_FMT_NVFP4, o, row, allowed);
}

static void allow_mxfp4_tiles(const hd_op_runs *r, const hd_operand *o, int64_t row,
                              double *allowed)
{
    allow(r, HD_FMT_MXFP4_TILES, o, row, allowed);
}
static void allow_nvfp4_tiles(const hd_op_runs *r, const hd_operand *o, int64_t row,
                              double *allowed)
{
    allow(r, HD_FMT_NVFP4_TILES, o, row, allowed);
}

const hd_op hd_op_grouped_gemm_f32 = {
    "grouped_gemm_f32", sizeof(hd_grouped_gemm_args), describe_f32, breaks, allow_f32, NULL};
const hd_op hd_op_grouped_gemm_bf16 = {
    "grouped_gemm_bf16", sizeof(hd_grouped_gemm_args), describe_bf16, breaks, allow_bf16, NULL};
const hd_op hd_op_grouped_gemm_fp8 = {
    "grouped_gemm_fp8", sizeof(hd_grouped_gemm_args), describe_fp8, breaks, allow_fp8, NULL};
const hd_op hd_op_grouped_gemm_mxfp4 = {"grouped_gemm_mxfp4", sizeof(hd_grouped_gemm_args),
                                        describe_mxfp4,       breaks_mxfp4,
                                        allow_mxfp4,          NULL};
const hd_op hd_op_grouped_gemm_nvfp4 = {"grouped_gemm_nvfp4", sizeof(hd_grouped_gemm_args),
                                        describe_nvfp4,       breaks_nvfp4,
                                        allow_nvfp4,          NULL};
const hd_op hd_op_grouped_gemm_mxfp4_tiles = {
    "grouped_gemm_mxfp4_tiles", sizeof(hd_grouped_gemm_args),
    describe_mxfp4_tiles,       breaks_tiles,
    allow_mxfp4_tiles,          NULL};
const hd_op hd_op_grouped_gemm_nvfp4_tiles = {
    "grouped_gemm_nvfp4_tiles", sizeof(hd_grouped_gemm_args),
    describe_nvfp4_tiles,       breaks_tiles,
    allow_nvfp4_tiles,          NULL};
