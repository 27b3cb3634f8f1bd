#include "ops/hc_head.h"

#include <math.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_hc_head_args *const a = args;
    int32_t                      n = 0;
    out[n++] = HD_OPERAND(hc_head, s, HD_IN, HD_F32, a->t, a->m, a->d);
    out[n++] = HD_OPERAND(hc_head, fn, HD_IN, HD_F32, a->m, (int64_t)a->m * a->d);
    out[n++] = HD_OPERAND(hc_head, base, HD_IN, HD_F32, a->m);
    out[n++] = HD_OPERAND(hc_head, scale, HD_IN, HD_F32, 1);
    out[n++] = HD_OPERAND(hc_head, x, HD_OUT, HD_F32, a->t, a->d);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_hc_head_args *const a = args;
    if (a->m < 1 || a->m > 8) return "1 <= m <= 8";
    return NULL;
}

static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_hc_head_args *const a = r->in;
    hd_stream_mix const          x = {a->s + row * a->m * a->d, a->fn, a->m, a->d, a->eps};
    (void)o;
    hd_mix_allow(&x, fabs((double)a->scale[0]), allowed);
}

const hd_op hd_op_hc_head = {"hc_head", sizeof(hd_hc_head_args), describe, breaks, allow, NULL};
