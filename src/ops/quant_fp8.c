#include "ops/quant_fp8.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_quant_fp8_args *const a = args;
    int32_t                        n = 0;
    out[n++] = HD_OPERAND(quant_fp8, x, HD_IN, HD_F32, a->t, a->k);
    out[n++] = HD_OPERAND(quant_fp8, y, HD_OUT, HD_F32, a->t, a->k);
    return n;
}

const hd_op hd_op_quant_fp8 = {"quant_fp8", sizeof(hd_quant_fp8_args), describe};
