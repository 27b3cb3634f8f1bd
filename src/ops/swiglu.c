#include "ops/swiglu.h"

#include <math.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_swiglu_args *const a = args;
    int32_t                     n = 0;
    if (a->is_paired) out[n++] = HD_OPERAND(swiglu, gate_up, HD_IN, HD_F32, a->r, 2, a->n);
    if (!a->is_paired) out[n++] = HD_OPERAND(swiglu, gate, HD_IN, HD_F32, a->r, a->n);
    if (!a->is_paired) out[n++] = HD_OPERAND(swiglu, up, HD_IN, HD_F32, a->r, a->n);
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

/* Relative, except where exp(-g) leaves f32: there silu may be 0. */
static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_swiglu_args *const in = r->in, *const ref = r->ref;
    const float *const up_row = hd_swiglu_up(in, row);
    (void)o;
    for (int32_t i = 0; i < in->n; i++) {
        double const up = fmin(fabs((double)up_row[i]), (double)in->limit);
        double const w = in->has_w ? fabs((double)in->w[row]) : 1;
        double const y = fabs((double)ref->y[row * in->n + i]);
        allowed[i] = 16 * HD_ROUNDOFF * y + 0x1p-119 * up * w;
    }
}

const hd_op hd_op_swiglu = {"swiglu", sizeof(hd_swiglu_args), describe, breaks, allow, NULL};
