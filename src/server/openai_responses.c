#include <string.h>

#include "base/json_write.h"
#include "server/api.h"
#include "server/openai_parts.h"
#include "server/responses_request.h"

/* POST /v1/responses: what is answered.  An answer is a list of items: its reasoning, its text,
 * then its calls. */

typedef enum item_kind { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE } item_kind;

/* ---- items ---- */

static void write_item_id(hd_buffer *out, const hd_answers *r, const char *prefix, int32_t index)
{
    hd_buffer_printf(out, "\"%s_%s%02d\"", prefix, r->id, index);
}

static const char *status_of_item(const hd_answers *r, bool is_last)
{
    const hd_choice *const c = &r->choices[0];
    bool const             is_cut = c->has_ended && c->end.finish == HD_FINISH_LENGTH;
    return is_cut && is_last ? "incomplete" : "completed";
}

static void write_reasoning_part(hd_buffer *out, const hd_choice *c)
{
    hd_buffer_text(out, "{\"type\":\"reasoning_text\",\"text\":");
    hd_openai_write_text(out, &c->reasoning);
    hd_buffer_text(out, "}");
}

static void write_text_part(hd_buffer *out, const hd_answers *r)
{
    const hd_choice *const c = &r->choices[0];
    hd_buffer_text(out, "{\"type\":\"output_text\",\"text\":");
    hd_openai_write_text(out, &c->content);
    hd_buffer_text(out, ",\"annotations\":[],\"logprobs\":");
    hd_openai_write_content_logprobs(out, r, c, 0, hd_choice_n_probs(c));
    hd_buffer_text(out, "}");
}

static void write_reasoning(hd_buffer *out, const hd_answers *r, int32_t index, bool is_last)
{
    hd_buffer_text(out, "{\"id\":");
    write_item_id(out, r, "rs", index);
    hd_buffer_printf(out, ",\"type\":\"reasoning\",\"status\":\"%s\",\"summary\":[],\"content\":[",
                     status_of_item(r, is_last));
    write_reasoning_part(out, &r->choices[0]);
    hd_buffer_text(out, "]}");
}

static void write_message(hd_buffer *out, const hd_answers *r, int32_t index, bool is_last)
{
    hd_buffer_text(out, "{\"id\":");
    write_item_id(out, r, "msg", index);
    hd_buffer_printf(out,
                     ",\"type\":\"message\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[",
                     status_of_item(r, is_last));
    write_text_part(out, r);
    hd_buffer_text(out, "]}");
}

/* `arguments` NULL: an item whose arguments are still to come. */
static void write_call(hd_buffer *out, const hd_answers *r, int32_t call, int32_t index,
                       const hd_answer_call *told, bool is_done)
{
    hd_buffer_text(out, "{\"id\":");
    write_item_id(out, r, "fc", index);
    hd_buffer_printf(out, ",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":",
                     is_done ? "completed" : "in_progress");
    hd_openai_write_call_id(out, r, 0, call);
    hd_buffer_text(out, ",\"name\":");
    hd_json_write_string(out, told->name, told->name_bytes);
    hd_buffer_text(out, ",\"arguments\":");
    hd_json_write_string(out, told->arguments, is_done ? told->arguments_bytes : 0);
    hd_buffer_text(out, "}");
}

static void write_items(hd_buffer *out, const hd_answers *r)
{
    const hd_choice *const c = &r->choices[0];
    int32_t const          n_calls = hd_choice_n_calls(c);
    int32_t                index = 0;
    if (c->reasoning.used) write_reasoning(out, r, index++, !c->content.used && n_calls == 0);
    if (c->content.used) {
        if (index) hd_buffer_text(out, ",");
        write_message(out, r, index++, n_calls == 0);
    }
    for (int32_t i = 0; i < n_calls; i++) {
        if (index) hd_buffer_text(out, ",");
        write_call(out, r, i, index++, hd_choice_call(c, i), true);
    }
}

/* ---- the response ---- */

static void write_usage(hd_buffer *out, const hd_answers *r)
{
    hd_answers_usage const u = hd_answers_count(r);
    hd_buffer_printf(out,
                     "{\"input_tokens\":%d,\"input_tokens_details\":{\"cached_tokens\":%d},"
                     "\"output_tokens\":%d,\"output_tokens_details\":{\"reasoning_tokens\":%d},"
                     "\"total_tokens\":%d}",
                     u.n_prompt, u.n_cached, u.n_new, u.n_reasoning, u.n_prompt + u.n_new);
}

static void write_error_member(hd_buffer *out, const hd_api_error *e)
{
    if (!e) {
        hd_buffer_text(out, "null");
        return;
    }
    hd_buffer_printf(
        out, "{\"code\":\"%s\",\"message\":", e->status >= 500 ? "server_error" : "invalid_prompt");
    hd_json_write_string(out, e->message, strlen(e->message));
    hd_buffer_text(out, "}");
}

