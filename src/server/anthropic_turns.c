#include "server/anthropic_turns.h"

#include "base/json_write.h"

/* How the model's own encoder joins parts of a text. */
#define BETWEEN_PARTS "\n\n"

static void open_message(hd_buffer *out, const char *role)
{
    bool const is_first = out->used > 0 && out->data[out->used - 1] == '[';
    hd_buffer_printf(out, "%s{\"role\": \"%s\", \"content\": ", is_first ? "" : ", ", role);
}

static void write_text(hd_buffer *out, const hd_buffer *text)
{
    hd_json_write_string(out, text->used ? text->data : "", text->used);
}

/* ---- texts ---- */

static hd_status add_text(hd_buffer *text, hd_place *p, const json_object *block)
{
    const char *s = NULL;
    size_t      bytes = 0;
    HD_TRY(hd_place_text(p, block, "text", &s, &bytes));
    if (text->used) hd_buffer_text(text, BETWEEN_PARTS);
    hd_buffer_add(text, s, bytes);
    return HD_OK;
}

/* A string, or a list of blocks of text. */
static hd_status join_texts(hd_buffer *text, hd_place *p, const json_object *v)
{
    size_t            bytes = 0;
    const char *const s = hd_json_text(v, &bytes);
    if (s) {
        hd_buffer_add(text, s, bytes);
        return HD_OK;
    }
    if (!json_object_is_type(v, json_type_array))
        return hd_place_wrong(p, v, "a string or a list of blocks");
    size_t const n = json_object_array_length(v);
    for (size_t i = 0; i < n; i++) {
        const json_object *const block = json_object_array_get_idx(v, i);
        size_t const             before = hd_place_entry(p, i);
        if (!hd_place_is_type(block, "text")) return hd_place_refuse_type(p, block, "text");
        HD_TRY(add_text(text, p, block));
        hd_place_leave(p, before);
    }
    return HD_OK;
}

static hd_status write_joined(hd_buffer *out, hd_place *p, const json_object *v)
{
    hd_buffer       text = {0};
    hd_status const s = join_texts(&text, p, v);
    if (s == HD_OK) write_text(out, &text);
    out->failed = out->failed || text.failed;
    hd_buffer_free(&text);
    return s;
}

static hd_status write_system(hd_buffer *out, hd_place *p, const json_object *v)
{
    if (!v) return HD_OK;
    size_t const before = hd_place_member(p, "system");
    open_message(out, "system");
    HD_TRY(write_joined(out, p, v));
    hd_buffer_text(out, "}");
    hd_place_leave(p, before);
    return HD_OK;
}

/* ---- turns of the user ---- */

/* Text that was gathered goes out as a message in front of what follows. */
static void flush_text(hd_buffer *out, hd_buffer *text)
{
    if (text->used) {
        open_message(out, "user");
        write_text(out, text);
        hd_buffer_text(out, "}");
    }
    hd_buffer_clear(text);
}

/* The model's dialect has no mark for a failure, so the text says it. */
static hd_status join_result(hd_buffer *text, hd_place *p, const json_object *block)
{
    const json_object *const content = hd_json_member(block, "content");
    const json_object *const is_error = hd_json_member(block, "is_error");
    hd_buffer                said = {0};
    size_t const             before = hd_place_member(p, "content");
    hd_status const          s = content ? join_texts(&said, p, content) : HD_OK;
    hd_place_leave(p, before);
    if (json_object_get_boolean((json_object *)(uintptr_t)is_error))
        hd_buffer_text(text, said.used ? "Error: " : "Error");
    if (said.used) hd_buffer_add(text, said.data, said.used);
    text->failed = text->failed || said.failed;
    hd_buffer_free(&said);
    return s;
}

static hd_status write_result(hd_buffer *out, hd_place *p, const json_object *block)
{
    hd_buffer   text = {0};
    const char *id = NULL;
    size_t      bytes = 0;
    HD_TRY(hd_place_text(p, block, "tool_use_id", &id, &bytes));
    open_message(out, "tool");
    hd_status const s = join_result(&text, p, block);
    write_text(out, &text);
    hd_buffer_text(out, ", \"tool_call_id\": ");
    hd_json_write_string(out, id, bytes);
    hd_buffer_text(out, "}");
    out->failed = out->failed || text.failed;
    hd_buffer_free(&text);
    return s;
}

static hd_status write_user_block(hd_buffer *out, hd_buffer *text, hd_place *p,
                                  const json_object *block)
{
    if (hd_place_is_type(block, "text")) return add_text(text, p, block);
    if (!hd_place_is_type(block, "tool_result"))
        return hd_place_refuse_type(p, block, "text and tool_result");
    flush_text(out, text);
    return write_result(out, p, block);
}

static hd_status write_user_blocks(hd_buffer *out, hd_buffer *text, hd_place *p,
                                   const json_object *blocks)
{
    size_t const n = json_object_array_length(blocks);
    for (size_t i = 0; i < n; i++) {
        size_t const before = hd_place_entry(p, i);
        HD_TRY(write_user_block(out, text, p, json_object_array_get_idx(blocks, i)));
        hd_place_leave(p, before);
    }
    return HD_OK;
}

static hd_status write_user(hd_buffer *out, hd_place *p, const json_object *content)
{
    hd_buffer    text = {0};
    hd_status    s = HD_OK;
    size_t const before = out->used;
    if (json_object_is_type(content, json_type_array))
        s = write_user_blocks(out, &text, p, content);
    else
        s = join_texts(&text, p, content);
    if (s == HD_OK) flush_text(out, &text);
    if (s == HD_OK && out->used == before) s = hd_place_refuse(p, "says nothing");
    out->failed = out->failed || text.failed;
    hd_buffer_free(&text);
    return s;
}

