#include "ops/grouped_gemm.h"

typedef enum format { F32, BF16, FP8, MXFP4, NVFP4 } format;

static hd_operand describe_w(const hd_grouped_gemm_args *a, format f)
{
    hd_dtype const dtype = f == F32 ? HD_F32 : f == BF16 ? HD_BF16 : HD_U8;
    hd_operand o = HD_OPERAND(grouped_gemm, w, HD_IN, dtype, a->n, f >= MXFP4 ? a->k / 2 : a->k);
    o.list = a->e;
    return o;
}

static hd_operand describe_sf(const hd_grouped_gemm_args *a, format f)
{
    hd_operand o =
        f == FP8
            ? HD_OPERAND(grouped_gemm, sf, HD_IN, HD_F32, (a->n + 127) / 128, (a->k + 127) / 128)
            : HD_OPERAND(grouped_gemm, sf, HD_IN, HD_U8, a->n, a->k / (f == MXFP4 ? 32 : 16));
    o.list = a->e;
    return o;
}

static int32_t describe(const hd_grouped_gemm_args *a, format f, hd_operand out[HD_MAX_OPERANDS])
{
    int32_t n = 0;
    out[n++] = HD_OPERAND(grouped_gemm, x, HD_IN, HD_F32, a->t, a->xs, a->k);
    out[n++] = HD_OPERAND(grouped_gemm, ids, HD_IN, HD_I32, a->t, a->s);
    out[n++] = describe_w(a, f);
    if (f >= FP8) out[n++] = describe_sf(a, f);
    if (f == NVFP4) out[n++] = HD_OPERAND(grouped_gemm, w_scale, HD_IN, HD_F32, a->e);
    out[n++] = HD_OPERAND(grouped_gemm, y, HD_OUT, HD_F32, a->t, a->s, a->n);
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

const hd_op hd_op_grouped_gemm_f32 = {"grouped_gemm_f32", sizeof(hd_grouped_gemm_args),
                                      describe_f32};
const hd_op hd_op_grouped_gemm_bf16 = {"grouped_gemm_bf16", sizeof(hd_grouped_gemm_args),
                                       describe_bf16};
const hd_op hd_op_grouped_gemm_fp8 = {"grouped_gemm_fp8", sizeof(hd_grouped_gemm_args),
                                      describe_fp8};
const hd_op hd_op_grouped_gemm_mxfp4 = {"grouped_gemm_mxfp4", sizeof(hd_grouped_gemm_args),
                                        describe_mxfp4};
const hd_op hd_op_grouped_gemm_nvfp4 = {"grouped_gemm_nvfp4", sizeof(hd_grouped_gemm_args),
                                        describe_nvfp4};
