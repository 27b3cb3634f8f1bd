#ifndef HD_OPS_ADD_STREAMS_H
#define HD_OPS_ADD_STREAMS_H

#include "ops/op.h"

HD_BEGIN_C

/* add_streams: adds one vector to every residual stream of its token, in place.
 *
 *   s[t,i,c] = s[t,i,c] + x[t,c]
 *
 * numerics  one f32 sum */
typedef struct hd_add_streams_args {
    const float *x; /* [t, d]    in         */
    float       *s; /* [t, m, d] in and out */
    int32_t      t, m, d;
} hd_add_streams_args;

HD_END_C
#endif
