#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/api.h"

/* Answers as lists of blocks (Messages) and items (Responses): what a stream builds is what the
 * whole answer says, however the model's text was cut, and a call is a call in each of them. */

#define TAG "｜DSML｜"

static const char call[] =
    "\n\n<" TAG "tool_calls>\n<" TAG "invoke name=\"set_lamp\">\n"
    "<" TAG "parameter name=\"room\" string=\"true\">h\"a\\ll\n🦉</" TAG "parameter>\n"
    "<" TAG "parameter name=\"level\" string=\"false\">3</" TAG "parameter>\n"
    "</" TAG "invoke>\n<" TAG "invoke name=\"set_lamp\">\n</" TAG "invoke>\n</" TAG "tool_calls>";

/* An answer under way, told by one API in pieces. */
typedef struct run {
    const hd_api *api;
    hd_ask        ask;
    hd_answers    answers;
    hd_buffer     stream;
} run;

static void tell(run *r, const hd_answer_event *e)
{
    assert_true(hd_answers_take(&r->answers, 0, e));
    r->api->event(&r->answers, 0, e, &r->stream);
}

static void take_parse(void *user, const hd_parse_event *p)
{
    tell(user, &(hd_answer_event){.parse = p});
}

static void open_run(run *r, const hd_api *api)
{
    hd_ask_context const c = {.model = "demo"};
    *r = (run){.api = api, .ask = {.n = 1, .told = ",\"tools\":[]", .generate.max_new = 99}};
    hd_buffer_text(&r->ask.chat, "{}");
    assert_int_equal(hd_answers_open(&r->answers, &r->ask, &c, "0123", 7), HD_OK);
    api->begin(&r->answers, &r->stream);
}

static void close_run(run *r)
{
    hd_answers_close(&r->answers);
    hd_buffer_free(&r->stream);
    hd_ask_free(&r->ask);
}

/* The whole of `text`, `size` bytes at a time. */
static void answer(run *r, const char *text, size_t size, bool is_cut)
{
    hd_parser        *p = NULL;
    hd_answer_end     end = {.stop = -1, .n_prompt = 5, .n_new = 9};
    hd_parser_options opt = {
        .start = HD_START_REASONING, .has_tools = true, .on_event = take_parse, .user = r};
    assert_int_equal(hd_parser_open(&p, &opt, NULL), HD_OK);
    for (size_t at = 0, n = strlen(text); at < n; at += size)
        assert_int_equal(hd_parser_push_text(p, text + at, n - at < size ? n - at : size, NULL),
                         HD_OK);
    assert_int_equal(hd_parser_finish(p, is_cut, &end.finish, NULL), HD_OK);
    hd_parser_close(p);
    tell(r, &(hd_answer_event){.end = &end});
    r->api->finish(&r->answers, &r->stream);
    assert_false(r->stream.failed);
}

/* ---- a client ---- */

static json_object *parse(const char *text, size_t bytes)
{
    json_object *v = NULL;
    hd_error     err = {0};
    if (hd_json_parse(&v, text, bytes, HD_JSON_UNIQUE, "event", &err) != HD_OK)
        fail_msg("%s in %.*s", err.message, (int)bytes, text);
    return v;
}

/* The next event of a stream, the caller's; its name is its type.  NULL at the end. */
static json_object *next_event(const char **at)
{
    const char *const data = strstr(*at, "\ndata: ");
    if (!data) return NULL;
    const char *const end = strstr(data + 1, "\n\n");
    assert_non_null(end);
    json_object *const v = parse(data + 7, (size_t)(end - data - 7));
    size_t             bytes = 0;
    const char *const  type = hd_json_text(hd_json_member(v, "type"), &bytes);
    assert_memory_equal(*at, "event: ", 7);
    assert_memory_equal(*at + 7, type, bytes);
    *at = end + 2;
    return v;
}

static const char *text_of(const json_object *v, const char *name)
{
    const char *const text = hd_json_text(hd_json_member(v, name), NULL);
    return text ? text : "";
}

