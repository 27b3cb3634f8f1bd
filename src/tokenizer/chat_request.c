#include <stdio.h>
#include <string.h>

#include "tokenizer/chat.h"
#include "tokenizer/chat_tokens.h"
#include "tokenizer/python_json.h"

/* An OpenAI request becomes the arguments of encode_messages.  Every message is built anew
 * from the members that are known here, so that a client cannot reach the encoder's own
 * ones (task, wo_eos, tools inside a message). */

typedef struct request {
    hd_error *err;
    char      path[128]; /* of the value being read, for error messages */
} request;

static hd_status fail(const request *r, const json_object *found, const char *wanted)
{
    HD_FAIL(r->err, HD_ERR_FORMAT, "%s: found %s, wanted %s", r->path,
            json_type_to_name(json_object_get_type(found)), wanted);
}

static hd_status fail_memory(const request *r)
{
    HD_FAIL(r->err, HD_ERR_MEMORY, "%s: out of memory", *r->path ? r->path : "messages");
}

/* Extends the path by ".name" or "[index]" and returns its old length, for `leave`. */
static size_t enter(request *r, const char *name)
{
    size_t const n = strlen(r->path);
    snprintf(r->path + n, sizeof r->path - n, "%s%s", n ? "." : "", name);
    return n;
}

static size_t enter_item(request *r, size_t index)
{
    size_t const n = strlen(r->path);
    snprintf(r->path + n, sizeof r->path - n, "[%zu]", index);
    return n;
}

static void leave(request *r, size_t length) { r->path[length] = 0; }

/* Adds `value`, whose reference it takes, also when it fails. */
static hd_status put(const request *r, json_object *object, const char *name, json_object *value)
{
    if (value && json_object_object_add(object, name, value) == 0) return HD_OK;
    json_object_put(value);
    return fail_memory(r);
}

static hd_status append(const request *r, json_object *list, json_object *value)
{
    if (value && json_object_array_add(list, value) == 0) return HD_OK;
    json_object_put(value);
    return fail_memory(r);
}

/* A further reference to a value of the request. */
static json_object *share(const json_object *v)
{
    return json_object_get((json_object *)(uintptr_t)v);
}

/* ---- content ---- */

static hd_status add_part(request *r, hd_buffer *text, const json_object *part)
{
    const json_object *const type = hd_json_member(part, "type");
    bool const               is_refusal = hd_json_equals(type, "refusal");
    if (!json_object_is_type(part, json_type_object)) return fail(r, part, "a content part");
    if (!hd_json_equals(type, "text") && !is_refusal) {
        const char *const name = hd_json_text(type, NULL);
        enter(r, "type");
        if (!name) return fail(r, type, "a string");
        HD_FAIL(r->err, HD_ERR_UNSUPPORTED, "%s: %.60s; this model reads text only", r->path, name);
    }
    const char *const        key = is_refusal ? "refusal" : "text";
    const json_object *const value = hd_json_member(part, key);
    size_t                   bytes;
    const char *const        s = hd_json_text(value, &bytes);
    size_t const             length = enter(r, key);
    if (!s) return fail(r, value, "a string");
    leave(r, length);
    hd_buffer_add(text, s, bytes);
    return HD_OK;
}

static hd_status join_parts(request *r, json_object **out, const json_object *parts)
{
    hd_buffer    text = {0};
    hd_status    status = HD_OK;
    size_t const n = json_object_array_length(parts);
    for (size_t i = 0; status == HD_OK && i < n; i++) {
        size_t const length = enter_item(r, i);
        if (i) hd_buffer_text(&text, "\n\n");
        status = add_part(r, &text, json_object_array_get_idx(parts, i));
        if (status == HD_OK) leave(r, length);
    }
    if (status == HD_OK && !text.failed && text.used <= INT32_MAX)
        *out = json_object_new_string_len(text.data ? text.data : "", (int)text.used);
    hd_buffer_free(&text);
    return status == HD_OK && !*out ? fail_memory(r) : status;
}

/* Text or null becomes text; with `may_be_parts` a list of parts is joined. */
static hd_status read_text(request *r, json_object *message, const json_object *source,
                           const char *name, bool may_be_parts)
{
    const json_object *const v = hd_json_member(source, name);
    size_t const             length = enter(r, name);
    json_object             *text = NULL;
    if (!v)
        text = json_object_new_string("");
    else if (json_object_is_type(v, json_type_string))
        text = share(v);
    else if (may_be_parts && json_object_is_type(v, json_type_array))
        HD_TRY(join_parts(r, &text, v));
    else
        return fail(r, v, may_be_parts ? "a string or a list of parts" : "a string");
    HD_TRY(put(r, message, name, text));
    leave(r, length);
    return HD_OK;
}

