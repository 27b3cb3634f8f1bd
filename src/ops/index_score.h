#ifndef HD_OPS_INDEX_SCORE_H
#define HD_OPS_INDEX_SCORE_H

#include "kv/row.h"
#include "ops/op.h"

HD_BEGIN_C

/* index_score: scores every compressed row that a token sees.
 *
 *   score[t,r] = sum_h wgt[t,h] * scale * relu(q[t,h] . key r of seq[t])
 *   for r < (pos[t] + 1) / group; 0 for the others
 *
 * layout    kv/row.h; a sequence has pages = ceil(cap / layout.page) pages
 * numerics  dot products and sum in f32 or wider, any order; one rounding at score
 * special   rows that a token does not see may hold anything
 * limits    layout valid, layout.d == d, pool 4-byte aligned; 0 <= seq[t] < n_seq */
typedef struct hd_index_score_args {
    const float   *q;     /* [t, h, d]                  in  */
    const float   *wgt;   /* [t, h]                     in  */
    const uint8_t *keys;  /* [n_seq, pages, page_bytes] in  */
    const int32_t *pos;   /* [t]                        in  */
    const int32_t *seq;   /* [t]                        in  */
    float         *score; /* [t, cap]                   out */
    int32_t        t, h, d, n_seq, cap, group;
    float          scale; /* d^-0.5 * h^-0.5 */
    hd_row_layout  layout;
} hd_index_score_args;

HD_END_C
#endif
