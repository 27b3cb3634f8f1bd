#include "server/openai_items.h"

#include "base/json_write.h"

/* How the model's own encoder joins parts of a text. */
#define BETWEEN_PARTS "\n\n"

/* Reasoning, text and calls are items of their own; in a conversation they are one answer. */
typedef struct conversation {
    hd_buffer   *out;                    /* borrowed */
    hd_place    *place;                  /* borrowed */
    hd_buffer    text, reasoning, calls; /* owned; of the answer that is being gathered */
    json_object *ids;                    /* owned; a member for each call so far */
    bool         has_answer, has_text;
    bool         is_first;
} conversation;

static void write_text(hd_buffer *out, const hd_buffer *text)
{
    hd_json_write_string(out, text->used ? text->data : "", text->used);
}

static void open_message(conversation *c, const char *role)
{
    hd_buffer_printf(c->out, "%s{\"role\": \"%s\", \"content\": ", c->is_first ? "" : ", ", role);
    c->is_first = false;
}

/* The answer that was gathered becomes a message. */
static void flush_answer(conversation *c)
{
    if (!c->has_answer) return;
    open_message(c, "assistant");
    write_text(c->out, &c->text);
    if (c->reasoning.used) {
        hd_buffer_text(c->out, ", \"reasoning_content\": ");
        write_text(c->out, &c->reasoning);
    }
    if (c->calls.used) {
        hd_buffer_text(c->out, ", \"tool_calls\": [");
        hd_buffer_add(c->out, c->calls.data, c->calls.used);
        hd_buffer_text(c->out, "]");
    }
    hd_buffer_text(c->out, "}");
    c->out->failed = c->out->failed || c->text.failed || c->reasoning.failed || c->calls.failed;
    hd_buffer_clear(&c->text);
    hd_buffer_clear(&c->reasoning);
    hd_buffer_clear(&c->calls);
    c->has_answer = c->has_text = false;
}

/* ---- parts ---- */

static hd_status add_part(hd_buffer *text, hd_place *p, const json_object *part)
{
    const char *s = NULL;
    size_t      bytes = 0;
    bool const  is_refusal = hd_place_is_type(part, "refusal");
    bool const  is_text = hd_place_is_type(part, "input_text") || hd_place_is_type(part, "text") ||
                         hd_place_is_type(part, "output_text") ||
                         hd_place_is_type(part, "reasoning_text") ||
                         hd_place_is_type(part, "summary_text");
    if (!is_text && !is_refusal)
        return hd_place_refuse_type(p, part, "text (input_text, output_text, refusal)");
    HD_TRY(hd_place_text(p, part, is_refusal ? "refusal" : "text", &s, &bytes));
    if (text->used) hd_buffer_text(text, BETWEEN_PARTS);
    hd_buffer_add(text, s, bytes);
    return HD_OK;
}

static hd_status join_parts(hd_buffer *text, hd_place *p, const json_object *v)
{
    size_t            bytes = 0;
    const char *const s = hd_json_text(v, &bytes);
    if (s) hd_buffer_add(text, s, bytes);
    if (s) return HD_OK;
    if (!json_object_is_type(v, json_type_array))
        return hd_place_wrong(p, v, "a string or a list of parts");
    size_t const n = json_object_array_length(v);
    for (size_t i = 0; i < n; i++) {
        size_t const before = hd_place_entry(p, i);
        HD_TRY(add_part(text, p, json_object_array_get_idx(v, i)));
        hd_place_leave(p, before);
    }
    return HD_OK;
}

static hd_status join_member(hd_buffer *text, hd_place *p, const json_object *item,
                             const char *name)
{
    size_t const before = hd_place_member(p, name);
    HD_TRY(join_parts(text, p, hd_json_member(item, name)));
    hd_place_leave(p, before);
    return HD_OK;
}

/* A message of anyone but the model. */
static hd_status write_said(conversation *c, const char *role, const json_object *item,
                            const char *name)
{
    hd_buffer text = {0};
    flush_answer(c);
    hd_status const s = join_member(&text, c->place, item, name);
    if (s == HD_OK) {
        open_message(c, role);
        write_text(c->out, &text);
        hd_buffer_text(c->out, "}");
    }
    c->out->failed = c->out->failed || text.failed;
    hd_buffer_free(&text);
    return s;
}

/* ---- items ---- */

static hd_status add_message(conversation *c, const json_object *item)
{
    const json_object *const role = hd_json_member(item, "role");
    if (hd_json_equals(role, "user")) return write_said(c, "user", item, "content");
    if (hd_json_equals(role, "system") || hd_json_equals(role, "developer"))
        return write_said(c, "system", item, "content");
    if (!hd_json_equals(role, "assistant")) {
        hd_place_member(c->place, "role");
        return hd_place_refuse(c->place, "none of user, assistant, system, developer");
    }
    if (c->has_text || c->calls.used) flush_answer(c);
    c->has_answer = c->has_text = true;
    return join_member(&c->text, c->place, item, "content");
}

