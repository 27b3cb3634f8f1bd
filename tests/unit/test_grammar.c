#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../support/fail_each.h"
#include "base/memory.h"
#include "grammar/grammar.h"

/* Of the demo's tokenizer; its end is token 1. */
static hd_tokenizer *tokenizer;
static int32_t       n_vocab;
static const int32_t end_id = 1;

static int open_tokenizer(void **state)
{
    (void)state;
    hd_error err = {0};
    if (hd_tokenizer_open(&tokenizer, "models/demo", &err) != HD_OK) fail_msg("%s", err.message);
    n_vocab = hd_tokenizer_vocab(tokenizer);
    return 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    hd_tokenizer_close(tokenizer);
    return 0;
}

/* ---- helpers ---- */

static hd_grammar_options schema_options(const char *schema)
{
    return (hd_grammar_options){
        .kind = HD_GRAMMAR_SCHEMA, .json = schema, .json_bytes = strlen(schema)};
}

static hd_grammar *open_grammar(const hd_grammar_options *opt)
{
    hd_error    err = {0};
    hd_grammar *g = NULL;
    if (hd_grammar_open(&g, tokenizer, opt, &err) != HD_OK)
        fail_msg("%s: %s", opt->json, err.message);
    return g;
}

static hd_matcher *open_matcher(const hd_grammar *g, hd_parse_start start)
{
    hd_error    err = {0};
    hd_matcher *m = NULL;
    if (hd_matcher_open(&m, g, start, &err) != HD_OK) fail_msg("%s", err.message);
    return m;
}

static uint32_t *make_mask(void)
{
    return test_malloc(((size_t)n_vocab / 32 + 1) * sizeof(uint32_t));
}

static void take_mask(hd_matcher *m, uint32_t *mask)
{
    hd_error err = {0};
    if (hd_matcher_mask(m, mask, n_vocab, &end_id, 1, &err) != HD_OK) fail_msg("%s", err.message);
}

static bool is_allowed(const uint32_t *mask, int32_t id) { return mask[id / 32] >> id % 32 & 1; }

/* Feeds a text as the tokenizer cuts it, control tokens as such.
 * returns  how many tokens were taken; *n is how many there are */
static int32_t feed(hd_matcher *m, const char *text, int32_t *n)
{
    int32_t   ids[2048], at = 0;
    hd_status status = hd_tokenizer_encode(tokenizer, text, strlen(text), true, ids, 2048, n, NULL);
    assert_int_equal(status, HD_OK);
    while (at < *n && hd_matcher_accept(m, ids[at], NULL) == HD_OK) at++;
    return at;
}

static bool feeds(hd_matcher *m, const char *text)
{
    int32_t       n;
    int32_t const taken = feed(m, text, &n);
    return taken == n;
}

static bool may_end(hd_matcher *m)
{
    uint32_t *const mask = make_mask();
    take_mask(m, mask);
    bool const is_end = is_allowed(mask, end_id);
    test_free(mask);
    return is_end;
}

static bool takes(const hd_grammar *g, hd_parse_start start, const char *text)
{
    hd_matcher *const m = open_matcher(g, start);
    bool const        is_taken = feeds(m, text) && may_end(m);
    hd_matcher_close(m);
    return is_taken;
}

static bool schema_takes(const char *schema, const char *text)
{
    hd_grammar_options const opt = schema_options(schema);
    hd_grammar *const        g = open_grammar(&opt);
    bool const               is_taken = takes(g, HD_START_CONTENT, text);
    hd_grammar_close(g);
    return is_taken;
}

/* ---- masks are what trying each token gives ---- */

/* Whether a token may come, found by taking it in a matcher that came the same way. */
static bool try_token(const hd_grammar *g, hd_parse_start start, const int32_t *ids, int32_t n,
                      int32_t id)
{
    hd_matcher *const m = open_matcher(g, start);
    for (int32_t i = 0; i < n; i++) assert_int_equal(hd_matcher_accept(m, ids[i], NULL), HD_OK);
    bool const is_taken = hd_matcher_accept(m, id, NULL) == HD_OK;
    hd_matcher_close(m);
    return is_taken;
}

#define MAX_TRIED 60 /* of the tokens allowed in one place, evenly spread */

static int32_t count_allowed(const uint32_t *mask)
{
    int32_t n = 0;
    for (int32_t id = 0; id < n_vocab; id++) n += is_allowed(mask, id);
    return n;
}

