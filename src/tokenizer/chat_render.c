#include <string.h>

#include "tokenizer/chat.h"
#include "tokenizer/chat_tokens.h"

static const char format_head[] = "\n\n## Response Format:\n\nYou MUST strictly adhere to the "
                                  "following schema to reply:\n";

typedef struct render {
    hd_prompt_text      *out;
    const json_object   *arguments;
    const hd_chat_rules *rules;
    hd_error            *err;
    hd_chat              chat;
    bool                 is_thinking;
    bool                 drops;     /* earlier reasoning is left out */
    int32_t              last_user; /* index of a turn, -1: none     */
    const char          *effort;    /* prefix of the prompt          */
} render;

static void write_text(render *r, const char *text) { hd_buffer_text(&r->out->text, text); }

/* `v or ""` in Python: null, false, 0 and empty ones write nothing. */
static void write_or_nothing(render *r, const json_object *v)
{
    if (hd_python_is_true(v)) hd_python_write_str(&r->out->text, v);
}

/* ---- parts of turns ---- */

static hd_status write_offers(render *r, const hd_chat_turn *turn)
{
    const json_object *const tools = hd_json_member(turn->from.message, "tools");
    const json_object *const format = hd_json_member(turn->from.message, "response_format");
    if (hd_python_is_true(tools)) {
        write_text(r, "\n\n");
        HD_TRY(hd_chat_write_tools(r->out, tools, &turn->from, r->rules, r->err));
    }
    if (hd_python_is_true(format)) {
        write_text(r, format_head);
        hd_python_write_json(&r->out->text, format, r->rules->spelling);
    }
    if (r->rules->json_only && hd_json_member(turn->from.message, "json_only"))
        write_text(r, r->rules->json_only);
    return HD_OK;
}

/* Content of a request: text, or texts with images between them. */
static void write_content(render *r, const json_object *content)
{
    if (!r->rules->image_token || !json_object_is_type(content, json_type_array)) {
        write_or_nothing(r, content);
        return;
    }
    size_t const n = json_object_array_length(content);
    for (size_t i = 0; i < n; i++) {
        const json_object *const piece = json_object_array_get_idx(content, i);
        if (piece)
            write_or_nothing(r, piece);
        else
            hd_prompt_text_control(r->out, r->rules->image_token);
    }
}

static hd_status write_system(render *r, int32_t index)
{
    const hd_chat_turn *const turn = &r->chat.turns[index];
    if (r->rules->system_token) {
        hd_prompt_text_control(r->out, r->rules->system_token);
        if (index == 0) write_text(r, r->effort);
    }
    write_content(r, hd_json_member(turn->from.message, "content"));
    return write_offers(r, turn);
}

static hd_status write_developer(render *r, const hd_chat_turn *turn)
{
    const json_object *const content = hd_json_member(turn->from.message, "content");
    if (!json_object_is_type(content, json_type_string) || !hd_python_is_true(content))
        return hd_chat_fail(&turn->from, "content", content, "text that is not empty", r->err);
    hd_prompt_text_control(r->out, HD_TOKEN_USER);
    hd_python_write_str(&r->out->text, content);
    return write_offers(r, turn);
}

/* Content of a tool message given as a list of parts. */
static hd_status write_parts(render *r, const hd_chat_source *from, const json_object *parts)
{
    size_t const n = json_object_array_length(parts);
    for (size_t i = 0; i < n; i++) {
        const json_object *const part = json_object_array_get_idx(parts, i);
        const json_object *const type = hd_json_member(part, "type");
        if (!json_object_is_type(part, json_type_object))
            return hd_chat_fail(from, "content", part, "objects with a type", r->err);
        if (i) write_text(r, "\n\n");
        if (!hd_json_equals(type, "text")) {
            write_text(r, "[Unsupported ");
            hd_python_write_str(&r->out->text, type);
            write_text(r, "]");
            continue;
        }
        json_object *text = NULL;
        if (json_object_object_get_ex(part, "text", &text) &&
            !json_object_is_type(text, json_type_string))
            return hd_chat_fail(from, "content", text, "text in a text part", r->err);
        write_or_nothing(r, text);
    }
    return HD_OK;
}

