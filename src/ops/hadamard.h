#ifndef HD_OPS_HADAMARD_H
#define HD_OPS_HADAMARD_H

#include "ops/op.h"

HD_BEGIN_C

/* hadamard: multiplies each row by the normalised Hadamard matrix, in place.
 *
 *   y[j] = k^-0.5 * sum_i (-1)^popcount(i & j) x[i]      (Sylvester order)
 *
 * numerics  sums in f32 or wider, any order; one rounding at the end
 * limits    k a power of two, at most 4096 */
typedef struct hd_hadamard_args {
    float  *x; /* [t, k] in and out */
    int32_t t, k;
} hd_hadamard_args;

#define HD_HADAMARD_MAX 4096

HD_END_C
#endif
