#ifndef HD_OPS_EMBED_H
#define HD_OPS_EMBED_H

#include "ops/op.h"

HD_BEGIN_C

/* embed: copies the embedding of each token into every residual stream.
 *
 *   y[t,i,c] = table[id[t], c]   for each stream i < m
 *
 * numerics  exact
 * limits    0 <= id[t] < vocab; m = 1 gives plain embeddings */
typedef struct hd_embed_args {
    const void    *table; /* [vocab, d] in   bf16, or f32 when is_f32 */
    const int32_t *id;    /* [t]        in   token ids                */
    float         *y;     /* [t, m, d]  out                           */
    int32_t        t, m, d, vocab;
    bool           is_f32;
} hd_embed_args;

HD_END_C
#endif
