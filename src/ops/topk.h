#ifndef HD_OPS_TOPK_H
#define HD_OPS_TOPK_H

#include "ops/op.h"

HD_BEGIN_C

/* topk: lists the k best-scored rows that a token sees, by rising row.
 *
 *   visible = (pos[t] + 1) / group;  all of them when visible <= k
 *   of equal scores the lowest row is taken; unused places of the list are -1
 *
 * numerics  exact; -0 equals 0; a NaN score ranks below every number */
typedef struct hd_topk_args {
    const float   *score; /* [t, n] in  */
    const int32_t *pos;   /* [t]    in  */
    int32_t       *ids;   /* [t, k] out */
    int32_t        t, n, k, group;
} hd_topk_args;

HD_END_C
#endif
