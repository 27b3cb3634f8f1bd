#ifndef HD_OPS_SWIGLU_H
#define HD_OPS_SWIGLU_H

#include "ops/op.h"

HD_BEGIN_C

/* swiglu: gates one half of an expert by the other, clamped.
 *
 *   g = min(gate, limit)   u = clamp(up, -limit, limit)   y = g / (1 + exp(-g)) * u * w[r]
 *
 * numerics  f32 or wider, one rounding at y
 * aliasing  y may be gate or up
 * limits    limit > 0, infinity for none */
typedef struct hd_swiglu_args {
    const float *gate; /* [r, n] in                                           */
    const float *up;   /* [r, n] in                                           */
    const float *w;    /* [r]    in   routing weight of the row, when has_w   */
    float       *y;    /* [r, n] out                                          */
    int32_t      r, n;
    float        limit;
    bool         has_w;
} hd_swiglu_args;

HD_END_C
#endif
