#include "server/openai_offers.h"

#include <string.h>

/* ---- tools ---- */

static const json_object *tool_at(const json_object *tools, size_t i)
{
    return hd_json_member(json_object_array_get_idx(tools, i), "function");
}

static bool has_tool(const json_object *tools, const char *name)
{
    size_t const n = json_object_array_length(tools);
    for (size_t i = 0; i < n; i++)
        if (hd_json_equals(hd_json_member(tool_at(tools, i), "name"), name)) return true;
    return false;
}

/* Whether some tool promises its caller that arguments follow its schema. */
static bool has_strict_tool(const json_object *tools)
{
    size_t const n = json_object_array_length(tools);
    for (size_t i = 0; i < n; i++)
        if (json_object_get_boolean(
                (json_object *)(uintptr_t)hd_json_member(tool_at(tools, i), "strict")))
            return true;
    return false;
}

static hd_status copy_text(hd_ask *out, const hd_fields *b, const char *text, size_t bytes,
                           const char **copy)
{
    *copy = hd_pool_copy(&out->pool, text, bytes);
    return *copy ? HD_OK : hd_ask_fail_memory(b->error);
}

static hd_status hold_to_tools(hd_ask *out, const hd_fields *b, const json_object *tools)
{
    const char *text = NULL;
    size_t      bytes = 0;
    bool        is_parallel = true;
    HD_TRY(hd_fields_bool(b, "parallel_tool_calls", &is_parallel));
    HD_TRY(hd_fields_span(b, "tools", &text, &bytes));
    HD_TRY(copy_text(out, b, text, bytes, &out->grammar.json));
    out->grammar.kind = HD_GRAMMAR_TOOL_CALLS;
    out->grammar.json_bytes = bytes;
    out->grammar.is_single = !is_parallel;
    out->grammar.is_optional = true;
    out->hold = has_strict_tool(tools) || !is_parallel ? HD_HOLD_GRAMMAR : HD_HOLD_IF_IT_CAN;
    return HD_OK;
}

static hd_status force_function(hd_ask *out, const hd_fields *b, const json_object *tools,
                                const json_object *choice)
{
    size_t            bytes = 0;
    const char *const name =
        hd_json_text(hd_json_member(hd_json_member(choice, "function"), "name"), &bytes);
    if (!name || !hd_json_equals(hd_json_member(choice, "type"), "function"))
        return hd_fields_wrong(b, "tool_choice", choice,
                               "\"none\", \"auto\", \"required\" or a function by its name");
    if (!has_tool(tools, name))
        return hd_api_refuse(b->error, "tool_choice", "there is no tool %.60s", name);
    out->hold = HD_HOLD_GRAMMAR;
    out->grammar.is_optional = false;
    out->grammar.is_single = true;
    return copy_text(out, b, name, bytes, &out->grammar.function);
}

static hd_status read_choice(hd_ask *out, const hd_fields *b, const json_object *tools)
{
    const json_object *const choice = hd_fields_find(b, "tool_choice");
    bool const               has_tools =
        json_object_is_type(tools, json_type_array) && json_object_array_length(tools) > 0;
    if (hd_json_equals(choice, "none")) return HD_OK;
    if (!has_tools && choice && !hd_json_equals(choice, "auto"))
        return hd_api_refuse(b->error, "tool_choice", "there are no tools to choose from");
    if (!has_tools) return HD_OK; /* a member that is no list is for the prompt to refuse */
    HD_TRY(hold_to_tools(out, b, tools));
    if (!choice || hd_json_equals(choice, "auto")) return HD_OK;
    if (!hd_json_equals(choice, "required")) return force_function(out, b, tools, choice);
    out->hold = HD_HOLD_GRAMMAR;
    out->grammar.is_optional = false;
    return HD_OK;
}

/* ---- format ---- */

static hd_status copy_schema(hd_ask *out, const hd_fields *b, const json_object *format,
                             const char **copy, size_t *bytes)
{
    static const char        path[] = "response_format.json_schema.schema";
    const json_object *const schema =
        hd_json_member(hd_json_member(format, "json_schema"), "schema");
    if (!json_object_is_type(schema, json_type_object))
        return hd_fields_wrong(b, path, schema, "an object");
    const char *const text = json_object_to_json_string_ext(
        (json_object *)(uintptr_t)schema, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (!text) return hd_ask_fail_memory(b->error);
    *bytes = strlen(text);
    return copy_text(out, b, text, *bytes, copy);
}

/* Where calls are offered, text of the schema is what stands instead of them; where they are
 * forced, there is no text.  A schema is a promise even where a tool alone could do without. */
static void hold_to_format(hd_ask *out, hd_grammar_kind kind, const char *schema, size_t bytes)
{
    hd_grammar_options *const g = &out->grammar;
    bool const                has_calls = out->hold != HD_HOLD_NOTHING;
    if (has_calls && !g->is_optional) return;
    out->hold = HD_HOLD_GRAMMAR;
    g->is_optional = false;
    if (has_calls) {
        g->instead = schema;
        g->instead_bytes = bytes;
    } else {
        g->kind = kind;
        g->json = kind == HD_GRAMMAR_SCHEMA ? schema : NULL;
        g->json_bytes = kind == HD_GRAMMAR_SCHEMA ? bytes : 0;
    }
}

static hd_status read_format(hd_ask *out, const hd_fields *b)
{
    static const char        any_object[] = "{\"type\":\"object\"}";
    const json_object *const format = hd_fields_find(b, "response_format");
    const json_object *const type = hd_json_member(format, "type");
    const char              *schema = any_object;
    size_t                   bytes = sizeof any_object - 1;
    bool const               has_schema = hd_json_equals(type, "json_schema");
    if (!format || hd_json_equals(type, "text")) return HD_OK;
    if (!has_schema && !hd_json_equals(type, "json_object"))
        return hd_api_refuse(b->error, "response_format.type",
                             "none of \"text\", \"json_object\", \"json_schema\"");
    if (has_schema) HD_TRY(copy_schema(out, b, format, &schema, &bytes));
    hold_to_format(out, has_schema ? HD_GRAMMAR_SCHEMA : HD_GRAMMAR_JSON, schema, bytes);
    return HD_OK;
}

hd_status hd_openai_read_offers(hd_ask *out, const hd_fields *b)
{
    HD_TRY(read_choice(out, b, hd_fields_find(b, "tools")));
    return read_format(out, b);
}