/* What the model thought is its content; older clients bring a summary only. */
static hd_status add_reasoning(conversation *c, const json_object *item)
{
    const json_object *const content = hd_json_member(item, "content");
    bool const               has_content =
        json_object_is_type(content, json_type_array) && json_object_array_length(content) > 0;
    const char *const name = has_content ? "content" : "summary";
    if (c->has_text || c->calls.used) flush_answer(c);
    c->has_answer = true;
    return hd_json_member(item, name) ? join_member(&c->reasoning, c->place, item, name) : HD_OK;
}

static hd_status add_call(conversation *c, const json_object *item)
{
    const char *id = NULL, *name = NULL, *arguments = NULL;
    size_t      id_bytes = 0, name_bytes = 0, bytes = 0;
    HD_TRY(hd_place_text(c->place, item, "call_id", &id, &id_bytes));
    HD_TRY(hd_place_text(c->place, item, "name", &name, &name_bytes));
    HD_TRY(hd_place_text(c->place, item, "arguments", &arguments, &bytes));
    c->has_answer = true;
    hd_buffer_printf(&c->calls, "%s{\"id\": ", c->calls.used ? ", " : "");
    hd_json_write_string(&c->calls, id, id_bytes);
    hd_buffer_text(&c->calls, ", \"type\": \"function\", \"function\": {\"name\": ");
    hd_json_write_string(&c->calls, name, name_bytes);
    hd_buffer_text(&c->calls, ", \"arguments\": ");
    hd_json_write_string(&c->calls, arguments, bytes);
    hd_buffer_text(&c->calls, "}}");
    if (json_object_object_add(c->ids, id, NULL) != 0) c->calls.failed = true;
    return HD_OK;
}

static hd_status add_result(conversation *c, const json_object *item)
{
    const char *id = NULL;
    size_t      bytes = 0;
    HD_TRY(hd_place_text(c->place, item, "call_id", &id, &bytes));
    if (!json_object_object_get_ex(c->ids, id, NULL)) {
        hd_place_member(c->place, "call_id");
        return hd_place_refuse(c->place, "no call %.60s stands before it", id);
    }
    HD_TRY(write_said(c, "tool", item, "output"));
    c->out->used--; /* the brace that closed the message */
    hd_buffer_text(c->out, ", \"tool_call_id\": ");
    hd_json_write_string(c->out, id, bytes);
    hd_buffer_text(c->out, "}");
    return HD_OK;
}

static hd_status add_item(conversation *c, const json_object *item)
{
    if (!json_object_is_type(item, json_type_object))
        return hd_place_wrong(c->place, item, "an object");
    if (!hd_json_member(item, "type") || hd_place_is_type(item, "message"))
        return add_message(c, item);
    if (hd_place_is_type(item, "reasoning")) return add_reasoning(c, item);
    if (hd_place_is_type(item, "function_call")) return add_call(c, item);
    if (hd_place_is_type(item, "function_call_output")) return add_result(c, item);
    return hd_place_refuse_type(c->place, item,
                                "message, reasoning, function_call and function_call_output");
}

static hd_status add_items(conversation *c, const json_object *list)
{
    size_t const n = json_object_array_length(list);
    if (n == 0) return hd_place_refuse(c->place, "the list is empty");
    for (size_t i = 0; i < n; i++) {
        size_t const before = hd_place_entry(c->place, i);
        HD_TRY(add_item(c, json_object_array_get_idx(list, i)));
        hd_place_leave(c->place, before);
    }
    flush_answer(c);
    return HD_OK;
}

/* ---- the whole ---- */

static hd_status add_input(conversation *c, const hd_fields *b)
{
    const json_object *const input = hd_fields_find(b, "input");
    if (hd_fields_find(b, "instructions")) HD_TRY(write_said(c, "system", b->root, "instructions"));
    if (json_object_is_type(input, json_type_string))
        return write_said(c, "user", b->root, "input");
    size_t const before = hd_place_member(c->place, "input");
    if (!json_object_is_type(input, json_type_array))
        return hd_place_wrong(c->place, input, "a string or a list of items");
    HD_TRY(add_items(c, input));
    hd_place_leave(c->place, before);
    return HD_OK;
}

hd_status hd_openai_write_input(hd_buffer *out, hd_place *p, const hd_fields *b)
{
    conversation c = {.out = out, .place = p, .ids = json_object_new_object(), .is_first = true};
    hd_buffer_text(out, "{\"messages\": [");
    out->failed = out->failed || !c.ids;
    hd_status const s = c.ids ? add_input(&c, b) : HD_OK;
    hd_buffer_text(out, "]");
    hd_buffer_free(&c.text);
    hd_buffer_free(&c.reasoning);
    hd_buffer_free(&c.calls);
    json_object_put(c.ids);
    return s;
}
