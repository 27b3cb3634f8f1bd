#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../support/st_image.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/utf8_scan.h"

static char  *rows;
static size_t rows_bytes;

/* ---- collecting ---- */

typedef struct answer {
    hd_buffer reasoning, content, unparsed;
    hd_buffer calls; /* name, unit separator, arguments, record separator, of each */
    int32_t   n_calls;
    hd_finish finish;
} answer;

static void collect(void *user, const hd_parse_event *e)
{
    answer *const    a = user;
    hd_buffer *const text[] = {[HD_PARSE_REASONING] = &a->reasoning,
                               [HD_PARSE_CONTENT] = &a->content,
                               [HD_PARSE_UNPARSED] = &a->unparsed};
    assert_true(e->text_bytes > 0);
    assert_int_equal(hd_utf8_scan_check(e->text, e->text_bytes), e->text_bytes);
    if (e->kind == HD_PARSE_CALL) {
        assert_int_equal(e->index, a->n_calls++);
        assert_true(hd_json_is_valid(e->text, e->text_bytes));
        hd_buffer_add(&a->calls, e->name, e->name_bytes);
        hd_buffer_text(&a->calls, "\x1f");
        hd_buffer_add(&a->calls, e->text, e->text_bytes);
        hd_buffer_text(&a->calls, "\x1e");
    } else
        hd_buffer_add(text[e->kind], e->text, e->text_bytes);
}

static void free_answer(answer *a)
{
    hd_buffer_free(&a->reasoning);
    hd_buffer_free(&a->content);
    hd_buffer_free(&a->unparsed);
    hd_buffer_free(&a->calls);
    *a = (answer){0};
}

/* ---- a row ---- */

typedef struct row {
    json_object      *json;
    const char       *id, *text;
    size_t            bytes;
    hd_parser_options options;
    const char       *stop[8];
    bool              is_cut;
    answer            want;
} row;

static hd_parse_start read_start(const json_object *start)
{
    static const char *const names[] = {"reasoning", "content", "reasoning_continuation",
                                        "content_continuation", "tool_calls"};
    for (int i = 0; i < 5; i++)
        if (hd_json_equals(start, names[i])) return (hd_parse_start)i;
    fail_msg("unknown start");
    return HD_START_CONTENT;
}

static void copy_text(hd_buffer *out, const json_object *v)
{
    size_t            bytes = 0;
    const char *const text = hd_json_text(v, &bytes);
    if (text) hd_buffer_add(out, text, bytes);
}

static void read_want(answer *a, const json_object *want, bool is_cut)
{
    const json_object *const calls = hd_json_member(want, "tool_calls");
    copy_text(&a->reasoning, hd_json_member(want, "reasoning_content"));
    copy_text(&a->content, hd_json_member(want, "content"));
    copy_text(&a->unparsed, hd_json_member(want, "unparsed"));
    a->n_calls = calls ? (int32_t)json_object_array_length(calls) : 0;
    for (size_t i = 0; i < (size_t)a->n_calls; i++) {
        const json_object *const call = json_object_array_get_idx(calls, i);
        copy_text(&a->calls, hd_json_member(call, "name"));
        hd_buffer_text(&a->calls, "\x1f");
        copy_text(&a->calls, hd_json_member(call, "arguments"));
        hd_buffer_text(&a->calls, "\x1e");
    }
    a->finish = is_cut ? HD_FINISH_LENGTH : a->n_calls ? HD_FINISH_TOOL_CALLS : HD_FINISH_STOP;
    const char *const finish = hd_json_text(hd_json_member(want, "finish_reason"), NULL);
    if (finish) assert_string_equal(finish, hd_finish_name(a->finish));
}

static row read_row(const char *line, size_t bytes)
{
    row      r = {0};
    hd_error err = {0};
    if (hd_json_parse(&r.json, line, bytes, HD_JSON_STRICT, "row", &err) != HD_OK)
        fail_msg("%s", err.message);
    r.id = hd_json_text(hd_json_member(r.json, "id"), NULL);
    r.text = hd_json_text(hd_json_member(r.json, "text"), &r.bytes);
    r.is_cut = hd_json_equals(hd_json_member(r.json, "finish"), "length");
    r.options.start = read_start(hd_json_member(r.json, "start"));
    r.options.has_tools = json_object_get_boolean(hd_json_member(r.json, "tools"));
    r.options.on_event = collect;
    const json_object *const stop = hd_json_member(r.json, "stop");
    if (stop) r.options.n_stop = (int32_t)json_object_array_length(stop);
    for (size_t i = 0; i < (size_t)r.options.n_stop; i++)
        r.stop[i] = hd_json_text(json_object_array_get_idx(stop, i), NULL);
    read_want(&r.want, hd_json_member(r.json, "want"), r.is_cut);
    return r;
}

