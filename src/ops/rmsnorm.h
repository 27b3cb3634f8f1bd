#ifndef HD_OPS_RMSNORM_H
#define HD_OPS_RMSNORM_H

#include "ops/op.h"

HD_BEGIN_C

/* rmsnorm: divides each row by its root mean square and scales it by a weight.
 *
 *   y[t,c] = x[t,c] / sqrt(mean_c(x[t,c]^2) + eps) * w[c]      (w is 1 without has_w)
 *
 * numerics  sum of squares in f32 or wider, any order; one rounding at y
 * aliasing  y may be x
 * special   a row of zeros gives zeros
 * order     w may be read before what precedes in the stream has ended */
typedef struct hd_rmsnorm_args {
    const float *x; /* [t, d] in                        */
    const float *w; /* [d]    in   only when has_w      */
    float       *y; /* [t, d] out                       */
    int32_t      t, d;
    float        eps; /* added to the mean square, > 0  */
    bool         has_w;
} hd_rmsnorm_args;

HD_END_C
#endif
