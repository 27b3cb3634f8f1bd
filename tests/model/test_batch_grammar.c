/* Answers under grammars, many at once: each is what its grammar takes, with the bits that it has
 * alone, beside others that are free. */
#include "../support/batch_run.h"
#include "base/json.h"

#define N_ASKED 9

static hd_grammar *open_grammar(const hd_engine *e, const char *schema)
{
    hd_grammar_options const o = {.kind = schema ? HD_GRAMMAR_SCHEMA : HD_GRAMMAR_JSON,
                                  .json = schema,
                                  .json_bytes = schema ? strlen(schema) : 0};
    hd_grammar              *g = NULL;
    hd_error                 err = {0};
    if (hd_grammar_open(&g, e->tokenizer, &o, &err) != HD_OK) fail_msg("%s", err.message);
    return g;
}

/* Every third is free; of the others one half starts in reasoning, which ends at once. */
static void submit_asked(hd_batch *b, const hd_grammar *g, int32_t i, heard *h)
{
    static const char   think_end[] = "</think>";
    hd_engine *const    e = b->engine;
    int32_t             prompt[40];
    hd_logit_bias const bias = {
        hd_tokenizer_control_id(e->tokenizer, think_end, sizeof think_end - 1), 100};
    for (int32_t t = 0; t < 40; t++) prompt[t] = 3 + (t * 31 + i * 7) % 1000;
    hd_request const r = {
        .prompt = prompt,
        .n_prompt = 40,
        .generate = {.sampling = {.temperature = 1,
                                  .seed = (uint64_t)i,
                                  .bias = &bias,
                                  .n_bias = i % 3 == 2},
                     .start = i % 3 == 2 ? HD_START_REASONING : HD_START_CONTENT,
                     .max_new = 100},
        .grammar = i % 3 ? g : NULL,
        .on_event = hear_answer,
        .user = h,
    };
    submit(b, &r);
}

static void test_answers(const char *schema, const char *wanted)
{
    static heard      alone[N_ASKED], together[N_ASKED];
    hd_engine *const  e = open_engine((hd_options){.n_sessions = N_ASKED});
    hd_batch *const   b = open_batch(e, (hd_batch_options){.ram_bytes = -1});
    hd_grammar *const g = open_grammar(e, schema);
    int32_t           n_whole = 0;
    memset(alone, 0, sizeof alone);
    memset(together, 0, sizeof together);
    for (int32_t i = 0; i < N_ASKED; i++) {
        submit_asked(b, g, i, &alone[i]);
        run(b);
    }
    for (int32_t i = 0; i < N_ASKED; i++) submit_asked(b, g, i, &together[i]);
    run(b);
    for (int32_t i = 0; i < N_ASKED; i++) {
        expect_same(&alone[i], &together[i], i, "grammar");
        if (i % 3 == 0 || alone[i].end.finish != HD_FINISH_STOP) continue;
        const char *const text = alone[i].text;
        if (!hd_json_is_valid(text, strlen(text))) fail_msg("%s", text);
        if (wanted) assert_non_null(strstr(text, wanted));
        n_whole++;
    }
    assert_true(n_whole > 0);
    hd_grammar_close(g);
    hd_batch_close(b);
    hd_engine_close(e);
}

static void test_schema(void **state)
{
    (void)state;
    test_answers("{\"type\": \"object\", \"properties\": {\"answer\": {\"type\": \"integer\"}},"
                 " \"required\": [\"answer\"], \"additionalProperties\": false}",
                 "\"answer\"");
}

static void test_object(void **state)
{
    (void)state;
    test_answers("{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [\"x\", \"y\"]}},"
                 " \"required\": [\"a\"]}",
                 "\"a\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schema),
                                       cmocka_unit_test(test_object)};
    return cmocka_run_group_tests_name("batch grammar", tests, NULL, NULL);
}
