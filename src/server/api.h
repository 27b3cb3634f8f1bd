#ifndef HD_SERVER_API_H
#define HD_SERVER_API_H

#include "server/answers.h"

/* One way of asking and being answered: a route's body to what is asked, and what was answered to
 * bytes.  All functions are pure, but for what they are handed. */

HD_BEGIN_C

typedef struct hd_api {
    const char *name; /* of log lines and metrics */
    /* Reads a body.  After a failure `out` is to be freed, too.
     * returns  not HD_OK with *b->error set */
    hd_status (*read)(hd_ask *out, const hd_fields *b, const hd_ask_context *c);
    /* The body of an answer that is told at once, when all choices have ended. */
    void (*write_whole)(const hd_answers *r, hd_buffer *out);

    /* A stream: its first bytes, what an event adds once the reply has taken it, and what stands
     * behind the end of the last choice. */
    void (*begin)(hd_answers *r, hd_buffer *out);
    void (*event)(hd_answers *r, int32_t choice, const hd_answer_event *e, hd_buffer *out);
    void (*finish)(hd_answers *r, hd_buffer *out);
    /* Bytes that mean nothing, so that nobody takes a long silence for the end. */
    const char *keep_alive;

    /* A refusal; in a stream, the last thing that is said. */
    void (*write_error)(hd_buffer *out, const hd_api_error *e, const char *id);
    void (*write_failure)(const hd_answers *r, hd_buffer *out, const hd_api_error *e);
} hd_api;

extern const hd_api hd_api_openai_chat, hd_api_openai_completions, hd_api_openai_responses,
    hd_api_anthropic_messages;

HD_END_C
#endif
