#ifndef HD_OPS_QUANT_MXFP4_H
#define HD_OPS_QUANT_MXFP4_H

#include "ops/op.h"

HD_BEGIN_C

/* quant_mxfp4: rounds each row to what FP4 with power-of-two scales per 32 can hold.
 *
 *   s = 2^ceil(log2(max(amax, 6 * 2^-126) / 6))      y = e2m1(clamp(x / s, -6, 6)) * s
 *
 * numerics  exact: nearest, ties to even code
 * aliasing  y may be x
 * special   NaN and infinity stay what they are
 * limits    k % 32 == 0 */
typedef struct hd_quant_mxfp4_args {
    const float *x; /* [t, k] in  */
    float       *y; /* [t, k] out */
    int32_t      t, k;
} hd_quant_mxfp4_args;

HD_END_C
#endif