/* A refused token leaves the matcher as it was, so one serves for all; each that is allowed wants
 * one of its own. */
static void compare_mask(const hd_grammar *g, hd_parse_start start, const int32_t *ids, int32_t n,
                         const uint32_t *mask)
{
    hd_matcher *const m = open_matcher(g, start);
    for (int32_t i = 0; i < n; i++) assert_int_equal(hd_matcher_accept(m, ids[i], NULL), HD_OK);
    int32_t const every = count_allowed(mask) / MAX_TRIED + 1;
    int32_t       at = n; /* other ones in each place */
    for (int32_t id = 0; id < n_vocab; id++) {
        bool const is_in = is_allowed(mask, id);
        if (id == end_id || (is_in && at++ % every)) continue;
        bool const is_taken =
            is_in ? try_token(g, start, ids, n, id) : hd_matcher_accept(m, id, NULL) == HD_OK;
        if (is_taken != is_allowed(mask, id))
            fail_msg("token %d behind %d others: the mask says %d, trying says %d", id, n,
                     is_allowed(mask, id), is_taken);
    }
    hd_matcher_close(m);
}

static void compare_all_masks(const hd_grammar_options *opt, hd_parse_start start, const char *text)
{
    hd_grammar *const g = open_grammar(opt);
    hd_matcher *const m = open_matcher(g, start);
    uint32_t *const   mask = make_mask();
    int32_t           ids[512], n;
    assert_int_equal(hd_tokenizer_encode(tokenizer, text, strlen(text), true, ids, 512, &n, NULL),
                     HD_OK);
    for (int32_t i = 0; i <= n; i++) {
        take_mask(m, mask);
        compare_mask(g, start, ids, i, mask);
        if (i < n) assert_int_equal(hd_matcher_accept(m, ids[i], NULL), HD_OK);
    }
    assert_true(is_allowed(mask, end_id));
    test_free(mask);
    hd_matcher_close(m);
    hd_grammar_close(g);
}

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"set_lamp\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"room\":{\"type\":\"string\"},\"level\":{\"type\":\"integer\","
    "\"minimum\":0,\"maximum\":9},\"note\":{\"type\":\"string\",\"maxLength\":6},\"mode\":{"
    "\"enum\":[\"on\",\"off\",1]}},\"required\":[\"room\"]}}},{\"type\":\"function\",\"function\":"
    "{\"name\":\"now\"}}]";
static const char one_call[] =
    "<｜DSML｜invoke name=\"set_lamp\">\n"
    "<｜DSML｜parameter name=\"room\" string=\"true\">a </b> hall</｜DSML｜parameter>\n"
    "<｜DSML｜parameter name=\"level\" string=\"false\">3</｜DSML｜parameter>\n"
    "<｜DSML｜parameter name=\"note\" string=\"true\">x</y</｜DSML｜parameter>\n"
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";

/* Calls of `tools`, or JSON that the schema takes. */
static hd_grammar_options either_options(const char *schema)
{
    return (hd_grammar_options){.kind = HD_GRAMMAR_TOOL_CALLS,
                                .json = tools,
                                .json_bytes = sizeof tools - 1,
                                .instead = schema,
                                .instead_bytes = strlen(schema)};
}

static void test_masks(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"type\":\"object\"}", "{\"a\\n\": [1, {\"b\": null}, \"\xc3\xa9\"]}"},
        {"{\"type\":\"string\",\"minLength\":4,\"maxLength\":9}", "\"abc def\""},
        {"{\"type\":\"string\",\"maxLength\":400,\"minLength\":300}", NULL},
        {"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"name2\":{\"type\":"
         "\"array\",\"items\":{\"type\":\"number\"},\"minItems\":2,\"maxItems\":3}},\"required\":["
         "\"name2\"],\"additionalProperties\":{\"type\":\"boolean\"}}",
         "{\"name\": \"\", \"name2\": [1, 2.5e3 ], \"n\": true}"},
        {"{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"a\"},\"x\":{\"type\":"
         "\"integer\"}},\"required\":[\"t\",\"x\"]},{\"type\":\"object\",\"properties\":{\"t\":{"
         "\"const\":\"ab\"},\"y\":{\"type\":\"string\",\"pattern\":\"^[a-f]+$\"}},\"required\":["
         "\"t\",\"y\"]}]}",
         "{\"t\": \"ab\", \"y\": \"fade\"}"},
        {"{\"$defs\":{\"l\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/l\"}}},\"$ref\":"
         "\"#/$defs/l\"}",
         "[[[]],[[[]]]]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hd_grammar_options const opt = schema_options(cases[i][0]);
        char                     text[512];
        snprintf(text, sizeof text, "\"%0*d\"", 305, 7);
        compare_all_masks(&opt, HD_START_CONTENT, cases[i][1] ? cases[i][1] : text);
    }
    hd_grammar_options const calls = {
        .kind = HD_GRAMMAR_TOOL_CALLS, .json = tools, .json_bytes = sizeof tools - 1};
    compare_all_masks(&calls, HD_START_TOOL_CALLS, one_call);
    hd_grammar_options const either = either_options("{\"type\":\"object\"}");
    char                     whole[2048];
    snprintf(whole, sizeof whole, "\n\n<｜DSML｜tool_calls>\n%s", one_call);
    compare_all_masks(&either, HD_START_CONTENT, whole);
    compare_all_masks(&either, HD_START_CONTENT, "{\"\\n\\n<\": [\"<｜\"]}");
}

