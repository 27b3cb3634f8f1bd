#ifndef HD_OPS_MOE_SUM_H
#define HD_OPS_MOE_SUM_H

#include "ops/op.h"

HD_BEGIN_C

/* moe_sum: adds the outputs of a token's experts and of the shared expert.
 *
 *   out[t,c] = sum_s w[t,s] * y[t,s,c] + shared[t,c]      (w is 1 without has_w)
 *
 * numerics  sum in f32 or wider in the order of s, one rounding at out
 * aliasing  out may be shared */
typedef struct hd_moe_sum_args {
    const float *y;      /* [t, s, d] in                  */
    const float *w;      /* [t, s]    in   when has_w     */
    const float *shared; /* [t, d]    in                  */
    float       *out;    /* [t, d]    out                 */
    int32_t      t, s, d;
    bool         has_w;
} hd_moe_sum_args;

HD_END_C
#endif
