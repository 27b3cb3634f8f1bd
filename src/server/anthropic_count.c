#include "server/anthropic_messages.h"
#include "server/anthropic_request.h"
#include "server/prompts.h"
#include "server/server_state.h"

/* POST /v1/messages/count_tokens: tokens of the prompt that a request would be. */
hd_status hd_anthropic_count_tokens(struct hd_server *s, const hd_fields *b, hd_response *out)
{
    hd_ask     a = {.n = 1};
    hd_encoded e = {0};
    hd_status  status = hd_anthropic_read_conversation(&a, b, &s->context);
    if (status == HD_OK) status = hd_prompts_encode(&e, &a, 0, &s->context, b->error);
    if (status == HD_OK) hd_buffer_printf(&out->body, "{\"input_tokens\":%d}", e.n);
    hd_memory_free(e.ids);
    hd_ask_free(&a);
    return status;
}
