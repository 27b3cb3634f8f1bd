#ifndef HD_SERVER_OPENAI_PARTS_H
#define HD_SERVER_OPENAI_PARTS_H

#include "server/answers.h"

/* What the answers of OpenAI's APIs have in common. */

HD_BEGIN_C

/* "usage":{...}, also with the counts that DeepSeek's API gives. */
void hd_openai_write_usage(hd_buffer *out, const hd_answers *r);
/* {"content":[...],"reasoning_content":[...],"refusal":null} of probs [from, to); reasoning_content
 * is there when some of them belong to reasoning. */
void hd_openai_write_logprobs(hd_buffer *out, const hd_answers *r, const hd_choice *c, int32_t from,
                              int32_t to);
/* [...]: of these, only those of the answer itself. */
void hd_openai_write_content_logprobs(hd_buffer *out, const hd_answers *r, const hd_choice *c,
                                      int32_t from, int32_t to);
/* ,"hadal":{...}: why an ended choice is blank, what of it does not parse, how long it took. */
void hd_openai_write_hadal(hd_buffer *out, const hd_answers *r, int32_t choice);
/* The id of a call: those of an answer sort as they came. */
void hd_openai_write_call_id(hd_buffer *out, const hd_answers *r, int32_t choice, int32_t call);
/* A logarithm; JSON has no infinity. */
void hd_openai_write_logprob(hd_buffer *out, float x);
/* The text of a token, what is no UTF-8 as U+FFFD. */
void hd_openai_write_token(hd_buffer *out, const hd_answers *r, int32_t id);
/* data: {"error":{...}} */
void hd_openai_write_failure(const hd_answers *r, hd_buffer *out, const hd_api_error *e);
void hd_openai_write_error(hd_buffer *out, const hd_api_error *e, const char *id);
/* A buffer's text as JSON. */
void hd_openai_write_text(hd_buffer *out, const hd_buffer *text);

#define HD_OPENAI_KEEP_ALIVE ": keep-alive\n\n"

HD_END_C
#endif
