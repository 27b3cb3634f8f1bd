#include <string.h>

#include "base/json_write.h"
#include "server/api.h"
#include "server/openai_parts.h"
#include "server/openai_prompt.h"

/* POST /v1/chat/completions. */

/* ---- what is asked ---- */

static const char *const refused_members[] = {"functions", "function_call", "audio",
                                              "web_search_options", NULL};

static hd_status check_modalities(const hd_fields *b)
{
    const json_object *const v = hd_fields_find(b, "modalities");
    if (!v) return HD_OK;
    bool const is_text = json_object_is_type(v, json_type_array) &&
                         json_object_array_length(v) == 1 &&
                         hd_json_equals(json_object_array_get_idx(v, 0), "text");
    return is_text ? HD_OK : hd_api_refuse(b->error, "modalities", "only [\"text\"] is to be had");
}

static hd_status read_limit(hd_ask *out, const hd_fields *b)
{
    int64_t n = 0;
    HD_TRY(hd_fields_integer(b, "max_tokens", 1, INT32_MAX, &n));
    HD_TRY(hd_fields_integer(b, "max_completion_tokens", 1, INT32_MAX, &n));
    out->generate.max_new = (int32_t)n;
    return HD_OK;
}

static hd_status read_logprobs(hd_ask *out, const hd_fields *b)
{
    int64_t n = 0;
    HD_TRY(hd_fields_bool(b, "logprobs", &out->has_logprobs));
    HD_TRY(hd_fields_integer(b, "top_logprobs", 0, HD_MAX_TOP_LOGPROBS, &n));
    if (n > 0 && !out->has_logprobs)
        return hd_api_refuse(b->error, "top_logprobs", "only together with logprobs");
    out->generate.n_top = (int32_t)n;
    return HD_OK;
}

static hd_status read(hd_ask *out, const hd_fields *b, const hd_ask_context *c)
{
    HD_TRY(hd_ask_read_model(b, c));
    HD_TRY(hd_ask_refuse_members(b, refused_members));
    HD_TRY(check_modalities(b));
    HD_TRY(hd_ask_read_drawing(out, b, c));
    HD_TRY(read_limit(out, b));
    HD_TRY(read_logprobs(out, b));
    HD_TRY(hd_ask_read_stream(out, b));
    return hd_openai_read_prompt(out, b);
}

/* ---- what is answered, at once ---- */

static void write_call(hd_buffer *out, const hd_answers *r, int32_t choice, int32_t i)
{
    const hd_answer_call *const call = hd_choice_call(&r->choices[choice], i);
    hd_buffer_text(out, "{\"id\":");
    hd_openai_write_call_id(out, r, choice, i);
    hd_buffer_text(out, ",\"type\":\"function\",\"function\":{\"name\":");
    hd_json_write_string(out, call->name, call->name_bytes);
    hd_buffer_text(out, ",\"arguments\":");
    hd_json_write_string(out, call->arguments, call->arguments_bytes);
    hd_buffer_text(out, "}}");
}

static void write_message(hd_buffer *out, const hd_answers *r, int32_t choice)
{
    const hd_choice *const c = &r->choices[choice];
    int32_t const          n_calls = hd_choice_n_calls(c);
    hd_buffer_text(out, "{\"role\":\"assistant\",\"content\":");
    if (n_calls > 0 && c->content.used == 0)
        hd_buffer_text(out, "null");
    else
        hd_openai_write_text(out, &c->content);
    hd_buffer_text(out, ",\"refusal\":null");
    if (c->reasoning.used) {
        hd_buffer_text(out, ",\"reasoning_content\":");
        hd_openai_write_text(out, &c->reasoning);
    }
    for (int32_t i = 0; i < n_calls; i++) {
        hd_buffer_text(out, i ? "," : ",\"tool_calls\":[");
        write_call(out, r, choice, i);
    }
    hd_buffer_text(out, n_calls ? "]}" : "}");
}

static void write_head(hd_buffer *out, const hd_answers *r, const char *object)
{
    hd_buffer_printf(out,
                     "{\"id\":\"chatcmpl-%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", r->id,
                     object, (long long)r->created);
    hd_json_write_string(out, r->model, strlen(r->model));
    hd_buffer_text(out, ",\"choices\":[");
}

static void write_choice(hd_buffer *out, const hd_answers *r, int32_t i)
{
    const hd_choice *const c = &r->choices[i];
    hd_buffer_printf(out, "%s{\"index\":%d,\"message\":", i ? "," : "", i);
    write_message(out, r, i);
    hd_buffer_text(out, ",\"logprobs\":");
    if (r->ask->has_logprobs)
        hd_openai_write_logprobs(out, r, c, 0, hd_choice_n_probs(c));
    else
        hd_buffer_text(out, "null");
    hd_buffer_printf(out, ",\"finish_reason\":\"%s\"", hd_finish_name(c->end.finish));
    hd_openai_write_hadal(out, r, i);
    hd_buffer_text(out, "}");
}

