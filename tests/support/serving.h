#ifndef HD_SUPPORT_SERVING_H
#define HD_SUPPORT_SERVING_H

#include "engine/batch.h"

/* Requests made from a number, and what was heard of their answers. */

#define MADE_PROMPT 400 /* most tokens of a prompt that make_request makes */

/* A request that differs from its neighbours in prompt, length, sampling and what it reports.
 * prompt   [MADE_PROMPT] caller's, as is bias; both are borrowed by *out */
void make_request(hd_request *out, int32_t i, int32_t *prompt, hd_logit_bias *bias,
                  int32_t n_vocab);

/* What came of one request: counts, text and one digest of all tokens, alternatives and the bits
 * of their probabilities. */
typedef struct heard {
    uint64_t      digest;
    int32_t       n_prompt, n_tokens, n_ends;
    int32_t       ids[64]; /* the first ones */
    char          text[512];
    int32_t       leave_at; /* tokens after which the user says no; 0: never */
    hd_answer_end end;
} heard;
bool hear_answer(void *user, const hd_answer_event *e);

#endif
