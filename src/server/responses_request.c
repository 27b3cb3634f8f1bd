#include "server/responses_request.h"

#include <string.h>

#include "base/json_write.h"
#include "server/openai_items.h"
#include "server/openai_prompt.h"

/* ---- tools ---- */

static hd_status write_tool(hd_buffer *out, hd_place *p, const json_object *v)
{
    static const char *const members[] = {"name", "description", "parameters", "strict"};
    const char              *between = "";
    if (!hd_place_is_type(v, "function")) return hd_place_refuse_type(p, v, "function");
    hd_buffer_text(out, "{\"type\": \"function\", \"function\": {");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const json_object *const member = hd_json_member(v, members[i]);
        if (!member) continue;
        hd_buffer_printf(out, "%s\"%s\": ", between, members[i]);
        hd_place_write_value(out, member);
        between = ", ";
    }
    hd_buffer_text(out, "}}");
    return HD_OK;
}

/* Words are the same in both APIs; a function is named one level higher. */
static hd_status write_choice(hd_buffer *out, hd_place *p, const json_object *v)
{
    const char *name = NULL;
    size_t      bytes = 0;
    if (!v) return HD_OK;
    size_t const before = hd_place_member(p, "tool_choice");
    hd_buffer_text(out, ", \"tool_choice\": ");
    if (json_object_is_type(v, json_type_string)) {
        hd_place_write_value(out, v);
    } else {
        if (!hd_place_is_type(v, "function"))
            return hd_place_refuse_type(p, v, "auto, none, required and function");
        HD_TRY(hd_place_text(p, v, "name", &name, &bytes));
        hd_buffer_text(out, "{\"type\": \"function\", \"function\": {\"name\": ");
        hd_json_write_string(out, name, bytes);
        hd_buffer_text(out, "}}");
    }
    hd_place_leave(p, before);
    return HD_OK;
}

/* ---- format and effort ---- */

static hd_status write_schema(hd_buffer *out, hd_place *p, const json_object *format)
{
    const json_object *const schema = hd_json_member(format, "schema");
    hd_place_member(p, "schema");
    if (!json_object_is_type(schema, json_type_object))
        return hd_place_wrong(p, schema, "an object");
    hd_buffer_text(out, ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
                        "{\"name\": \"answer\", \"schema\": ");
    hd_place_write_value(out, schema);
    hd_buffer_text(out, "}}");
    return HD_OK;
}

static hd_status write_format(hd_buffer *out, hd_place *p, const json_object *text)
{
    const json_object *const format = hd_json_member(text, "format");
    size_t const             before = hd_place_member(p, "text");
    if (text && !json_object_is_type(text, json_type_object))
        return hd_place_wrong(p, text, "an object");
    hd_place_member(p, "format");
    if (hd_place_is_type(format, "json_schema"))
        HD_TRY(write_schema(out, p, format));
    else if (hd_place_is_type(format, "json_object"))
        hd_buffer_text(out, ", \"response_format\": {\"type\": \"json_object\"}");
    else if (format && !hd_place_is_type(format, "text"))
        return hd_place_refuse_type(p, format, "text, json_object and json_schema");
    hd_place_leave(p, before);
    return HD_OK;
}

static hd_status write_effort(hd_buffer *out, hd_place *p, const json_object *reasoning)
{
    const json_object *const effort = hd_json_member(reasoning, "effort");
    size_t const             before = hd_place_member(p, "reasoning");
    if (reasoning && !json_object_is_type(reasoning, json_type_object))
        return hd_place_wrong(p, reasoning, "an object");
    hd_place_leave(p, before);
    if (!effort) return HD_OK;
    hd_buffer_text(out, ", \"reasoning_effort\": ");
    hd_place_write_value(out, effort);
    return HD_OK;
}