/* ---- calls ---- */

static json_object *write_compact(const json_object *v)
{
    hd_buffer text = {0};
    hd_python_write_json(&text, v);
    json_object *const out = text.failed || text.used > INT32_MAX
                                 ? NULL
                                 : json_object_new_string_len(text.data, (int)text.used);
    hd_buffer_free(&text);
    return out;
}

/* The encoder wraps text that is no JSON, and refuses JSON that is no object.  An API wraps
 * both: as the member of an object, which the encoder then writes the same way. */
static json_object *convert_arguments(const json_object *v)
{
    size_t            bytes;
    const char *const text = hd_json_text(v, &bytes);
    if (!text) return write_compact(v);
    json_object    *parsed = NULL;
    hd_status const status = hd_json_parse(&parsed, text, bytes, HD_JSON_PYTHON, "", NULL);
    bool const      is_object = json_object_is_type(parsed, json_type_object);
    json_object_put(parsed);
    if (status == HD_ERR_MEMORY) return NULL;
    if (status != HD_OK || is_object) return share(v);
    json_object *const wrapped = json_object_new_object();
    json_object       *out = NULL;
    if (wrapped && json_object_object_add(wrapped, "arguments", share(v)) == 0)
        out = write_compact(wrapped);
    json_object_put(wrapped);
    return out;
}

static hd_status convert_function(request *r, json_object *out, const json_object *function)
{
    size_t length = enter(r, "function");
    if (!json_object_is_type(function, json_type_object)) return fail(r, function, "an object");
    const json_object *const name = hd_json_member(function, "name");
    const json_object *const arguments = hd_json_member(function, "arguments");
    length = enter(r, "name");
    if (!hd_json_text(name, NULL)) return fail(r, name, "a string");
    leave(r, length);
    HD_TRY(put(r, out, "name", share(name)));
    length = enter(r, "arguments");
    if (!hd_json_text(arguments, NULL) && !json_object_is_type(arguments, json_type_object))
        return fail(r, arguments, "a string of JSON");
    leave(r, length);
    return put(r, out, "arguments", convert_arguments(arguments));
}

static hd_status convert_call(request *r, json_object *calls, const json_object *source)
{
    if (!json_object_is_type(source, json_type_object)) return fail(r, source, "an object");
    json_object *const call = json_object_new_object();
    HD_TRY(append(r, calls, call));
    json_object *const function = json_object_new_object();
    HD_TRY(put(r, call, "function", function));
    HD_TRY(read_text(r, call, source, "id", false));
    return convert_function(r, function, hd_json_member(source, "function"));
}

static hd_status convert_calls(request *r, json_object *message, const json_object *source)
{
    const json_object *const list = hd_json_member(source, "tool_calls");
    if (!list) return HD_OK;
    size_t const length = enter(r, "tool_calls");
    if (!json_object_is_type(list, json_type_array)) return fail(r, list, "a list");
    json_object *const calls = json_object_new_array();
    HD_TRY(put(r, message, "tool_calls", calls));
    size_t const n = json_object_array_length(list);
    for (size_t i = 0; i < n; i++) {
        size_t const item = enter_item(r, i);
        HD_TRY(convert_call(r, calls, json_object_array_get_idx(list, i)));
        leave(r, item);
    }
    leave(r, length);
    return HD_OK;
}

/* ---- messages ---- */

static hd_status read_role(request *r, const char **out, const json_object *source)
{
    static const char *const roles[][2] = {
        {"system", "system"},       {"developer", "system"}, {"user", "user"},
        {"assistant", "assistant"}, {"tool", "tool"},
    };
    const json_object *const role = hd_json_member(source, "role");
    const char *const        name = hd_json_text(role, NULL);
    size_t const             length = enter(r, "role");
    if (!name) return fail(r, role, "a string");
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (!hd_json_equals(role, roles[i][0])) continue;
        *out = roles[i][1];
        leave(r, length);
        return HD_OK;
    }
    HD_FAIL(r->err, HD_ERR_FORMAT, "%s: unknown role %.60s", r->path, name);
}