/* Near the deepest nesting masks depend on the depth. */
static void test_masks_in_depth(void **state)
{
    (void)state;
    hd_grammar_options const opt =
        schema_options("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}");
    char text[2 * HD_MAX_NESTING + 1];
    memset(text, '[', HD_MAX_NESTING);
    memset(text + HD_MAX_NESTING, ']', HD_MAX_NESTING);
    text[2 * HD_MAX_NESTING] = 0;
    hd_grammar *const g = open_grammar(&opt);
    hd_matcher *const m = open_matcher(g, HD_START_CONTENT);
    uint32_t *const   mask = make_mask();
    int32_t           ids[512], n;
    assert_int_equal(hd_tokenizer_encode(tokenizer, text, strlen(text), true, ids, 512, &n, NULL),
                     HD_OK);
    size_t depth = 0;
    for (int32_t i = 0; i < n; i++) {
        size_t            bytes;
        const char *const s = hd_tokenizer_bytes(tokenizer, ids[i], &bytes);
        take_mask(m, mask);
        if (depth + 9 > HD_MAX_NESTING) compare_mask(g, HD_START_CONTENT, ids, i, mask);
        assert_int_equal(hd_matcher_accept(m, ids[i], NULL), HD_OK);
        for (size_t k = 0; k < bytes; k++) depth += s[k] == '[';
    }
    take_mask(m, mask);
    assert_true(is_allowed(mask, end_id));
    test_free(mask);
    hd_matcher_close(m);
    hd_grammar_close(g);
    char deeper[2 * HD_MAX_NESTING + 3];
    snprintf(deeper, sizeof deeper, "[%s]", text);
    assert_false(schema_takes(opt.json, deeper));
}

/* ---- text ---- */

