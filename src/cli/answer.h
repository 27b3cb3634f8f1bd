#ifndef HD_CLI_ANSWER_H
#define HD_CLI_ANSWER_H

#include <signal.h>

#include "base/memory.h"
#include "cli/screen.h"

/* One answer as it is generated: kept whole, and shown meanwhile when asked. */

HD_BEGIN_C

typedef struct hd_answer {
    const hd_tokenizer          *tokenizer; /* borrowed */
    hd_screen                   *screen;    /* borrowed */
    const volatile sig_atomic_t *stop;      /* non-zero ends the answer; may be NULL */
    bool                         is_shown;  /* text to standard output, reasoning to the screen */
    bool                         has_probs; /* keep logprobs */

    hd_buffer text, reasoning, unparsed; /* owned */
    hd_buffer calls;                     /* owned: {"name", "arguments"}, ... as JSON */
    hd_buffer probs;                     /* owned: one object a token, as JSON        */
    hd_buffer ids;                       /* owned: int32_t, as drawn                   */
    int32_t   n_calls;
    char      last_out, last_reasoning; /* last byte shown, 0: none */
} hd_answer;

/* For hd_generate_options, with the answer as user. */
bool hd_answer_on_event(void *answer, const hd_generate_event *e);
/* Ends the last line shown; raw text only gets its end on a terminal. */
void hd_answer_end(hd_answer *a, bool is_raw);
void hd_answer_clear(hd_answer *a); /* for the next answer; keeps memory and the first fields */
void hd_answer_free(hd_answer *a);
bool hd_answer_has_failed(const hd_answer *a); /* memory was short: parts are missing */

/* Adds [1, 2, 3]. */
void hd_answer_write_ids(hd_buffer *out, const int32_t *ids, int32_t n);
/* Adds the members that the answer itself gives: "text": ..., "tool_calls": ..., ... */
void hd_answer_write_json(const hd_answer *a, hd_buffer *out);

HD_END_C
#endif
