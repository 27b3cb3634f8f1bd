#ifndef HD_SERVER_OPENAI_PROMPT_H
#define HD_SERVER_OPENAI_PROMPT_H

#include "server/ask.h"

/* The conversation of a Chat Completions request, and what its answer is held to. */

HD_BEGIN_C

hd_status hd_openai_read_prompt(hd_ask *out, const hd_fields *b);
/* The same from a request that another API was translated to. */
hd_status hd_openai_read_written(hd_ask *out, const hd_buffer *request, hd_api_error *e);

HD_END_C
#endif
