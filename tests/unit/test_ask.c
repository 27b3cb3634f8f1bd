#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <string.h>

#include "../support/fail_each.h"
#include "server/api.h"

/* Bodies of requests to what is asked, and to refusals. */

static const hd_ask_context context = {.model = "m",
                                       .bos = 0,
                                       .n_vocab = 1000,
                                       .max_tokens = 4096,
                                       .max_answers = 16,
                                       .default_temperature = 1};

static hd_status read_body(const hd_api *api, const char *text, hd_ask *a, hd_api_error *e)
{
    hd_fields b;
    *a = (hd_ask){0};
    *e = (hd_api_error){0};
    hd_status s = hd_fields_open(&b, text, strlen(text), e);
    if (s == HD_OK) s = api->read(a, &b, &context);
    hd_fields_close(&b);
    return s;
}

/* ---- refusals ---- */

typedef struct refusal {
    const hd_api *api;
    const char   *members; /* behind a messages or a prompt that is fine */
    const char   *param;
} refusal;

#define CHAT &hd_api_openai_chat
#define TEXT &hd_api_openai_completions
#define TOOL "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"

static const refusal refusals[] = {
    {CHAT, "\"temperature\":2.1", "temperature"},
    {CHAT, "\"temperature\":\"1\"", "temperature"},
    {CHAT, "\"temperature\":NaN", "temperature"},
    {CHAT, "\"temperature\":1e999", "temperature"},
    {CHAT, "\"top_p\":-0.1", "top_p"},
    {CHAT, "\"top_p\":1.1", "top_p"},
    {CHAT, "\"top_k\":-2", "top_k"},
    {CHAT, "\"top_k\":1.5", "top_k"},
    {CHAT, "\"min_p\":2", "min_p"},
    {CHAT, "\"presence_penalty\":3", "presence_penalty"},
    {CHAT, "\"frequency_penalty\":-3", "frequency_penalty"},
    {CHAT, "\"n\":0", "n"},
    {CHAT, "\"n\":17", "n"},
    {CHAT, "\"n\":\"1\"", "n"},
    {CHAT, "\"seed\":\"a\"", "seed"},
    {CHAT, "\"seed\":99999999999999999999", "seed"},
    {CHAT, "\"max_tokens\":0", "max_tokens"},
    {CHAT, "\"max_tokens\":-1", "max_tokens"},
    {CHAT, "\"max_tokens\":\"7\"", "max_tokens"},
    {CHAT, "\"max_tokens\":1e400", "max_tokens"},
    {CHAT, "\"max_tokens\":9223372036854775808", "max_tokens"},
    {CHAT, "\"max_tokens\":5,\"max_completion_tokens\":0", "max_completion_tokens"},
    {CHAT, "\"stop\":7", "stop"},
    {CHAT, "\"stop\":\"\"", "stop"},
    {CHAT, "\"stop\":[\"a\",7]", "stop"},
    {CHAT, "\"stop\":[\"a\",null]", "stop"},
    {CHAT, "\"stop\":\"a\\u0000b\"", "stop"},
    {CHAT, "\"stop_token_ids\":[1000]", "stop_token_ids"},
    {CHAT, "\"stop_token_ids\":[-1]", "stop_token_ids"},
    {CHAT, "\"stop_token_ids\":7", "stop_token_ids"},
    {CHAT, "\"logit_bias\":{\"1000\":1}", "logit_bias"},
    {CHAT, "\"logit_bias\":{\"x\":1}", "logit_bias"},
    {CHAT, "\"logit_bias\":{\"1\":101}", "logit_bias"},
    {CHAT, "\"logit_bias\":{\"1\":\"1\"}", "logit_bias"},
    {CHAT, "\"logit_bias\":[]", "logit_bias"},
    {CHAT, "\"stream\":1", "stream"},
    {CHAT, "\"stream_options\":{}", "stream_options"},
    {CHAT, "\"stream\":true,\"stream_options\":7", "stream_options"},
    {CHAT, "\"stream\":true,\"stream_options\":{\"include_usage\":1}", "include_usage"},
    {CHAT, "\"top_logprobs\":3", "top_logprobs"},
    {CHAT, "\"logprobs\":true,\"top_logprobs\":21", "top_logprobs"},
    {CHAT, "\"logprobs\":3", "logprobs"},
    {CHAT, "\"modalities\":[\"audio\"]", "modalities"},
    {CHAT, "\"audio\":{}", "audio"},
    {CHAT, "\"functions\":[]", "functions"},
    {CHAT, "\"model\":\"other\"", "model"},
    {CHAT, "\"model\":7", "model"},
    {CHAT, "\"tool_choice\":\"required\"", "tool_choice"},
    {CHAT, "\"tools\":[],\"tool_choice\":\"required\"", "tool_choice"},
    {CHAT, TOOL ",\"tool_choice\":\"any\"", "tool_choice"},
    {CHAT, TOOL ",\"tool_choice\":7", "tool_choice"},
    {CHAT, TOOL ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}",
     "tool_choice"},
    {CHAT, TOOL ",\"tool_choice\":{\"type\":\"allowed_tools\"}", "tool_choice"},
    {CHAT, TOOL ",\"parallel_tool_calls\":1", "parallel_tool_calls"},
    {CHAT, "\"response_format\":{\"type\":\"xml\"}", "response_format.type"},
    {CHAT, TOOL ",\"response_format\":{}", "response_format.type"},
    {CHAT, TOOL ",\"tool_choice\":\"required\",\"response_format\":{\"type\":\"json_schema\"}",
     "response_format.json_schema.schema"},
    {CHAT, "\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema.schema"},
    {CHAT, "\"chat_template_kwargs\":7", "chat_template_kwargs"},
    {CHAT, "\"chat_template_kwargs\":{\"thinking\":\"x\"}", "thinking"},
    {TEXT, "\"max_tokens\":-1", "max_tokens"},
    {TEXT, "\"logprobs\":21", "logprobs"},
    {TEXT, "\"best_of\":2", "best_of"},
    {TEXT, "\"echo\":1", "echo"},
    {TEXT, "\"suffix\":7", "suffix"},
    {TEXT, "\"prompt\":7", "prompt"},
    {TEXT, "\"prompt\":[]", "prompt"},
    {TEXT, "\"prompt\":[1,\"a\"]", "prompt"},
    {TEXT, "\"prompt\":[\"a\",7]", "prompt"},
    {TEXT, "\"prompt\":[1000]", "prompt"},
    {TEXT, "\"prompt\":[[1],[]]", "prompt"},
    {TEXT, "\"prompt\":[[1]],\"suffix\":\"x\"", "suffix"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *const r = &refusals[i];
        hd_ask               a;
        hd_api_error         e;
        hd_buffer            body = {0};
        hd_buffer_printf(&body, "{%s,%s}",
                         r->api == TEXT ? "\"prompt\":\"x\"" : "\"messages\":[{\"role\":\"user\"}]",
                         r->members);
        if (read_body(r->api, body.data, &a, &e) == HD_OK) fail_msg("%s is taken", body.data);
        if (strcmp(e.param, r->param) != 0)
            fail_msg("%s: %s, param %s", body.data, e.message, e.param);
        assert_int_equal(e.status, strcmp(r->members, "\"model\":\"other\"") == 0 ? 404 : 400);
        assert_string_equal(e.type, "invalid_request_error");
        assert_true(strlen(e.message) > strlen(e.param));
        hd_ask_free(&a);
        hd_buffer_free(&body);
    }
}

