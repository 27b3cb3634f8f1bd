/* Many answers at once: each has the bits that it would have alone, whoever else is there, comes or
 * goes, and however many threads share the work. */
#include "../support/batch_run.h"

#define N_OTHERS 50
#define N        (N_OTHERS + 1)
#define N_FEW    16

/* Requests of each case; one of them has as many others as there can be. */
static int32_t n_asked;

static void answer_alone(hd_engine *e, heard alone[N])
{
    hd_batch *const b = open_batch(e, (hd_batch_options){0});
    memset(alone, 0, N * sizeof *alone);
    for (int32_t i = 0; i < n_asked; i++) {
        submit_made(b, i, &alone[i]);
        run(b);
        expect_ok(&alone[i], i);
    }
    hd_batch_close(b);
}

/* ---- the same bits ---- */

typedef struct batch_case {
    const char *name, *model;
    hd_act      act;
    hd_kv       kv;
} batch_case;
static const batch_case cases[] = {
    {"nvfp4 f32", DEMO, HD_ACT_NVFP4, HD_KV_F32},
    {"exact bf16", DEMO, HD_ACT_EXACT, HD_KV_BF16},
    {"official fp8", DEMO, HD_ACT_OFFICIAL, HD_KV_FP8},
    {"nvfp4 nvfp4", DEMO, HD_ACT_NVFP4, HD_KV_NVFP4},
    {"mxfp4 weights", OFFICIAL, HD_ACT_OFFICIAL, HD_KV_F32},
};

/* All at once, in an order that a stride gives; every few passes somebody else comes and goes. */
static void answer_together(hd_engine *e, const heard alone[N], int32_t stride, const char *how)
{
    static heard    h[N], passers[8];
    hd_batch *const b = open_batch(e, (hd_batch_options){.chunk = 5 + stride % 13});
    memset(h, 0, sizeof h);
    memset(passers, 0, sizeof passers);
    for (int32_t i = 0; i < n_asked; i++)
        submit_made(b, i * stride % n_asked, &h[i * stride % n_asked]);
    for (int32_t n = 0; n < 8; n++) {
        uint64_t const t = submit_made(b, 1000 + n, &passers[n]);
        for (int32_t k = 0; k <= n; k++) step(b);
        hd_batch_cancel(b, t);
    }
    run(b);
    for (int32_t i = 0; i < n_asked; i++) expect_same(&alone[i], &h[i], i, how);
    for (int32_t n = 0; n < 8; n++) assert_int_equal(passers[n].n_ends, 1);
    hd_batch_close(b);
}

static hd_options options_of(const batch_case *c, int32_t n_threads)
{
    return (hd_options){.model = c->model,
                        .act = c->act,
                        .kv = c->kv,
                        .n_sessions = 9,
                        .chunk = 40,
                        .n_threads = n_threads};
}

static void test_same_bits(void **state)
{
    static heard            alone[N];
    const batch_case *const c = *state;
    hd_engine              *e = open_engine(options_of(c, 1));
    n_asked = c == cases ? N : N_FEW;
    answer_alone(e, alone);
    answer_together(e, alone, 1, c->name);
    hd_engine_close(e);
    e = open_engine(options_of(c, 3));
    hd_team_set_grain(e->team, 1);
    answer_together(e, alone, 23, c->name);
    hd_engine_close(e);
}

/* Eight times the same at once: eight times the answer that one has. */
static void test_identical(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 8});
    heard            h[9] = {0};
    (void)state;
    hd_batch *const b = open_batch(e, (hd_batch_options){.ram_bytes = -1});
    submit_made(b, 5, &h[8]);
    run(b);
    for (int i = 0; i < 8; i++) submit_made(b, 5, &h[i]);
    run(b);
    for (int i = 0; i < 8; i++) expect_same(&h[8], &h[i], i, "identical");
    hd_batch_close(b);
    hd_engine_close(e);
}

/* What a batch answers is what one session answers. */
static bool hear_generated(void *user, const hd_generate_event *e)
{
    hd_answer_event const event = {.token = e->token, .parse = e->parse};
    return hear_answer(user, &event);
}

static void test_as_one_session(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 2});
    hd_session      *s = NULL;
    heard            got[20], wanted[20];
    (void)state;
    memset(got, 0, sizeof got);
    memset(wanted, 0, sizeof wanted);
    hd_batch *const b = open_batch(e, (hd_batch_options){0});
    for (int32_t i = 0; i < 20; i++) submit_made(b, 2 * (i + 1) + (i % 7 == 0), &got[i]);
    run(b);
    hd_batch_close(b);
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    for (int32_t i = 0; i < 20; i++) {
        int32_t            prompt[MADE_PROMPT];
        hd_logit_bias      bias;
        hd_request         r;
        hd_generate_result result;
        hd_error           err = {0};
        make_request(&r, 2 * (i + 1) + (i % 7 == 0), prompt, &bias, e->model.config->n_vocab);
        if (r.is_scored) continue;
        r.generate.on_event = hear_generated;
        r.generate.user = &wanted[i];
        hd_session_reset(s);
        if (hd_generate(s, prompt, r.n_prompt, &r.generate, &result, &err) != HD_OK)
            fail_msg("%s", err.message);
        expect_same(&wanted[i], &got[i], i, "one session");
        assert_int_equal(got[i].end.finish, result.finish);
        assert_int_equal(got[i].end.n_new, result.n_new);
        assert_int_equal(got[i].end.n_prompt, r.n_prompt);
    }
    hd_session_close(s);
    hd_engine_close(e);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    struct CMUnitTest tests[32];
    size_t            n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, test_same_bits, NULL, NULL,
                                         (void *)(uintptr_t)&cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_identical);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_as_one_session);
    return _cmocka_run_group_tests("batch", tests, n, NULL, NULL);
}
