/* Formats of cache rows in whole passes: prefill is decode in each, the released rounding needs
 * no more than FP8 rows hold, and smaller rows stay near f32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"

#define LONGEST 260
#define SHORT   140

#define OFFICIAL "tests/models/tiny512-official"
#define DEMO     "models/demo"

typedef struct kv_case {
    const char *name, *model;
    hd_act      act;
    hd_kv       kv;
    int32_t     n; /* tokens; past a page edge where the model is quick */
} kv_case;
static const kv_case cases[] = {
    {"official fp8", OFFICIAL, HD_ACT_OFFICIAL, HD_KV_FP8, SHORT},
    {"demo bf16", DEMO, HD_ACT_EXACT, HD_KV_BF16, LONGEST},
    {"demo fp8", DEMO, HD_ACT_EXACT, HD_KV_FP8, LONGEST},
    {"demo nvfp4", DEMO, HD_ACT_NVFP4, HD_KV_NVFP4, LONGEST},
};
#define N_CASES (int32_t)(sizeof cases / sizeof cases[0])

static int32_t token_at(int32_t i) { return (int32_t)((uint32_t)i * 2654435761u >> 21) % 2000 + 3; }

static void fill_tokens(int32_t *tokens)
{
    for (int32_t i = 0; i < LONGEST; i++) tokens[i] = token_at(i);
}

static hd_engine *open_rows(const kv_case *c, int32_t chunk)
{
    hd_error         err = {0};
    hd_engine       *e = NULL;
    hd_options const o = {
        .model = c->model, .act = c->act, .kv = c->kv, .max_tokens = LONGEST, .chunk = chunk};
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s: %s", c->name, err.message);
    hd_engine_info info;
    hd_engine_info_get(e, &info);
    assert_int_equal(info.kv, c->kv);
    return e;
}

/* Logits after each token, all in one pass; borrowed from the engine. */
static const float *read_all(hd_engine *e, const int32_t *tokens, int32_t n)
{
    hd_error          err = {0};
    hd_pass_run const run = {.tokens = tokens, .n = n, .rows = HD_LOGITS_ALL};
    if (hd_engine_run(e, &run, &err) != HD_OK) fail_msg("%s", err.message);
    return e->pass.logits;
}

/* Every prefix of one pass against one token at a time. */
static void test_prefill(void **state)
{
    const kv_case *const c = *state;
    int32_t              tokens[LONGEST];
    fill_tokens(tokens);
    hd_engine *const e = open_rows(c, LONGEST), *const one = open_rows(c, 7);
    const float *const all = read_all(e, tokens, c->n);
    int32_t const      vocab = e->model.config->n_vocab;
    hd_session        *s = NULL;
    assert_int_equal(hd_session_open(&s, one, NULL), HD_OK);
    for (int32_t n = 1; n <= c->n; n++) {
        assert_int_equal(hd_session_eval(s, &tokens[n - 1], 1, NULL), HD_OK);
        if (memcmp(s->logits, all + (int64_t)(n - 1) * vocab, (size_t)vocab * sizeof *all) != 0)
            fail_msg("%s: logits after %d tokens differ", c->name, n);
    }
    hd_engine_close(one);
    hd_engine_close(e);
}

/* Distance of all logits from those with f32 rows, relative. */
static double distance(const char *model, hd_act act, hd_kv kv)
{
    int32_t tokens[LONGEST];
    fill_tokens(tokens);
    int32_t const    n = act == HD_ACT_OFFICIAL ? SHORT : LONGEST;
    kv_case const    wanted = {"f32", model, act, HD_KV_F32, n};
    kv_case const    found = {"other", model, act, kv, n};
    hd_engine *const a = open_rows(&wanted, LONGEST), *const b = open_rows(&found, LONGEST);
    double const d = worst_row(read_all(b, tokens, n), read_all(a, tokens, n), 1,
                               (int64_t)n * a->model.config->n_vocab);
    print_message("%s, activations %s: logits with %s rows are off by %.2e\n", model,
                  hd_act_name(act), hd_kv_name(kv), d);
    hd_engine_close(a);
    hd_engine_close(b);
    return d;
}

