#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "server/api.h"

/* From the events of an answer to the bytes that a client reads: what a stream adds up to is what
 * the whole answer says, however the model's text was cut. */

static hd_pool       pool;
static hd_tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    hd_error err = {0};
    (void)state;
    if (hd_tokenizer_open(&tokenizer, "models/demo", &err) != HD_OK)
        print_error("%s\n", err.message);
    return (int)err.code;
}

static int free_all(void **state)
{
    (void)state;
    hd_tokenizer_close(tokenizer);
    hd_pool_free(&pool);
    return 0;
}

/* ---- a client ---- */

typedef struct message {
    hd_buffer reasoning, content, unparsed;
    hd_buffer calls;  /* id, name, arguments of each, with separators */
    hd_buffer tokens; /* of logprobs: token and space */
    char      finish[32];
    int32_t   n_chunks, n_empty;
} message;

static void free_message(message *m)
{
    hd_buffer_free(&m->reasoning);
    hd_buffer_free(&m->content);
    hd_buffer_free(&m->unparsed);
    hd_buffer_free(&m->calls);
    hd_buffer_free(&m->tokens);
}

static json_object *parse(const char *text, size_t bytes)
{
    json_object *v = NULL;
    hd_error     err = {0};
    if (hd_json_parse(&v, text, bytes, HD_JSON_UNIQUE, "answer", &err) != HD_OK)
        fail_msg("%s in %.*s", err.message, (int)bytes, text);
    return v;
}

static void add(hd_buffer *out, const json_object *v)
{
    size_t            bytes = 0;
    const char *const text = hd_json_text(v, &bytes);
    if (text) hd_buffer_add(out, text, bytes);
}

static const json_object *first(const json_object *list)
{
    return json_object_is_type(list, json_type_array) && json_object_array_length(list) > 0
               ? json_object_array_get_idx(list, 0)
               : NULL;
}

static void add_tokens(hd_buffer *out, const json_object *logprobs, const char *name)
{
    const json_object *const list = hd_json_member(logprobs, name);
    size_t const             n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        add(out, hd_json_member(json_object_array_get_idx(list, i), "token"));
        hd_buffer_text(out, " ");
    }
}

static void take_end(message *m, const json_object *choice)
{
    const char *const finish = hd_json_text(hd_json_member(choice, "finish_reason"), NULL);
    add_tokens(&m->tokens, hd_json_member(choice, "logprobs"), "reasoning_content");
    add_tokens(&m->tokens, hd_json_member(choice, "logprobs"), "content");
    add(&m->unparsed, hd_json_member(hd_json_member(choice, "hadal"), "unparsed"));
    if (finish) snprintf(m->finish, sizeof m->finish, "%s", finish);
}

static void take_whole(message *m, const json_object *answer)
{
    const json_object *const choice = first(hd_json_member(answer, "choices"));
    const json_object *const said = hd_json_member(choice, "message");
    const json_object *const calls = hd_json_member(said, "tool_calls");
    size_t const             n = calls ? json_object_array_length(calls) : 0;
    add(&m->reasoning, hd_json_member(said, "reasoning_content"));
    add(&m->content, hd_json_member(said, "content"));
    for (size_t i = 0; i < n; i++) {
        const json_object *const call = json_object_array_get_idx(calls, i);
        const json_object *const function = hd_json_member(call, "function");
        hd_buffer_text(&m->calls, "\x1e");
        add(&m->calls, hd_json_member(call, "id"));
        hd_buffer_text(&m->calls, "\x1f");
        add(&m->calls, hd_json_member(function, "name"));
        hd_buffer_text(&m->calls, "\x1f");
        add(&m->calls, hd_json_member(function, "arguments"));
    }
    take_end(m, choice);
}

static void take_chunk(message *m, const json_object *chunk)
{
    const json_object *const choice = first(hd_json_member(chunk, "choices"));
    const json_object *const delta = hd_json_member(choice, "delta");
    const json_object *const call = first(hd_json_member(delta, "tool_calls"));
    const json_object *const function = hd_json_member(call, "function");
    bool const               is_end = hd_json_member(choice, "finish_reason");
    assert_non_null(delta);
    m->n_chunks++;
    m->n_empty += json_object_object_length(delta) == 0;
    assert_int_equal(is_end, json_object_object_length(delta) == 0);
    add(&m->reasoning, hd_json_member(delta, "reasoning_content"));
    add(&m->content, hd_json_member(delta, "content"));
    if (hd_json_member(call, "id")) {
        hd_buffer_text(&m->calls, "\x1e");
        add(&m->calls, hd_json_member(call, "id"));
        hd_buffer_text(&m->calls, "\x1f");
        add(&m->calls, hd_json_member(function, "name"));
        hd_buffer_text(&m->calls, "\x1f");
    }
    add(&m->calls, hd_json_member(function, "arguments"));
    take_end(m, choice);
}

