#ifndef HD_SERVER_ANTHROPIC_MESSAGES_H
#define HD_SERVER_ANTHROPIC_MESSAGES_H

#include "server/api.h"
#include "server/route.h"

HD_BEGIN_C

/* {"type":"error",...} as Anthropic's API has it. */
void hd_anthropic_write_error(hd_buffer *out, const hd_api_error *e, const char *id);
/* POST /v1/messages/count_tokens. */
hd_status hd_anthropic_count_tokens(struct hd_server *s, const hd_fields *b, hd_response *out);

HD_END_C
#endif
