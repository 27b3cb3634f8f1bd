#ifndef HD_OPS_ATTN_SPARSE_H
#define HD_OPS_ATTN_SPARSE_H

#include "kv/row.h"
#include "ops/op.h"

HD_BEGIN_C

/* attn_sparse: attention of each head over the window, the compressed rows it may see and a
 * sink, with one vector as key and value; the values' positions are taken out of the result.
 *
 *   keys: window rows of positions max(0, p-window+1) .. p, then
 *         group 0: none;  group > 0, k = 0: rows r < (p+1)/group;  k > 0: rows ids[t], -1 skipped
 *   z_j = q[t,h] . key_j * scale
 *   v = sum_j exp(z_j) key_j / (sum_j exp(z_j) + exp(sink[h]))
 *   y[t,h] = v, its last dr elements turned back by the token's position:
 *   a = (f32)p * freq[i] (an f32 product)     of the tail, whose pairs are adjacent,
 *   (y[2i], y[2i+1]) = (v[2i] cos a + v[2i+1] sin a, v[2i+1] cos a - v[2i] sin a)
 *
 * layout    kv/row.h, the two pools differ at most in the rows of a page; a sequence has
 *           pages = ceil(cap / layout.page) of each
 * numerics  dot products, maximum, sums in f32 or wider, keys in the order above; cosine and sine
 *           to f32 or better; at most one rounding at v and one at y
 * special   pool rows outside the keys may hold anything
 * order     sink and freq may be read before what precedes in the stream has ended
 * limits    win_cap >= window; d <= HD_ROW_MAX; layouts valid and d wide, pools 4-byte
 *           aligned; 0 <= seq < n_seq; ids < row_cap; dr even, 0 <= dr <= d */
typedef struct hd_attn_sparse_args {
    const float   *q;    /* [t, h, d]                  in                              */
    const uint8_t *win;  /* [n_seq, pages, page_bytes] in   position q at row q % win_cap */
    const uint8_t *rows; /* [n_seq, pages, page_bytes] in   only when group > 0        */
    const int32_t *ids;  /* [t, k]                     in   only when k > 0            */
    const float   *sink; /* [h]                        in                              */
    const int32_t *pos;  /* [t]                        in                              */
    const int32_t *seq;  /* [t]                        in                              */
    const float   *freq; /* [dr/2]                     in   radians a position, dr > 0 */
    float         *y;    /* [t, h, d]                  out                             */
    int32_t        t, h, d, n_seq, win_cap, row_cap, window, group, k, dr;
    float          scale; /* d^-0.5 */
    hd_row_layout  win_layout;
    hd_row_layout  row_layout; /* only when group > 0 */
} hd_attn_sparse_args;

HD_END_C
#endif