/* What the released code rounds to is on the grid of FP8 rows, and so of bf16 ones. */
static void official_rows_are_fp8_rows(void **state)
{
    (void)state;
    assert_true(distance(OFFICIAL, HD_ACT_OFFICIAL, HD_KV_FP8) == 0);
    assert_true(distance(OFFICIAL, HD_ACT_OFFICIAL, HD_KV_BF16) == 0);
}

/* The distances follow the bits, on a trained model. */
static void smaller_rows_stay_near(void **state)
{
    (void)state;
    double const bf16 = distance(DEMO, HD_ACT_EXACT, HD_KV_BF16);
    double const fp8 = distance(DEMO, HD_ACT_EXACT, HD_KV_FP8);
    double const nvfp4 = distance(DEMO, HD_ACT_EXACT, HD_KV_NVFP4);
    assert_true(bf16 > 0 && bf16 < fp8 && fp8 < nvfp4);
    assert_true(bf16 < 0.02 && fp8 < 0.06 && nvfp4 < 0.12);
}

/* The report on memory and what an engine then takes are the same numbers; caches differ by the
 * alignment of their pools. */
static void is_measured_as_it_opens(void **state)
{
    int32_t const    contexts[] = {1000, 2000000};
    hd_options const o = {.model = DEMO, .kv = HD_KV_FP8, .max_tokens = 1000, .n_sessions = 2};
    hd_memory_use    use[2];
    hd_error         err = {0};
    hd_engine       *e = NULL;
    hd_engine_info   info;
    (void)state;
    if (hd_engine_measure(&o, contexts, 2, use, &err) != HD_OK) fail_msg("%s", err.message);
    assert_int_equal(hd_engine_open(&e, &o, NULL), HD_OK);
    hd_engine_info_get(e, &info);
    assert_int_equal(use[0].weights, info.weight_bytes);
    assert_int_equal(use[0].activations, info.act_bytes);
    assert_true(use[0].token == info.token_bytes);
    assert_in_range(info.kv_bytes - use[0].rows - use[0].rings, 0, 100 * HD_ALIGN);
    assert_int_equal(use[0].marks, 2 * 3 * hd_engine_mark_bytes(e));
    assert_int_equal(use[1].total, 0); /* longer than the model's context */
    hd_engine_close(e);
}

/* Bytes of the cache that no token has written, and scratch that no step has, may be anything:
 * here all ones, which are NaN in every format. */
static void unwritten_bytes_do_not_count(void **state)
{
    int32_t tokens[LONGEST];
    (void)state;
    fill_tokens(tokens);
    for (int32_t i = 0; i < N_CASES; i++) {
        hd_engine *const e = open_rows(&cases[i], 8), *const clean = open_rows(&cases[i], 8);
        size_t const bytes = 5 * (size_t)e->model.config->n_vocab * sizeof(float);
        memset(e->kv.base, 0xFF, e->kv.cap);
        memset(e->act.base, 0xFF, e->act.cap);
        assert_memory_equal(read_all(e, tokens, 5), read_all(clean, tokens, 5), bytes);
        hd_engine_close(clean);
        hd_engine_close(e);
    }
}

static void refuses_unknown_formats(void **state)
{
    hd_options const o = {.model = DEMO, .kv = (hd_kv)9};
    hd_error         err = {0};
    hd_engine       *e = NULL;
    (void)state;
    assert_int_equal(hd_engine_open(&e, &o, &err), HD_ERR_INVALID);
    assert_string_equal(err.message, "KV rows of kind 9: wanted 0 .. 4");
}

int main(void)
{
    struct CMUnitTest tests[N_CASES + 5] = {
        cmocka_unit_test(official_rows_are_fp8_rows), cmocka_unit_test(smaller_rows_stay_near),
        cmocka_unit_test(is_measured_as_it_opens), cmocka_unit_test(refuses_unknown_formats),
        cmocka_unit_test(unwritten_bytes_do_not_count)};
    for (int32_t i = 0; i < N_CASES; i++)
        tests[5 + i] = (struct CMUnitTest){cases[i].name, test_prefill, NULL, NULL,
                                           (void *)(uintptr_t)&cases[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