static hd_status write_block(render *r, const hd_chat_block *b)
{
    json_object *content = NULL;
    bool const   has = json_object_object_get_ex(b->from.message, "content", &content);
    if (r->rules->is_service) {
        if (b->is_result) write_text(r, "<tool_result>");
        write_content(r, content);
        if (b->is_result) write_text(r, "</tool_result>");
        return HD_OK;
    }
    if (!b->is_result) {
        if (has && !json_object_is_type(content, json_type_string))
            return hd_chat_fail(&b->from, "content", content, "text", r->err);
        write_or_nothing(r, content);
        return HD_OK;
    }
    write_text(r, "<tool_result>");
    if (json_object_is_type(content, json_type_array))
        HD_TRY(write_parts(r, &b->from, content));
    else if (has)
        hd_python_write_str(&r->out->text, content);
    write_text(r, "</tool_result>");
    return HD_OK;
}

static hd_status write_user(render *r, const hd_chat_turn *turn)
{
    hd_prompt_text_control(r->out, HD_TOKEN_USER);
    for (int32_t i = 0; i < turn->n_blocks; i++) {
        if (i) write_text(r, "\n\n");
        HD_TRY(write_block(r, &turn->blocks[i]));
    }
    return HD_OK;
}

/* The answer to a task is given without thinking. */
static bool has_reasoning(const render *r, int32_t index)
{
    if (r->rules->is_service) return r->is_thinking && !r->drops;
    bool const answers_task = index > 0 && r->chat.turns[index - 1].task;
    return r->is_thinking && !answers_task && (!r->drops || index > r->last_user);
}

static void open_assistant(render *r, bool thinks)
{
    hd_prompt_text_control(r->out, HD_TOKEN_ASSISTANT);
    hd_prompt_text_control(r->out, thinks ? HD_TOKEN_THINK : HD_TOKEN_THINK_END);
}

static hd_status write_assistant(render *r, int32_t index)
{
    const hd_chat_turn *const turn = &r->chat.turns[index];
    const json_object *const  message = turn->from.message;
    const json_object *const  calls = hd_json_member(message, "tool_calls");
    bool const                reasons = has_reasoning(r, index);
    if (r->rules->is_service) open_assistant(r, reasons);
    if (reasons) {
        write_or_nothing(r, hd_json_member(message, "reasoning_content"));
        hd_prompt_text_control(r->out, HD_TOKEN_THINK_END);
    }
    write_or_nothing(r, hd_json_member(message, "content"));
    if (hd_python_is_true(calls))
        HD_TRY(hd_chat_write_calls(r->out, calls, &turn->from, r->rules, r->err));
    if (!hd_python_is_true(hd_json_member(message, "wo_eos")))
        hd_prompt_text_control(r->out, HD_TOKEN_EOS);
    return HD_OK;
}

static hd_status fail_role(const render *r, const hd_chat_turn *turn)
{
    const json_object *const role = hd_json_member(turn->from.message, "role");
    const char *const        name = hd_json_text(role, NULL);
    if (!name) return hd_chat_fail(&turn->from, "role", role, "text", r->err);
    HD_FAIL(r->err, HD_ERR_FORMAT, "%s[%d].role: unknown role %.60s", turn->from.list,
            turn->from.index, name);
}

static hd_status write_body(render *r, int32_t index)
{
    const hd_chat_turn *const turn = &r->chat.turns[index];
    switch (turn->role) {
    case HD_ROLE_SYSTEM: return write_system(r, index);
    case HD_ROLE_DEVELOPER: return write_developer(r, turn);
    case HD_ROLE_USER: return write_user(r, turn);
    case HD_ROLE_ASSISTANT: return write_assistant(r, index);
    case HD_ROLE_LATEST_REMINDER:
        hd_prompt_text_control(r->out, HD_TOKEN_LATEST_REMINDER);
        hd_python_write_str(&r->out->text, hd_json_member(turn->from.message, "content"));
        return HD_OK;
    case HD_ROLE_SEARCH_RESULTS:
    case HD_ROLE_UNKNOWN: break;
    }
    return fail_role(r, turn);
}

