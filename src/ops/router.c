#include "ops/router.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_router_args *const a = args;
    int32_t                     n = 0;
    out[n++] = HD_OPERAND(router, logits, HD_IN, HD_F32, a->t, a->e);
    if (!a->is_hash) out[n++] = HD_OPERAND(router, bias, HD_IN, HD_F32, a->e);
    if (a->is_hash) out[n++] = HD_OPERAND(router, table, HD_IN, HD_I32, a->vocab, a->s);
    if (a->is_hash) out[n++] = HD_OPERAND(router, token, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(router, ids, HD_OUT, HD_I32, a->t, a->s);
    out[n++] = HD_OPERAND(router, w, HD_OUT, HD_F32, a->t, a->s);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_router_args *const a = args;
    if (a->s < 1 || a->s > HD_ROUTER_MAX_SLOTS || a->s > a->e) return "1 <= s <= e, s <= 64";
    if (a->e > HD_ROUTER_MAX_EXPERTS) return "e <= 1024";
    return NULL;
}

const hd_op hd_op_router = {"router", sizeof(hd_router_args), describe, breaks};
