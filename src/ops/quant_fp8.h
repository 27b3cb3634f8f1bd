#ifndef HD_OPS_QUANT_FP8_H
#define HD_OPS_QUANT_FP8_H

#include "ops/op.h"

HD_BEGIN_C

/* quant_fp8: rounds each row to what FP8 with power-of-two block scales can hold.
 *
 *   over each block of the first k - tail elements:
 *   s = 2^ceil(log2(max(amax, 1e-4) / 448))      y = e4m3(clamp(x / s, -448, 448)) * s
 *   the last `tail` elements are rounded to bf16
 *
 * numerics  exact: nearest, ties to even, subnormals kept
 * aliasing  y may be x
 * special   NaN and infinity stay what they are
 * limits    (k - tail) % block == 0 */
typedef struct hd_quant_fp8_args {
    const float *x; /* [t, k] in  */
    float       *y; /* [t, k] out */
    int32_t      t, k;
    int32_t      block; /* elements that share a scale: 128 for activations, 64 for KV rows */
    int32_t      tail;  /* elements kept in bf16 at the end of a row; 0 for none             */
} hd_quant_fp8_args;

HD_END_C
#endif
