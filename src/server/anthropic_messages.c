#include "server/anthropic_messages.h"

#include <string.h>

#include "base/digest.h"
#include "base/json_write.h"
#include "server/anthropic_request.h"
#include "server/openai_parts.h"

/* POST /v1/messages: what is answered.  An answer is a list of blocks: its thinking, its text, then
 * its calls. */

/* ---- errors ---- */

static const char *type_of(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 500: return "api_error";
    case 503: return "overloaded_error";
    default: return "invalid_request_error";
    }
}

void hd_anthropic_write_error(hd_buffer *out, const hd_api_error *e, const char *id)
{
    hd_buffer_printf(
        out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", type_of(e->status));
    hd_json_write_string(out, e->message, strlen(e->message));
    hd_buffer_printf(out, "},\"request_id\":\"req_%s\"}", id);
}

/* ---- pieces ---- */

/* A name for a thinking block's text: clients want one, and hand it back. */
static void write_signature(hd_buffer *out, uint64_t digest)
{
    hd_buffer_printf(out, "\"hadal-%016llx\"", (unsigned long long)digest);
}

static void write_call_id(hd_buffer *out, const hd_answers *r, int32_t call)
{
    hd_buffer_printf(out, "\"toolu_%02d_%s\"", call, r->id);
}

/* Tokens that were kept from earlier requests count apart. */
static void write_usage(hd_buffer *out, const hd_answers *r)
{
    hd_answers_usage const u = hd_answers_count(r);
    hd_buffer_printf(out,
                     "\"usage\":{\"input_tokens\":%d,\"cache_creation_input_tokens\":0,"
                     "\"cache_read_input_tokens\":%d,\"output_tokens\":%d}",
                     u.n_prompt - u.n_cached, u.n_cached, u.n_new);
}

static const char *stop_reason(const hd_answers *r)
{
    const hd_answer_end *const e = &r->choices[0].end;
    if (e->finish == HD_FINISH_TOOL_CALLS) return "tool_use";
    if (e->finish == HD_FINISH_STOP) return e->stop >= 0 ? "stop_sequence" : "end_turn";
    return r->ask->is_fitted ? "model_context_window_exceeded" : "max_tokens";
}

static void write_stop(hd_buffer *out, const hd_answers *r)
{
    int32_t const stop = r->choices[0].end.stop;
    hd_buffer_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(r));
    if (stop >= 0 && stop < r->ask->generate.n_stop)
        hd_json_write_string(out, r->ask->generate.stop[stop], strlen(r->ask->generate.stop[stop]));
    else
        hd_buffer_text(out, "null");
}

static void write_head(hd_buffer *out, const hd_answers *r)
{
    hd_buffer_printf(
        out, "\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", r->id);
    hd_json_write_string(out, r->model, strlen(r->model));
}

/* ---- at once ---- */

static void write_call(hd_buffer *out, const hd_answers *r, int32_t i)
{
    const hd_answer_call *const call = hd_choice_call(&r->choices[0], i);
    hd_buffer_text(out, "{\"type\":\"tool_use\",\"id\":");
    write_call_id(out, r, i);
    hd_buffer_text(out, ",\"name\":");
    hd_json_write_string(out, call->name, call->name_bytes);
    hd_buffer_text(out, ",\"input\":");
    hd_buffer_add(out, call->arguments, call->arguments_bytes); /* JSON, an object */
    hd_buffer_text(out, "}");
}

static void write_blocks(hd_buffer *out, const hd_answers *r)
{
    const hd_choice *const c = &r->choices[0];
    int32_t const          n_calls = hd_choice_n_calls(c);
    const char            *between = "";
    if (c->reasoning.used) {
        hd_buffer_text(out, "{\"type\":\"thinking\",\"thinking\":");
        hd_openai_write_text(out, &c->reasoning);
        hd_buffer_text(out, ",\"signature\":");
        write_signature(out, hd_digest_add(HD_DIGEST_START, c->reasoning.data, c->reasoning.used));
        hd_buffer_text(out, "}");
        between = ",";
    }
    if (c->content.used) {
        hd_buffer_printf(out, "%s{\"type\":\"text\",\"text\":", between);
        hd_openai_write_text(out, &c->content);
        hd_buffer_text(out, "}");
        between = ",";
    }
    for (int32_t i = 0; i < n_calls; i++, between = ",") {
        hd_buffer_text(out, between);
        write_call(out, r, i);
    }
}

static void write_whole(const hd_answers *r, hd_buffer *out)
{
    hd_buffer_text(out, "{");
    write_head(out, r);
    hd_buffer_text(out, ",\"content\":[");
    write_blocks(out, r);
    hd_buffer_text(out, "],");
    write_stop(out, r);
    hd_buffer_text(out, ",");
    write_usage(out, r);
    hd_openai_write_hadal(out, r, 0);
    hd_buffer_text(out, "}");
}

/* ---- piece by piece ---- */

typedef enum block_kind { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT } block_kind;

typedef struct stream_state {
    block_kind open;
    int32_t    index;  /* of the block that is open, or that comes next  */
    uint64_t   digest; /* of the thinking so far */
} stream_state;

