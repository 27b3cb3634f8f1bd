#ifndef HD_OPS_HEAD_ROWS_H
#define HD_OPS_HEAD_ROWS_H

#include "kv/row.h"
#include "ops/op.h"

HD_BEGIN_C

/* head_rows: makes of the rows of heads, in place, what attention reads: each step that is asked
 * for, in this order.
 *
 *   norm      x = x / sqrt(mean(x^2) + eps) * w                    (w is 1 without has_w)
 *   RoPE      p = pos[t] - pos[t] % group     a = (f32)p * freq[i]       (an f32 product)
 *             of the last dr elements, whose pairs are adjacent,
 *             (x[2i], x[2i+1]) = (x[2i] cos a - x[2i+1] sin a, x[2i] sin a + x[2i+1] cos a)
 *   Hadamard  x[j] = d^-0.5 * sum_i (-1)^popcount(i & j) x[i]            (Sylvester order)
 *   store     when (pos[t] + 1) % group == 0:
 *             row (pos[t] / group) % cap of sequence seq[t] = x
 *
 * `group` > 1 is for a row that stands for a group of tokens: it has the position of the group's
 * first, and is stored by the token that completes the group.
 *
 * layout    kv/row.h; a sequence has pages = ceil(cap / layout.page) pages
 * numerics  sums in f32 or wider, any order; the angle is the f32 product, as released: an exact
 *           one differs by up to 0.024 rad at position 1M; cosine and sine of it to f32 or better;
 *           at most one rounding after each step; what is stored is the bytes of hd_row_write
 * special   a row of zeros gives zeros; NaN and infinity are stored as kv/row.h says; rows that no
 *           token stores keep their bytes, and so does the padding of pages
 * order     w and freq may be read before what precedes in the stream has ended
 * limits    d <= HD_ROW_MAX; dr even, dr <= d; group >= 1; with has_hadamard d a power of two; with
 *           has_pool h is 1, layout valid and d wide, pool 4-byte aligned, 0 <= seq[t] < n_seq,
 *           0 <= pos[t], no two tokens of a call store one row */
typedef struct hd_head_rows_args {
    float         *x;    /* [t, h, d]                  in and out                      */
    const float   *w;    /* [d]                        in   only when has_w            */
    const float   *freq; /* [dr/2]                     in   radians a position, dr > 0 */
    const int32_t *pos;  /* [t]                        in                              */
    const int32_t *seq;  /* [t]                        in   only when has_pool         */
    uint8_t       *pool; /* [n_seq, pages, page_bytes] in and out, only when has_pool  */
    int32_t        t, h, d, dr, group, n_seq, cap;
    float          eps;      /* added to the mean square, > 0 */
    bool           has_norm; /* of each row                   */
    bool           has_w;    /* only with has_norm        */
    bool           has_hadamard;
    bool           has_pool;
    hd_row_layout  layout; /* only when has_pool */
} hd_head_rows_args;

HD_END_C
#endif
