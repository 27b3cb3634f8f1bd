#ifndef HD_OPS_INDEX_SCORE_H
#define HD_OPS_INDEX_SCORE_H

#include "ops/op.h"

HD_BEGIN_C

/* index_score: scores every compressed row that a token sees.
 *
 *   score[t,r] = sum_h wgt[t,h] * scale * relu(q[t,h] . keys[seq[t], r])
 *   for r < (pos[t] + 1) / group; 0 for the others
 *
 * numerics  dot products and sum in f32 or wider, any order; one rounding at score
 * special   rows that a token does not see may hold anything */
typedef struct hd_index_score_args {
    const float   *q;     /* [t, h, d]       in  */
    const float   *wgt;   /* [t, h]          in  */
    const float   *keys;  /* [n_seq, cap, d] in  */
    const int32_t *pos;   /* [t]             in  */
    const int32_t *seq;   /* [t]             in  */
    float         *score; /* [t, cap]        out */
    int32_t        t, h, d, n_seq, cap, group;
    float          scale; /* d^-0.5 * h^-0.5 */
} hd_index_score_args;

HD_END_C
#endif