/* ---- turns of the model ---- */

typedef struct answer {
    hd_buffer text, thinking, calls; /* owned; the last is JSON, with commas between */
} answer;

static hd_status add_call(answer *a, hd_place *p, const json_object *block)
{
    const json_object *const input = hd_json_member(block, "input");
    const char              *id = NULL, *name = NULL;
    size_t                   id_bytes = 0, name_bytes = 0;
    hd_buffer                arguments = {0};
    HD_TRY(hd_place_text(p, block, "id", &id, &id_bytes));
    HD_TRY(hd_place_text(p, block, "name", &name, &name_bytes));
    hd_place_member(p, "input");
    if (!json_object_is_type(input, json_type_object)) return hd_place_wrong(p, input, "an object");
    hd_place_write_value(&arguments, input);
    hd_buffer_printf(&a->calls, "%s{\"id\": ", a->calls.used ? ", " : "");
    hd_json_write_string(&a->calls, id, id_bytes);
    hd_buffer_text(&a->calls, ", \"type\": \"function\", \"function\": {\"name\": ");
    hd_json_write_string(&a->calls, name, name_bytes);
    hd_buffer_text(&a->calls, ", \"arguments\": ");
    write_text(&a->calls, &arguments);
    hd_buffer_text(&a->calls, "}}");
    a->calls.failed = a->calls.failed || arguments.failed;
    hd_buffer_free(&arguments);
    return HD_OK;
}

/* Thinking comes back with its signature, which is a name and no proof: it is not looked at. */
static hd_status add_thinking(answer *a, hd_place *p, const json_object *block)
{
    const char *s = NULL;
    size_t      bytes = 0;
    HD_TRY(hd_place_text(p, block, "thinking", &s, &bytes));
    hd_buffer_add(&a->thinking, s, bytes);
    return HD_OK;
}

static hd_status add_answer_block(answer *a, hd_place *p, const json_object *block)
{
    if (hd_place_is_type(block, "text")) return add_text(&a->text, p, block);
    if (hd_place_is_type(block, "tool_use")) return add_call(a, p, block);
    if (hd_place_is_type(block, "thinking")) return add_thinking(a, p, block);
    if (hd_place_is_type(block, "redacted_thinking")) return HD_OK; /* nobody here can read it */
    return hd_place_refuse_type(p, block, "text, thinking and tool_use");
}

static hd_status read_answer(answer *a, hd_place *p, const json_object *content)
{
    if (!json_object_is_type(content, json_type_array)) return join_texts(&a->text, p, content);
    size_t const n = json_object_array_length(content);
    for (size_t i = 0; i < n; i++) {
        size_t const before = hd_place_entry(p, i);
        HD_TRY(add_answer_block(a, p, json_object_array_get_idx(content, i)));
        hd_place_leave(p, before);
    }
    return HD_OK;
}

/* An answer without calls at the end is one that goes on. */
static void write_answer(hd_buffer *out, const answer *a, bool is_last)
{
    open_message(out, "assistant");
    write_text(out, &a->text);
    if (a->thinking.used) {
        hd_buffer_text(out, ", \"reasoning_content\": ");
        write_text(out, &a->thinking);
    }
    if (a->calls.used) {
        hd_buffer_text(out, ", \"tool_calls\": [");
        hd_buffer_add(out, a->calls.data, a->calls.used);
        hd_buffer_text(out, "]");
    }
    hd_buffer_text(out, is_last && !a->calls.used ? ", \"prefix\": true}" : "}");
    out->failed = out->failed || a->text.failed || a->thinking.failed || a->calls.failed;
}

static hd_status write_assistant(hd_buffer *out, hd_place *p, const json_object *content,
                                 bool is_last)
{
    answer          a = {0};
    hd_status const s = read_answer(&a, p, content);
    if (s == HD_OK) write_answer(out, &a, is_last);
    hd_buffer_free(&a.text);
    hd_buffer_free(&a.thinking);
    hd_buffer_free(&a.calls);
    return s;
}

/* ---- the whole ---- */

static hd_status write_message(hd_buffer *out, hd_place *p, const json_object *v, bool is_last)
{
    const json_object *const role = hd_json_member(v, "role");
    const json_object *const content = hd_json_member(v, "content");
    bool const               is_user = hd_json_equals(role, "user");
    if (!json_object_is_type(v, json_type_object)) return hd_place_wrong(p, v, "an object");
    if (!is_user && !hd_json_equals(role, "assistant")) {
        hd_place_member(p, "role");
        return hd_place_refuse(p, "neither \"user\" nor \"assistant\"");
    }
    size_t const before = hd_place_member(p, "content");
    HD_TRY(is_user ? write_user(out, p, content) : write_assistant(out, p, content, is_last));
    hd_place_leave(p, before);
    return HD_OK;
}

hd_status hd_anthropic_write_messages(hd_buffer *out, hd_place *p, const hd_fields *b)
{
    const json_object *const list = hd_fields_find(b, "messages");
    hd_buffer_text(out, "{\"messages\": [");
    HD_TRY(write_system(out, p, hd_fields_find(b, "system")));
    size_t const before = hd_place_member(p, "messages");
    if (!json_object_is_type(list, json_type_array)) return hd_place_wrong(p, list, "a list");
    size_t const n = json_object_array_length(list);
    if (n == 0) return hd_place_refuse(p, "the list is empty");
    for (size_t i = 0; i < n; i++) {
        size_t const messages = hd_place_entry(p, i);
        HD_TRY(write_message(out, p, json_object_array_get_idx(list, i), i + 1 == n));
        hd_place_leave(p, messages);
    }
    hd_buffer_text(out, "]");
    hd_place_leave(p, before);
    return HD_OK;
}