/* Reads a stream: lines of data with an empty one behind each, [DONE] last. */
static void take_stream(message *m, const hd_buffer *stream)
{
    static const char start[] = "data: ";
    const char       *at = stream->data;
    bool              is_done = false;
    while (*at) {
        const char *const end = strstr(at, "\n\n");
        assert_non_null(end);
        assert_false(is_done);
        assert_memory_equal(at, start, sizeof start - 1);
        at += sizeof start - 1;
        is_done = strncmp(at, "[DONE]", 6) == 0;
        if (!is_done) {
            json_object *const chunk = parse(at, (size_t)(end - at));
            take_chunk(m, chunk);
            json_object_put(chunk);
        }
        at = end + 2;
    }
    assert_true(is_done);
    assert_int_equal(m->n_empty, 1);
}

/* ---- an answer ---- */

typedef struct answering {
    hd_ask     ask;
    hd_answers reply;
    hd_buffer  stream;
} answering;

static void open_answer(answering *a)
{
    hd_ask_context const c = {.tokenizer = tokenizer, .model = "m"};
    a->ask.n = 1;
    a->ask.n_prompts = 1;
    assert_int_equal(hd_answers_open(&a->reply, &a->ask, &c, "0123456789abcdef0123456789abcdef", 1),
                     HD_OK);
    hd_api_openai_chat.begin(&a->reply, &a->stream);
}

static void close_answer(answering *a)
{
    hd_answers_close(&a->reply);
    hd_buffer_free(&a->stream);
    hd_ask_free(&a->ask);
}

static void tell(answering *a, const hd_answer_event *e)
{
    assert_true(hd_answers_take(&a->reply, 0, e));
    hd_api_openai_chat.event(&a->reply, 0, e, &a->stream);
}

static void on_parse(void *user, const hd_parse_event *p)
{
    tell(user, &(hd_answer_event){.parse = p});
}

static void tell_end(answering *a, const hd_answer_end *end)
{
    tell(a, &(hd_answer_event){.end = end});
    hd_api_openai_chat.finish(&a->reply, &a->stream);
}

static void same(const char *id, const char *what, const hd_buffer *got, const hd_buffer *want)
{
    if (got->used != want->used || (got->used && memcmp(got->data, want->data, got->used) != 0))
        fail_msg("%s: %s\n got  [%s]\n want [%s]", id, what, got->data ? got->data : "",
                 want->data ? want->data : "");
}

static void compare(const char *id, const message *got, const message *want)
{
    same(id, "reasoning", &got->reasoning, &want->reasoning);
    same(id, "content", &got->content, &want->content);
    same(id, "calls", &got->calls, &want->calls);
    same(id, "unparsed", &got->unparsed, &want->unparsed);
    same(id, "tokens", &got->tokens, &want->tokens);
    assert_string_equal(got->finish, want->finish);
}

/* What the stream adds up to, and the whole, which is left in *whole. */
static void check_answer(answering *a, const char *id, message *whole)
{
    message   streamed = {0};
    hd_buffer text = {0};
    hd_api_openai_chat.write_whole(&a->reply, &text);
    assert_false(text.failed || a->stream.failed);
    json_object *const v = parse(text.data, text.used);
    take_whole(whole, v);
    take_stream(&streamed, &a->stream);
    compare(id, &streamed, whole);
    json_object_put(v);
    hd_buffer_free(&text);
    free_message(&streamed);
}

/* ---- the recorded answers ---- */

typedef struct row {
    json_object      *json;
    const char       *id, *text;
    size_t            bytes;
    hd_parser_options options;
    const char       *stop[8];
    bool              is_cut;
} row;

static row read_row(const char *line, size_t bytes)
{
    static const char *const starts[] = {"reasoning", "content", "reasoning_continuation",
                                         "content_continuation", "tool_calls"};
    row                      r = {.json = parse(line, bytes)};
    const json_object *const stop = hd_json_member(r.json, "stop");
    r.id = hd_json_text(hd_json_member(r.json, "id"), NULL);
    r.text = hd_json_text(hd_json_member(r.json, "text"), &r.bytes);
    r.is_cut = hd_json_equals(hd_json_member(r.json, "finish"), "length");
    r.options.has_tools = json_object_get_boolean(hd_json_member(r.json, "tools"));
    r.options.on_event = on_parse;
    for (int i = 0; i < 5; i++)
        if (hd_json_equals(hd_json_member(r.json, "start"), starts[i]))
            r.options.start = (hd_parse_start)i;
    r.options.n_stop = stop ? (int32_t)json_object_array_length(stop) : 0;
    for (int32_t i = 0; i < r.options.n_stop; i++)
        r.stop[i] = hd_json_text(json_object_array_get_idx(stop, (size_t)i), NULL);
    return r;
}

