#ifndef HD_OPS_SAMPLE_H
#define HD_OPS_SAMPLE_H

#include "ops/op.h"

HD_BEGIN_C

/* sample: draws a token from each row of logits.
 *
 *   best  = the id of the largest logit, of equals the lowest
 *   share = exp((logits - logits[best]) / temperature), 0 where that is below min_p
 *   id    = best at temperature 0, else the largest one for which
 *           uniform * sum of all shares < sum of the shares of id, id + 1, ..
 *   logprob = logits[id] - ln sum exp(logits)
 *   a row with a NaN or an infinity, the first at i: id = -1 - i, logprob = that logit
 *
 * numerics  exponentials and sums in f64, any order: an id may differ where uniform stands on the
 *           edge of its shares, within what the sums are off; logprob is rounded once; a row
 * depends on itself only limits    n >= 1; temperature >= 0; uniform and min_p in [0, 1] */
typedef struct hd_sample_ask {
    double uniform;
    float  temperature, min_p;
} hd_sample_ask;

typedef struct hd_sample_args {
    const float   *logits;  /* [t, n]  in                           */
    const uint8_t *asks;    /* [t, 16] in   an hd_sample_ask a row  */
    int32_t       *ids;     /* [t]     out                          */
    float         *logprob; /* [t]     out                          */
    int32_t        t, n;
} hd_sample_args;

HD_END_C
#endif