static hd_status convert_message(request *r, json_object *messages, const json_object *source)
{
    const char *role;
    if (!json_object_is_type(source, json_type_object)) return fail(r, source, "an object");
    HD_TRY(read_role(r, &role, source));
    json_object *const message = json_object_new_object();
    HD_TRY(append(r, messages, message));
    HD_TRY(put(r, message, "role", json_object_new_string(role)));
    HD_TRY(read_text(r, message, source, "content", true));
    if (strcmp(role, "tool") == 0) return read_text(r, message, source, "tool_call_id", false);
    if (strcmp(role, "assistant") != 0) return HD_OK;
    if (hd_python_is_true(hd_json_member(source, "prefix")))
        HD_FAIL(r->err, HD_ERR_UNSUPPORTED, "%s.prefix: an answer cannot be continued", r->path);
    HD_TRY(read_text(r, message, source, "reasoning_content", false));
    return convert_calls(r, message, source);
}

static hd_status convert_messages(request *r, json_object *messages, const json_object *list)
{
    size_t const length = enter(r, "messages");
    if (!json_object_is_type(list, json_type_array)) return fail(r, list, "a list");
    size_t const n = json_object_array_length(list);
    if (n == 0) HD_FAIL(r->err, HD_ERR_FORMAT, "messages: empty");
    for (size_t i = 0; i < n; i++) {
        size_t const item = enter_item(r, i);
        HD_TRY(convert_message(r, messages, json_object_array_get_idx(list, i)));
        leave(r, item);
    }
    leave(r, length);
    return HD_OK;
}

/* ---- tools and response format ---- */

static hd_status check_tools(request *r, const json_object *tools)
{
    size_t const length = enter(r, "tools");
    if (!json_object_is_type(tools, json_type_array)) return fail(r, tools, "a list");
    size_t const n = json_object_array_length(tools);
    for (size_t i = 0; i < n; i++) {
        const json_object *const function =
            hd_json_member(json_object_array_get_idx(tools, i), "function");
        const json_object *const name = hd_json_member(function, "name");
        size_t const             item = enter_item(r, i);
        enter(r, "function");
        if (!json_object_is_type(function, json_type_object)) return fail(r, function, "an object");
        enter(r, "name");
        if (!hd_json_text(name, NULL)) return fail(r, name, "a string");
        leave(r, item);
    }
    leave(r, length);
    return HD_OK;
}

/* The tools that are offered: NULL when there are none or the request switches them off. */
static hd_status read_tools(request *r, const json_object **out, const json_object *root)
{
    const json_object *const tools = hd_json_member(root, "tools");
    const json_object *const choice = hd_json_member(root, "tool_choice");
    bool const               is_off = hd_json_equals(choice, "none");
    if (tools) HD_TRY(check_tools(r, tools));
    if (choice && !is_off && !hd_json_equals(choice, "auto"))
        HD_FAIL(r->err, HD_ERR_UNSUPPORTED,
                "tool_choice: only \"auto\" and \"none\" are supported");
    *out = is_off || !hd_python_is_true(tools) ? NULL : tools;
    return HD_OK;
}

/* What the encoder shows: the schema itself, or {"type": "json_object"}; NULL for plain text. */
static hd_status read_format(request *r, const json_object **out, const json_object *root)
{
    const json_object *const format = hd_json_member(root, "response_format");
    const json_object *const type = hd_json_member(format, "type");
    *out = NULL;
    if (!format || hd_json_equals(type, "text")) return HD_OK;
    size_t const length = enter(r, "response_format");
    if (!json_object_is_type(format, json_type_object)) return fail(r, format, "an object");
    if (hd_json_equals(type, "json_object")) {
        *out = format;
    } else if (hd_json_equals(type, "json_schema")) {
        const json_object *const schema =
            hd_json_member(hd_json_member(format, "json_schema"), "schema");
        enter(r, "json_schema.schema");
        if (!json_object_is_type(schema, json_type_object)) return fail(r, schema, "an object");
        *out = schema;
    } else {
        HD_FAIL(r->err, HD_ERR_FORMAT,
                "response_format.type: none of \"text\", \"json_object\", \"json_schema\"");
    }
    leave(r, length);
    return HD_OK;
}

