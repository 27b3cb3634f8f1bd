#include "ops/hc_pre.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_hc_pre_args *const a = args;
    int32_t                     n = 0;
    out[n++] = HD_OPERAND(hc_pre, s, HD_IN, HD_F32, a->t, a->m, a->d);
    out[n++] = HD_OPERAND(hc_pre, fn, HD_IN, HD_F32, (2 + a->m) * a->m, (int64_t)a->m * a->d);
    out[n++] = HD_OPERAND(hc_pre, base, HD_IN, HD_F32, (2 + a->m) * a->m);
    out[n++] = HD_OPERAND(hc_pre, scale, HD_IN, HD_F32, 3);
    out[n++] = HD_OPERAND(hc_pre, x, HD_OUT, HD_F32, a->t, a->d);
    out[n++] = HD_OPERAND(hc_pre, post, HD_OUT, HD_F32, a->t, a->m);
    out[n++] = HD_OPERAND(hc_pre, comb, HD_OUT, HD_F32, a->t, a->m, a->m);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_hc_pre_args *const a = args;
    if (a->m < 1 || a->m > 8) return "1 <= m <= 8";
    return NULL;
}

const hd_op hd_op_hc_pre = {"hc_pre", sizeof(hd_hc_pre_args), describe, breaks};
