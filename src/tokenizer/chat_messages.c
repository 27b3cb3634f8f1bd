#include <string.h>

#include "tokenizer/chat_body.h"

/* ---- content ---- */

/* Parts under way: text, and in front of it what an image ended. */
typedef struct joined {
    hd_buffer    text;
    json_object *pieces; /* owned; texts with null for each image, NULL before the first image */
} joined;

static hd_status take_text(const hd_chat_body *b, hd_buffer *text, json_object **out)
{
    if (!text->failed && text->used <= INT32_MAX)
        *out = json_object_new_string_len(text->data ? text->data : "", (int)text->used);
    hd_buffer_clear(text);
    return *out ? HD_OK : hd_body_fail_memory(b);
}

static hd_status end_piece(hd_chat_body *b, joined *j)
{
    json_object *text = NULL;
    HD_TRY(take_text(b, &j->text, &text));
    return hd_body_append(b, j->pieces, text);
}

/* A part that is no text.  The service of V4 knows that there are images and says so in the
 * text; V4.1 reads them. */
static hd_status add_other(hd_chat_body *b, joined *j, const json_object *v)
{
    const char *const type = hd_json_text(v, NULL);
    size_t const      length = hd_body_enter(b, "type");
    if (!type) return hd_body_fail(b, v, "a string");
    bool const is_url = strcmp(type, "image_url") == 0;
    if (b->rules->is_service && !is_url && strcmp(type, "file") != 0)
        HD_FAIL(b->err, HD_ERR_FORMAT, "%s: %.60s is no type of a part", b->path, type);
    if (!b->rules->image_text && !(b->rules->image_token && is_url))
        HD_FAIL(b->err, HD_ERR_UNSUPPORTED, "%s: %.60s; this model reads text only", b->path, type);
    hd_body_leave(b, length);
    if (b->rules->image_text) {
        hd_buffer_text(&j->text, b->rules->image_text);
        return HD_OK;
    }
    if (!j->pieces) j->pieces = json_object_new_array();
    if (!j->pieces) return hd_body_fail_memory(b);
    HD_TRY(end_piece(b, j));
    return json_object_array_add(j->pieces, NULL) == 0 ? HD_OK : hd_body_fail_memory(b);
}

static hd_status add_part(hd_chat_body *b, joined *j, const json_object *part)
{
    const json_object *const type = hd_json_member(part, "type");
    bool const               is_refusal = !b->rules->is_service && hd_json_equals(type, "refusal");
    if (!json_object_is_type(part, json_type_object))
        return hd_body_fail(b, part, "a content part");
    if (!is_refusal && !hd_json_equals(type, "text")) return add_other(b, j, type);
    const char *const        key = is_refusal ? "refusal" : "text";
    const json_object *const value = hd_json_member(part, key);
    size_t                   bytes;
    const char *const        s = hd_json_text(value, &bytes);
    size_t const             length = hd_body_enter(b, key);
    if (!s) return hd_body_fail(b, value, "a string");
    hd_body_leave(b, length);
    hd_buffer_add(&j->text, s, bytes);
    return HD_OK;
}

static hd_status add_parts(hd_chat_body *b, joined *j, const json_object *parts)
{
    size_t const n = json_object_array_length(parts);
    for (size_t i = 0; i < n; i++) {
        size_t const length = hd_body_enter_item(b, i);
        if (i) hd_buffer_text(&j->text, "\n\n");
        HD_TRY(add_part(b, j, json_object_array_get_idx(parts, i)));
        hd_body_leave(b, length);
    }
    return HD_OK;
}

/* Text, or with images in it a list of texts. */
static hd_status join_parts(hd_chat_body *b, json_object **out, const json_object *parts)
{
    joined    j = {0};
    hd_status status = add_parts(b, &j, parts);
    if (status == HD_OK && !j.pieces) status = take_text(b, &j.text, out);
    if (status == HD_OK && j.pieces) status = end_piece(b, &j);
    if (status == HD_OK && j.pieces) *out = hd_body_share(j.pieces);
    json_object_put(j.pieces);
    hd_buffer_free(&j.text);
    return status;
}

typedef enum text_kind {
    TEXT_STRING,         /* a string                                  */
    TEXT_STRING_OR_NULL, /* the same; null and missing become ""      */
    TEXT_PARTS,          /* a string or a list of parts               */
    TEXT_PARTS_OR_NULL
} text_kind;