static void free_row(row *r)
{
    free_answer(&r->want);
    json_object_put(r->json);
}

static void compare(const row *r, const char *what, const hd_buffer *got, const hd_buffer *want,
                    const char *how)
{
    if (got->used != want->used || (got->used && memcmp(got->data, want->data, got->used) != 0))
        fail_msg("%s, %s: %s\n got  [%s]\n want [%s]", r->id, how, what, got->data ? got->data : "",
                 want->data ? want->data : "");
}

static void check_answer(const row *r, const answer *got, const char *how)
{
    compare(r, "reasoning", &got->reasoning, &r->want.reasoning, how);
    compare(r, "content", &got->content, &r->want.content, how);
    compare(r, "calls", &got->calls, &r->want.calls, how);
    compare(r, "unparsed", &got->unparsed, &r->want.unparsed, how);
    if (got->finish != r->want.finish)
        fail_msg("%s, %s: finish %s", r->id, how, hd_finish_name(got->finish));
}

/* ---- ways of feeding ---- */

/* Length of the piece at `at`; 0 ends the use of pieces: the rest comes whole. */
typedef size_t piece_fn(size_t at, size_t argument);

static size_t feed_whole(size_t at, size_t argument) { return at + argument ? 0 : 0; }
static size_t feed_fixed(size_t at, size_t argument) { return at ? argument : argument; }
static size_t feed_split(size_t at, size_t argument) { return at == 0 ? argument : 0; }
static size_t feed_random(size_t at, size_t argument)
{
    return at + argument ? 1 + (size_t)rand() % 20 : 1;
}

static hd_parser *open_parser(row *r, answer *got)
{
    hd_parser *p = NULL;
    r->options.user = got;
    r->options.stop = r->stop;
    assert_int_equal(hd_parser_open(&p, &r->options, NULL), HD_OK);
    return p;
}

static void check_fed(row *r, piece_fn *piece, size_t argument, const char *how)
{
    answer           got = {0};
    hd_parser *const p = open_parser(r, &got);
    for (size_t at = 0; at < r->bytes;) {
        size_t n = piece(at, argument);
        if (n == 0 || n > r->bytes - at) n = r->bytes - at;
        /* A copy of the exact size lets the sanitizer see a read past the end. */
        char *const copy = malloc(n);
        memcpy(copy, r->text + at, n);
        assert_int_equal(hd_parser_push_text(p, copy, n, NULL), HD_OK);
        free(copy);
        at += n;
    }
    assert_int_equal(hd_parser_finish(p, r->is_cut, &got.finish, NULL), HD_OK);
    check_answer(r, &got, how);
    hd_parser_close(p);
    free_answer(&got);
}

static const char *const controls[] = {"<｜end▁of▁sentence｜>", "<think>", "</think>", "｜DSML｜",
                                       "<｜User｜>"};

static size_t find_control(const char *text)
{
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
        if (strncmp(text, controls[i], strlen(controls[i])) == 0) return strlen(controls[i]);
    return 0;
}

/* Control tokens as tokens, everything between in pieces of up to `size` bytes. */
static void check_tokens(row *r, size_t size)
{
    answer           got = {0};
    hd_parser *const p = open_parser(r, &got);
    for (size_t at = 0; at < r->bytes;) {
        size_t const control = find_control(r->text + at);
        size_t       n = control ? control : 1;
        while (!control && n < size && at + n < r->bytes && !find_control(r->text + at + n)) n++;
        assert_int_equal(hd_parser_push_token(p, r->text + at, n, control > 0, NULL), HD_OK);
        at += n;
    }
    assert_int_equal(hd_parser_finish(p, r->is_cut, &got.finish, NULL), HD_OK);
    check_answer(r, &got, "as tokens");
    hd_parser_close(p);
    free_answer(&got);
}

/* A cut marker is only there in recorded text: as a token it comes whole or not at all. */
static bool ends_in_marker(const row *r)
{
    static const char marker[] = "｜DSML｜";
    for (size_t n = 1; n < sizeof marker - 1 && n <= r->bytes; n++)
        if (memcmp(r->text + r->bytes - n, marker, n) == 0) return true;
    return false;
}

