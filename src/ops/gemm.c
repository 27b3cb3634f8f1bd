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
    const hd_gemm_args *const a = args;
    if (a->g < 1) return "g >= 1";
    return NULL;
}
static const char *breaks_mxfp4(const void *args)
{
    const hd_gemm_args *const a = args;
    return a->k % 32 ? "k % 32 == 0" : breaks(args);
}
static const char *breaks_nvfp4(const void *args)
{
    const hd_gemm_args *const a = args;
    return a->k % 16 ? "k % 16 == 0" : breaks(args);
}
static const char *breaks_tiles(const void *args)
{
    const hd_gemm_args *const a = args;
    if (a->n % HD_TILES_ROWS) return "n % 32 == 0";
    return a->k % HD_TILES_COLS ? "k % 64 == 0" : breaks(args);
}

static void allow(const hd_op_runs *r, hd_format f, const hd_operand *o, int64_t row,
                  double *allowed)
{
    const hd_gemm_args *const a = r->in;
    hd_matrix_view const      m = {f, a->k, a->w, a->sf, a->w_scale};
    int64_t const             cols = hd_operand_cols(o);
    for (int64_t i = 0; i < cols; i++) {
        const float *const x = a->x + row * a->g * a->k + i / a->n * a->k;
        allowed[i] =
            hd_sum_error(a->k) * hd_matrix_dot_magnitude(&m, i, x) + hd_matrix_dot_tiny(&m, i, x);
    }
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

const hd_op hd_op_gemm_f32 = {"gemm_f32", sizeof(hd_gemm_args), describe_f32, breaks, allow_f32,
                              NULL};
const hd_op hd_op_gemm_bf16 = {"gemm_bf16", sizeof(hd_gemm_args), describe_bf16,
                               breaks,      allow_bf16,           NULL};
const hd_op hd_op_gemm_fp8 = {"gemm_fp8", sizeof(hd_gemm_args), describe_fp8, breaks, allow_fp8,
                              NULL};
const hd_op hd_op_gemm_mxfp4 = {"gemm_mxfp4", sizeof(hd_gemm_args), describe_mxfp4,
                                breaks_mxfp4, allow_mxfp4,          NULL};
const hd_op hd_op_gemm_nvfp4 = {"gemm_nvfp4", sizeof(hd_gemm_args), describe_nvfp4,
                                breaks_nvfp4, allow_nvfp4,          NULL};
const hd_op hd_op_gemm_mxfp4_tiles = {"gemm_mxfp4_tiles",   sizeof(hd_gemm_args),
                                      describe_mxfp4_tiles, breaks_tiles,
                                      allow_mxfp4_tiles,    NULL};
const hd_op hd_op_gemm_nvfp4_tiles = {"gemm_nvfp4_tiles",   sizeof(hd_gemm_args),
                                      describe_nvfp4_tiles, breaks_tiles,
                                      allow_nvfp4_tiles,    NULL};