static hd_status read_text(hd_chat_body *b, json_object *message, const json_object *source,
                           const char *name, text_kind kind)
{
    const json_object *const v = hd_json_member(source, name);
    bool const   may_be_null = kind == TEXT_STRING_OR_NULL || kind == TEXT_PARTS_OR_NULL;
    bool const   may_be_parts = kind == TEXT_PARTS || kind == TEXT_PARTS_OR_NULL;
    size_t const length = hd_body_enter(b, name);
    json_object *text = NULL;
    if (!v && may_be_null)
        text = json_object_new_string("");
    else if (json_object_is_type(v, json_type_string))
        text = hd_body_share(v);
    else if (may_be_parts && json_object_is_type(v, json_type_array))
        HD_TRY(join_parts(b, &text, v));
    else
        return hd_body_fail(b, v, may_be_parts ? "a string or a list of parts" : "a string");
    HD_TRY(hd_body_put(b, message, name, text));
    hd_body_leave(b, length);
    return HD_OK;
}

/* ---- calls ---- */

static json_object *write_compact(const json_object *v)
{
    hd_buffer text = {0};
    hd_python_write_json(&text, v, HD_SPELL_PYTHON);
    json_object *const out = text.failed || text.used > INT32_MAX
                                 ? NULL
                                 : json_object_new_string_len(text.data, (int)text.used);
    hd_buffer_free(&text);
    return out;
}

/* The encoder wraps text that is no JSON, and refuses JSON that is no object.  An API wraps
 * both: as the member of an object, which the encoder then writes the same way. */
static json_object *convert_arguments(const hd_chat_body *b, const json_object *v)
{
    size_t            bytes;
    const char *const text = hd_json_text(v, &bytes);
    if (!text) return write_compact(v);
    json_object    *parsed = NULL;
    hd_status const status = hd_json_parse(&parsed, text, bytes, HD_JSON_PYTHON, "", NULL);
    bool const      is_object = json_object_is_type(parsed, json_type_object);
    bool const      is_odd = b->rules->is_service && hd_body_has_odd_number(parsed);
    json_object_put(parsed);
    if (status == HD_ERR_MEMORY) return NULL;
    if (status != HD_OK || (is_object && !is_odd)) return hd_body_share(v);
    json_object *const wrapped = json_object_new_object();
    json_object       *out = NULL;
    if (wrapped && json_object_object_add(wrapped, "arguments", hd_body_share(v)) == 0)
        out = write_compact(wrapped);
    json_object_put(wrapped);
    return out;
}

static hd_status convert_function(hd_chat_body *b, json_object *out, const json_object *function)
{
    size_t length = hd_body_enter(b, "function");
    if (!json_object_is_type(function, json_type_object))
        return hd_body_fail(b, function, "an object");
    const json_object *const arguments = hd_json_member(function, "arguments");
    bool const               may_be_object = !b->rules->is_service;
    HD_TRY(read_text(b, out, function, "name", TEXT_STRING));
    length = hd_body_enter(b, "arguments");
    if (!hd_json_text(arguments, NULL) &&
        !(may_be_object && json_object_is_type(arguments, json_type_object)))
        return hd_body_fail(b, arguments, "a string of JSON");
    hd_body_leave(b, length);
    return hd_body_put(b, out, "arguments", convert_arguments(b, arguments));
}

static hd_status convert_call(hd_chat_body *b, json_object *calls, const json_object *source)
{
    if (!json_object_is_type(source, json_type_object)) return hd_body_fail(b, source, "an object");
    json_object *const call = json_object_new_object();
    HD_TRY(hd_body_append(b, calls, call));
    json_object *const function = json_object_new_object();
    HD_TRY(hd_body_put(b, call, "function", function));
    HD_TRY(
        read_text(b, call, source, "id", b->rules->is_service ? TEXT_STRING : TEXT_STRING_OR_NULL));
    return convert_function(b, function, hd_json_member(source, "function"));
}

static int compare_calls(const void *x, const void *y)
{
    return strcmp(hd_json_text(hd_json_member(*(json_object *const *)x, "id"), NULL),
                  hd_json_text(hd_json_member(*(json_object *const *)y, "id"), NULL));
}