/* ---- what follows a turn ---- */

static hd_status write_task(render *r, const hd_chat_turn *turn)
{
    static const struct {
        const char *name, *token;
    } tasks[] = {
        {"action", "<｜action｜>"}, {"query", "<｜query｜>"}, {"authority", "<｜authority｜>"},
        {"domain", "<｜domain｜>"}, {"title", "<｜title｜>"}, {"read_url", "<｜read_url｜>"},
    };
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if (!hd_json_equals(turn->task, tasks[i].name)) continue;
        if (i == 0) open_assistant(r, r->is_thinking);
        hd_prompt_text_control(r->out, tasks[i].token);
        return HD_OK;
    }
    HD_FAIL(r->err, HD_ERR_FORMAT, "%s[%d].task: unknown task", turn->from.list, turn->from.index);
}

/* An assistant or reminder that follows needs its opening, and so does the end. */
static bool is_followed_by_input(const render *r, int32_t index)
{
    if (index + 1 == r->chat.n_turns) return false;
    hd_chat_role const next = r->chat.turns[index + 1].role;
    return next != HD_ROLE_ASSISTANT && next != HD_ROLE_LATEST_REMINDER;
}

static bool is_user(const hd_chat_turn *turn)
{
    return turn->role == HD_ROLE_USER || turn->role == HD_ROLE_DEVELOPER;
}

static hd_status write_turn(render *r, int32_t index)
{
    const hd_chat_turn *const turn = &r->chat.turns[index];
    if (index == 0 && !r->rules->system_token) write_text(r, r->effort);
    HD_TRY(write_body(r, index));
    if (r->rules->is_service || is_followed_by_input(r, index)) return HD_OK;
    if (turn->task) return write_task(r, turn);
    if (is_user(turn)) open_assistant(r, r->is_thinking && (!r->drops || index >= r->last_user));
    return HD_OK;
}

/* ---- arguments ---- */

static const json_object *get(const render *r, const char *key)
{
    return hd_json_member(r->arguments, key);
}

static bool get_flag(const render *r, const char *key, bool otherwise)
{
    json_object *v = NULL;
    return json_object_object_get_ex(r->arguments, key, &v) ? hd_python_is_true(v) : otherwise;
}

static hd_status read_mode(render *r)
{
    json_object *mode = NULL;
    bool const   has = json_object_object_get_ex(r->arguments, "thinking_mode", &mode);
    r->is_thinking = !has || hd_json_equals(mode, "thinking");
    if (!r->is_thinking && !hd_json_equals(mode, "chat"))
        HD_FAIL(r->err, HD_ERR_FORMAT, "thinking_mode: neither \"thinking\" nor \"chat\"");
    return HD_OK;
}

/* The place of a word in rules->efforts; -1 when it is none. */
static int find_effort(const json_object *word)
{
    static const char *const words[] = {
        [HD_THINK_LOW] = "low", [HD_THINK_HIGH] = "high", [HD_THINK_MAX] = "max"};
    for (int i = HD_THINK_LOW; i <= HD_THINK_MAX; i++)
        if (hd_json_equals(word, words[i])) return i;
    return -1;
}

static hd_status read_effort(render *r)
{
    const json_object *const word = get(r, "reasoning_effort");
    const char *const *const efforts = r->rules->efforts;
    bool const               knows_low = efforts[HD_THINK_LOW];
    int const                found = find_effort(word);
    const char              *prefix = found < 0 ? NULL : efforts[found];
    /* Where low is no word, only null stands for no effort. */
    if (knows_low ? !hd_python_is_true(word) : !word) prefix = "";
    if (!prefix)
        HD_FAIL(r->err, HD_ERR_FORMAT, "reasoning_effort: none of %s",
                knows_low ? "\"low\", \"high\", \"max\"" : "\"high\", \"max\"");
    r->effort = r->is_thinking ? prefix : "";
    return HD_OK;
}

static hd_status get_list(const render *r, const char *key, const json_object **out)
{
    const json_object *const v = get(r, key);
    if (v && !json_object_is_type(v, json_type_array))
        HD_FAIL(r->err, HD_ERR_FORMAT, "%s: not a list", key);
    *out = v;
    return HD_OK;
}

