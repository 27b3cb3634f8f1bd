#ifndef HD_SERVER_OPENAI_OFFERS_H
#define HD_SERVER_OPENAI_OFFERS_H

#include "server/ask.h"

/* tools, tool_choice, parallel_tool_calls and response_format of a Chat Completions request: what
 * the answer is held to.  A choice that forces a call is enforced by the grammar alone, with
 * thinking on or off, and so that the prompt stays what it was in the turns before. */

HD_BEGIN_C

hd_status hd_openai_read_offers(hd_ask *out, const hd_fields *b);

HD_END_C
#endif
