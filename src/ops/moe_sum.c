#include "ops/moe_sum.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_moe_sum_args *const a = args;
    int32_t                      n = 0;
    out[n++] = HD_OPERAND(moe_sum, y, HD_IN, HD_F32, a->t, a->s, a->d);
    if (a->has_w) out[n++] = HD_OPERAND(moe_sum, w, HD_IN, HD_F32, a->t, a->s);
    out[n++] = HD_OPERAND(moe_sum, shared, HD_IN, HD_F32, a->t, a->d);
    out[n++] = HD_OPERAND(moe_sum, out, HD_OUT, HD_F32, a->t, a->d);
    return n;
}

const hd_op hd_op_moe_sum = {"moe_sum", sizeof(hd_moe_sum_args), describe, NULL};