static void write_response(hd_buffer *out, const hd_answers *r, const hd_api_error *e)
{
    const hd_choice *const c = &r->choices[0];
    bool const             is_over = c->has_ended && !e;
    bool const             is_cut = is_over && c->end.finish == HD_FINISH_LENGTH;
    const char *const      status = e          ? "failed"
                                    : !is_over ? "in_progress"
                                    : is_cut   ? "incomplete"
                                               : "completed";
    hd_buffer_printf(out,
                     "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%lld,"
                     "\"status\":\"%s\",\"background\":false,\"error\":",
                     r->id, (long long)r->created, status);
    write_error_member(out, e);
    hd_buffer_printf(out, ",\"incomplete_details\":%s,\"model\":",
                     is_cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    hd_json_write_string(out, r->model, strlen(r->model));
    hd_buffer_text(out, ",\"output\":[");
    if (is_over) write_items(out, r);
    hd_buffer_text(out, "],\"previous_response_id\":null,\"service_tier\":\"default\","
                        "\"store\":false,\"truncation\":\"disabled\",\"usage\":");
    if (is_over)
        write_usage(out, r);
    else
        hd_buffer_text(out, "null");
    hd_buffer_text(out, r->ask->told);
    if (is_over) hd_openai_write_hadal(out, r, 0);
    hd_buffer_text(out, "}");
}

static void write_whole(const hd_answers *r, hd_buffer *out) { write_response(out, r, NULL); }

/* ---- piece by piece ---- */

typedef struct stream_state {
    item_kind open;
    int32_t   index;    /* of the item that is open, or that comes next */
    int32_t   sequence; /* number of the next event */
} stream_state;

static void open_event(hd_buffer *out, stream_state *s, const char *name)
{
    hd_buffer_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d", name, name,
                     s->sequence++);
}

static void close_event(hd_buffer *out) { hd_buffer_text(out, "}\n\n"); }

static void write_response_event(hd_buffer *out, const hd_answers *r, const char *name,
                                 const hd_api_error *e)
{
    open_event(out, r->own, name);
    hd_buffer_text(out, ",\"response\":");
    write_response(out, r, e);
    close_event(out);
}

static void begin(hd_answers *r, hd_buffer *out)
{
    r->own = hd_memory_alloc(sizeof(stream_state));
    if (!r->own) {
        out->failed = true;
        return;
    }
    write_response_event(out, r, "response.created", NULL);
    write_response_event(out, r, "response.in_progress", NULL);
}

/* Which item an event is about. */
static void write_item_place(hd_buffer *out, const hd_answers *r, const char *prefix)
{
    const stream_state *const s = r->own;
    hd_buffer_text(out, ",\"item_id\":");
    write_item_id(out, r, prefix, s->index);
    hd_buffer_printf(out, ",\"output_index\":%d", s->index);
}

static void open_part_event(hd_buffer *out, const hd_answers *r, const char *name, item_kind kind)
{
    open_event(out, r->own, name);
    write_item_place(out, r, kind == ITEM_MESSAGE ? "msg" : "rs");
    hd_buffer_text(out, ",\"content_index\":0");
}

static void open_item(hd_buffer *out, const hd_answers *r, item_kind kind)
{
    stream_state *const s = r->own;
    bool const          is_message = kind == ITEM_MESSAGE;
    open_event(out, s, "response.output_item.added");
    hd_buffer_printf(out, ",\"output_index\":%d,\"item\":{\"id\":", s->index);
    write_item_id(out, r, is_message ? "msg" : "rs", s->index);
    hd_buffer_text(out, is_message ? ",\"type\":\"message\",\"status\":\"in_progress\","
                                     "\"role\":\"assistant\",\"content\":[]}"
                                   : ",\"type\":\"reasoning\",\"status\":\"in_progress\","
                                     "\"summary\":[],\"content\":[]}");
    close_event(out);
    open_part_event(out, r, "response.content_part.added", kind);
    hd_buffer_text(out, is_message ? ",\"part\":{\"type\":\"output_text\",\"text\":\"\","
                                     "\"annotations\":[],\"logprobs\":[]}"
                                   : ",\"part\":{\"type\":\"reasoning_text\",\"text\":\"\"}");
    close_event(out);
    s->open = kind;
}

static void write_text_done(hd_buffer *out, const hd_answers *r, item_kind kind)
{
    const hd_choice *const c = &r->choices[0];
    bool const             is_message = kind == ITEM_MESSAGE;
    open_part_event(
        out, r, is_message ? "response.output_text.done" : "response.reasoning_text.done", kind);
    hd_buffer_text(out, ",\"text\":");
    hd_openai_write_text(out, is_message ? &c->content : &c->reasoning);
    if (is_message) {
        hd_buffer_text(out, ",\"logprobs\":");
        hd_openai_write_content_logprobs(out, r, c, 0, hd_choice_n_probs(c));
    }
    close_event(out);
}