static void test_bodies_that_are_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "7",
                                        "null",
                                        "{",
                                        "{\"messages\":[]",
                                        "{\"messages\":[]} x",
                                        "{\"a\":\"\\ud800\"}",
                                        "{\"messages\":null}",
                                        "{\"messages\":[]}",
                                        "{\"messages\":{}}",
                                        "{}",
                                        "{\"m\\u0065ssages\":[{\"role\":\"user\"}]}",
                                        "{\"a\\u0000\":1}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        hd_ask       a;
        hd_api_error e;
        if (read_body(CHAT, texts[i], &a, &e) == HD_OK) fail_msg("%s is taken", texts[i]);
        assert_int_equal(e.status, 400);
        hd_ask_free(&a);
    }
}

/* An ignored member that is nested deeply must not be walked by recursion without a bound. */
static void test_deep(void **state)
{
    (void)state;
    hd_ask       a;
    hd_api_error e;
    hd_buffer    body = {0};
    hd_buffer_text(&body, "{\"messages\":[{\"role\":\"user\"}],\"x\":");
    for (int i = 0; i < 200000; i++) hd_buffer_text(&body, "[");
    assert_int_not_equal(read_body(CHAT, body.data, &a, &e), HD_OK);
    assert_int_equal(e.status, 400);
    hd_ask_free(&a);
    hd_buffer_free(&body);
}

