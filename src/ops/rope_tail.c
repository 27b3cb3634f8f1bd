#include "ops/rope_tail.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_rope_tail_args *const a = args;
    int32_t                        n = 0;
    out[n++] = HD_OPERAND(rope_tail, x, HD_INOUT, HD_F32, a->t, a->h, a->d);
    out[n++] = HD_OPERAND(rope_tail, freq, HD_IN, HD_F32, a->dr / 2);
    out[n++] = HD_OPERAND(rope_tail, pos, HD_IN, HD_I32, a->t);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_rope_tail_args *const a = args;
    if (a->dr % 2 || a->dr > a->d) return "dr even, dr <= d";
    if (a->group < 1) return "group >= 1";
    return NULL;
}

const hd_op hd_op_rope_tail = {"rope_tail", sizeof(hd_rope_tail_args), describe, breaks};
