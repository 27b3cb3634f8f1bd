#include "ops/rmsnorm.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_rmsnorm_args *const a = args;
    int32_t                      n = 0;
    out[n++] = HD_OPERAND(rmsnorm, x, HD_IN, HD_F32, a->t, a->d);
    if (a->has_w) out[n++] = HD_OPERAND(rmsnorm, w, HD_IN, HD_F32, a->d);
    out[n++] = HD_OPERAND(rmsnorm, y, HD_OUT, HD_F32, a->t, a->d);
    return n;
}

const hd_op hd_op_rmsnorm = {"rmsnorm", sizeof(hd_rmsnorm_args), describe, NULL};
