#include <ctype.h>
#include <string.h>

#include "tokenizer/chat_body.h"

/* Tools and the wanted format: checked, and put where the encoder shows them, on a system
 * message. */

#define MAX_NAME_BYTES 128 /* of a tool, in the service */

/* ---- tools ---- */

static hd_status check_name(const hd_chat_body *b, const json_object *name, json_object *seen)
{
    size_t            bytes;
    const char *const text = hd_json_text(name, &bytes);
    if (!text) return hd_body_fail(b, name, "a string");
    if (!b->rules->is_service) return HD_OK;
    size_t n = 0;
    while (n < bytes && (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '-')) n++;
    if (bytes == 0 || bytes > MAX_NAME_BYTES || n < bytes)
        HD_FAIL(b->err, HD_ERR_FORMAT, "%s: \"%.60s\", wanted 1 to %d of a-z A-Z 0-9 _ -", b->path,
                text, MAX_NAME_BYTES);
    if (json_object_object_get_ex(seen, text, NULL))
        HD_FAIL(b->err, HD_ERR_FORMAT, "%s: there are two tools %.60s", b->path, text);
    return json_object_object_add(seen, text, NULL) == 0 ? HD_OK : hd_body_fail_memory(b);
}

/* The service shows these three members, in this order. */
static hd_status convert_function(hd_chat_body *b, json_object *out, const json_object *function)
{
    const json_object *const description = hd_json_member(function, "description");
    const json_object *const parameters = hd_json_member(function, "parameters");
    if (hd_python_is_true(hd_json_member(function, "strict")))
        HD_FAIL(b->err, HD_ERR_UNSUPPORTED,
                "%s.strict: only the service itself rewrites schemas to strict ones", b->path);
    size_t length = hd_body_enter(b, "description");
    if (description && !hd_json_text(description, NULL))
        return hd_body_fail(b, description, "a string");
    hd_body_leave(b, length);
    length = hd_body_enter(b, "parameters");
    if (parameters && !hd_json_equals(hd_json_member(parameters, "type"), "object"))
        return hd_body_fail(b, parameters, "a schema of type \"object\"");
    hd_body_leave(b, length);
    HD_TRY(hd_body_put(b, out, "name", hd_body_share(hd_json_member(function, "name"))));
    HD_TRY(hd_body_put(b, out, "description",
                       description ? hd_body_share(description) : json_object_new_string("")));
    return hd_body_put(b, out, "parameters",
                       parameters ? hd_body_share(parameters) : json_object_new_object());
}

static hd_status convert_tool(hd_chat_body *b, json_object *tools, const json_object *source,
                              json_object *seen)
{
    const json_object *const function = hd_json_member(source, "function");
    const json_object *const name = hd_json_member(function, "name");
    size_t                   length = hd_body_enter(b, "function");
    if (!json_object_is_type(function, json_type_object))
        return hd_body_fail(b, function, "an object");
    size_t const inner = hd_body_enter(b, "name");
    HD_TRY(check_name(b, name, seen));
    hd_body_leave(b, inner);
    if (!b->rules->is_service) {
        hd_body_leave(b, length);
        return hd_body_append(b, tools, hd_body_share(source));
    }
    json_object *const tool = json_object_new_object();
    HD_TRY(hd_body_append(b, tools, tool));
    json_object *const shown = json_object_new_object();
    HD_TRY(hd_body_put(b, tool, "function", shown));
    HD_TRY(convert_function(b, shown, function));
    hd_body_leave(b, length);
    return HD_OK;
}

static hd_status convert_tools(hd_chat_body *b, json_object *tools, const json_object *list)
{
    size_t const       length = hd_body_enter(b, "tools");
    json_object *const seen = json_object_new_object();
    hd_status          status = seen ? HD_OK : hd_body_fail_memory(b);
    if (!json_object_is_type(list, json_type_array)) status = hd_body_fail(b, list, "a list");
    size_t const n = status == HD_OK ? json_object_array_length(list) : 0;
    for (size_t i = 0; status == HD_OK && i < n; i++) {
        size_t const item = hd_body_enter_item(b, i);
        status = convert_tool(b, tools, json_object_array_get_idx(list, i), seen);
        if (status == HD_OK) hd_body_leave(b, item);
    }
    json_object_put(seen);
    if (status == HD_OK) hd_body_leave(b, length);
    return status;
}

/* ---- choice ---- */

/* Leaves the tool of this name only. */
static hd_status keep_tool(hd_chat_body *b, json_object *tools, const json_object *name)
{
    for (size_t i = json_object_array_length(tools); i-- > 0;) {
        const json_object *const function =
            hd_json_member(json_object_array_get_idx(tools, i), "function");
        if (!json_object_equal((json_object *)(uintptr_t)hd_json_member(function, "name"),
                               (json_object *)(uintptr_t)name))
            json_object_array_del_idx(tools, i, 1);
    }
    if (json_object_array_length(tools) == 0)
        HD_FAIL(b->err, HD_ERR_FORMAT, "tool_choice: there is no tool %.60s",
                hd_json_text(name, NULL));
    return HD_OK;
}

