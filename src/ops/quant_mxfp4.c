#include "ops/quant_mxfp4.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_quant_mxfp4_args *const a = args;
    int32_t                          n = 0;
    out[n++] = HD_OPERAND(quant_mxfp4, x, HD_IN, HD_F32, a->t, a->k);
    out[n++] = HD_OPERAND(quant_mxfp4, y, HD_OUT, HD_F32, a->t, a->k);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_quant_mxfp4_args *const a = args;
    if (a->k % 32) return "k % 32 == 0";
    return NULL;
}

const hd_op hd_op_quant_mxfp4 = {"quant_mxfp4", sizeof(hd_quant_mxfp4_args), describe, breaks, NULL,
                                 NULL};