static void test_utf8(void **state)
{
    (void)state;
    static const char text[] = "{\"type\":\"string\"}";
    assert_true(schema_takes(text, "\"\xf0\x9f\x98\x80\xed\x9f\xbf\""));
    assert_true(schema_takes(text, "\"\\ud83d\\ude00\\uFFFF\\/\""));
    static const char *const bad[] = {"\"\\ud83d\"",
                                      "\"\\ude00\"",
                                      "\"\\ud83d\\u0041\"",
                                      "\"\\x\"",
                                      "\"\n\"",
                                      "\"\\u12\"",
                                      "\"a",
                                      "a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(schema_takes(text, bad[i]));
    /* Bytes that are no UTF-8 do not even begin. */
    hd_grammar_options const opt = schema_options(text);
    hd_grammar *const        g = open_grammar(&opt);
    hd_matcher *const        m = open_matcher(g, HD_START_CONTENT);
    uint32_t *const          mask = make_mask();
    assert_true(feeds(m, "\""));
    take_mask(m, mask);
    for (int32_t id = 0; id < n_vocab; id++) {
        size_t                     bytes;
        const unsigned char *const s =
            (const unsigned char *)hd_tokenizer_bytes(tokenizer, id, &bytes);
        bool const is_bad = s[0] >= 0xF5 || s[0] == 0xC0 || s[0] == 0xC1 || (s[0] & 0xC0) == 0x80;
        if (is_bad || hd_tokenizer_is_control(tokenizer, id)) assert_false(is_allowed(mask, id));
    }
    test_free(mask);
    hd_matcher_close(m);
    hd_grammar_close(g);
}

static void test_white_space(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"const\":1}}}}";
    assert_true(schema_takes(schema, "{\"a\":[1,1]}"));
    assert_true(schema_takes(schema, "{\n  \"a\": [\n\t\t1,\n    1\n  ]\n}"));
    assert_false(schema_takes(schema, "{  }"));
    assert_false(schema_takes(schema, "{\n\n}"));
    assert_false(schema_takes(schema, " {}"));
    assert_false(schema_takes(schema, "{} "));
    assert_false(schema_takes(schema, "{\"a\" :[1]}"));
}

static void test_nullable(void **state)
{
    (void)state;
    static const char schema[] = "{\"type\":\"string\",\"enum\":[\"a\"],\"nullable\":true}";
    assert_true(schema_takes(schema, "null"));
    assert_true(schema_takes(schema, "\"a\""));
    assert_false(schema_takes(schema, "\"b\""));
}

/* ---- errors ---- */

static void expect_error(const char *schema, hd_status code, const char *part)
{
    hd_error                 err = {0};
    hd_grammar              *g = NULL;
    hd_grammar_options const opt = schema_options(schema);
    clock_t const            start = clock();
    hd_status const          status = hd_grammar_open(&g, tokenizer, &opt, &err);
    if (status != code || !strstr(err.message, part))
        fail_msg("%.200s: %s: %s", schema, hd_status_name(status), err.message);
    assert_null(g);
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
}

static void test_errors(void **state)
{
    (void)state;
    expect_error("{", HD_ERR_FORMAT, "schema");
    expect_error("{\"properties\":{\"a\":{\"items\":{\"not\":{}}}}}", HD_ERR_UNSUPPORTED,
                 "schema.properties.a.items.not");
    expect_error("{\"anyOf\":[{},{\"type\":\"text\"}]}", HD_ERR_FORMAT, "schema.anyOf[1].type");
    expect_error("{\"$defs\":{\"x\":{\"minimum\":\"1\"}},\"$ref\":\"#/$defs/x\"}", HD_ERR_FORMAT,
                 "schema.$defs.x.minimum");
    expect_error("{\"type\":\"string\",\"pattern\":\"a(b\"}", HD_ERR_FORMAT, "schema: a group");
    expect_error("{\"properties\":{\"a\":null}}", HD_ERR_FORMAT, "schema.properties.a");
    /* What nothing refers to does not matter. */
    assert_true(schema_takes("{\"$defs\":{\"x\":{\"not\":{}}},\"type\":\"null\"}", "null"));
}

/* ---- hostile schemas ---- */

static void expect_limit(hd_buffer *schema)
{
    assert_false(schema->failed);
    expect_error(schema->data, HD_ERR_LIMIT, "schema");
    hd_buffer_free(schema);
}

static void repeat(hd_buffer *b, const char *text, int n)
{
    for (int i = 0; i < n; i++) hd_buffer_text(b, text);
}

static void test_hostile(void **state)
{
    (void)state;
    hd_buffer b = {0};
    /* A DFA of 2^30 states, and patterns that others read in exponential time. */
    expect_error("{\"type\":\"string\",\"pattern\":\"(a|b)*a(a|b){30}$\"}", HD_ERR_LIMIT, "schema");
    assert_true(
        schema_takes("{\"type\":\"string\",\"pattern\":\"^(a|a)*b$\"}", "\"aaaaaaaaaaaab\""));
    assert_true(schema_takes("{\"type\":\"string\",\"pattern\":\"^((a*)*)*b$\"}", "\"aab\""));
    expect_error("{\"type\":\"string\",\"pattern\":\"(((a{1000}){1000}){1000}){1000}\"}",
                 HD_ERR_LIMIT, "schema");
    expect_error("{\"type\":\"string\",\"pattern\":\"((((){1000}){1000}){1000}){1000}\"}",
                 HD_ERR_LIMIT, "schema");
    hd_buffer_text(&b, "{\"type\":\"string\",\"pattern\":\"");
    repeat(&b, "(", 5000);
    repeat(&b, ")", 5000);
    hd_buffer_text(&b, "\"}");
    expect_limit(&b);
    /* Numbers of things cost nothing by themselves. */
    assert_true(schema_takes("{\"type\":\"array\",\"items\":{\"const\":1},\"maxItems\":2000000000}",
                             "[1,1]"));
    assert_true(schema_takes("{\"type\":\"string\",\"maxLength\":2000000000}", "\"x\""));
    /* 2^60 alternatives that are the same two, and 3^12 that differ. */
    hd_buffer_text(&b, "{\"$defs\":{");
    for (int i = 0; i < 60; i++)
        hd_buffer_printf(
            &b, "\"d%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},", i,
            i + 1, i + 1);
    hd_buffer_text(&b, "\"d60\":{\"type\":\"null\"}},\"$ref\":\"#/$defs/d0\"}");
    assert_true(schema_takes(b.data, "null"));
    hd_buffer_free(&b);
    hd_buffer_text(&b, "{\"allOf\":[");
    for (int i = 0; i < 12; i++)
        hd_buffer_printf(&b,
                         "%s{\"anyOf\":[{\"minimum\":%d},{\"maximum\":%d},{\"multipleOf\":%d}]}",
                         i ? "," : "", i, i + 50, i + 2);
    hd_buffer_text(&b, "]}");
    expect_limit(&b);
    /* Deep JSON, a long chain of references, very many schemas. */
    repeat(&b, "{\"items\":", 300);
    repeat(&b, "{}", 1);
    repeat(&b, "}", 300);
    expect_error(b.data, HD_ERR_FORMAT, "schema");
    hd_buffer_free(&b);
    hd_buffer_text(&b, "{\"$defs\":{");
    for (int i = 0; i < 1000; i++)
        hd_buffer_printf(&b, "\"d%d\":{\"$ref\":\"#/$defs/d%d\"},", i, i + 1);
    hd_buffer_text(&b, "\"d1000\":{}},\"$ref\":\"#/$defs/d0\"}");
    expect_limit(&b);
    hd_buffer_text(&b, "{\"properties\":{\"x\":{}");
    for (int i = 0; i < 30000; i++) hd_buffer_printf(&b, ",\"p%d\":{}", i);
    hd_buffer_text(&b, "}}");
    expect_limit(&b);
}

static void test_many_values(void **state)
{
    (void)state;
    hd_buffer b = {0};
    hd_buffer_text(&b, "{\"enum\":[0");
    for (int i = 0; i < 20000; i++) hd_buffer_printf(&b, ",\"value number %d\"", i * 7919 % 100003);
    hd_buffer_text(&b, "]}");
    assert_true(schema_takes(b.data, "\"value number 7919\""));
    assert_false(schema_takes(b.data, "\"value number 100004\""));
    hd_buffer_free(&b);
}

/* ---- calls ---- */

static const char call_of_now[] = "<｜DSML｜invoke name=\"now\">\n\n</｜DSML｜invoke>\n";

static void test_calls(void **state)
{
    (void)state;
    hd_grammar_options opt = {
        .kind = HD_GRAMMAR_TOOL_CALLS, .json = tools, .json_bytes = sizeof tools - 1};
    char whole[2048], two[2048];
    snprintf(whole, sizeof whole, "\n\n<｜DSML｜tool_calls>\n%s", one_call);
    snprintf(two, sizeof two, "%s%s", call_of_now, one_call);
    hd_grammar *g = open_grammar(&opt);
    assert_true(takes(g, HD_START_CONTENT, whole));
    assert_true(takes(g, HD_START_TOOL_CALLS, one_call));
    assert_true(takes(g, HD_START_TOOL_CALLS, two));
    assert_false(takes(g, HD_START_CONTENT, "Hello."));
    assert_false(takes(g, HD_START_TOOL_CALLS, call_of_now)); /* not closed */
    hd_grammar_close(g);
    opt.is_single = true;
    g = open_grammar(&opt);
    assert_true(takes(g, HD_START_TOOL_CALLS, one_call));
    assert_false(takes(g, HD_START_TOOL_CALLS, two));
    hd_grammar_close(g);
    opt.function = "now";
    g = open_grammar(&opt);
    assert_false(takes(g, HD_START_TOOL_CALLS, one_call));
    hd_grammar_close(g);
}

/* Where calls are optional, text is free, and only what is inside of a block is limited. */
static void test_optional_calls(void **state)
{
    (void)state;
    hd_grammar_options const opt = {.kind = HD_GRAMMAR_TOOL_CALLS,
                                    .json = tools,
                                    .json_bytes = sizeof tools - 1,
                                    .is_optional = true};
    char                     whole[2048];
    snprintf(whole, sizeof whole, "Let me see: a < b.\n\n<｜DSML｜tool_calls>\n%s", one_call);
    hd_grammar *const g = open_grammar(&opt);
    assert_true(takes(g, HD_START_CONTENT, "No call < at all"));
    assert_true(takes(g, HD_START_CONTENT, whole));
    hd_matcher *const m = open_matcher(g, HD_START_CONTENT);
    assert_true(hd_matcher_is_free(m));
    assert_true(feeds(m, "text <｜DSML｜"));
    assert_false(hd_matcher_is_free(m));
    assert_false(may_end(m));
    assert_false(feeds(m, "calls>"));
    assert_true(feeds(m, "tool_calls>\n"));
    assert_true(feeds(m, call_of_now));
    assert_true(feeds(m, "</｜DSML｜tool_calls>"));
    assert_true(may_end(m));
    assert_false(feeds(m, "more"));
    hd_matcher_close(m);
    hd_grammar_close(g);
}

/* An answer is calls, or text that the schema takes; never both, nor any other text. */
static void test_calls_or_schema(void **state)
{
    (void)state;
    hd_grammar_options opt = either_options("{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":"
                                            "\"object\",\"properties\":{\"x\":{\"type\":"
                                            "\"integer\"}},\"required\":[\"x\"]}}}");
    char               whole[2048], both[2100];
    snprintf(whole, sizeof whole, "\n\n<｜DSML｜tool_calls>\n%s", one_call);
    snprintf(both, sizeof both, "{\"x\": 7}%s", whole);
    for (int i = 0; i < 2; i++) {
        opt.is_single = i == 1;
        hd_grammar *const g = open_grammar(&opt);
        assert_true(takes(g, HD_START_CONTENT, whole));
        assert_true(takes(g, HD_START_CONTENT, "{\"x\": 7}"));
        assert_true(takes(g, HD_START_TOOL_CALLS, one_call));
        static const char *const bad[] = {"{\"x\": \"7\"}", "{}", "Hello.", "", "\n\n{\"x\": 7}"};
        for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++)
            assert_false(takes(g, HD_START_CONTENT, bad[k]));
        assert_false(takes(g, HD_START_CONTENT, both));
        assert_false(takes(g, HD_START_TOOL_CALLS, "{\"x\": 7}"));
        hd_matcher *const m = open_matcher(g, HD_START_REASONING);
        assert_true(feeds(m, "I say 7 or call.</think>"));
        assert_false(may_end(m));
        assert_true(feeds(m, i ? whole : "{\"x\": 7}"));
        assert_true(may_end(m));
        hd_matcher_close(m);
        hd_grammar_close(g);
    }
}