static void write_whole(const hd_answers *r, hd_buffer *out)
{
    write_head(out, r, "chat.completion");
    for (int32_t i = 0; i < r->n; i++) write_choice(out, r, i);
    hd_buffer_text(out, "],");
    hd_openai_write_usage(out, r);
    hd_buffer_text(out, "}");
}

/* ---- what is answered, piece by piece ---- */

static void open_chunk(hd_buffer *out, const hd_answers *r, int32_t choice)
{
    hd_buffer_text(out, "data: ");
    write_head(out, r, "chat.completion.chunk");
    if (choice >= 0) hd_buffer_printf(out, "{\"index\":%d,\"delta\":{", choice);
}

/* Behind the choices: usage, which is null until the end unless it is asked for all the time. */
static void close_chunk(hd_buffer *out, const hd_answers *r, bool is_last)
{
    hd_buffer_text(out, "]");
    if (r->ask->has_usage) {
        hd_buffer_text(out, ",");
        if (is_last || r->ask->has_running_usage)
            hd_openai_write_usage(out, r);
        else
            hd_buffer_text(out, "\"usage\":null");
    }
    hd_buffer_text(out, "}\n\n");
}

/* Logarithms of the tokens that no chunk has told of yet. */
static void write_new_logprobs(hd_buffer *out, const hd_answers *r, hd_choice *c)
{
    int32_t const n = hd_choice_n_probs(c);
    hd_buffer_text(out, ",\"logprobs\":");
    if (n > c->n_told)
        hd_openai_write_logprobs(out, r, c, c->n_told, n);
    else
        hd_buffer_text(out, "null");
    c->n_told = n;
}

static void close_delta(hd_buffer *out, hd_answers *r, int32_t choice)
{
    hd_buffer_text(out, "}");
    write_new_logprobs(out, r, &r->choices[choice]);
    hd_buffer_text(out, ",\"finish_reason\":null}");
    close_chunk(out, r, false);
}

static void begin(hd_answers *r, hd_buffer *out)
{
    for (int32_t i = 0; i < r->n; i++) {
        open_chunk(out, r, i);
        hd_buffer_text(out, "\"role\":\"assistant\",\"content\":\"\"");
        close_delta(out, r, i);
    }
}

static void write_delta(hd_answers *r, int32_t choice, const char *name, const hd_parse_event *p,
                        hd_buffer *out)
{
    if (p->text_bytes == 0) return;
    open_chunk(out, r, choice);
    hd_buffer_printf(out, "\"%s\":", name);
    hd_json_write_string(out, p->text, p->text_bytes);
    close_delta(out, r, choice);
}

/* The name first, then the arguments, as clients are used to. */
static void write_call_deltas(hd_answers *r, int32_t choice, const hd_parse_event *p,
                              hd_buffer *out)
{
    open_chunk(out, r, choice);
    hd_buffer_printf(out, "\"tool_calls\":[{\"index\":%d,\"id\":", p->index);
    hd_openai_write_call_id(out, r, choice, p->index);
    hd_buffer_text(out, ",\"type\":\"function\",\"function\":{\"name\":");
    hd_json_write_string(out, p->name, p->name_bytes);
    hd_buffer_text(out, ",\"arguments\":\"\"}}]");
    close_delta(out, r, choice);
    open_chunk(out, r, choice);
    hd_buffer_printf(out, "\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":", p->index);
    hd_json_write_string(out, p->text, p->text_bytes);
    hd_buffer_text(out, "}}]");
    close_delta(out, r, choice);
}

static void write_end(hd_answers *r, int32_t choice, hd_buffer *out)
{
    hd_choice *const c = &r->choices[choice];
    open_chunk(out, r, choice);
    hd_buffer_text(out, "}");
    write_new_logprobs(out, r, c);
    hd_buffer_printf(out, ",\"finish_reason\":\"%s\"", hd_finish_name(c->end.finish));
    hd_openai_write_hadal(out, r, choice);
    hd_buffer_text(out, "}");
    close_chunk(out, r, false);
}

static void event(hd_answers *r, int32_t choice, const hd_answer_event *e, hd_buffer *out)
{
    if (e->end) write_end(r, choice, out);
    if (!e->parse) return;
    switch (e->parse->kind) {
    case HD_PARSE_REASONING: write_delta(r, choice, "reasoning_content", e->parse, out); break;
    case HD_PARSE_CONTENT: write_delta(r, choice, "content", e->parse, out); break;
    case HD_PARSE_CALL: write_call_deltas(r, choice, e->parse, out); break;
    case HD_PARSE_UNPARSED: break; /* told at the end: it is neither text nor a call */
    }
}

static void finish(hd_answers *r, hd_buffer *out)
{
    if (r->ask->has_usage) {
        open_chunk(out, r, -1);
        close_chunk(out, r, true);
    }
    hd_buffer_text(out, "data: [DONE]\n\n");
}

const hd_api hd_api_openai_chat = {.name = "chat",
                                   .read = read,
                                   .write_whole = write_whole,
                                   .begin = begin,
                                   .event = event,
                                   .finish = finish,
                                   .keep_alive = HD_OPENAI_KEEP_ALIVE,
                                   .write_error = hd_openai_write_error,
                                   .write_failure = hd_openai_write_failure};