static hd_status read_choice(hd_chat_body *b, json_object *tools, const json_object *choice)
{
    const json_object *const name = hd_json_member(hd_json_member(choice, "function"), "name");
    bool const               is_named =
        hd_json_equals(hd_json_member(choice, "type"), "function") && hd_json_text(name, NULL);
    if (choice && !hd_json_equals(choice, "none") && !is_named && !hd_json_equals(choice, "auto") &&
        !hd_json_equals(choice, "required"))
        HD_FAIL(b->err, HD_ERR_FORMAT,
                "tool_choice: none of \"none\", \"auto\", \"required\" and a function");
    size_t const n = json_object_array_length(tools);
    if (n == 0 || !choice || hd_json_equals(choice, "auto")) return HD_OK;
    /* Reasoning comes first, and only then the call. */
    if (b->is_thinking)
        HD_FAIL(b->err, HD_ERR_FORMAT, "tool_choice: a call cannot be forced with thinking on");
    if (is_named) HD_TRY(keep_tool(b, tools, name));
    b->must_call = true;
    return HD_OK;
}

/* ---- format ---- */

static bool is_json_word(const char *s)
{
    static const char word[] = "json";
    for (int i = 0; word[i]; i++)
        if ((s[i] | 0x20) != word[i]) return false;
    return true;
}

static bool says_json(const json_object *content)
{
    size_t            bytes = 0;
    const char *const text = hd_json_text(content, &bytes);
    size_t const      n =
        json_object_is_type(content, json_type_array) ? json_object_array_length(content) : 0;
    for (size_t i = 0; i < n; i++)
        if (says_json(json_object_array_get_idx(content, i))) return true;
    for (size_t i = 0; i + 4 <= bytes; i++)
        if (is_json_word(text + i)) return true;
    return false;
}

/* A model that is made to write JSON and was not told so may write blanks without end. */
static hd_status check_json_object(const hd_chat_body *b, const json_object *messages)
{
    size_t const n = json_object_array_length(messages);
    if (b->continued)
        HD_FAIL(b->err, HD_ERR_FORMAT, "response_format: json_object, but an answer is continued");
    for (size_t i = 0; i < n; i++)
        if (says_json(hd_json_member(json_object_array_get_idx(messages, i), "content")))
            return HD_OK;
    HD_FAIL(b->err, HD_ERR_FORMAT,
            "response_format: json_object, but no message has the word \"json\"");
}

/* What the encoder shows: the schema itself, or {"type": "json_object"}; NULL for plain text. */
static hd_status read_format(hd_chat_body *b, const json_object **out, const json_object *root,
                             const json_object *messages)
{
    const json_object *const format = hd_json_member(root, "response_format");
    const json_object *const type = hd_json_member(format, "type");
    *out = NULL;
    if (!format || hd_json_equals(type, "text")) return HD_OK;
    size_t const length = hd_body_enter(b, "response_format");
    if (!json_object_is_type(format, json_type_object)) return hd_body_fail(b, format, "an object");
    if (hd_json_equals(type, "json_object")) {
        if (b->rules->is_service) HD_TRY(check_json_object(b, messages));
        *out = format;
    } else if (hd_json_equals(type, "json_schema")) {
        const json_object *const schema =
            hd_json_member(hd_json_member(format, "json_schema"), "schema");
        hd_body_enter(b, "json_schema.schema");
        if (!json_object_is_type(schema, json_type_object))
            return hd_body_fail(b, schema, "an object");
        *out = schema;
    } else {
        HD_FAIL(b->err, HD_ERR_FORMAT,
                "response_format.type: none of \"text\", \"json_object\", \"json_schema\"");
    }
    hd_body_leave(b, length);
    return HD_OK;
}

/* ---- the system message ---- */

static bool is_system(const json_object *message)
{
    return hd_json_equals(hd_json_member(message, "role"), "system");
}

static bool is_user(const json_object *message)
{
    return hd_json_equals(hd_json_member(message, "role"), "user");
}

/* Adds a text, with a blank line between it and one in front of it; empty ones leave none. */
static void add_text(hd_buffer *out, const json_object *text)
{
    size_t            bytes = 0;
    const char *const s = hd_json_text(text, &bytes);
    if (bytes && out->used) hd_buffer_text(out, "\n\n");
    hd_buffer_add(out, s, bytes);
}

/* Frees the text. */
static json_object *take_text(hd_buffer *text)
{
    json_object *out = NULL;
    if (!text->failed && text->used <= INT32_MAX)
        out = json_object_new_string_len(text->data ? text->data : "", (int)text->used);
    hd_buffer_free(text);
    return out;
}

static json_object *join_texts(const json_object *first, const json_object *second)
{
    hd_buffer text = {0};
    add_text(&text, first);
    add_text(&text, second);
    return take_text(&text);
}

