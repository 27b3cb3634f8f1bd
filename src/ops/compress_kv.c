#include "ops/compress_kv.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_compress_kv_args *const a = args;
    int32_t                          n = 0;
    int64_t const                    w = a->overlap ? 2 * (int64_t)a->d : a->d;
    out[n++] = HD_OPERAND(compress_kv, kv, HD_IN, HD_F32, a->n_seq, a->cap, w);
    out[n++] = HD_OPERAND(compress_kv, gate, HD_IN, HD_F32, a->n_seq, a->cap, w);
    out[n++] = HD_OPERAND(compress_kv, ape, HD_IN, HD_F32, a->r, w);
    out[n++] = HD_OPERAND(compress_kv, pos, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(compress_kv, seq, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(compress_kv, y, HD_OUT, HD_F32, a->t, a->d);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_compress_kv_args *const a = args;
    if (a->r < 1 || a->n_seq < 1) return "r, n_seq >= 1";
    if (a->cap < (a->overlap ? 2 * (int64_t)a->r : a->r)) return "cap >= r, 2r with overlap";
    return NULL;
}

const hd_op hd_op_compress_kv = {"compress_kv", sizeof(hd_compress_kv_args), describe, breaks};