/* Each half says what is wrong with it under its own name. */
static void test_bad_half(void **state)
{
    (void)state;
    hd_grammar_options const bad_schema =
        either_options("{\"properties\":{\"a\":{\"type\":\"strnig\"}}}");
    hd_grammar_options bad_tools = either_options("{}"), broken = either_options("{");
    hd_grammar        *g = NULL;
    hd_error           err = {0};
    bad_tools.json = "[{}]";
    bad_tools.json_bytes = 4;
    assert_int_equal(hd_grammar_open(&g, tokenizer, &bad_schema, &err), HD_ERR_FORMAT);
    assert_non_null(strstr(err.message, "schema.properties.a.type"));
    assert_int_equal(hd_grammar_open(&g, tokenizer, &bad_tools, &err), HD_ERR_FORMAT);
    assert_non_null(strstr(err.message, "tools[0]"));
    assert_int_equal(hd_grammar_open(&g, tokenizer, &broken, &err), HD_ERR_FORMAT);
    assert_non_null(strstr(err.message, "schema"));
}

static void test_reasoning(void **state)
{
    (void)state;
    hd_grammar_options const opt = {.kind = HD_GRAMMAR_JSON};
    hd_grammar *const        g = open_grammar(&opt);
    hd_matcher *const        m = open_matcher(g, HD_START_REASONING);
    uint32_t *const          mask = make_mask();
    assert_false(hd_matcher_is_free(m));
    take_mask(m, mask);
    for (int32_t id = 0; id < n_vocab; id++) assert_int_equal(is_allowed(mask, id), id != end_id);
    assert_true(feeds(m, "so {it} is"));
    assert_true(feeds(m, "</think>"));
    assert_false(feeds(m, "text"));
    assert_true(feeds(m, "{\"a\": 1}"));
    assert_true(may_end(m));
    test_free(mask);
    hd_matcher_close(m);
    hd_grammar_close(g);
}

