#include "ops/swiglu.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_swiglu_args *const a = args;
    int32_t                     n = 0;
    out[n++] = HD_OPERAND(swiglu, gate, HD_IN, HD_F32, a->r, a->n);
    out[n++] = HD_OPERAND(swiglu, up, HD_IN, HD_F32, a->r, a->n);
    if (a->has_w) out[n++] = HD_OPERAND(swiglu, w, HD_IN, HD_F32, a->r);
    out[n++] = HD_OPERAND(swiglu, y, HD_OUT, HD_F32, a->r, a->n);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_swiglu_args *const a = args;
    if (!(a->limit > 0)) return "limit > 0";
    return NULL;
}

const hd_op hd_op_swiglu = {"swiglu", sizeof(hd_swiglu_args), describe, breaks};
