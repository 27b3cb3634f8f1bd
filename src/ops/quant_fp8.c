#include "ops/quant_fp8.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_quant_fp8_args *const a = args;
    int32_t                        n = 0;
    out[n++] = HD_OPERAND(quant_fp8, x, HD_IN, HD_F32, a->t, a->k);
    out[n++] = HD_OPERAND(quant_fp8, y, HD_OUT, HD_F32, a->t, a->k);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_quant_fp8_args *const a = args;
    if (a->block < 1 || a->tail < 0 || a->tail > a->k || (a->k - a->tail) % a->block)
        return "(k - tail) % block == 0";
    return NULL;
}

const hd_op hd_op_quant_fp8 = {"quant_fp8", sizeof(hd_quant_fp8_args), describe, breaks, NULL,
                               NULL};
