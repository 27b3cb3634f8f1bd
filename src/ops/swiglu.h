#ifndef HD_OPS_SWIGLU_H
#define HD_OPS_SWIGLU_H

#include "ops/op.h"

HD_BEGIN_C

/* swiglu: gates one half of an expert by the other, clamped.
 *
 *   g = min(gate, limit)   u = clamp(up, -limit, limit)   y = g / (1 + exp(-g)) * u * w[r]
 *
 * With is_paired gate and up are rows of one operand in turn, as a product by pairs leaves them.
 *
 * numerics  f32 or wider, one rounding at y
 * aliasing  y may be gate or up, not gate_up
 * limits    limit > 0, infinity for none */
typedef struct hd_swiglu_args {
    const float *gate; /* [r, n] in   unless is_paired                        */
    const float *up;   /* [r, n] in   likewise                                */
    const float *w;    /* [r]    in   routing weight of the row, when has_w   */
    float       *y;    /* [r, n] out                                          */
    int32_t      r, n;
    float        limit;
    bool         has_w, is_paired;
    const float *gate_up; /* [r, 2, n] in  only when is_paired */
} hd_swiglu_args;

/* Rows of gate and up, whichever operand has them. */
static inline const float *hd_swiglu_gate(const hd_swiglu_args *a, int64_t r)
{
    return a->is_paired ? a->gate_up + 2 * r * a->n : a->gate + r * a->n;
}

static inline const float *hd_swiglu_up(const hd_swiglu_args *a, int64_t r)
{
    return a->is_paired ? a->gate_up + (2 * r + 1) * a->n : a->up + r * a->n;
}

HD_END_C
#endif