static void take_want(message *m, const row *r)
{
    const json_object *const want = hd_json_member(r->json, "want");
    const json_object *const calls = hd_json_member(want, "tool_calls");
    size_t const             n = calls ? json_object_array_length(calls) : 0;
    add(&m->reasoning, hd_json_member(want, "reasoning_content"));
    add(&m->content, hd_json_member(want, "content"));
    add(&m->unparsed, hd_json_member(want, "unparsed"));
    for (size_t i = 0; i < n; i++) {
        hd_buffer_printf(&m->calls,
                         "\x1e"
                         "call_%02zu_0123456789abcdef0123456789abcdef00\x1f",
                         i);
        add(&m->calls, hd_json_member(json_object_array_get_idx(calls, i), "name"));
        hd_buffer_text(&m->calls, "\x1f");
        add(&m->calls, hd_json_member(json_object_array_get_idx(calls, i), "arguments"));
    }
    snprintf(m->finish, sizeof m->finish, "%s", r->is_cut ? "length" : n ? "tool_calls" : "stop");
}

/* Pieces of `size` bytes, or of any length up to 20 when it is 0; the first of `head` bytes. */
static void check_cut(row *r, size_t head, size_t size)
{
    answering     a = {0};
    message       whole = {0}, want = {0};
    hd_parser    *p = NULL;
    hd_answer_end end = {.stop = -1};
    open_answer(&a);
    r->options.user = &a;
    r->options.stop = r->stop;
    assert_int_equal(hd_parser_open(&p, &r->options, NULL), HD_OK);
    for (size_t at = 0, n = head ? head : 1; at < r->bytes; at += n) {
        if (at > 0 || !head) n = size ? size : 1 + (size_t)rand() % 20;
        if (n > r->bytes - at) n = r->bytes - at;
        assert_int_equal(hd_parser_push_text(p, r->text + at, n, NULL), HD_OK);
    }
    assert_int_equal(hd_parser_finish(p, r->is_cut, &end.finish, NULL), HD_OK);
    tell_end(&a, &end);
    check_answer(&a, r->id, &whole);
    take_want(&want, r);
    compare(r->id, &whole, &want);
    hd_parser_close(p);
    free_message(&whole);
    free_message(&want);
    close_answer(&a);
}

static void check_row(row *r)
{
    check_cut(r, 0, r->bytes);
    for (size_t size = 1; size <= 7; size++) check_cut(r, 0, size);
    for (size_t head = 1; head < r->bytes && head < 400; head++) check_cut(r, head, r->bytes);
    for (int i = 0; i < 5; i++) check_cut(r, 0, 0);
}

static void check_rows(const char *path, int32_t n_wanted)
{
    char    *rows = NULL;
    size_t   bytes = 0;
    int32_t  n = 0;
    hd_error err = {0};
    if (hd_file_read(&rows, &bytes, path, 1 << 24, &pool, &err) != HD_OK)
        fail_msg("%s", err.message);
    for (const char *line = rows; *line; n++) {
        const char *const end = strchr(line, '\n');
        row               r = read_row(line, (size_t)(end - line));
        check_row(&r);
        json_object_put(r.json);
        line = end + 1;
    }
    assert_int_equal(n, n_wanted);
}

static void test_recorded(void **state)
{
    (void)state;
    check_rows("tests/golden/encoding/answers.jsonl", 331);
}

/* What users of other servers reported, by the names of doc/cases.md. */
static void test_reported(void **state)
{
    (void)state;
    check_rows("tests/golden/encoding/cases.jsonl", 30);
}

/* ---- probabilities ---- */

/* Tokens that the parser holds back are told of once, in the chunk that comes next. */
static void test_logprobs(void **state)
{
    (void)state;
    answering     a = {.ask = {.has_logprobs = true}};
    message       whole = {0};
    hd_answer_end end = {.finish = HD_FINISH_STOP, .stop = -1};
    hd_sampled    s = {.n_top = 2};
    open_answer(&a);
    a.reply.choices[0].is_reasoning = true;
    for (int32_t i = 0; i < 6; i++) {
        s.token = (hd_token_prob){i == 2 ? a.reply.think_end : 300 + i, -0.5F * (float)i};
        s.top[0] = s.token;
        s.top[1] = (hd_token_prob){301, -INFINITY};
        tell(&a, &(hd_answer_event){.token = &s});
        hd_parse_event const p = {
            .kind = i < 2 ? HD_PARSE_REASONING : HD_PARSE_CONTENT, .text = "x", .text_bytes = 1};
        if (i != 2 && i != 4) tell(&a, &(hd_answer_event){.parse = &p});
    }
    tell_end(&a, &end);
    check_answer(&a, "logprobs", &whole);
    assert_int_equal(a.reply.choices[0].n_reasoning, 3);
    assert_int_equal(a.reply.choices[0].n_tokens, 6);
    assert_non_null(strstr(a.stream.data, "\"logprob\":-9999"));
    free_message(&whole);
    close_answer(&a);
}

