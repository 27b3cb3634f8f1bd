#ifndef HD_OPS_HC_HEAD_H
#define HD_OPS_HC_HEAD_H

#include "ops/op.h"

HD_BEGIN_C

/* hc_head: mixes the residual streams into the input of the head.
 *
 *   v = flatten(s)   z = (fn . v) / sqrt(mean(v^2) + eps)
 *   x = sum_i (sigmoid(z[i] * scale[0] + base[i]) + hc_eps) * s[i]
 *
 * numerics  f32 or wider throughout, one rounding at x
 * limits    1 <= m <= 8 */
typedef struct hd_hc_head_args {
    const float *s;     /* [t, m, d] in  */
    const float *fn;    /* [m, m*d]  in  */
    const float *base;  /* [m]       in  */
    const float *scale; /* [1]       in  */
    float       *x;     /* [t, d]    out */
    int32_t      t, m, d;
    float        eps, hc_eps;
} hd_hc_head_args;

HD_END_C
#endif