/* ---- what is asked ---- */

#define FIRST "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

static hd_ask taken(const hd_api *api, const char *text)
{
    hd_ask       a;
    hd_api_error e;
    if (read_body(api, text, &a, &e) != HD_OK) fail_msg("%s: %s", text, e.message);
    return a;
}

static void test_defaults(void **state)
{
    (void)state;
    hd_ask a = taken(CHAT, FIRST "}");
    assert_true(a.generate.sampling.temperature == 1 && a.generate.sampling.top_p == 0);
    assert_int_equal(a.generate.max_new, 0);
    assert_int_equal(a.n, 1);
    assert_int_equal(hd_ask_count(&a), 1);
    assert_false(a.has_seed || a.is_streamed || a.has_usage || a.has_logprobs);
    assert_int_equal(a.hold, HD_HOLD_NOTHING);
    assert_int_equal(a.think, HD_THINK_ASKED);
    hd_ask_free(&a);
    a = taken(TEXT, "{\"prompt\":\"x\"}");
    assert_int_equal(a.generate.max_new, 16);
    assert_true(a.generate.is_raw && a.has_bos);
    hd_ask_free(&a);
}

/* null is as if it were not there. */
static void test_null_is_missing(void **state)
{
    (void)state;
    hd_ask a =
        taken(CHAT, FIRST ",\"temperature\":null,\"max_tokens\":null,\"stop\":null,\"n\":null,"
                          "\"tools\":null,\"tool_choice\":null,\"response_format\":null,"
                          "\"stream\":null,\"stream_options\":null,\"logit_bias\":null,"
                          "\"model\":null,\"seed\":null,\"functions\":null}");
    assert_true(a.generate.sampling.temperature == 1);
    assert_false(a.has_seed);
    hd_ask_free(&a);
}

static void test_drawing(void **state)
{
    (void)state;
    hd_ask a =
        taken(CHAT, FIRST
              ",\"temperature\":0,\"top_p\":0,\"top_k\":-1,\"min_p\":0.5,\"seed\":-1,\"n\":3.0,"
              "\"presence_penalty\":-2,\"frequency_penalty\":2,\"repetition_penalty\":1.5,"
              "\"logit_bias\":{\"5\":-100,\"7\":1.5},\"stop\":[\"a\",\"bc\"],"
              "\"stop_token_ids\":[7,999],\"min_tokens\":4,\"ignore_eos\":true,"
              "\"max_tokens\":5,\"max_completion_tokens\":9,\"model\":\"m\"}");
    const hd_sampling *const s = &a.generate.sampling;
    assert_true(s->temperature == 0 && s->top_p == FLT_MIN && s->top_k == 0 && s->min_p == 0.5F);
    assert_true(s->presence_penalty == -2 && s->frequency_penalty == 2);
    assert_true(s->repetition_penalty == 1.5F && s->seed == UINT64_MAX && a.has_seed);
    assert_int_equal(s->n_bias, 2);
    assert_true(s->bias[0].id == 5 && s->bias[0].bias == -100 && s->bias[1].bias == 1.5F);
    assert_int_equal(a.generate.n_stop, 2);
    assert_string_equal(a.generate.stop[1], "bc");
    assert_int_equal(a.generate.n_stop_ids, 2);
    assert_int_equal(a.generate.stop_ids[1], 999);
    assert_true(a.generate.min_new == 4 && a.generate.ignore_eos);
    assert_int_equal(a.generate.max_new, 9); /* max_completion_tokens wins */
    assert_int_equal(a.n, 3);
    hd_ask_free(&a);
}

