#ifndef HD_OPS_HC_POST_H
#define HD_OPS_HC_POST_H

#include "ops/op.h"

HD_BEGIN_C

/* hc_post: puts the output of a block back into the residual streams, in place.
 *
 *   s'[j] = post[j] * y + sum_i comb[i,j] * s[i]        (the sum runs over the first index)
 *
 * numerics  f32 or wider, one rounding at s
 * limits    1 <= m <= 8 */
typedef struct hd_hc_post_args {
    const float *y;    /* [t, d]    in         */
    const float *post; /* [t, m]    in         */
    const float *comb; /* [t, m, m] in         */
    float       *s;    /* [t, m, d] in and out */
    int32_t      t, m, d;
} hd_hc_post_args;

HD_END_C
#endif
