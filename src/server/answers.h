#ifndef HD_SERVER_ANSWERS_H
#define HD_SERVER_ANSWERS_H

#include "server/ask.h"

/* What was answered so far: events of the batch, gathered choice by choice.  An API writes from it:
 * a piece after each event, or the whole at the end, so that both say the same. */

HD_BEGIN_C

typedef struct hd_answer_call {
    const char *name, *arguments; /* owned by the choice; end with NUL */
    size_t      name_bytes, arguments_bytes;
} hd_answer_call;

typedef struct hd_choice {
    hd_buffer     content, reasoning, unparsed; /* owned */
    hd_buffer     calls;                        /* owned; hd_answer_call */
    hd_buffer     scored;                       /* owned; hd_sampled of the prompt, when asked   */
    hd_buffer     probs;                        /* owned; hd_sampled of the answer, when asked   */
    hd_buffer     was_reasoning;                /* owned; of each of probs, a byte               */
    hd_pool       pool;                         /* owned; texts of calls                         */
    int32_t       n_told;                       /* of probs, those that a stream has passed on   */
    int32_t       n_prompt;                     /* tokens of its prompt; from the beginning      */
    int32_t       n_tokens, n_reasoning;        /* drawn so far; of these, before the end of it  */
    bool          is_reasoning;                 /* no end of reasoning was drawn yet             */
    bool          has_begun; /* a stream told of it; of APIs that say nothing before the text */
    bool          has_ended;
    hd_answer_end end; /* valid once has_ended */
} hd_choice;

typedef struct hd_answers {
    const hd_ask       *ask;       /* borrowed */
    const hd_tokenizer *tokenizer; /* borrowed */
    const char         *model;     /* borrowed */
    char                id[33];    /* without the prefix that an API puts before it */
    int64_t             created;   /* seconds since 1970 */
    hd_choice          *choices;   /* [n] owned */
    int32_t             n, n_ended;
    int32_t             think_end; /* the token that ends reasoning; -1: none */
    int32_t             bos;       /* the token that begins sequences */
    void               *own;       /* owned, hd_memory; an API's state of the stream; or NULL */
} hd_answers;

/* returns  HD_ERR_MEMORY */
hd_status hd_answers_open(hd_answers *r, const hd_ask *ask, const hd_ask_context *c, const char *id,
                          int64_t created);
void      hd_answers_close(hd_answers *r);
/* Gathers an event; `choice` is prompt * ask.n + answer.
 * returns  false when memory was short */
bool hd_answers_take(hd_answers *r, int32_t choice, const hd_answer_event *e);

int32_t               hd_choice_n_calls(const hd_choice *c);
const hd_answer_call *hd_choice_call(const hd_choice *c, int32_t i);
int32_t               hd_choice_n_probs(const hd_choice *c);
const hd_sampled     *hd_choice_prob(const hd_choice *c, int32_t i);

/* Counts over all choices, as far as they are known. */
typedef struct hd_answers_usage {
    int32_t n_prompt, n_cached, n_new, n_reasoning;
} hd_answers_usage;
hd_answers_usage hd_answers_count(const hd_answers *r);
/* The first choice that failed; NULL: none has. */
const hd_error *hd_answers_failure(const hd_answers *r);

HD_END_C
#endif