static void test_telling(void **state)
{
    (void)state;
    hd_ask a = taken(CHAT, FIRST ",\"stream\":true,\"stream_options\":{\"include_usage\":true,"
                                 "\"continuous_usage_stats\":true},\"logprobs\":true,"
                                 "\"top_logprobs\":20}");
    assert_true(a.is_streamed && a.has_usage && a.has_running_usage && a.has_logprobs);
    assert_int_equal(a.generate.n_top, 20);
    hd_ask_free(&a);
}

/* What the prompt is made of keeps the client's spelling; a forced call is no part of it. */
static void test_chat_is_kept(void **state)
{
    (void)state;
    hd_ask a =
        taken(CHAT, "{\"tools\": [{\"type\":\"function\",\"function\":{\"name\":\"f\","
                    "\"x\":1.0e+2}}], \"unknown\":[[7]], \"messages\" : [ {\"content\":\"x\","
                    "\"role\":\"user\"} ],\"tool_choice\":\"required\","
                    "\"chat_template_kwargs\":{\"enable_thinking\":false}}");
    assert_string_equal(a.chat.data,
                        "{\"messages\": [ {\"content\":\"x\",\"role\":\"user\"} ], \"tools\": "
                        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"x\":1.0e+2}}], "
                        "\"thinking\": {\"type\": \"disabled\"}}");
    hd_ask_free(&a);
    a = taken(CHAT,
              "{\"messages\":[{\"role\":\"user\"}],\"thinking\":{\"type\":\"enabled\"},"
              "\"chat_template_kwargs\":{\"thinking\":false}," TOOL ",\"tool_choice\":\"none\"}");
    assert_null(strstr(a.chat.data, "disabled")); /* the API's own word comes first */
    assert_non_null(strstr(a.chat.data, "\"tool_choice\": \"none\""));
    assert_int_equal(a.hold, HD_HOLD_NOTHING);
    hd_ask_free(&a);
}

typedef struct holding {
    const char     *members;
    hd_ask_hold     hold;
    hd_grammar_kind kind;
    bool            is_optional, is_single;
    const char     *function, *instead;
} holding;

#define SEVEN                                                                                    \
    "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{" \
    "\"const\": 7}}}"

static const holding holdings[] = {
    {TOOL, HD_HOLD_IF_IT_CAN, HD_GRAMMAR_TOOL_CALLS, true, false, NULL, NULL},
    {TOOL ",\"tool_choice\":\"auto\"", HD_HOLD_IF_IT_CAN, HD_GRAMMAR_TOOL_CALLS, true, false, NULL,
     NULL},
    {TOOL ",\"parallel_tool_calls\":false", HD_HOLD_GRAMMAR, HD_GRAMMAR_TOOL_CALLS, true, true,
     NULL, NULL},
    {TOOL ",\"tool_choice\":\"required\"", HD_HOLD_GRAMMAR, HD_GRAMMAR_TOOL_CALLS, false, false,
     NULL, NULL},
    {TOOL ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}", HD_HOLD_GRAMMAR,
     HD_GRAMMAR_TOOL_CALLS, false, true, "f", NULL},
    {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}]",
     HD_HOLD_GRAMMAR, HD_GRAMMAR_TOOL_CALLS, true, false, NULL, NULL},
    {"\"response_format\":{\"type\":\"json_object\"}", HD_HOLD_GRAMMAR, HD_GRAMMAR_JSON, false,
     false, NULL, NULL},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"schema\":{}}"
     "}",
     HD_HOLD_GRAMMAR, HD_GRAMMAR_SCHEMA, false, false, NULL, NULL},
    {TOOL ",\"tool_choice\":\"none\",\"response_format\":{\"type\":\"json_object\"}",
     HD_HOLD_GRAMMAR, HD_GRAMMAR_JSON, false, false, NULL, NULL},
    {"\"response_format\":{\"type\":\"text\"}", HD_HOLD_NOTHING, HD_GRAMMAR_JSON, false, false,
     NULL, NULL},
    {TOOL "," SEVEN, HD_HOLD_GRAMMAR, HD_GRAMMAR_TOOL_CALLS, false, false, NULL, "{\"const\":7}"},
    {TOOL ",\"parallel_tool_calls\":false,\"response_format\":{\"type\":\"json_object\"}",
     HD_HOLD_GRAMMAR, HD_GRAMMAR_TOOL_CALLS, false, true, NULL, "{\"type\":\"object\"}"},
    {TOOL ",\"response_format\":{\"type\":\"text\"}", HD_HOLD_IF_IT_CAN, HD_GRAMMAR_TOOL_CALLS,
     true, false, NULL, NULL},
    {TOOL ",\"tool_choice\":\"required\"," SEVEN, HD_HOLD_GRAMMAR, HD_GRAMMAR_TOOL_CALLS, false,
     false, NULL, NULL},
    {TOOL ",\"tool_choice\":\"none\"," SEVEN, HD_HOLD_GRAMMAR, HD_GRAMMAR_SCHEMA, false, false,
     NULL, NULL},
};