static void append(json_object *block, const char *name, const char *more)
{
    hd_buffer all = {0};
    hd_buffer_text(&all, text_of(block, name));
    hd_buffer_text(&all, more);
    json_object_object_add(block, name, json_object_new_string(all.data));
    hd_buffer_free(&all);
}

static void take_delta(json_object *block, const json_object *delta)
{
    const char *const type = text_of(delta, "type");
    if (strcmp(type, "text_delta") == 0) append(block, "text", text_of(delta, "text"));
    if (strcmp(type, "thinking_delta") == 0) append(block, "thinking", text_of(delta, "thinking"));
    if (strcmp(type, "signature_delta") == 0)
        append(block, "signature", text_of(delta, "signature"));
    if (strcmp(type, "input_json_delta") == 0) {
        const char *const json = text_of(delta, "partial_json");
        json_object_object_add(block, "input", parse(json, strlen(json)));
    }
}

/* What a client of Messages has at the end: a list of blocks, the caller's. */
static json_object *build_blocks(const char *stream)
{
    json_object *const blocks = json_object_new_array();
    json_object       *e;
    size_t             n_closed = 0;
    while ((e = next_event(&stream))) {
        const char *const type = text_of(e, "type");
        size_t const      index = (size_t)json_object_get_int(json_object_object_get(e, "index"));
        if (strcmp(type, "content_block_start") == 0) {
            assert_int_equal(index, json_object_array_length(blocks));
            json_object_array_add(blocks,
                                  json_object_get(json_object_object_get(e, "content_block")));
        } else if (strcmp(type, "content_block_delta") == 0) {
            assert_int_equal(index, n_closed);
            take_delta(json_object_array_get_idx(blocks, index), hd_json_member(e, "delta"));
        } else if (strcmp(type, "content_block_stop") == 0) {
            assert_int_equal(index, n_closed++);
        }
        json_object_put(e);
    }
    assert_int_equal(n_closed, json_object_array_length(blocks));
    return blocks;
}

/* What a client of Responses has at the end: the items that were done, the caller's; the last event
 * is *last, the caller's too. */
static json_object *build_items(const char *stream, json_object **last)
{
    json_object *const items = json_object_new_array();
    json_object       *e;
    int32_t            n = 0;
    *last = NULL;
    while ((e = next_event(&stream))) {
        assert_int_equal(json_object_get_int(json_object_object_get(e, "sequence_number")), n++);
        if (strcmp(text_of(e, "type"), "response.output_item.done") == 0)
            json_object_array_add(items, json_object_get(json_object_object_get(e, "item")));
        json_object_put(*last);
        *last = e;
    }
    return items;
}

/* ---- tests ---- */

static void check_messages(const run *r, const json_object *whole)
{
    json_object *const blocks = build_blocks(r->stream.data);
    assert_true(json_object_equal(blocks, json_object_object_get(whole, "content")));
    json_object_put(blocks);
}

static void check_responses(const run *r, const json_object *whole)
{
    json_object       *last = NULL;
    json_object *const items = build_items(r->stream.data, &last);
    assert_true(json_object_equal(items, json_object_object_get(whole, "output")));
    assert_true(json_object_equal(json_object_object_get(last, "response"),
                                  (json_object *)(uintptr_t)whole));
    json_object_put(items);
    json_object_put(last);
}

/* Answers `text` in pieces of each size; returns the whole answer, the caller's. */
static json_object *check_cuts(const hd_api *api, const char *text, bool is_cut)
{
    json_object *whole = NULL;
    for (size_t size = 1; size <= strlen(text); size += size < 9 ? 1 : 37) {
        run       r;
        hd_buffer told = {0};
        open_run(&r, api);
        answer(&r, text, size, is_cut);
        api->write_whole(&r.answers, &told);
        json_object_put(whole);
        whole = parse(told.data, told.used);
        if (api == &hd_api_anthropic_messages)
            check_messages(&r, whole);
        else
            check_responses(&r, whole);
        hd_buffer_free(&told);
        close_run(&r);
    }
    return whole;
}