static hd_status convert_calls(hd_chat_body *b, json_object *message, const json_object *source)
{
    const json_object *const list = hd_json_member(source, "tool_calls");
    if (!list) return HD_OK;
    size_t const length = hd_body_enter(b, "tool_calls");
    size_t const n =
        json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    if (!json_object_is_type(list, json_type_array) || (n == 0 && b->rules->is_service))
        return hd_body_fail(b, list, "a list of calls");
    json_object *const calls = json_object_new_array();
    HD_TRY(hd_body_put(b, message, "tool_calls", calls));
    for (size_t i = 0; i < n; i++) {
        size_t const item = hd_body_enter_item(b, i);
        HD_TRY(convert_call(b, calls, json_object_array_get_idx(list, i)));
        hd_body_leave(b, item);
    }
    if (b->rules->sorts_calls) json_object_array_sort(calls, compare_calls);
    hd_body_leave(b, length);
    return HD_OK;
}

/* ---- messages ---- */

typedef struct role {
    const char *name, *meaning;
    bool        of_service, of_others; /* who knows it */
} role;

static hd_status read_role(hd_chat_body *b, const char **out, const json_object *source)
{
    static const role roles[] = {
        {"system", "system", true, true}, {"developer", "system", false, true},
        {"user", "user", true, true},     {"assistant", "assistant", true, true},
        {"tool", "tool", true, true},     {"latest_reminder", "latest_reminder", true, false},
    };
    const json_object *const v = hd_json_member(source, "role");
    const char *const        name = hd_json_text(v, NULL);
    size_t const             length = hd_body_enter(b, "role");
    if (!name) return hd_body_fail(b, v, "a string");
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (!hd_json_equals(v, roles[i].name)) continue;
        if (!(b->rules->is_service ? roles[i].of_service : roles[i].of_others)) break;
        *out = roles[i].meaning;
        hd_body_leave(b, length);
        return HD_OK;
    }
    HD_FAIL(b->err, HD_ERR_FORMAT, "%s: unknown role %.60s", b->path, name);
}

static hd_status convert_assistant(hd_chat_body *b, json_object *message, const json_object *source)
{
    bool const has_calls = hd_json_member(source, "tool_calls");
    bool const needs_content = b->rules->is_service && !has_calls;
    HD_TRY(
        read_text(b, message, source, "content", needs_content ? TEXT_PARTS : TEXT_PARTS_OR_NULL));
    if (!hd_json_text(hd_json_member(message, "content"), NULL))
        HD_FAIL(b->err, HD_ERR_UNSUPPORTED, "%s.content: an image in an answer", b->path);
    HD_TRY(read_text(b, message, source, "reasoning_content", TEXT_STRING_OR_NULL));
    return convert_calls(b, message, source);
}

static hd_status convert_content(hd_chat_body *b, json_object *message, const json_object *source,
                                 const char *role_name)
{
    bool const is_service = b->rules->is_service;
    if (strcmp(role_name, "assistant") == 0) return convert_assistant(b, message, source);
    if (strcmp(role_name, "latest_reminder") == 0)
        return read_text(b, message, source, "content", TEXT_STRING);
    HD_TRY(read_text(b, message, source, "content", is_service ? TEXT_PARTS : TEXT_PARTS_OR_NULL));
    if (strcmp(role_name, "tool") != 0) return HD_OK;
    return read_text(b, message, source, "tool_call_id",
                     is_service ? TEXT_STRING : TEXT_STRING_OR_NULL);
}

/* An answer to go on with: the last message only, and it has not called yet. */
static hd_status read_prefix(hd_chat_body *b, bool *out, const json_object *source, bool is_last)
{
    const json_object *const v = hd_json_member(source, "prefix");
    size_t const             length = hd_body_enter(b, "prefix");
    if (v && !json_object_is_type(v, json_type_boolean)) return hd_body_fail(b, v, "true or false");
    *out = json_object_get_boolean(v) || (is_last && b->continues);
    if (*out && !is_last)
        HD_FAIL(b->err, HD_ERR_FORMAT, "%s: only the last message can be continued", b->path);
    if (*out && hd_python_is_true(hd_json_member(source, "tool_calls")))
        HD_FAIL(b->err, HD_ERR_FORMAT, "%s: an answer with calls cannot be continued", b->path);
    hd_body_leave(b, length);
    return HD_OK;
}

