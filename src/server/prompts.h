#ifndef HD_SERVER_PROMPTS_H
#define HD_SERVER_PROMPTS_H

#include "server/ask.h"

/* What is asked, as tokens. */

HD_BEGIN_C

typedef struct hd_encoded {
    int32_t       *ids; /* [n] owned: hd_memory_free */
    int32_t        n;
    hd_parse_start start;
    bool           has_tools;
} hd_encoded;

/* Prompt `index` of the ask; one that is a conversation has index 0 only.
 * returns  not HD_OK with *e set */
hd_status hd_prompts_encode(hd_encoded *out, const hd_ask *a, int32_t index,
                            const hd_ask_context *c, hd_api_error *e);

/* Whether the token that begins sequences is put before a prompt: the ask wants it, and the text
 * does not begin with it already, as one that a template wrote does.  Ids are taken as they are. */
bool hd_prompts_adds_bos(const hd_ask *a, const hd_ask_prompt *p, const hd_tokenizer *t,
                         int32_t bos);

HD_END_C
#endif
