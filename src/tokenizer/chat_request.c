#include "tokenizer/chat_body.h"
#include "tokenizer/chat_tokens.h"

/* ---- thinking ---- */

static hd_status read_word(hd_chat_body *b, const json_object *v, const char *const *words,
                           int *out)
{
    if (!hd_json_text(v, NULL)) return hd_body_fail(b, v, "a string");
    for (*out = 0; words[*out]; ++*out)
        if (hd_json_equals(v, words[*out])) return HD_OK;
    HD_FAIL(b->err, HD_ERR_FORMAT, "%s: unknown word %.60s", b->path, hd_json_text(v, NULL));
}

/* `reasoning_effort`; OFF when it says none, ASKED when it is missing. */
static hd_status read_effort(hd_chat_body *b, hd_think *out, const json_object *root)
{
    static const char *const words[] = {"none",  "minimal", "low",   "medium", "high",
                                        "xhigh", "max",     "ultra", NULL};
    static const hd_think meanings[] = {HD_THINK_OFF,  HD_THINK_LOW,  HD_THINK_LOW, HD_THINK_HIGH,
                                        HD_THINK_HIGH, HD_THINK_HIGH, HD_THINK_MAX, HD_THINK_MAX};
    const json_object *const v = hd_json_member(root, "reasoning_effort");
    int                      found = 0;
    *out = HD_THINK_ASKED;
    if (!v) return HD_OK;
    size_t const length = hd_body_enter(b, "reasoning_effort");
    HD_TRY(read_word(b, v, words, &found));
    hd_body_leave(b, length);
    *out = meanings[found];
    return HD_OK;
}

/* The one place that decides whether and how hard the model thinks.  `thinking` rules over
 * `reasoning_effort`, and a request that says neither thinks with high effort. */
static hd_status read_think(hd_chat_body *b, hd_think *out, const json_object *root)
{
    enum { ADAPTIVE, ENABLED, DISABLED };
    static const char *const words[] = {"adaptive", "enabled", "disabled", NULL};
    const json_object *const v = hd_json_member(root, "thinking");
    int                      type = ENABLED;
    hd_think                 effort;
    if (*out != HD_THINK_ASKED) return HD_OK;
    HD_TRY(read_effort(b, &effort, root));
    size_t const length = hd_body_enter(b, "thinking");
    if (v && !json_object_is_type(v, json_type_object)) return hd_body_fail(b, v, "an object");
    hd_body_enter(b, "type");
    if (v) HD_TRY(read_word(b, hd_json_member(v, "type"), words, &type));
    hd_body_leave(b, length);
    bool const has_effort = effort != HD_THINK_ASKED && !(v && effort == HD_THINK_OFF);
    *out = has_effort ? effort : HD_THINK_HIGH;
    if (type == DISABLED) *out = HD_THINK_OFF;
    return HD_OK;
}

static hd_status set_thinking(hd_chat_body *b, json_object *arguments, hd_think think)
{
    static const char *const words[] = {
        [HD_THINK_LOW] = "low", [HD_THINK_HIGH] = "high", [HD_THINK_MAX] = "max"};
    const char *const mode = think == HD_THINK_OFF ? "chat" : "thinking";
    b->is_thinking = think != HD_THINK_OFF;
    HD_TRY(hd_body_put(b, arguments, "thinking_mode", json_object_new_string(mode)));
    if (!b->is_thinking || !b->rules->efforts[think]) return HD_OK;
    return hd_body_put(b, arguments, "reasoning_effort", json_object_new_string(words[think]));
}

/* ---- the beginning of the answer ---- */

static hd_status read_flag(hd_chat_body *b, bool *out, const json_object *root, const char *name)
{
    const json_object *const v = hd_json_member(root, name);
    if (!v) return HD_OK;
    size_t const length = hd_body_enter(b, name);
    if (!json_object_is_type(v, json_type_boolean)) return hd_body_fail(b, v, "true or false");
    *out = json_object_get_boolean(v);
    hd_body_leave(b, length);
    return HD_OK;
}

/* Words of other servers for the same wish; a flag that was not heeded would garble the text. */
static hd_status read_flags(hd_chat_body *b, const json_object *root)
{
    bool opens = true;
    HD_TRY(read_flag(b, &b->continues, root, "continue_final_message"));
    HD_TRY(read_flag(b, &opens, root, "add_generation_prompt"));
    if (!opens && !b->continues)
        HD_FAIL(b->err, HD_ERR_UNSUPPORTED,
                "add_generation_prompt: without one only continue_final_message has an answer");
    return HD_OK;
}