static hd_status convert_message(hd_chat_body *b, json_object *messages, const json_object *source,
                                 bool is_last)
{
    const char *role_name = NULL;
    bool        is_prefix = false;
    if (!json_object_is_type(source, json_type_object)) return hd_body_fail(b, source, "an object");
    HD_TRY(read_role(b, &role_name, source));
    if (strcmp(role_name, "assistant") == 0)
        HD_TRY(read_prefix(b, &is_prefix, source, is_last));
    else if (is_last && b->continues)
        HD_FAIL(b->err, HD_ERR_FORMAT, "continue_final_message: %s is no answer", b->path);
    json_object *const message = json_object_new_object();
    if (is_prefix && message)
        b->continued = message;
    else
        HD_TRY(hd_body_append(b, messages, message));
    HD_TRY(hd_body_put(b, message, "role", json_object_new_string(role_name)));
    HD_TRY(convert_content(b, message, source, role_name));
    /* A system message of V4.1 is a turn of its own, which an empty one is not. */
    bool const is_empty = !hd_python_is_true(hd_json_member(message, "content"));
    if (b->rules->system_token && is_empty && strcmp(role_name, "system") == 0)
        json_object_array_del_idx(messages, json_object_array_length(messages) - 1, 1);
    return HD_OK;
}

/* ---- calls and their results ---- */

/* The ids of calls that wait for results.
 * owns     *out is the caller's, also after a failure */
static hd_status list_ids(hd_chat_body *b, json_object **out, const json_object *calls)
{
    size_t const n = json_object_array_length(calls);
    *out = json_object_new_object();
    for (size_t i = 0; i < n; i++) {
        const char *const id =
            hd_json_text(hd_json_member(json_object_array_get_idx(calls, i), "id"), NULL);
        if (!*out) break;
        if (json_object_object_get_ex(*out, id, NULL))
            HD_FAIL(b->err, HD_ERR_FORMAT, "%s.tool_calls: the id %.60s stands twice", b->path, id);
        if (json_object_object_add(*out, id, NULL) != 0) return hd_body_fail_memory(b);
    }
    return *out ? HD_OK : hd_body_fail_memory(b);
}

static hd_status match_results(hd_chat_body *b, json_object *ids, const json_object *messages,
                               size_t *at)
{
    while (json_object_object_length(ids) > 0) {
        const json_object *const m = json_object_array_get_idx(messages, *at);
        const json_object *const id = hd_json_member(m, "tool_call_id");
        if (!hd_json_equals(hd_json_member(m, "role"), "tool"))
            HD_FAIL(b->err, HD_ERR_FORMAT, "%s.tool_calls: %d results are missing behind it",
                    b->path, json_object_object_length(ids));
        if (!json_object_object_get_ex(ids, hd_json_text(id, NULL), NULL))
            HD_FAIL(b->err, HD_ERR_FORMAT, "messages[%zu].tool_call_id: %.60s waits for no result",
                    *at, hd_json_text(id, NULL));
        json_object_object_del(ids, hd_json_text(id, NULL));
        ++*at;
    }
    return HD_OK;
}

/* Behind calls come their results, each once and nothing between them. */
static hd_status check_results(hd_chat_body *b, const json_object *messages)
{
    size_t const n = json_object_array_length(messages);
    for (size_t i = 0; i < n;) {
        const json_object *const m = json_object_array_get_idx(messages, i);
        const json_object *const calls = hd_json_member(m, "tool_calls");
        size_t const             length = hd_body_enter_item(b, i++);
        if (hd_json_equals(hd_json_member(m, "role"), "tool"))
            HD_FAIL(b->err, HD_ERR_FORMAT, "%s: a result without a call in front of it", b->path);
        if (calls) {
            json_object *ids = NULL;
            hd_status    status = list_ids(b, &ids, calls);
            if (status == HD_OK) status = match_results(b, ids, messages, &i);
            json_object_put(ids);
            HD_TRY(status);
        }
        hd_body_leave(b, length);
    }
    return HD_OK;
}

hd_status hd_body_convert_messages(hd_chat_body *b, json_object *messages, const json_object *list)
{
    size_t const length = hd_body_enter(b, "messages");
    if (!json_object_is_type(list, json_type_array)) return hd_body_fail(b, list, "a list");
    size_t const n = json_object_array_length(list);
    if (n == 0) HD_FAIL(b->err, HD_ERR_FORMAT, "messages: empty");
    for (size_t i = 0; i < n; i++) {
        size_t const item = hd_body_enter_item(b, i);
        HD_TRY(convert_message(b, messages, json_object_array_get_idx(list, i), i + 1 == n));
        hd_body_leave(b, item);
    }
    if (b->rules->is_service) HD_TRY(check_results(b, messages));
    hd_body_leave(b, length);
    return HD_OK;
}
