#ifndef HD_TOKENIZER_PROMPT_TEXT_H
#define HD_TOKENIZER_PROMPT_TEXT_H

#include "base/memory.h"

/* A prompt under construction: text, and which ranges of it are control tokens.  Only the
 * functions that take constant strings of the format write control tokens, so text from a
 * request can never become one. */

HD_BEGIN_C

typedef struct hd_prompt_text {
    hd_buffer      text;
    hd_buffer      spans; /* of hd_span                        */
    hd_parse_start start; /* these two become the prompt's     */
    bool           has_tools;
} hd_prompt_text; /* zero-initialise before use */

/* One control token by its spelling. */
void hd_prompt_text_control(hd_prompt_text *p, const char *token);
/* Fixed text of the format, ended by a NUL or a character of no token; the DSML marker and think
 * tokens in it are control tokens. */
void hd_prompt_text_fixed(hd_prompt_text *p, const char *text, size_t bytes);

/* Moves the result to *out, or fails when memory was short; *p is empty afterwards. */
hd_status hd_prompt_text_finish(hd_prompt *out, hd_prompt_text *p, hd_error *err);
void      hd_prompt_text_free(hd_prompt_text *p);

HD_END_C
#endif
