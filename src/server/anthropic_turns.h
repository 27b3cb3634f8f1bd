#ifndef HD_SERVER_ANTHROPIC_TURNS_H
#define HD_SERVER_ANTHROPIC_TURNS_H

#include "server/fields.h"
#include "server/place.h"

/* The turns of a request of Anthropic's Messages API as messages of Chat Completions. */

HD_BEGIN_C

/* Opens the request and writes `{"messages": [...]` from `system` and `messages`. */
hd_status hd_anthropic_write_messages(hd_buffer *out, hd_place *p, const hd_fields *b);

HD_END_C
#endif
