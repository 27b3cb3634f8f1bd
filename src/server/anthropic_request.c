#include "server/anthropic_request.h"

#include "base/json_write.h"
#include "server/anthropic_turns.h"
#include "server/openai_prompt.h"

/* ---- tools ---- */

/* What a model is told of a tool; whatever else stands there is for the service alone. */
static hd_status write_tool(hd_buffer *out, hd_place *p, const json_object *v)
{
    const json_object *const schema = hd_json_member(v, "input_schema");
    const json_object *const description = hd_json_member(v, "description");
    const char              *name = NULL;
    size_t                   bytes = 0;
    if (!json_object_is_type(v, json_type_object)) return hd_place_wrong(p, v, "an object");
    if (hd_json_member(v, "type") && !hd_place_is_type(v, "custom"))
        return hd_place_refuse_type(p, v, "tools that the client runs (custom)");
    HD_TRY(hd_place_text(p, v, "name", &name, &bytes));
    hd_buffer_text(out, "{\"type\": \"function\", \"function\": {\"name\": ");
    hd_json_write_string(out, name, bytes);
    if (description) {
        HD_TRY(hd_place_text(p, v, "description", &name, &bytes));
        hd_buffer_text(out, ", \"description\": ");
        hd_json_write_string(out, name, bytes);
    }
    hd_place_member(p, "input_schema");
    if (!json_object_is_type(schema, json_type_object))
        return hd_place_wrong(p, schema, "an object");
    hd_buffer_text(out, ", \"parameters\": ");
    hd_place_write_value(out, schema);
    if (json_object_get_boolean((json_object *)(uintptr_t)hd_json_member(v, "strict")))
        hd_buffer_text(out, ", \"strict\": true");
    hd_buffer_text(out, "}}");
    return HD_OK;
}

static hd_status write_named_choice(hd_buffer *out, hd_place *p, const json_object *v)
{
    const char *name = NULL;
    size_t      bytes = 0;
    HD_TRY(hd_place_text(p, v, "name", &name, &bytes));
    hd_buffer_text(out, "{\"type\": \"function\", \"function\": {\"name\": ");
    hd_json_write_string(out, name, bytes);
    hd_buffer_text(out, "}}");
    return HD_OK;
}

static hd_status write_choice(hd_buffer *out, hd_place *p, const json_object *v)
{
    static const char *const words[][2] = {
        {"auto", "\"auto\""}, {"any", "\"required\""}, {"none", "\"none\""}};
    size_t found = 0;
    if (!v) return HD_OK;
    size_t const before = hd_place_member(p, "tool_choice");
    while (found < 3 && !hd_place_is_type(v, words[found][0])) found++;
    hd_buffer_text(out, ", \"tool_choice\": ");
    if (found < 3)
        hd_buffer_text(out, words[found][1]);
    else if (hd_place_is_type(v, "tool"))
        HD_TRY(write_named_choice(out, p, v));
    else
        return hd_place_refuse_type(p, v, "auto, any, tool and none");
    const json_object *const single = hd_json_member(v, "disable_parallel_tool_use");
    if (json_object_get_boolean((json_object *)(uintptr_t)single))
        hd_buffer_text(out, ", \"parallel_tool_calls\": false");
    hd_place_leave(p, before);
    return HD_OK;
}

/* ---- thinking and format ---- */

/* A budget of tokens is a wish that the model does not know: its effort is what it does. */
static hd_status write_thinking(hd_buffer *out, hd_place *p, const json_object *v)
{
    bool const   is_on = hd_place_is_type(v, "enabled") || hd_place_is_type(v, "adaptive");
    size_t const before = hd_place_member(p, "thinking");
    if (v && !is_on && !hd_place_is_type(v, "disabled"))
        return hd_place_refuse_type(p, v, "enabled, adaptive and disabled");
    hd_buffer_printf(out, ", \"thinking\": {\"type\": \"%s\"}", is_on ? "enabled" : "disabled");
    hd_place_leave(p, before);
    return HD_OK;
}