/* ---- text that is none ---- */

static void test_hostile_text(void **state)
{
    (void)state;
    static const char text[] = "a\0b\xFF\xF0\x9F\"\\\n\x7F\xE2\x80\xA8</script>";
    answering         a = {0};
    message           whole = {0};
    hd_answer_end     end = {.finish = HD_FINISH_STOP, .stop = -1};
    open_answer(&a);
    tell(&a, &(hd_answer_event){.parse = &(hd_parse_event){.kind = HD_PARSE_CONTENT,
                                                           .text = text,
                                                           .text_bytes = sizeof text - 1}});
    tell(&a, &(hd_answer_event){.parse = &(hd_parse_event){.kind = HD_PARSE_CALL,
                                                           .text = "{}",
                                                           .text_bytes = 2,
                                                           .name = "a\"\n",
                                                           .name_bytes = 3}});
    tell_end(&a, &end);
    check_answer(&a, "hostile", &whole);
    assert_int_equal(whole.content.used, sizeof text - 1 + 2 + 1); /* two U+FFFD for three bytes */
    free_message(&whole);
    close_answer(&a);
}

/* ---- blank answers, failures ---- */

static void test_blank(void **state)
{
    (void)state;
    for (int b = HD_BLANK_NO; b <= HD_BLANK_UNPARSED; b++) {
        answering     a = {0};
        message       whole = {0};
        char          want[64];
        hd_answer_end end = {.finish = HD_FINISH_STOP, .stop = -1, .blank = (hd_blank)b};
        open_answer(&a);
        tell_end(&a, &end);
        check_answer(&a, "blank", &whole);
        snprintf(want, sizeof want, "\"hadal\":{\"blank\":\"%s\"", hd_blank_name((hd_blank)b));
        assert_non_null(strstr(a.stream.data, want));
        free_message(&whole);
        close_answer(&a);
    }
}

static void test_failure(void **state)
{
    (void)state;
    answering     a = {0};
    hd_answer_end end = {.stop = -1};
    hd_api_error  e;
    hd_error_set(&end.error, HD_ERR_NUMERIC, -1, "layer 3: attn_out: NaN");
    open_answer(&a);
    hd_buffer_clear(&a.stream);
    assert_true(hd_answers_take(&a.reply, 0, &(hd_answer_event){.end = &end}));
    assert_ptr_equal(hd_answers_failure(&a.reply), &a.reply.choices[0].end.error);
    hd_api_pass_on(&e, hd_answers_failure(&a.reply));
    assert_int_equal(e.status, 500);
    hd_api_openai_chat.write_failure(&a.reply, &a.stream, &e);
    assert_string_equal(a.stream.data,
                        "data: {\"error\":{\"message\":\"layer 3: attn_out: NaN\",\"type\":"
                        "\"server_error\",\"param\":null,\"code\":\"numeric_error\"}}\n\n");
    close_answer(&a);
}

/* ---- counts ---- */

static void test_usage(void **state)
{
    (void)state;
    answering      a = {.ask = {.n = 2, .n_prompts = 2}};
    hd_ask_context c = {.tokenizer = tokenizer, .model = "m"};
    assert_int_equal(hd_answers_open(&a.reply, &a.ask, &c, "x", 1), HD_OK);
    assert_int_equal(a.reply.n, 4);
    for (int32_t i = 0; i < 4; i++) {
        hd_answer_end const end = {.n_prompt = 100, .n_cached = i, .n_new = 10, .n_reasoning = 4};
        a.reply.choices[i].n_prompt = 100;
        hd_answers_take(&a.reply, i, &(hd_answer_event){.end = &end});
    }
    hd_answers_usage const u = hd_answers_count(&a.reply);
    assert_int_equal(u.n_prompt, 200);
    assert_int_equal(u.n_cached, 0 + 2);
    assert_int_equal(u.n_new, 40);
    assert_int_equal(u.n_reasoning, 16);
    close_answer(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded), cmocka_unit_test(test_reported),
        cmocka_unit_test(test_logprobs), cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_blank),    cmocka_unit_test(test_failure),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, free_all);
}
