#include "ops/topk.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_topk_args *const a = args;
    int32_t                   n = 0;
    out[n++] = HD_OPERAND(topk, score, HD_IN, HD_F32, a->t, a->n);
    out[n++] = HD_OPERAND(topk, pos, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(topk, ids, HD_OUT, HD_I32, a->t, a->k);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_topk_args *const a = args;
    if (a->group < 1) return "group >= 1";
    return NULL;
}

const hd_op hd_op_topk = {"topk", sizeof(hd_topk_args), describe, breaks, NULL, NULL};