static void test_bad_tools(void **state)
{
    (void)state;
    static const struct {
        const char *json, *function, *part;
        hd_status   code;
    } cases[] = {
        {"{}", NULL, "tools", HD_ERR_FORMAT},
        {"[]", NULL, "tools", HD_ERR_FORMAT},
        {"[{}]", NULL, "tools[0]", HD_ERR_FORMAT},
        {"[{\"type\":\"custom\"}]", NULL, "tools[0]", HD_ERR_FORMAT},
        {"[{\"function\":{}}]", NULL, "tools[0].function.name", HD_ERR_FORMAT},
        {"[{\"function\":{\"name\":\"a\\\">\"}}]", NULL, "tools[0].function.name",
         HD_ERR_UNSUPPORTED},
        {"[{\"function\":{\"name\":\"f\"}}]", "g", "there is no tool g", HD_ERR_FORMAT},
        {"[{\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"string\"}}}]", NULL,
         "tools[0].function.parameters", HD_ERR_UNSUPPORTED},
        {"[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"<\":{}}}}}]", NULL,
         "tools[0].function.parameters", HD_ERR_UNSUPPORTED},
        {"[{\"function\":{\"name\":\"f\"}},{\"function\":{\"name\":\"g\",\"parameters\":{\"type\":"
         "\"object\",\"properties\":{\"x\":{\"not\":{}}}}}}]",
         NULL, "tools[1].function.parameters.properties.x.not", HD_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hd_error                 err = {0};
        hd_grammar              *g = NULL;
        hd_grammar_options const opt = {.kind = HD_GRAMMAR_TOOL_CALLS,
                                        .json = cases[i].json,
                                        .json_bytes = strlen(cases[i].json),
                                        .function = cases[i].function};
        hd_status const          status = hd_grammar_open(&g, tokenizer, &opt, &err);
        if (status != cases[i].code || !strstr(err.message, cases[i].part))
            fail_msg("%s: %s: %s", cases[i].json, hd_status_name(status), err.message);
    }
}

/* JSON's null is a text like another, wherever one stands. */
static void test_null(void **state)
{
    (void)state;
    hd_grammar_options tools_null = either_options("{}");
    tools_null.json = "null";
    tools_null.json_bytes = 4;
    hd_grammar_options const all[] = {schema_options("null"), either_options("null"), tools_null};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hd_grammar *g = NULL;
        hd_error    err = {0};
        assert_int_equal(hd_grammar_open(&g, tokenizer, &all[i], &err), HD_ERR_FORMAT);
        assert_null(g);
        assert_non_null(strstr(err.message, i == 2 ? "tools: wanted a list" : "schema"));
    }
}

