#ifndef HD_SERVER_ANTHROPIC_REQUEST_H
#define HD_SERVER_ANTHROPIC_REQUEST_H

#include "server/ask.h"

/* A request of Anthropic's Messages API, translated to one of Chat Completions. */

HD_BEGIN_C

/* Model, conversation and tools: what a count of tokens looks at. */
hd_status hd_anthropic_read_conversation(hd_ask *out, const hd_fields *b, const hd_ask_context *c);
/* The whole of a request for an answer. */
hd_status hd_anthropic_read(hd_ask *out, const hd_fields *b, const hd_ask_context *c);

HD_END_C
#endif