static void check_text(const char *found, const char *wanted)
{
    if (wanted)
        assert_string_equal(found, wanted);
    else
        assert_null(found);
}

static void test_holding(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof holdings / sizeof holdings[0]; i++) {
        const holding *const h = &holdings[i];
        hd_buffer            body = {0};
        hd_buffer_printf(&body, FIRST ",%s}", h->members);
        hd_ask a = taken(CHAT, body.data);
        assert_int_equal(a.hold, h->hold);
        assert_int_equal(a.grammar.kind, h->kind);
        assert_int_equal(a.grammar.is_optional, h->is_optional);
        assert_int_equal(a.grammar.is_single, h->is_single);
        check_text(a.grammar.function, h->function);
        check_text(a.grammar.instead, h->instead);
        assert_int_equal(a.grammar.instead_bytes, h->instead ? strlen(h->instead) : 0);
        hd_ask_free(&a);
        hd_buffer_free(&body);
    }
}

static void test_prompts(void **state)
{
    (void)state;
    hd_ask a = taken(TEXT, "{\"prompt\":[\"a\",\"bc\"],\"n\":2,\"stop\":\"x\",\"max_tokens\":0,"
                           "\"echo\":true,\"logprobs\":0,\"suffix\":\"s\"}");
    assert_int_equal(a.n_prompts, 2);
    assert_int_equal(hd_ask_count(&a), 4);
    assert_int_equal(a.prompts[1].bytes, 2);
    assert_false(a.generate.is_raw); /* the parser looks for stop texts */
    assert_true(a.is_scored && a.is_echoed && a.has_logprobs);
    assert_int_equal(a.generate.max_new, -1);
    assert_string_equal(a.suffix, "s");
    hd_ask_free(&a);
    a = taken(TEXT, "{\"prompt\":[1,2,3]}");
    assert_int_equal(a.n_prompts, 1);
    assert_int_equal(a.prompts[0].n_ids, 3);
    hd_ask_free(&a);
    a = taken(TEXT, "{\"prompt\":[[1,2],[3]]}");
    assert_int_equal(a.n_prompts, 2);
    assert_int_equal(a.prompts[1].ids[0], 3);
    hd_ask_free(&a);
}

/* ---- memory ---- */

static hd_status read_one(void *user, hd_error *err)
{
    hd_ask          a;
    hd_api_error    e;
    hd_status const s = read_body(CHAT, user, &a, &e);
    hd_ask_free(&a);
    if (s == HD_OK) return s;
    assert_int_equal(e.status, 503);
    return hd_error_set(err, HD_ERR_MEMORY, -1, "%s", e.message);
}

static void test_no_memory(void **state)
{
    (void)state;
    static char body[] = FIRST ",\"stop\":[\"a\"],\"logit_bias\":{\"1\":1}," TOOL
                               ",\"stop_token_ids\":[1],\"tool_choice\":\"required\"}";
    fail_each_call const call = {hd_memory_fail_at, HD_ERR_MEMORY, read_one, NULL, body};
    assert_true(fail_each(&call) > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bodies_that_are_none),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_null_is_missing),
        cmocka_unit_test(test_drawing),
        cmocka_unit_test(test_telling),
        cmocka_unit_test(test_chat_is_kept),
        cmocka_unit_test(test_holding),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