/* ---- the interface ---- */

static void test_invalid(void **state)
{
    (void)state;
    hd_grammar_options const opt = {.kind = HD_GRAMMAR_JSON};
    hd_grammar              *g = NULL;
    hd_matcher              *m = NULL;
    uint32_t *const          mask = make_mask();
    assert_int_equal(hd_grammar_open(NULL, tokenizer, &opt, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_grammar_open(&g, NULL, &opt, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_grammar_open(&g, tokenizer, NULL, NULL), HD_ERR_INVALID);
    hd_grammar_options const none = {.kind = HD_GRAMMAR_SCHEMA};
    assert_int_equal(hd_grammar_open(&g, tokenizer, &none, NULL), HD_ERR_INVALID);
    hd_grammar_options const odd = {.kind = HD_GRAMMAR_JSON, .dialect = (hd_dialect)99};
    assert_int_equal(hd_grammar_open(&g, tokenizer, &odd, NULL), HD_ERR_INVALID);
    hd_grammar_options free_text = either_options("{}"), no_calls = schema_options("{}");
    free_text.is_optional = true;
    no_calls.instead = "{}";
    assert_int_equal(hd_grammar_open(&g, tokenizer, &free_text, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_grammar_open(&g, tokenizer, &no_calls, NULL), HD_ERR_INVALID);
    g = open_grammar(&opt);
    assert_int_equal(hd_matcher_open(&m, g, HD_START_TOOL_CALLS, NULL), HD_ERR_INVALID);
    m = open_matcher(g, HD_START_CONTENT);
    assert_int_equal(hd_matcher_mask(m, NULL, n_vocab, NULL, 0, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_matcher_mask(m, mask, 0, NULL, 0, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_matcher_accept(m, -1, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_matcher_accept(m, n_vocab, NULL), HD_ERR_INVALID);
    assert_true(feeds(m, "{}"));
    assert_int_equal(hd_matcher_mask(m, mask, n_vocab, NULL, 0, NULL), HD_ERR_INVALID);
    /* Fewer tokens than the tokenizer has, and more. */
    int32_t const few = 100, more = n_vocab + 70;
    uint32_t     *wide = test_calloc((size_t)more / 32 + 1, sizeof *wide);
    assert_int_equal(hd_matcher_mask(m, wide, few, &end_id, 1, NULL), HD_OK);
    assert_int_equal(hd_matcher_mask(m, wide, more, &end_id, 1, NULL), HD_OK);
    assert_int_equal(wide[0], 2);
    for (int32_t i = 1; i <= more / 32; i++) assert_int_equal(wide[i], 0);
    test_free(wide);
    test_free(mask);
    hd_matcher_close(m);
    hd_grammar_close(g);
    hd_matcher_close(NULL);
    hd_grammar_close(NULL);
}

/* ---- memory ---- */

static hd_status use_once(void *user, hd_error *err)
{
    const hd_grammar_options *const opt = user;
    hd_grammar                     *g = NULL;
    hd_matcher                     *m = NULL;
    uint32_t *const                 mask = make_mask();
    int32_t                         ids[512], n = 0;
    const char *const text = opt->kind == HD_GRAMMAR_TOOL_CALLS ? one_call : "{\"a\": [\"x\", 1]}";
    hd_status         status = hd_grammar_open(&g, tokenizer, opt, err);
    if (status == HD_OK)
        status = hd_matcher_open(
            &m, g, opt->kind == HD_GRAMMAR_TOOL_CALLS ? HD_START_TOOL_CALLS : HD_START_CONTENT,
            err);
    if (status == HD_OK)
        status = hd_tokenizer_encode(tokenizer, text, strlen(text), true, ids, 512, &n, err);
    for (int32_t i = 0; i < n && status == HD_OK; i++) {
        status = hd_matcher_mask(m, mask, n_vocab, &end_id, 1, err);
        if (status == HD_OK) status = hd_matcher_accept(m, ids[i], err);
    }
    test_free(mask);
    hd_matcher_close(m);
    hd_grammar_close(g);
    return status;
}

static void test_every_allocation(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"anyOf\":[{"
        "\"type\":\"string\",\"pattern\":\"^[a-z]{1,3}$\"},{\"type\":\"integer\",\"minimum\":0,"
        "\"multipleOf\":1}]}}},\"patternProperties\":{\"^b\":{\"$ref\":\"#\"}},\"required\":[\"a\"]"
        "}";
    hd_grammar_options opt = schema_options(schema);
    assert_true(
        fail_each(&(fail_each_call){hd_memory_fail_at, HD_ERR_MEMORY, use_once, NULL, &opt}) > 100);
    hd_grammar_options calls = either_options(schema);
    assert_true(fail_each(&(fail_each_call){hd_memory_fail_at, HD_ERR_MEMORY, use_once, NULL,
                                            &calls}) > 100);
}

/* A long answer needs no more memory than a short one. */
static void test_long_answer(void **state)
{
    (void)state;
    hd_grammar_options const opt =
        schema_options("{\"type\":\"array\",\"items\":{\"type\":\"object\"}}");
    hd_grammar *const g = open_grammar(&opt);
    hd_matcher *const m = open_matcher(g, HD_START_CONTENT);
    assert_true(feeds(m, "["));
    for (int i = 0; i < 20000; i++) assert_true(feeds(m, "{\"a\":[1, \"b\"]},"));
    assert_true(m->run.threads.used < 1000 * sizeof(hd_thread));
    assert_true(m->run.calls.used < 1000 * sizeof(hd_call));
    hd_matcher_close(m);
    hd_grammar_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_masks_in_depth),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_white_space),
        cmocka_unit_test(test_nullable),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_many_values),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_optional_calls),
        cmocka_unit_test(test_calls_or_schema),
        cmocka_unit_test(test_bad_half),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_bad_tools),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_every_allocation),
        cmocka_unit_test(test_long_answer),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