static void open_event(hd_buffer *out, const char *name)
{
    hd_buffer_printf(out, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void close_event(hd_buffer *out) { hd_buffer_text(out, "}\n\n"); }

static void open_block_event(hd_buffer *out, const stream_state *s, const char *name)
{
    open_event(out, name);
    hd_buffer_printf(out, ",\"index\":%d", s->index);
}

static void begin(hd_answers *r, hd_buffer *out)
{
    r->own = hd_memory_alloc(sizeof(stream_state));
    if (!r->own) {
        out->failed = true;
        return;
    }
    *(stream_state *)r->own = (stream_state){.digest = HD_DIGEST_START};
    open_event(out, "message_start");
    hd_buffer_text(out, ",\"message\":{");
    write_head(out, r);
    hd_buffer_text(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
    write_usage(out, r);
    hd_buffer_text(out, "}");
    close_event(out);
    open_event(out, "ping");
    close_event(out);
}

static void close_block(stream_state *s, hd_buffer *out)
{
    if (s->open == BLOCK_NONE) return;
    if (s->open == BLOCK_THINKING) {
        open_block_event(out, s, "content_block_delta");
        hd_buffer_text(out, ",\"delta\":{\"type\":\"signature_delta\",\"signature\":");
        write_signature(out, s->digest);
        hd_buffer_text(out, "}");
        close_event(out);
    }
    open_block_event(out, s, "content_block_stop");
    close_event(out);
    s->open = BLOCK_NONE;
    s->index++;
}

static void open_block(stream_state *s, block_kind kind, hd_buffer *out)
{
    if (s->open == kind) return;
    close_block(s, out);
    open_block_event(out, s, "content_block_start");
    hd_buffer_text(out, kind == BLOCK_TEXT
                            ? ",\"content_block\":{\"type\":\"text\",\"text\":\"\"}"
                            : ",\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\","
                              "\"signature\":\"\"}");
    close_event(out);
    s->open = kind;
}

static void write_delta(stream_state *s, block_kind kind, const hd_parse_event *p, hd_buffer *out)
{
    if (p->text_bytes == 0) return;
    open_block(s, kind, out);
    open_block_event(out, s, "content_block_delta");
    hd_buffer_text(out, kind == BLOCK_TEXT
                            ? ",\"delta\":{\"type\":\"text_delta\",\"text\":"
                            : ",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":");
    hd_json_write_string(out, p->text, p->text_bytes);
    hd_buffer_text(out, "}");
    close_event(out);
    if (kind == BLOCK_THINKING) s->digest = hd_digest_add(s->digest, p->text, p->text_bytes);
}

static void write_call_block(const hd_answers *r, stream_state *s, const hd_parse_event *p,
                             hd_buffer *out)
{
    close_block(s, out);
    open_block_event(out, s, "content_block_start");
    hd_buffer_text(out, ",\"content_block\":{\"type\":\"tool_use\",\"id\":");
    write_call_id(out, r, p->index);
    hd_buffer_text(out, ",\"name\":");
    hd_json_write_string(out, p->name, p->name_bytes);
    hd_buffer_text(out, ",\"input\":{}}");
    close_event(out);
    open_block_event(out, s, "content_block_delta");
    hd_buffer_text(out, ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":");
    hd_json_write_string(out, p->text, p->text_bytes);
    hd_buffer_text(out, "}");
    close_event(out);
    open_block_event(out, s, "content_block_stop");
    close_event(out);
    s->index++;
}

static void event(hd_answers *r, int32_t choice, const hd_answer_event *e, hd_buffer *out)
{
    stream_state *const s = r->own;
    (void)choice; /* there is but one */
    if (!e->parse || !s) return;
    switch (e->parse->kind) {
    case HD_PARSE_REASONING: write_delta(s, BLOCK_THINKING, e->parse, out); break;
    case HD_PARSE_CONTENT: write_delta(s, BLOCK_TEXT, e->parse, out); break;
    case HD_PARSE_CALL: write_call_block(r, s, e->parse, out); break;
    case HD_PARSE_UNPARSED: break; /* told at the end: it is neither text nor a call */
    }
}

static void finish(hd_answers *r, hd_buffer *out)
{
    if (!r->own) return;
    close_block(r->own, out);
    open_event(out, "message_delta");
    hd_buffer_text(out, ",\"delta\":{");
    write_stop(out, r);
    hd_buffer_text(out, "},");
    write_usage(out, r);
    hd_openai_write_hadal(out, r, 0);
    close_event(out);
    open_event(out, "message_stop");
    close_event(out);
}

static void write_failure(const hd_answers *r, hd_buffer *out, const hd_api_error *e)
{
    hd_buffer_text(out, "event: error\ndata: ");
    hd_anthropic_write_error(out, e, r->id);
    hd_buffer_text(out, "\n\n");
}

const hd_api hd_api_anthropic_messages = {.name = "messages",
                                          .read = hd_anthropic_read,
                                          .write_whole = write_whole,
                                          .begin = begin,
                                          .event = event,
                                          .finish = finish,
                                          .keep_alive =
                                              "event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                          .write_error = hd_anthropic_write_error,
                                          .write_failure = write_failure};
