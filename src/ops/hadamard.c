#include "ops/hadamard.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_hadamard_args *const a = args;
    int32_t                       n = 0;
    out[n++] = HD_OPERAND(hadamard, x, HD_INOUT, HD_F32, a->t, a->k);
    return n;
}

const hd_op hd_op_hadamard = {"hadamard", sizeof(hd_hadamard_args), describe};