static hd_status write_chat(hd_buffer *out, const hd_fields *b)
{
    hd_place p = {.error = b->error};
    bool     is_parallel = true;
    HD_TRY(hd_fields_bool(b, "parallel_tool_calls", &is_parallel));
    HD_TRY(hd_openai_write_input(out, &p, b));
    HD_TRY(hd_place_write_tools(out, &p, hd_fields_find(b, "tools"), write_tool));
    HD_TRY(write_choice(out, &p, hd_fields_find(b, "tool_choice")));
    HD_TRY(write_format(out, &p, hd_fields_find(b, "text")));
    HD_TRY(write_effort(out, &p, hd_fields_find(b, "reasoning")));
    hd_buffer_text(out, is_parallel ? "}" : ", \"parallel_tool_calls\": false}");
    return out->failed ? hd_ask_fail_memory(b->error) : HD_OK;
}

/* ---- what the answer repeats ---- */

static void write_told(hd_buffer *out, const hd_fields *b)
{
    static const char *const members[][2] = {{"instructions", "null"},
                                             {"max_output_tokens", "null"},
                                             {"metadata", "{}"},
                                             {"parallel_tool_calls", "true"},
                                             {"reasoning", "{\"effort\":null,\"summary\":null}"},
                                             {"temperature", "null"},
                                             {"text", "{\"format\":{\"type\":\"text\"}}"},
                                             {"tool_choice", "\"auto\""},
                                             {"tools", "[]"},
                                             {"top_logprobs", "0"},
                                             {"top_p", "null"},
                                             {"user", "null"}};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const json_object *const v = hd_fields_find(b, members[i][0]);
        hd_buffer_printf(out, ",\"%s\":", members[i][0]);
        if (v)
            hd_place_write_value(out, v);
        else
            hd_buffer_text(out, members[i][1]);
    }
}

static hd_status keep_told(hd_ask *out, const hd_fields *b)
{
    hd_buffer told = {0};
    write_told(&told, b);
    out->told = told.failed ? NULL : hd_pool_copy(&out->pool, told.data, told.used);
    hd_buffer_free(&told);
    return out->told ? HD_OK : hd_ask_fail_memory(b->error);
}

/* ---- the whole ---- */

static hd_status check_unsupported(const hd_fields *b)
{
    static const char *const refused[] = {"previous_response_id", "conversation", "prompt", NULL};
    static const char *const truncations[] = {"disabled", NULL};
    bool                     is_background = false;
    int                      word = 0;
    HD_TRY(hd_ask_refuse_members(b, refused));
    HD_TRY(hd_fields_word(b, "truncation", truncations, &word));
    HD_TRY(hd_fields_bool(b, "background", &is_background));
    return is_background ? hd_api_refuse(b->error, "background", "is not supported here") : HD_OK;
}

/* Of what `include` may name only logarithms are to be had; the rest belongs to the service. */
static hd_status read_logprobs(hd_ask *out, const hd_fields *b)
{
    const json_object *const list = hd_fields_find(b, "include");
    int64_t                  n_top = 0;
    if (list && !json_object_is_type(list, json_type_array))
        return hd_fields_wrong(b, "include", list, "a list");
    size_t const n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++)
        if (hd_json_equals(json_object_array_get_idx(list, i), "message.output_text.logprobs"))
            out->has_logprobs = true;
    HD_TRY(hd_fields_integer(b, "top_logprobs", 0, HD_MAX_TOP_LOGPROBS, &n_top));
    out->generate.n_top = out->has_logprobs ? (int32_t)n_top : 0;
    return HD_OK;
}

static hd_status read_conversation(hd_ask *out, const hd_fields *b)
{
    hd_buffer chat = {0};
    hd_status s = write_chat(&chat, b);
    if (s == HD_OK) s = hd_openai_read_written(out, &chat, b->error);
    hd_buffer_free(&chat);
    return s;
}

hd_status hd_responses_read(hd_ask *out, const hd_fields *b, const hd_ask_context *c)
{
    int64_t n = 0;
    HD_TRY(hd_ask_read_model(b, c));
    HD_TRY(check_unsupported(b));
    HD_TRY(hd_ask_read_drawing(out, b, c));
    HD_TRY(hd_fields_integer(b, "max_output_tokens", 1, INT32_MAX, &n));
    HD_TRY(read_logprobs(out, b));
    HD_TRY(hd_ask_read_stream(out, b));
    out->n = 1;
    out->generate.max_new = (int32_t)n;
    out->fits_limit = true;
    HD_TRY(read_conversation(out, b));
    return keep_told(out, b);
}
