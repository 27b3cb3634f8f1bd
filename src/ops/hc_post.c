#include "ops/hc_post.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_hc_post_args *const a = args;
    int32_t                      n = 0;
    out[n++] = HD_OPERAND(hc_post, y, HD_IN, HD_F32, a->t, a->d);
    out[n++] = HD_OPERAND(hc_post, post, HD_IN, HD_F32, a->t, a->m);
    out[n++] = HD_OPERAND(hc_post, comb, HD_IN, HD_F32, a->t, a->m, a->m);
    out[n++] = HD_OPERAND(hc_post, s, HD_INOUT, HD_F32, a->t, a->m, a->d);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_hc_post_args *const a = args;
    if (a->m < 1 || a->m > 8) return "1 <= m <= 8";
    return NULL;
}

const hd_op hd_op_hc_post = {"hc_post", sizeof(hd_hc_post_args), describe, breaks};