/* A turn that offers tools keeps all reasoning: the model must see why it called.  Tools on
 * a user message do not survive merging and do not count. */
static bool offers_tools(const hd_chat *chat)
{
    for (int32_t i = 0; i < chat->n_turns; i++) {
        const hd_chat_turn *const t = &chat->turns[i];
        if (t->role != HD_ROLE_USER && hd_python_is_true(hd_json_member(t->from.message, "tools")))
            return true;
    }
    return false;
}

static hd_status render_turns(render *r)
{
    HD_TRY(read_mode(r));
    HD_TRY(read_effort(r));
    r->out->has_tools = offers_tools(&r->chat);
    r->drops = get_flag(r, "drop_thinking", true) && !r->out->has_tools;
    if (r->is_thinking && r->drops) hd_chat_forget(&r->chat);
    r->last_user = hd_chat_last_user(&r->chat);
    for (int32_t i = r->chat.n_context; i < r->chat.n_turns; i++) HD_TRY(write_turn(r, i));
    return HD_OK;
}

/* Without messages the other arguments are not looked at, as in the official encoder. */
static hd_status render_all(render *r, hd_pool *pool)
{
    const json_object *context = NULL, *messages = NULL;
    HD_TRY(get_list(r, "context", &context));
    HD_TRY(get_list(r, "messages", &messages));
    if (!messages) HD_FAIL(r->err, HD_ERR_FORMAT, "messages: missing");
    HD_TRY(hd_chat_merge(&r->chat, context, messages, pool, r->err));
    if (get_flag(r, "add_default_bos_token", true) && r->chat.n_context == 0)
        hd_prompt_text_control(r->out, HD_TOKEN_BOS);
    return r->chat.n_turns > r->chat.n_context ? render_turns(r) : HD_OK;
}

hd_status hd_chat_render(hd_prompt_text *out, const json_object *arguments,
                         const hd_chat_rules *rules, bool *ends_open, hd_error *err)
{
    if (!json_object_is_type(arguments, json_type_object))
        HD_FAIL(err, HD_ERR_FORMAT, "prompt: the arguments are no JSON object");
    render          r = {.out = out, .arguments = arguments, .rules = rules, .err = err};
    hd_pool         pool = {0};
    hd_status const status = render_all(&r, &pool);
    if (status == HD_OK)
        *ends_open =
            !rules->is_service && r.chat.n_turns > 0 && is_user(&r.chat.turns[r.chat.n_turns - 1]);
    hd_pool_free(&pool);
    return status;
}

/* Where an answer to the text would begin. */
static hd_parse_start find_start(const hd_prompt_text *p)
{
    static const char think[] = HD_TOKEN_THINK;
    size_t const      n = p->spans.used / sizeof(hd_span), bytes = sizeof think - 1;
    if (n == 0 || p->text.failed || p->spans.failed) return HD_START_CONTENT;
    hd_span last;
    memcpy(&last, p->spans.data + (n - 1) * sizeof last, sizeof last);
    bool const is_open = last.end == p->text.used && last.end - last.start == bytes &&
                         memcmp(p->text.data + last.start, think, bytes) == 0;
    return is_open ? HD_START_REASONING : HD_START_CONTENT;
}

hd_status hd_prompt_render(hd_prompt *out, const char *json, size_t json_bytes, hd_dialect dialect,
                           hd_error *err)
{
    const hd_chat_rules *const rules = hd_chat_rules_find(dialect);
    json_object               *arguments = NULL;
    if (!rules || rules->is_service)
        HD_FAIL(err, HD_ERR_INVALID, "prompt: dialect %d has no encode_messages", (int)dialect);
    HD_TRY(hd_json_parse(&arguments, json, json_bytes, HD_JSON_PYTHON, "prompt", err));
    hd_prompt_text text = {0};
    bool           ends_open;
    hd_status      status = hd_chat_render(&text, arguments, rules, &ends_open, err);
    json_object_put(arguments);
    text.start = find_start(&text);
    if (status == HD_OK) status = hd_prompt_text_finish(out, &text, err);
    hd_prompt_text_free(&text);
    return status;
}