static const json_object *entry(const json_object *whole, const char *list, size_t i)
{
    return json_object_array_get_idx(hd_json_member(whole, list), i);
}

static void test_messages(void **state)
{
    char text[1024];
    (void)state;
    snprintf(text, sizeof text, "A\nthought 🦉</think>Some \"text\"%s", call);
    json_object *const whole = check_cuts(&hd_api_anthropic_messages, text, false);
    assert_int_equal(json_object_array_length(hd_json_member(whole, "content")), 4);
    assert_string_equal(text_of(entry(whole, "content", 0), "thinking"), "A\nthought 🦉");
    assert_string_equal(text_of(entry(whole, "content", 1), "text"), "Some \"text\"");
    const json_object *const use = entry(whole, "content", 2);
    assert_string_equal(text_of(use, "type"), "tool_use");
    assert_string_equal(text_of(use, "name"), "set_lamp");
    assert_string_equal(text_of(hd_json_member(use, "input"), "room"), "h\"a\\ll\n🦉");
    assert_string_equal(text_of(whole, "stop_reason"), "tool_use");
    json_object_put(whole);
}

static void test_responses(void **state)
{
    char text[1024];
    (void)state;
    snprintf(text, sizeof text, "A\nthought 🦉</think>Some \"text\"%s", call);
    json_object *const       whole = check_cuts(&hd_api_openai_responses, text, false);
    static const char *const types[] = {"reasoning", "message", "function_call", "function_call"};
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(text_of(entry(whole, "output", i), "type"), types[i]);
    assert_string_equal(text_of(entry(whole, "output", 2), "name"), "set_lamp");
    assert_string_equal(text_of(entry(whole, "output", 3), "arguments"), "{}");
    assert_string_not_equal(text_of(entry(whole, "output", 2), "call_id"),
                            text_of(entry(whole, "output", 3), "call_id"));
    assert_string_equal(text_of(whole, "status"), "completed");
    json_object_put(whole);
}

/* The limit came within the reasoning, within the text, within a call. */
static void test_cut(void **state)
{
    static const char *const texts[] = {"A thought", "A</think>Some te",
                                        "A</think>Some<" TAG "tool_calls>\n<" TAG "invoke na"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        json_object *m = check_cuts(&hd_api_anthropic_messages, texts[i], true);
        json_object *r = check_cuts(&hd_api_openai_responses, texts[i], true);
        assert_string_equal(text_of(m, "stop_reason"), "max_tokens");
        assert_string_equal(text_of(r, "status"), "incomplete");
        assert_string_equal(text_of(hd_json_member(r, "incomplete_details"), "reason"),
                            "max_output_tokens");
        assert_int_equal(json_object_array_length(hd_json_member(m, "content")), i == 0 ? 1 : 2);
        json_object_put(m);
        json_object_put(r);
    }
}

/* A failure behind the first event has each API's own shape, and is no end. */
static void test_failure(void **state)
{
    hd_api_error e;
    run          r;
    (void)state;
    hd_api_fail(&e, 500, "server_error", "numeric_error", "NaN in layer 3, step \"attn\"");
    open_run(&r, &hd_api_anthropic_messages);
    r.api->write_failure(&r.answers, &r.stream, &e);
    assert_non_null(strstr(r.stream.data, "event: error\ndata: {\"type\":\"error\",\"error\":"
                                          "{\"type\":\"api_error\",\"message\":\"NaN in layer 3"));
    assert_null(strstr(r.stream.data, "message_stop"));
    close_run(&r);
    open_run(&r, &hd_api_openai_responses);
    r.api->write_failure(&r.answers, &r.stream, &e);
    json_object             *last = NULL;
    json_object *const       items = build_items(r.stream.data, &last);
    const json_object *const response = hd_json_member(last, "response");
    assert_string_equal(text_of(last, "type"), "response.failed");
    assert_string_equal(text_of(response, "status"), "failed");
    assert_string_equal(text_of(hd_json_member(response, "error"), "code"), "server_error");
    json_object_put(items);
    json_object_put(last);
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages),
                                       cmocka_unit_test(test_responses), cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
