#include "ops/grouped_gemm.h"

#include "ops/matrix_operands.h"
#include "quant/fp4.h"

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
    if (f == HD_FMT_NVFP4) out[n++] = HD_OPERAND(grouped_gemm, w_scale, HD_IN, HD_F32, a->e);
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

const hd_op hd_op_grouped_gemm_f32 = {"grouped_gemm_f32", sizeof(hd_grouped_gemm_args),
                                      describe_f32, breaks};
const hd_op hd_op_grouped_gemm_bf16 = {"grouped_gemm_bf16", sizeof(hd_grouped_gemm_args),
                                       describe_bf16, breaks};
const hd_op hd_op_grouped_gemm_fp8 = {"grouped_gemm_fp8", sizeof(hd_grouped_gemm_args),
                                      describe_fp8, breaks};
const hd_op hd_op_grouped_gemm_mxfp4 = {"grouped_gemm_mxfp4", sizeof(hd_grouped_gemm_args),
                                        describe_mxfp4, breaks_mxfp4};
const hd_op hd_op_grouped_gemm_nvfp4 = {"grouped_gemm_nvfp4", sizeof(hd_grouped_gemm_args),
                                        describe_nvfp4, breaks_nvfp4};
