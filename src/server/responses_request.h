#ifndef HD_SERVER_RESPONSES_REQUEST_H
#define HD_SERVER_RESPONSES_REQUEST_H

#include "server/ask.h"

/* A request of OpenAI's Responses API, translated to one of Chat Completions. */

HD_BEGIN_C

hd_status hd_responses_read(hd_ask *out, const hd_fields *b, const hd_ask_context *c);

HD_END_C
#endif