static void check_row(row *r)
{
    check_fed(r, feed_whole, 0, "whole");
    check_fed(r, feed_fixed, 1, "byte by byte");
    check_fed(r, feed_fixed, 7, "seven bytes each");
    for (size_t i = 1; i < r->bytes; i++) check_fed(r, feed_split, i, "split");
    for (int i = 0; i < 200; i++) check_fed(r, feed_random, 0, "random pieces");
    if (ends_in_marker(r)) return;
    check_tokens(r, 1);
    check_tokens(r, 4);
    check_tokens(r, 1000);
}

static void parses_recorded_answers_cut_anywhere(void **state)
{
    (void)state;
    int n = 0;
    srand(1);
    for (const char *line = rows, *end; line < rows + rows_bytes; line = end + 1, n++) {
        end = strchr(line, '\n');
        row r = read_row(line, (size_t)(end - line));
        check_row(&r);
        free_row(&r);
    }
    assert_int_equal(n, 331);
}

/* ---- single cases ---- */

typedef struct token {
    const char *text;
    bool        is_control;
} token;

static answer run_tokens(const token *tokens, size_t n, hd_parse_start start)
{
    answer                  a = {0};
    hd_parser_options const options = {
        .start = start, .has_tools = true, .on_event = collect, .user = &a};
    hd_parser *p = NULL;
    assert_int_equal(hd_parser_open(&p, &options, NULL), HD_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(hd_parser_push_token(p, tokens[i].text, strlen(tokens[i].text),
                                              tokens[i].is_control, NULL),
                         HD_OK);
    assert_int_equal(hd_parser_finish(p, false, &a.finish, NULL), HD_OK);
    hd_parser_close(p);
    return a;
}

static void spelled_markers_are_text_in_tokens(void **state)
{
    (void)state;
    static const token tokens[] = {
        {"see </think> and <", false},
        {"｜DSML｜", false},
        {"tool_calls>", false},
        {"</think>", true},
        {"a<｜end▁of▁sentence｜>b", false},
        {"<｜end▁of▁sentence｜>", true},
        {"ignored", false},
    };
    answer a = run_tokens(tokens, sizeof tokens / sizeof tokens[0], HD_START_REASONING);
    assert_string_equal(a.reasoning.data, "see </think> and <｜DSML｜tool_calls>");
    assert_string_equal(a.content.data, "a<｜end▁of▁sentence｜>b");
    assert_int_equal(a.finish, HD_FINISH_STOP);
    free_answer(&a);
}

static void a_quoted_marker_may_stand_in_a_value(void **state)
{
    (void)state;
    static const token tokens[] = {
        {"<", false},
        {"｜DSML｜", true},
        {"invoke name=\"f\">\n<", false},
        {"｜DSML｜", true},
        {"parameter name=\"v\" string=\"true\">a</", false},
        {"｜DSML｜", false},
        {"parameter>b</", false},
        {"｜DSML｜", true},
        {"parameter></", false},
        {"｜DSML｜", true},
        {"invoke>", false},
    };
    answer a = run_tokens(tokens, sizeof tokens / sizeof tokens[0], HD_START_CONTENT);
    assert_string_equal(a.calls.data, "f\x1f{\"v\": \"a</｜DSML｜parameter>b\"}\x1e");
    assert_int_equal(a.finish, HD_FINISH_TOOL_CALLS);
    free_answer(&a);
}

static answer run_text(const char *text, size_t bytes, const hd_parser_options *given, size_t piece)
{
    answer            a = {0};
    hd_parser_options options = *given;
    hd_parser        *p = NULL;
    options.on_event = collect;
    options.user = &a;
    assert_int_equal(hd_parser_open(&p, &options, NULL), HD_OK);
    for (size_t at = 0; at < bytes; at += piece)
        assert_int_equal(
            hd_parser_push_text(p, text + at, bytes - at < piece ? bytes - at : piece, NULL),
            HD_OK);
    assert_int_equal(hd_parser_finish(p, false, &a.finish, NULL), HD_OK);
    hd_parser_close(p);
    return a;
}

static void broken_characters_become_replacements(void **state)
{
    (void)state;
    static const char       text[] = "a\xFF\xE2\x82z\xF0\x9F\x98\x80\xE2\x82";
    hd_parser_options const options = {.start = HD_START_CONTENT};
    for (size_t piece = 1; piece < sizeof text; piece++) {
        answer a = run_text(text, sizeof text - 1, &options, piece);
        assert_string_equal(a.content.data,
                            "a\xEF\xBF\xBD\xEF\xBF\xBDz\xF0\x9F\x98\x80\xEF\xBF\xBD");
        free_answer(&a);
    }
}

static void stop_strings_overlap(void **state)
{
    (void)state;
    static const struct {
        const char *text, *stop[3], *want;
        int32_t     n;
    } cases[] = {
        {"aabaabaaab", {"aabaaab"}, "aab", 1}, {"xabcabd", {"abd", "bcx"}, "xabc", 2},
        {"abcd", {"bc", "abcd"}, "a", 2},      {"abc", {"abcd"}, "abc", 1},
        {"xyz", {"yz", "z", "xyz"}, "", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 1; piece < 11; piece++) {
            hd_parser_options const options = {
                .start = HD_START_CONTENT, .stop = cases[i].stop, .n_stop = cases[i].n};
            answer a = run_text(cases[i].text, strlen(cases[i].text), &options, piece);
            assert_string_equal(a.content.data ? a.content.data : "", cases[i].want);
            free_answer(&a);
        }
}

static void refuses_unusable_options(void **state)
{
    (void)state;
    const char *const empty[] = {""}, *const broken[] = {"\xFF"};
    hd_parser        *p = NULL;
    hd_error          err = {0};
    hd_parser_options o = {.on_event = collect, .stop = empty, .n_stop = 1};
    assert_int_equal(hd_parser_open(&p, &o, &err), HD_ERR_INVALID);
    o.stop = broken;
    assert_int_equal(hd_parser_open(&p, &o, &err), HD_ERR_INVALID);
    assert_int_equal(hd_parser_open(&p, &(hd_parser_options){0}, NULL), HD_ERR_INVALID);
    assert_null(p);
    o = (hd_parser_options){.on_event = collect};
    assert_int_equal(hd_parser_open(&p, &o, &err), HD_OK);
    assert_int_equal(hd_parser_finish(p, false, NULL, NULL), HD_OK);
    assert_int_equal(hd_parser_push_text(p, "x", 1, &err), HD_ERR_INVALID);
    assert_int_equal(hd_parser_finish(p, false, NULL, &err), HD_ERR_INVALID);
    hd_parser_close(p);
    hd_parser_close(NULL);
}

static void says_when_it_is_done(void **state)
{
    (void)state;
    answer                  a = {0};
    const char *const       stop[] = {"END"};
    hd_parser_options const o = {
        .start = HD_START_CONTENT, .stop = stop, .n_stop = 1, .on_event = collect, .user = &a};
    hd_parser *p = NULL;
    assert_int_equal(hd_parser_open(&p, &o, NULL), HD_OK);
    assert_int_equal(hd_parser_push_text(p, "xEN", 3, NULL), HD_OK);
    assert_false(hd_parser_is_done(p));
    assert_string_equal(a.content.data, "x");
    assert_int_equal(hd_parser_push_text(p, "Dy", 2, NULL), HD_OK);
    assert_true(hd_parser_is_done(p));
    assert_int_equal(hd_parser_finish(p, true, &a.finish, NULL), HD_OK);
    assert_int_equal(a.finish, HD_FINISH_STOP);
    assert_string_equal(a.content.data, "x");
    hd_parser_close(p);
    free_answer(&a);
}

#define ROOM             "<｜DSML｜parameter name=\"room\" string=\"true\">hall</｜DSML｜parameter>\n"
#define LEVEL            "<｜DSML｜parameter name=\"level\" string=\"false\">3</｜DSML｜parameter>\n"
#define INVOKE           "<｜DSML｜invoke name=\"set_lamp\">\n" ROOM LEVEL "</｜DSML｜invoke>\n"
#define OPEN             "<｜DSML｜tool_calls>\n"
#define CLOSE            "</｜DSML｜tool_calls>"
#define HALL             "set_lamp\x1f{\"room\": \"hall\", \"level\": 3}\x1e"
#define WITH(parameters) OPEN "<｜DSML｜invoke name=\"f\">\n" parameters "</｜DSML｜invoke>\n" CLOSE
#define VALUE(string, value) \
    WITH("<｜DSML｜parameter name=\"v\" string=\"" string "\">" value "</｜DSML｜parameter>\n")
#define F(arguments) "f\x1f" arguments "\x1e"
#define EOS          "<｜end▁of▁sentence｜>"

/* Faults of other servers, as they were reported in public: the text, and what must become of
 * it however it is cut.  Where a report asks for more than the rows above allow, the rows
 * rule: attributes in another order are no parameter, bytes that are no JSON become a string,
 * and a begin-of-sentence in the output, which sampling is to prevent, stays visible.
 * Not here, because no parser can tell or do it: arguments wrapped in a needless "arguments"
 * (it takes the schema of the tool), arguments streamed while they are written (an invoke is
 * held back until it is closed), an answer that ends with nothing, several endpoints with one
 * result, and what is drawn greedily inside a call. */
static const struct fault {
    const char *name, *text, *reasoning, *content, *calls, *unparsed;
    bool        is_reasoning;
} faults[] = {
    {"opening wrapper missing", INVOKE CLOSE EOS, "", "", HALL, "", false},
    {"no wrapper at all", INVOKE EOS, "", "", HALL, "", false},
    {"wrapper misspelt", "<｜DSML｜toolcalls>\n" INVOKE CLOSE EOS, "", "", HALL, "", false},
    {"wrapper of the model before",
     "<｜DSML｜function_calls>\n" INVOKE "</｜DSML｜function_calls>" EOS, "", "", HALL, "", false},
    {"</think> after the call", "Check first\n\n" OPEN INVOKE CLOSE "</think>", "Check first", "",
     HALL, "", true},
    {"</think> and space after the call", "Check\n\n" OPEN INVOKE CLOSE "\n</think>\n\n" EOS,
     "Check", "", HALL, "", true},
    {"a quoted call, then an answer", "See\n\n" OPEN INVOKE CLOSE "</think>\n\nNo.<" EOS,
     "See\n\n" OPEN INVOKE CLOSE, "\n\nNo.<", "", "", true},
    {"value that ends in >&1", VALUE("true", "lampctl --probe 2>&1"), "", "",
     F("{\"v\": \"lampctl --probe 2>&1\"}"), "", false},
    {"value with <", VALUE("true", "a<b"), "", "", F("{\"v\": \"a<b\"}"), "", false},
    {"value </", VALUE("true", "</"), "", "", F("{\"v\": \"</\"}"), "", false},
    {"value that ends in <", VALUE("true", "a<"), "", "", F("{\"v\": \"a<\"}"), "", false},
    {"cut inside a value", OPEN "<｜DSML｜invoke name=\"set_lamp\">\n" ROOM "<｜DSML｜param" EOS,
     "", "", "", OPEN "<｜DSML｜invoke name=\"set_lamp\">\n" ROOM "<｜DSML｜param", false},
    {"outer closer missing", OPEN INVOKE EOS, "", "", HALL, "", false},
    {"another closer", OPEN "<｜DSML｜invoke name=\"set_lamp\">\n" ROOM "</function>" EOS, "", "",
     "", OPEN "<｜DSML｜invoke name=\"set_lamp\">\n" ROOM "</function>", false},
    {"nested array", VALUE("false", "[[1,{\"k\":\"v\"}],[2,{\"k\":\"w\"}]]"), "", "",
     F("{\"v\": [[1,{\"k\":\"v\"}],[2,{\"k\":\"w\"}]]}"), "", false},
    {"nested array, malformed", VALUE("false", "[[1,{\"k\":}]]"), "", "",
     F("{\"v\": \"[[1,{\\\"k\\\":}]]\"}"), "", false},
    {"bad JSON", VALUE("false", "3,"), "", "", F("{\"v\": \"3,\"}"), "", false},
    {"two calls", OPEN INVOKE INVOKE CLOSE EOS, "", "", HALL HALL, "", false},
    {"two calls, one broken", OPEN INVOKE "<｜DSML｜invoke>\n" CLOSE EOS, "", "", HALL,
     "\n<｜DSML｜invoke>\n" CLOSE, false},
    {"blank lines between tags",
     "\n\n" OPEN "\n<｜DSML｜invoke name=\"set_lamp\">\n\n" ROOM "\n" LEVEL
     "\n\n</｜DSML｜invoke>\n\n" CLOSE EOS,
     "", "", HALL, "", false},
    {"CRLF",
     "<｜DSML｜tool_calls>\r\n<｜DSML｜invoke name=\"f\">\r\n<｜DSML｜parameter name=\"v\" "
     "string=\"true\">x</｜DSML｜parameter>\r\n</｜DSML｜invoke>\r\n" CLOSE EOS,
     "", "", F("{\"v\": \"x\"}"), "", false},
    {"attributes in another order",
     WITH("<｜DSML｜parameter string=\"true\" name=\"v\">x</｜DSML｜parameter>\n"), "", "", "",
     WITH("<｜DSML｜parameter string=\"true\" name=\"v\">x</｜DSML｜parameter>\n"), false},
    {"empty string", VALUE("true", ""), "", "", F("{\"v\": \"\"}"), "", false},
    {"empty value", VALUE("false", ""), "", "", F("{\"v\": \"\"}"), "", false},
    {"no parameters", WITH(""), "", "", F("{}"), "", false},
    {"tokens of the start and the end", "a<｜begin▁of▁sentence｜>b" EOS "c" EOS, "",
     "a<｜begin▁of▁sentence｜>b", "", "", false},
};

static void check_text(const hd_buffer *got, const char *want, const char *name, size_t piece)
{
    const char *const text = got->data ? got->data : "";
    if (strcmp(text, want) != 0)
        fail_msg("%s, %zu bytes each:\n got  [%s]\n want [%s]", name, piece, text, want);
}

static void known_faults_are_not_repeated(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 2, 3, 5, 7, 1000};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
            const struct fault *const f = &faults[i];
            hd_parser_options const   options = {.start = f->is_reasoning ? HD_START_REASONING
                                                                          : HD_START_CONTENT,
                                                 .has_tools = true};
            answer                    a = run_text(f->text, strlen(f->text), &options, pieces[k]);
            check_text(&a.reasoning, f->reasoning, f->name, pieces[k]);
            check_text(&a.content, f->content, f->name, pieces[k]);
            check_text(&a.calls, f->calls, f->name, pieces[k]);
            check_text(&a.unparsed, f->unparsed, f->name, pieces[k]);
            assert_int_equal(a.finish, *f->calls ? HD_FINISH_TOOL_CALLS : HD_FINISH_STOP);
            free_answer(&a);
        }
}