static json_object *join_systems(const json_object *messages)
{
    hd_buffer    text = {0};
    size_t const n = json_object_array_length(messages);
    for (size_t i = 0; i < n; i++) {
        const json_object *const m = json_object_array_get_idx(messages, i);
        if (is_system(m)) add_text(&text, hd_json_member(m, "content"));
    }
    return take_text(&text);
}

/* Adds a message; V4 makes one of user texts that follow each other, empty ones left out. */
static hd_status add_gathered(const hd_chat_body *b, json_object *list, const json_object *message)
{
    size_t const       n = json_object_array_length(list);
    json_object *const last = n ? json_object_array_get_idx(list, n - 1) : NULL;
    if (is_system(message)) return HD_OK;
    if (!is_user(message) || !is_user(last)) return hd_body_append(b, list, hd_body_share(message));
    return hd_body_put(
        b, last, "content",
        join_texts(hd_json_member(last, "content"), hd_json_member(message, "content")));
}

/* A list that begins with a new system message; the old ones are in it or follow.
 * owns     *out is the caller's, also after a failure */
static hd_status prepend_system(hd_chat_body *b, json_object **out, const json_object *messages)
{
    bool const         gathers = b->rules->gathers;
    json_object *const system = json_object_new_object();
    *out = json_object_new_array();
    if (!*out) {
        json_object_put(system);
        return hd_body_fail_memory(b);
    }
    HD_TRY(hd_body_append(b, *out, system));
    HD_TRY(hd_body_put(b, system, "role", json_object_new_string("system")));
    if (gathers) HD_TRY(hd_body_put(b, system, "content", join_systems(messages)));
    size_t const n = json_object_array_length(messages);
    for (size_t i = 0; i < n; i++) {
        const json_object *const m = json_object_array_get_idx(messages, i);
        HD_TRY(gathers ? add_gathered(b, *out, m) : hd_body_append(b, *out, hd_body_share(m)));
    }
    return HD_OK;
}

/* The system message that tools and format go to: the first one, in V4.1 only at the very
 * start, or a new one in front. */
static hd_status find_system(hd_chat_body *b, json_object **out, json_object *arguments)
{
    json_object *messages = NULL;
    json_object_object_get_ex(arguments, "messages", &messages);
    size_t const n = b->rules->gathers ? 0 : json_object_array_length(messages);
    for (size_t i = 0; i < n && (i == 0 || !b->rules->system_token); i++) {
        *out = json_object_array_get_idx(messages, i);
        if (is_system(*out)) return HD_OK;
    }
    json_object    *list = NULL;
    hd_status const status = prepend_system(b, &list, messages);
    if (status != HD_OK) {
        json_object_put(list);
        return status;
    }
    *out = json_object_array_get_idx(list, 0);
    return hd_body_put(b, arguments, "messages", list);
}

static hd_status put_offers(hd_chat_body *b, json_object *arguments, json_object *tools,
                            const json_object *format)
{
    bool const   has_tools = json_object_array_length(tools) > 0;
    bool const   opens = b->rules->gathers || (b->rules->system_token && b->is_thinking);
    json_object *system = NULL;
    if (!has_tools && !format && !opens) return HD_OK;
    HD_TRY(find_system(b, &system, arguments));
    if (has_tools) HD_TRY(hd_body_put(b, system, "tools", json_object_get(tools)));
    if (!format) return HD_OK;
    bool const is_word =
        b->rules->json_only && hd_json_equals(hd_json_member(format, "type"), "json_object");
    return hd_body_put(b, system, is_word ? "json_only" : "response_format", hd_body_share(format));
}

/* The service continues an answer only where nothing has to do with tools. */
static hd_status check_continued(const hd_chat_body *b, const json_object *messages,
                                 const json_object *tools)
{
    bool         has_tools = hd_python_is_true(tools);
    size_t const n = json_object_array_length(messages);
    if (!b->continued || !b->rules->is_service) return HD_OK;
    for (size_t i = 0; i < n && !has_tools; i++)
        has_tools = hd_json_member(json_object_array_get_idx(messages, i), "tool_calls");
    if (has_tools) HD_FAIL(b->err, HD_ERR_FORMAT, "prefix: not together with tools or calls");
    return HD_OK;
}

hd_status hd_body_add_offers(hd_chat_body *b, json_object *arguments, const json_object *root)
{
    const json_object *const messages = hd_json_member(arguments, "messages");
    const json_object *const list = hd_json_member(root, "tools");
    const json_object *const choice = hd_json_member(root, "tool_choice");
    bool const               is_off = hd_json_equals(choice, "none"); /* not looked at, too */
    const json_object       *format = NULL;
    json_object *const       tools = json_object_new_array();
    hd_status                status = tools ? HD_OK : hd_body_fail_memory(b);
    if (status == HD_OK) status = check_continued(b, messages, list);
    if (status == HD_OK && list && !is_off) status = convert_tools(b, tools, list);
    if (status == HD_OK) status = read_choice(b, tools, choice);
    if (status == HD_OK) status = read_format(b, &format, root, messages);
    if (status == HD_OK) status = put_offers(b, arguments, tools, format);
    json_object_put(tools);
    return status;
}
