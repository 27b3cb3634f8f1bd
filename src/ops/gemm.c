#include "ops/gemm.h"

typedef enum format { F32, BF16, FP8, MXFP4, NVFP4 } format;

static hd_operand describe_w(const hd_gemm_args *a, format f)
{
    int64_t const  rows = (int64_t)a->g * a->n;
    hd_dtype const dtype = f == F32 ? HD_F32 : f == BF16 ? HD_BF16 : HD_U8;
    return HD_OPERAND(gemm, w, HD_IN, dtype, rows, f >= MXFP4 ? a->k / 2 : a->k);
}

static hd_operand describe_sf(const hd_gemm_args *a, format f)
{
    int64_t const rows = (int64_t)a->g * a->n;
    if (f == FP8)
        return HD_OPERAND(gemm, sf, HD_IN, HD_F32, (rows + 127) / 128, (a->k + 127) / 128);
    return HD_OPERAND(gemm, sf, HD_IN, HD_U8, rows, a->k / (f == MXFP4 ? 32 : 16));
}

static int32_t describe(const hd_gemm_args *a, format f, hd_operand out[HD_MAX_OPERANDS])
{
    int32_t n = 0;
    out[n++] = HD_OPERAND(gemm, x, HD_IN, HD_F32, a->t, (int64_t)a->g * a->k);
    out[n++] = describe_w(a, f);
    if (f >= FP8) out[n++] = describe_sf(a, f);
    out[n++] = HD_OPERAND(gemm, y, HD_OUT, HD_F32, a->t, (int64_t)a->g * a->n);
    return n;
}

static int32_t describe_f32(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, F32, out);
}
static int32_t describe_bf16(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, BF16, out);
}
static int32_t describe_fp8(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, FP8, out);
}
static int32_t describe_mxfp4(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, MXFP4, out);
}
static int32_t describe_nvfp4(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    return describe(args, NVFP4, out);
}

const hd_op hd_op_gemm_f32 = {"gemm_f32", sizeof(hd_gemm_args), describe_f32};
const hd_op hd_op_gemm_bf16 = {"gemm_bf16", sizeof(hd_gemm_args), describe_bf16};
const hd_op hd_op_gemm_fp8 = {"gemm_fp8", sizeof(hd_gemm_args), describe_fp8};
const hd_op hd_op_gemm_mxfp4 = {"gemm_mxfp4", sizeof(hd_gemm_args), describe_mxfp4};
const hd_op hd_op_gemm_nvfp4 = {"gemm_nvfp4", sizeof(hd_gemm_args), describe_nvfp4};