static hd_status write_effort(hd_buffer *out, hd_place *p, const json_object *config)
{
    static const char *const words[] = {"low", "medium", "high", "xhigh", "max"};
    const json_object *const v = hd_json_member(config, "effort");
    size_t                   found = 0;
    if (!v) return HD_OK;
    size_t const before = hd_place_member(p, "output_config.effort");
    while (found < 5 && !hd_json_equals(v, words[found])) found++;
    if (found == 5) return hd_place_refuse(p, "none of low, medium, high, xhigh, max");
    hd_buffer_printf(out, ", \"reasoning_effort\": \"%s\"", words[found]);
    hd_place_leave(p, before);
    return HD_OK;
}

static hd_status write_format(hd_buffer *out, hd_place *p, const json_object *v)
{
    const json_object *const schema = hd_json_member(v, "schema");
    if (!v) return HD_OK;
    size_t const before = hd_place_member(p, "output_config.format");
    if (!hd_place_is_type(v, "json_schema")) return hd_place_refuse_type(p, v, "json_schema");
    hd_place_member(p, "schema");
    if (!json_object_is_type(schema, json_type_object))
        return hd_place_wrong(p, schema, "an object");
    hd_buffer_text(out, ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": "
                        "{\"name\": \"answer\", \"schema\": ");
    hd_place_write_value(out, schema);
    hd_buffer_text(out, "}}");
    hd_place_leave(p, before);
    return HD_OK;
}

static hd_status write_output(hd_buffer *out, hd_place *p, const json_object *config)
{
    if (config && !json_object_is_type(config, json_type_object)) {
        hd_place_member(p, "output_config");
        return hd_place_wrong(p, config, "an object");
    }
    HD_TRY(write_effort(out, p, config));
    return write_format(out, p, hd_json_member(config, "format"));
}

/* ---- the whole ---- */

static hd_status write_chat(hd_buffer *out, const hd_fields *b)
{
    hd_place p = {.error = b->error};
    HD_TRY(hd_anthropic_write_messages(out, &p, b));
    HD_TRY(hd_place_write_tools(out, &p, hd_fields_find(b, "tools"), write_tool));
    HD_TRY(write_choice(out, &p, hd_fields_find(b, "tool_choice")));
    HD_TRY(write_thinking(out, &p, hd_fields_find(b, "thinking")));
    HD_TRY(write_output(out, &p, hd_fields_find(b, "output_config")));
    hd_buffer_text(out, "}");
    return out->failed ? hd_ask_fail_memory(b->error) : HD_OK;
}

hd_status hd_anthropic_read_conversation(hd_ask *out, const hd_fields *b, const hd_ask_context *c)
{
    static const char *const refused[] = {"container", "mcp_servers", NULL};
    hd_buffer                chat = {0};
    HD_TRY(hd_ask_read_model(b, c));
    HD_TRY(hd_ask_refuse_members(b, refused));
    hd_status s = write_chat(&chat, b);
    if (s == HD_OK) s = hd_openai_read_written(out, &chat, b->error);
    hd_buffer_free(&chat);
    return s;
}

hd_status hd_anthropic_read(hd_ask *out, const hd_fields *b, const hd_ask_context *c)
{
    int64_t n = 0;
    HD_TRY(hd_ask_read_drawing(out, b, c));
    HD_TRY(hd_ask_read_stop(out, b, "stop_sequences"));
    HD_TRY(hd_ask_read_stream(out, b));
    HD_TRY(hd_fields_integer(b, "max_tokens", 1, INT32_MAX, &n));
    if (n == 0) return hd_fields_wrong(b, "max_tokens", NULL, "a whole number");
    out->n = 1;
    out->generate.max_new = (int32_t)n;
    out->fits_limit = true;
    return hd_anthropic_read_conversation(out, b, c);
}
