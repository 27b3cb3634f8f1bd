/* Prefill is decode: one chunk, chunks of any size and single tokens give equal bits of logits,
 * and a sequence does not see who else is served. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"

#define LONGEST 261

typedef struct prefill_case {
    const char *model;
    hd_act      act;
    bool        is_sparse; /* only lengths around the edges of groups, windows and chunks */
} prefill_case;
static const prefill_case cases[] = {
    {"models/demo", HD_ACT_NVFP4, false},
    {"tests/models/tiny512-official", HD_ACT_OFFICIAL, true},
    {"tests/models/tiny512-nvfp4", HD_ACT_EXACT, true},
};

/* The length tried after n. */
static int32_t next_length(const prefill_case *c, int32_t n)
{
    if (n == 140) return 255;
    if (c->is_sparse && n == 9) return 62;
    if (c->is_sparse && n == 66) return 125;
    if (c->is_sparse && n == 133) return 255;
    return n + 1;
}

static int32_t token_at(int32_t i) { return (int32_t)((uint32_t)i * 2654435761u >> 21) % 2000 + 3; }

static void fill_tokens(int32_t *tokens)
{
    for (int32_t i = 0; i < LONGEST; i++) tokens[i] = token_at(i);
}

static hd_engine *open_many(const prefill_case *c, int32_t chunk)
{
    hd_error         err = {0};
    hd_engine       *e = NULL;
    hd_options const o = {.model = c->model,
                          .act = c->act,
                          .max_tokens = LONGEST + 3,
                          .chunk = chunk,
                          .n_sessions = 3};
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    return e;
}

static hd_session *open_session(hd_engine *e)
{
    hd_session *s = NULL;
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    return s;
}

static void eval(hd_session *s, const int32_t *tokens, int32_t n)
{
    hd_error err = {0};
    if (hd_session_eval(s, tokens, n, &err) != HD_OK) fail_msg("%s", err.message);
}

static size_t logit_bytes(const hd_engine *e)
{
    return (size_t)e->model.config->n_vocab * sizeof(float);
}

/* Logits after every prefix, token by token: [LONGEST, vocab]. */
static float *decode_all(hd_engine *e, const int32_t *tokens)
{
    hd_session *const s = open_session(e);
    float *const      all = hd_memory_alloc(LONGEST * logit_bytes(e));
    assert_non_null(all);
    for (int32_t i = 0; i < LONGEST; i++) {
        eval(s, &tokens[i], 1);
        memcpy((char *)all + (size_t)i * logit_bytes(e), s->logits, logit_bytes(e));
    }
    hd_session_close(s);
    return all;
}

static void check_prefix(const hd_session *s, const float *all, int32_t n, const char *how)
{
    size_t const bytes = logit_bytes(s->engine);
    if (memcmp(s->logits, (const char *)all + (size_t)(n - 1) * bytes, bytes) != 0)
        fail_msg("%s: logits after %d tokens differ from decoding", how, n);
}

static void test_one_chunk(void **state)
{
    int32_t          tokens[LONGEST];
    hd_engine *const e = open_many(*state, LONGEST);
    fill_tokens(tokens);
    float *const      all = decode_all(e, tokens);
    hd_session *const s = open_session(e);
    for (int32_t n = 1; n <= LONGEST; n = next_length(*state, n)) {
        hd_session_reset(s);
        eval(s, tokens, n);
        check_prefix(s, all, n, "one chunk");
    }
    hd_session_close(s);
    hd_memory_free(all);
    hd_engine_close(e);
}

static void test_chunks(void **state)
{
    static const int32_t sizes[] = {2, 3, 7, 64, 127, 128};
    int32_t              tokens[LONGEST];
    fill_tokens(tokens);
    hd_engine *const whole = open_many(*state, 1);
    float *const     all = decode_all(whole, tokens);
    hd_engine_close(whole);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        hd_engine *const  e = open_many(*state, sizes[i]);
        hd_session *const s = open_session(e);
        eval(s, tokens, LONGEST);
        check_prefix(s, all, LONGEST, "chunks");
        hd_session_close(s);
        hd_engine_close(e);
    }
    hd_memory_free(all);
}

/* Three sequences in turn, in chunks of unlike size: each as if it were alone. */
static void test_interleaved(void **state)
{
    int32_t          tokens[LONGEST];
    hd_engine *const e = open_many(*state, 64);
    fill_tokens(tokens);
    float *const all = decode_all(e, tokens);
    hd_session  *s[3];
    for (int i = 0; i < 3; i++) s[i] = open_session(e);
    for (int32_t round = 0; round < 5; round++)
        for (int32_t i = 0; i < 3; i++) {
            int32_t const n = 11 + 13 * i;
            eval(s[i], tokens + hd_session_length(s[i]), n);
            check_prefix(s[i], all, hd_session_length(s[i]), "interleaved");
        }
    for (int i = 0; i < 3; i++) hd_session_close(s[i]);
    hd_memory_free(all);
    hd_engine_close(e);
}

/* Scores are the log probabilities of the same rows, whatever the chunks. */
static void test_score(void **state)
{
    int32_t          tokens[LONGEST];
    float            one[LONGEST], many[LONGEST];
    hd_engine *const a = open_many(*state, LONGEST), *const b = open_many(*state, 10);
    fill_tokens(tokens);
    assert_int_equal(hd_session_score(open_session(a), tokens, LONGEST, one, NULL), HD_OK);
    assert_int_equal(hd_session_score(open_session(b), tokens, LONGEST, many, NULL), HD_OK);
    assert_true(one[0] != one[0] && many[0] != many[0]);
    assert_memory_equal(one + 1, many + 1, sizeof one - sizeof *one);
    for (int32_t i = 1; i < LONGEST; i++) assert_true(one[i] < 0 && one[i] > -60);
    hd_engine_close(a);
    hd_engine_close(b);
}

#define TESTS_OF(i)                                                                  \
    {"one chunk", test_one_chunk, NULL, NULL, (void *)(uintptr_t)&cases[i]},         \
        {"chunks", test_chunks, NULL, NULL, (void *)(uintptr_t)&cases[i]},           \
        {"interleaved", test_interleaved, NULL, NULL, (void *)(uintptr_t)&cases[i]}, \
    {                                                                                \
        "score", test_score, NULL, NULL, (void *)(uintptr_t)&cases[i]                \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {TESTS_OF(0), TESTS_OF(1), TESTS_OF(2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