static void write_member(hd_prompt_text *out, const json_object *v, const char *name, size_t *bytes)
{
    const char *const text = hd_json_text(hd_json_member(v, name), bytes);
    hd_buffer_add(&out->text, text, *bytes);
}

/* What the model has answered so far.  Without content its reasoning is still open. */
static void write_continued(const hd_chat_body *b, hd_prompt_text *out)
{
    size_t     bytes = 0;
    bool const has_content = hd_python_is_true(hd_json_member(b->continued, "content"));
    if (b->is_thinking) {
        write_member(out, b->continued, "reasoning_content", &bytes);
        if (bytes > 0) out->start = HD_START_REASONING_CONTINUATION;
    }
    if (!has_content) return;
    if (b->is_thinking) {
        hd_prompt_text_control(out, HD_TOKEN_THINK_END);
        out->start = HD_START_CONTENT_CONTINUATION;
    }
    write_member(out, b->continued, "content", &bytes);
}

static void open_answer(const hd_chat_body *b, hd_prompt_text *out, bool is_open)
{
    if (!is_open) {
        hd_prompt_text_control(out, HD_TOKEN_ASSISTANT);
        hd_prompt_text_control(out, b->is_thinking ? HD_TOKEN_THINK : HD_TOKEN_THINK_END);
    }
    out->start = b->is_thinking ? HD_START_REASONING : HD_START_CONTENT;
    if (b->continued) write_continued(b, out);
    if (b->must_call) {
        hd_chat_open_calls(out, b->rules);
        out->start = HD_START_TOOL_CALLS;
    }
}

/* ---- the whole ---- */

static hd_status check_body(const hd_chat_body *b, const json_object *root)
{
    bool const is_object = json_object_is_type(root, json_type_object);
    if (!is_object && (b->rules->is_service || !json_object_is_type(root, json_type_array)))
        HD_FAIL(b->err, HD_ERR_FORMAT, "messages: neither a list nor an object with `messages`");
    if (b->rules->is_service && hd_body_has_odd_number(root))
        HD_FAIL(b->err, HD_ERR_FORMAT, "messages: a number is infinite or none");
    return HD_OK;
}

static hd_status convert(hd_chat_body *b, json_object *arguments, const json_object *root,
                         hd_think think)
{
    bool const               is_list = json_object_is_type(root, json_type_array);
    const json_object *const list = is_list ? root : hd_json_member(root, "messages");
    json_object *const       messages = json_object_new_array();
    HD_TRY(hd_body_put(b, arguments, "messages", messages));
    HD_TRY(check_body(b, root));
    HD_TRY(read_think(b, &think, root));
    HD_TRY(set_thinking(b, arguments, think));
    HD_TRY(read_flags(b, root));
    HD_TRY(hd_body_convert_messages(b, messages, list));
    HD_TRY(hd_body_add_offers(b, arguments, root));
    if (b->continued && b->must_call)
        HD_FAIL(b->err, HD_ERR_FORMAT, "tool_choice: a continued answer cannot begin with a call");
    return HD_OK;
}

static hd_status render(hd_chat_body *b, hd_prompt_text *text, const json_object *root,
                        hd_think think)
{
    bool               is_open = false;
    json_object *const arguments = json_object_new_object();
    if (!arguments) return hd_body_fail_memory(b);
    hd_status status = convert(b, arguments, root, think);
    if (status == HD_OK) status = hd_chat_render(text, arguments, b->rules, &is_open, b->err);
    if (status == HD_OK) open_answer(b, text, is_open);
    json_object_put(arguments);
    json_object_put(b->continued);
    return status;
}

hd_status hd_prompt_chat(hd_prompt *out, const char *json, size_t json_bytes, hd_dialect dialect,
                         hd_think think, hd_error *err)
{
    hd_chat_body   b = {.rules = hd_chat_rules_find(dialect), .err = err};
    json_object   *root = NULL;
    hd_prompt_text text = {0};
    if (!b.rules || think < HD_THINK_OFF || think > HD_THINK_ASKED)
        HD_FAIL(err, HD_ERR_INVALID, "prompt: dialect %d, thinking %d", (int)dialect, (int)think);
    HD_TRY(hd_json_parse(&root, json, json_bytes, HD_JSON_PYTHON, "messages", err));
    hd_status status = render(&b, &text, root, think);
    json_object_put(root);
    if (status == HD_OK) status = hd_prompt_text_finish(out, &text, err);
    hd_prompt_text_free(&text);
    return status;
}
