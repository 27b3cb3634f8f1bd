/* The number of threads changes no bit: prefill in chunks, decoding, logits of every token. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"

#define N_PROMPT 150 /* two chunks of different size */
#define N_DECODE 6

/* Evaluates the same tokens and returns the logits after the prompt and after each token behind
 * it, [1 + N_DECODE, vocab]; small work is split too. */
static float *evaluate(const char *model, int32_t n_threads)
{
    hd_error         err = {0};
    hd_engine       *e = NULL;
    hd_session      *s = NULL;
    int32_t          tokens[N_PROMPT + N_DECODE];
    hd_options const o = {.model = model, .max_tokens = 256, .n_threads = n_threads};
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    assert_int_equal(e->options.n_threads, n_threads);
    size_t const vocab = (size_t)e->model.config->n_vocab;
    float *const all = hd_memory_alloc((1 + N_DECODE) * vocab * sizeof *all);
    assert_non_null(all);
    hd_team_set_grain(e->team, 64);
    hd_memory_seal();
    for (int32_t i = 0; i < N_PROMPT + N_DECODE; i++) tokens[i] = i * 37 % 2000 + 3;
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    assert_int_equal(hd_session_eval(s, tokens, N_PROMPT, &err), HD_OK);
    memcpy(all, s->logits, vocab * sizeof *all);
    for (int32_t i = 1; i <= N_DECODE; i++) {
        assert_int_equal(hd_session_eval(s, &tokens[N_PROMPT + i - 1], 1, &err), HD_OK);
        memcpy(all + (size_t)i * vocab, s->logits, vocab * sizeof *all);
    }
    hd_memory_unseal();
    hd_session_close(s);
    hd_engine_close(e);
    return all;
}

static void any_number_gives_the_same_bits(void **state)
{
    const char *const    model = *state;
    static const int32_t numbers[] = {2, 3, 7};
    size_t const         bytes = (1 + N_DECODE) * 2048 * sizeof(float); /* both vocabularies */
    float *const         want = evaluate(model, 1);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        float *const got = evaluate(model, numbers[i]);
        if (memcmp(want, got, bytes) != 0) fail_msg("%d threads: other logits", numbers[i]);
        hd_memory_free(got);
    }
    hd_memory_free(want);
}

static void *evaluate_once(void *got)
{
    *(float **)got = evaluate("models/demo", 2);
    return NULL;
}

/* What hadal.h promises to those who call from threads of their own. */
static void a_stack_of_1_mib_is_enough(void **state)
{
    pthread_attr_t attributes;
    pthread_t      thread;
    float         *got = NULL;
    (void)state;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 1 << 20), 0);
    assert_int_equal(pthread_create(&thread, &attributes, evaluate_once, &got), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_non_null(got);
    hd_memory_free(got);
}

static void refuses_numbers_out_of_range(void **state)
{
    hd_error   err = {0};
    hd_engine *e = NULL;
    (void)state;
    for (int32_t n = -1; n <= HD_MAX_THREADS + 1; n += HD_MAX_THREADS + 2) {
        hd_options const o = {.model = "models/demo", .n_threads = n};
        assert_int_equal(hd_engine_open(&e, &o, &err), HD_ERR_INVALID);
        assert_non_null(strstr(err.message, "threads: wanted 1 .. 1024, or 0 for all"));
    }
}

int main(void)
{
    struct CMUnitTest const tests[] = {
        {"demo", any_number_gives_the_same_bits, NULL, NULL, "models/demo"},
        {"tiny512-official", any_number_gives_the_same_bits, NULL, NULL,
         "tests/models/tiny512-official"},
        cmocka_unit_test(a_stack_of_1_mib_is_enough),
        cmocka_unit_test(refuses_numbers_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
