#include "ops/hc_pre.h"

#include <math.h>

#include "ops/op_errors.h"

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

/* Row t*m + i of comb.  Normalising rows and columns does not make relative differences
 * larger, but each pass rounds. */
static void allow_comb(const hd_hc_pre_args *ref, const hd_stream_mix *x, int64_t row,
                       double *allowed)
{
    int32_t const m = x->m;
    double const  z = hd_mix_largest_error(x, 2 * m, m * m) * fabs((double)ref->scale[2]);
    double const  passes = 4.0 * ref->iters * (m + 4) * HD_ROUNDOFF;
    for (int32_t j = 0; j < m; j++)
        allowed[j] = (4 * z + passes + 32 * HD_ROUNDOFF) * fabs((double)ref->comb[row * m + j]);
}

static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_hc_pre_args *const a = r->in;
    int64_t const               t = hd_operand_is(o, "comb") ? row / a->m : row;
    hd_stream_mix const         x = {a->s + t * a->m * a->d, a->fn, a->m, a->d, a->eps};
    if (hd_operand_is(o, "comb"))
        allow_comb(r->ref, &x, row, allowed);
    else if (hd_operand_is(o, "x"))
        hd_mix_allow(&x, fabs((double)a->scale[0]), allowed);
    else
        for (int32_t i = 0; i < a->m; i++)
            allowed[i] =
                hd_mix_error(&x, a->m + i) * fabs((double)a->scale[1]) / 2 + 16 * HD_ROUNDOFF;
}

const hd_op hd_op_hc_pre = {"hc_pre", sizeof(hd_hc_pre_args), describe, breaks, allow, NULL};
