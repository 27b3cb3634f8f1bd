#ifndef HD_OPS_ROUTER_H
#define HD_OPS_ROUTER_H

#include "ops/op.h"

HD_BEGIN_C

/* router: turns router logits into the experts of each token and their weights.
 *
 *   score = sqrt(softplus(logit)) | sigmoid(logit) | softmax(logits)
 *   learned: the s largest of score + bias, ties to the lowest id
 *   hash:    table[token]
 *   w = score[picked] / sum(score[picked]) * scale     (softmax is not divided again)
 *
 * The experts of a token come by falling weight, ties by rising id.  With has_pairs the same also
 * as the ids of two matrices an expert, in a list of 2e that has the second ones behind all first
 * ones.
 *
 * numerics  scores in f32 or wider; an id may differ where its score is within tolerance of
 *           the cut
 * order     bias may be read before what precedes in the stream has ended
 * limits    s <= e <= 1024, s <= 64; table entries in [0, e) */
typedef enum hd_router_score {
    HD_ROUTER_SQRTSOFTPLUS,
    HD_ROUTER_SIGMOID,
    HD_ROUTER_SOFTMAX
} hd_router_score;

typedef struct hd_router_args {
    const float    *logits; /* [t, e]     in                          */
    const float    *bias;   /* [e]        in   only without is_hash   */
    const int32_t  *table;  /* [vocab, s] in   only when is_hash      */
    const int32_t  *token;  /* [t]        in   only when is_hash      */
    int32_t        *ids;    /* [t, s]     out                         */
    float          *w;      /* [t, s]     out                         */
    int32_t         t, s, e, vocab;
    float           scale; /* routed_scaling_factor */
    hd_router_score scoring;
    bool            is_hash, has_pairs;
    int32_t        *pairs; /* [t, s, 2]  out  id and id + e, only when has_pairs */
} hd_router_args;

#define HD_ROUTER_MAX_EXPERTS 1024
#define HD_ROUTER_MAX_SLOTS   64

HD_END_C
#endif