static void close_item(hd_buffer *out, const hd_answers *r, bool is_last)
{
    stream_state *const s = r->own;
    item_kind const     kind = s->open;
    if (kind == ITEM_NONE) return;
    write_text_done(out, r, kind);
    open_part_event(out, r, "response.content_part.done", kind);
    hd_buffer_text(out, ",\"part\":");
    if (kind == ITEM_MESSAGE)
        write_text_part(out, r);
    else
        write_reasoning_part(out, &r->choices[0]);
    close_event(out);
    open_event(out, s, "response.output_item.done");
    hd_buffer_printf(out, ",\"output_index\":%d,\"item\":", s->index);
    if (kind == ITEM_MESSAGE)
        write_message(out, r, s->index, is_last);
    else
        write_reasoning(out, r, s->index, is_last);
    close_event(out);
    s->open = ITEM_NONE;
    s->index++;
}

/* Logarithms of the tokens that no event has told of yet. */
static void write_new_logprobs(hd_buffer *out, const hd_answers *r)
{
    hd_choice *const c = &r->choices[0];
    int32_t const    n = hd_choice_n_probs(c);
    hd_buffer_text(out, ",\"logprobs\":");
    hd_openai_write_content_logprobs(out, r, c, c->n_told, n);
    c->n_told = n;
}

static void write_delta(hd_buffer *out, const hd_answers *r, item_kind kind,
                        const hd_parse_event *p)
{
    stream_state *const s = r->own;
    bool const          is_message = kind == ITEM_MESSAGE;
    if (p->text_bytes == 0) return;
    if (s->open != kind) {
        close_item(out, r, false);
        open_item(out, r, kind);
    }
    open_part_event(
        out, r, is_message ? "response.output_text.delta" : "response.reasoning_text.delta", kind);
    hd_buffer_text(out, ",\"delta\":");
    hd_json_write_string(out, p->text, p->text_bytes);
    if (is_message) write_new_logprobs(out, r);
    close_event(out);
}

static void write_call_events(hd_buffer *out, const hd_answers *r, const hd_parse_event *p)
{
    stream_state *const  s = r->own;
    hd_answer_call const call = {p->name, p->text, p->name_bytes, p->text_bytes};
    close_item(out, r, false);
    open_event(out, s, "response.output_item.added");
    hd_buffer_printf(out, ",\"output_index\":%d,\"item\":", s->index);
    write_call(out, r, p->index, s->index, &call, false);
    close_event(out);
    open_event(out, s, "response.function_call_arguments.delta");
    write_item_place(out, r, "fc");
    hd_buffer_text(out, ",\"delta\":");
    hd_json_write_string(out, p->text, p->text_bytes);
    close_event(out);
    open_event(out, s, "response.function_call_arguments.done");
    write_item_place(out, r, "fc");
    hd_buffer_text(out, ",\"name\":");
    hd_json_write_string(out, p->name, p->name_bytes);
    hd_buffer_text(out, ",\"arguments\":");
    hd_json_write_string(out, p->text, p->text_bytes);
    close_event(out);
    open_event(out, s, "response.output_item.done");
    hd_buffer_printf(out, ",\"output_index\":%d,\"item\":", s->index);
    write_call(out, r, p->index, s->index, &call, true);
    close_event(out);
    s->index++;
}

static void event(hd_answers *r, int32_t choice, const hd_answer_event *e, hd_buffer *out)
{
    (void)choice; /* there is but one */
    if (!e->parse || !r->own) return;
    switch (e->parse->kind) {
    case HD_PARSE_REASONING: write_delta(out, r, ITEM_REASONING, e->parse); break;
    case HD_PARSE_CONTENT: write_delta(out, r, ITEM_MESSAGE, e->parse); break;
    case HD_PARSE_CALL: write_call_events(out, r, e->parse); break;
    case HD_PARSE_UNPARSED: break; /* told at the end: it is neither text nor a call */
    }
}

static void finish(hd_answers *r, hd_buffer *out)
{
    bool const is_cut = r->choices[0].end.finish == HD_FINISH_LENGTH;
    if (!r->own) return;
    close_item(out, r, true);
    write_response_event(out, r, is_cut ? "response.incomplete" : "response.completed", NULL);
}

static void write_failure(const hd_answers *r, hd_buffer *out, const hd_api_error *e)
{
    if (r->own) write_response_event(out, r, "response.failed", e);
}

const hd_api hd_api_openai_responses = {.name = "responses",
                                        .read = hd_responses_read,
                                        .write_whole = write_whole,
                                        .begin = begin,
                                        .event = event,
                                        .finish = finish,
                                        .keep_alive = HD_OPENAI_KEEP_ALIVE,
                                        .write_error = hd_openai_write_error,
                                        .write_failure = write_failure};
