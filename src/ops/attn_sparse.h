#ifndef HD_OPS_ATTN_SPARSE_H
#define HD_OPS_ATTN_SPARSE_H

#include "ops/op.h"

HD_BEGIN_C

/* attn_sparse: attention of each head over the window, the compressed rows it may see and a
 * sink, with one vector as key and value.
 *
 *   keys: window rows of positions max(0, p-window+1) .. p, then
 *         group 0: none;  group > 0, k = 0: rows r < (p+1)/group;  k > 0: rows ids[t], -1 skipped
 *   z_j = q[t,h] . key_j * scale       y[t,h] = sum_j exp(z_j) key_j / (sum_j exp(z_j) +
 * exp(sink[h]))
 *
 * numerics  dot products, maximum, sums in f32 or wider, keys in the order above; one rounding at y
 * special   pool rows outside the keys may hold anything
 * limits    win_cap >= window; d <= 1024; 0 <= seq < n_seq; ids < row_cap */
typedef struct hd_attn_sparse_args {
    const float   *q;    /* [t, h, d]           in                              */
    const float   *win;  /* [n_seq, win_cap, d] in   position q at row q % cap  */
    const float   *rows; /* [n_seq, row_cap, d] in   only when group > 0        */
    const int32_t *ids;  /* [t, k]              in   only when k > 0            */
    const float   *sink; /* [h]                 in                              */
    const int32_t *pos;  /* [t]                 in                              */
    const int32_t *seq;  /* [t]                 in                              */
    float         *y;    /* [t, h, d]           out                             */
    int32_t        t, h, d, n_seq, win_cap, row_cap, window, group, k;
    float          scale; /* d^-0.5 */
} hd_attn_sparse_args;

#define HD_ATTN_MAX_DIM 1024

HD_END_C
#endif