/* The first system message of the list; when there is none, a new empty one at its start. */
static hd_status find_system(request *r, json_object **out, json_object *root)
{
    json_object *messages = NULL;
    json_object_object_get_ex(root, "messages", &messages);
    size_t const n = json_object_array_length(messages);
    for (size_t i = 0; i < n; i++) {
        *out = json_object_array_get_idx(messages, i);
        if (hd_json_equals(hd_json_member(*out, "role"), "system")) return HD_OK;
    }
    json_object *const list = json_object_new_array();
    json_object *const system = json_object_new_object();
    if (!list || append(r, list, system) != HD_OK) {
        json_object_put(list);
        return fail_memory(r);
    }
    hd_status status = put(r, system, "role", json_object_new_string("system"));
    for (size_t i = 0; status == HD_OK && i < n; i++)
        status = append(r, list, share(json_object_array_get_idx(messages, i)));
    if (status != HD_OK) {
        json_object_put(list);
        return status;
    }
    *out = system;
    return put(r, root, "messages", list);
}

static hd_status add_offers(request *r, json_object *arguments, const json_object *root,
                            bool *has_tools)
{
    const json_object *tools, *format;
    json_object       *system = NULL;
    HD_TRY(read_tools(r, &tools, root));
    HD_TRY(read_format(r, &format, root));
    *has_tools = tools;
    if (!tools && !format) return HD_OK;
    HD_TRY(find_system(r, &system, arguments));
    if (tools) HD_TRY(put(r, system, "tools", share(tools)));
    if (format) HD_TRY(put(r, system, "response_format", share(format)));
    return HD_OK;
}

/* ---- the whole ---- */

/* Low means no prefix in both dialects, and the preview has no word for it. */
static hd_status set_thinking(request *r, json_object *arguments, hd_think think)
{
    const char *const mode = think == HD_THINK_OFF ? "chat" : "thinking";
    HD_TRY(put(r, arguments, "thinking_mode", json_object_new_string(mode)));
    if (think == HD_THINK_OFF || think == HD_THINK_LOW) return HD_OK;
    const char *const effort = think == HD_THINK_MAX ? "max" : "high";
    return put(r, arguments, "reasoning_effort", json_object_new_string(effort));
}

static hd_status convert(json_object *arguments, const json_object *root, hd_think think,
                         bool *has_tools, hd_error *err)
{
    request    r = {.err = err};
    bool const is_list = json_object_is_type(root, json_type_array);
    if (!is_list && !json_object_is_type(root, json_type_object))
        HD_FAIL(err, HD_ERR_FORMAT, "messages: neither a list nor an object with `messages`");
    json_object *const messages = json_object_new_array();
    HD_TRY(put(&r, arguments, "messages", messages));
    HD_TRY(set_thinking(&r, arguments, think));
    HD_TRY(convert_messages(&r, messages, is_list ? root : hd_json_member(root, "messages")));
    return add_offers(&r, arguments, root, has_tools);
}

static hd_status render(hd_prompt_text *text, const json_object *root, hd_dialect dialect,
                        hd_think think, bool *has_tools, hd_error *err)
{
    bool               ends_open = false;
    json_object *const arguments = json_object_new_object();
    if (!arguments) HD_FAIL(err, HD_ERR_MEMORY, "messages: out of memory");
    hd_status status = convert(arguments, root, think, has_tools, err);
    if (status == HD_OK) status = hd_chat_render(text, arguments, dialect, &ends_open, err);
    json_object_put(arguments);
    if (status != HD_OK || ends_open) return status;
    hd_prompt_text_control(text, HD_TOKEN_ASSISTANT);
    hd_prompt_text_control(text, think == HD_THINK_OFF ? HD_TOKEN_THINK_END : HD_TOKEN_THINK);
    return HD_OK;
}

hd_status hd_prompt_chat(hd_prompt *out, const char *json, size_t json_bytes, hd_dialect dialect,
                         hd_think think, bool *has_tools, hd_error *err)
{
    json_object   *root = NULL;
    hd_prompt_text text = {0};
    bool           offers = false;
    HD_TRY(hd_json_parse(&root, json, json_bytes, HD_JSON_PYTHON, "messages", err));
    hd_status status = render(&text, root, dialect, think, &offers, err);
    json_object_put(root);
    if (status == HD_OK) status = hd_prompt_text_finish(out, &text, err);
    hd_prompt_text_free(&text);
    if (status == HD_OK && has_tools) *has_tools = offers;
    return status;
}
