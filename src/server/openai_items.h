#ifndef HD_SERVER_OPENAI_ITEMS_H
#define HD_SERVER_OPENAI_ITEMS_H

#include "server/fields.h"
#include "server/place.h"

/* `instructions` and `input` of a Responses request as messages of Chat Completions. */

HD_BEGIN_C

/* Opens the request and writes `{"messages": [...]`. */
hd_status hd_openai_write_input(hd_buffer *out, hd_place *p, const hd_fields *b);

HD_END_C
#endif
