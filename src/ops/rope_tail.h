#ifndef HD_OPS_ROPE_TAIL_H
#define HD_OPS_ROPE_TAIL_H

#include "ops/op.h"

HD_BEGIN_C

/* rope_tail: rotates the last dr elements of each head by the token's position, in place.
 *
 *   p = pos[t] - pos[t] % group          a = sign * (f32)p * freq[i]   (an f32 product)
 *   (x[2i], x[2i+1]) = (x[2i] cos a - x[2i+1] sin a, x[2i] sin a + x[2i+1] cos a)
 *
 * Pairs are adjacent.  `group` > 1 gives a row that stands for a group of tokens the position
 * of the group's first; sign -1 undoes the rotation.
 *
 * numerics  the angle is the f32 product, as released: an exact one differs by up to 0.024 rad
 *           at position 1M; cosine and sine of it to f32 or better
 * order     freq may be read before what precedes in the stream has ended
 * limits    dr even, dr <= d, group >= 1 */
typedef struct hd_rope_tail_args {
    float         *x;    /* [t, h, d] in and out              */
    const float   *freq; /* [dr/2]    in   radians a position */
    const int32_t *pos;  /* [t]       in                      */
    int32_t        t, h, d, dr, group;
    float          sign; /* +1 or -1 */
} hd_rope_tail_args;

HD_END_C
#endif
