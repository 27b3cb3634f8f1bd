#ifndef HD_OPS_HC_PRE_H
#define HD_OPS_HC_PRE_H

#include "ops/op.h"

HD_BEGIN_C

/* hc_pre: mixes the residual streams into the input of a block, and computes how its output
 * goes back (mHC).
 *
 *   v = flatten(s)   z = (fn . v) / sqrt(mean(v^2) + eps)
 *   pre[i]  = sigmoid(z[i] * scale[0] + base[i]) + hc_eps                    x = sum_i pre[i] s[i]
 *   post[i] = 2 sigmoid(z[m+i] * scale[1] + base[m+i])
 *   comb[i,j] = z[2m+im+j] * scale[2] + base[2m+im+j]; softmax over j, + hc_eps; divided by its
 *   sum over i + hc_eps; then iters - 1 times by its sum over j + hc_eps and over i + hc_eps
 *
 * numerics  f32 or wider throughout, one rounding at each output
 * order     fn, base and scale may be read before what precedes in the stream has ended
 * limits    1 <= m <= 8 */
typedef struct hd_hc_pre_args {
    const float *s;     /* [t, m, d]         in  */
    const float *fn;    /* [(2+m)*m, m*d]    in  */
    const float *base;  /* [(2+m)*m]         in  */
    const float *scale; /* [3]               in  */
    float       *x;     /* [t, d]            out */
    float       *post;  /* [t, m]            out */
    float       *comb;  /* [t, m, m]         out */
    int32_t      t, m, d, iters;
    float        eps, hc_eps;
} hd_hc_pre_args;

#define HD_HC_MAX_STREAMS 8

HD_END_C
#endif