/* Ten megabytes of each hard case, byte by byte where it hurts, in linear time. */
static void long_output_takes_linear_time(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "", "<｜DSML｜invoke name=\"",
        "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"v\" string=\"true\">",
        "<｜DSML｜tool_calls>"};
    static const char *const bodies[] = {"\n", "<", "</", "<｜", "a\n\n<", "<think>", "\xE2"};
    clock_t const            start = clock();
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 7; k++) {
            hd_buffer text = {0};
            hd_buffer_text(&text, heads[i]);
            while (text.used < 1000 * 1000) hd_buffer_text(&text, bodies[k]);
            hd_parser_options const options = {.start = HD_START_REASONING, .has_tools = true};
            answer                  a = run_text(text.data, text.used, &options, 3);
            assert_true(a.n_calls == 0 && a.content.used == 0);
            free_answer(&a);
            hd_buffer_free(&text);
        }
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 60);
}

static void survives_short_memory(void **state)
{
    (void)state;
    static const char text[] =
        "r</think>c\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
        "name=\"v\" string=\"false\">[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n";
    const char *const stop[] = {"xyz"};
    hd_status         status = HD_ERR_MEMORY;
    for (int n = 1; status != HD_OK; n++) {
        answer            a = {0};
        hd_parser        *p = NULL;
        hd_parser_options o = {
            .has_tools = true, .stop = stop, .n_stop = 1, .on_event = collect, .user = &a};
        hd_memory_fail_at(n);
        status = hd_parser_open(&p, &o, NULL);
        if (status == HD_OK) status = hd_parser_push_text(p, text, sizeof text - 1, NULL);
        if (status == HD_OK) status = hd_parser_finish(p, false, NULL, NULL);
        hd_memory_fail_at(0);
        assert_true(status == HD_OK || status == HD_ERR_MEMORY || a.content.failed);
        hd_parser_close(p);
        free_answer(&a);
        assert_true(n < 100);
    }
}

static int open_rows(void **state)
{
    (void)state;
    rows = read_golden("tests/golden/encoding/answers.jsonl", &rows_bytes);
    return 0;
}

static int close_rows(void **state)
{
    (void)state;
    free(rows);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_recorded_answers_cut_anywhere),
        cmocka_unit_test(spelled_markers_are_text_in_tokens),
        cmocka_unit_test(a_quoted_marker_may_stand_in_a_value),
        cmocka_unit_test(broken_characters_become_replacements),
        cmocka_unit_test(stop_strings_overlap),
        cmocka_unit_test(refuses_unusable_options),
        cmocka_unit_test(says_when_it_is_done),
        cmocka_unit_test(known_faults_are_not_repeated),
        cmocka_unit_test(long_output_takes_linear_time),
        cmocka_unit_test(survives_short_memory),
    };
    return cmocka_run_group_tests(tests, open_rows, close_rows);
}
