/* Tokens drawn where the logits are: the same as those that the host draws from them.
 *
 *     test_batch_draw [FAMILY]     as --isa has it; on the host every bit is the same, on an
 *                                  accelerator the tokens are */
#include <math.h>

#include "../support/batch_run.h"

#include "base/cpu.h"
#include "engine/sampler.h"

#define N     40
#define N_NEW 24

static const char *family;

static hd_engine *open_any(void)
{
    hd_error   err = {0};
    hd_options o = {.n_sessions = 8, .chunk = 40};
    if (family && hd_isa_parse(&o.isa, family, &err) != HD_OK) fail_msg("%s", err.message);
    return open_engine(o);
}

/* Plain requests, of which all are drawn there, and those that make_request makes of all kinds. */
static void submit_any(hd_batch *b, int32_t i, heard *h)
{
    static const float temperatures[] = {0, 1, 0.6f, 1.5f}, least[] = {0, 0.1f};
    int32_t            prompt[MADE_PROMPT];
    hd_logit_bias      bias;
    hd_request         r;
    make_request(&r, i, prompt, &bias, b->engine->model.config->n_vocab);
    r.user = h;
    if (i % 2)
        r.generate = (hd_generate_options){.sampling = {.temperature = temperatures[i / 2 % 4],
                                                        .min_p = least[i / 8 % 2],
                                                        .seed = (uint64_t)i},
                                           .max_new = N_NEW,
                                           .is_raw = true,
                                           .ignore_eos = true};
    submit(b, &r);
}

static void answer_all(hd_engine *e, bool draws, heard h[N])
{
    e->draws = draws;
    hd_batch *const b = open_batch(e, (hd_batch_options){0});
    memset(h, 0, N * sizeof *h);
    for (int32_t i = 0; i < N; i++) submit_any(b, i, &h[i]);
    run(b);
    hd_batch_close(b);
}

static void drawn_there_is_drawn_here(void **state)
{
    static heard     here[N], there[N];
    hd_engine *const e = open_any();
    int32_t          n_plain = 0;
    (void)state;
    answer_all(e, false, here);
    answer_all(e, true, there);
    for (int32_t i = 0; i < N; i++) {
        if (!e->device) expect_same(&here[i], &there[i], i, "drawn there");
        expect_ok(&there[i], i);
        assert_int_equal(there[i].n_tokens, here[i].n_tokens);
        assert_memory_equal(there[i].ids, here[i].ids, sizeof here[i].ids);
        assert_string_equal(there[i].text, here[i].text);
        n_plain += i % 2 && there[i].n_tokens == N_NEW;
    }
    assert_int_equal(n_plain, N / 2);
    hd_engine_close(e);
}

/* What one session generates. */
typedef struct generated {
    int32_t ids[N_NEW];
    double  logprob;
    int     n;
} generated;

static bool note_token(void *user, const hd_generate_event *e)
{
    generated *const g = user;
    if (e->token) g->ids[g->n++] = e->token->token.id;
    if (e->token) g->logprob += e->token->token.logprob;
    return true;
}

/* A prompt, then on from the logits that it left. */
static generated generate(hd_engine *e, bool draws, float temperature)
{
    generated                 out = {.n = 0};
    int32_t const             prompt[] = {5, 700, 31, 9};
    hd_generate_options const o = {.sampling = {.temperature = temperature, .seed = 3},
                                   .max_new = N_NEW / 2,
                                   .is_raw = true,
                                   .ignore_eos = true,
                                   .on_event = note_token,
                                   .user = &out};
    hd_generate_result        result;
    hd_session               *s = NULL;
    e->draws = draws;
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    assert_int_equal(hd_generate(s, prompt, 4, &o, &result, NULL), HD_OK);
    assert_int_equal(result.n_new, N_NEW / 2);
    assert_int_equal(hd_generate(s, NULL, 0, &o, &result, NULL), HD_OK);
    assert_int_equal(out.n, N_NEW);
    hd_session_close(s);
    return out;
}

static void one_session_draws_alike(void **state)
{
    static const float temperatures[] = {0, 1};
    hd_engine *const   e = open_any();
    (void)state;
    for (int i = 0; i < 2; i++) {
        generated const here = generate(e, false, temperatures[i]);
        generated const there = generate(e, true, temperatures[i]);
        assert_memory_equal(here.ids, there.ids, sizeof here.ids);
        assert_true(fabs(here.logprob - there.logprob) < 1e-4);
    }
    hd_engine_close(e);
}

/* Logits that nobody wants to see do not come over. */
static void only_wanted_logits_come_over(void **state)
{
    hd_engine *const  e = open_any();
    int32_t const     n = e->model.config->n_vocab;
    hd_session       *s = NULL;
    hd_token_prob     drawn;
    hd_pass_row const rows[] = {{5, 0, 0, true}, {6, 1, 0, false}, {7, 2, 0, true}};
    hd_row_ask const  asks[] = {{{0.5, 1, 0}, false}, {{0, 0, 0}, true}};
    hd_rows_run const run = {.rows = rows, .asks = asks, .n = 3};
    (void)state;
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    for (int32_t i = 0; i < 2 * n; i++) e->logits[i] = -1e9f;
    assert_int_equal(hd_engine_run_rows(e, &run, NULL), HD_OK);
    if (e->device) assert_true(e->logits[0] <= -1e9f && e->logits[n - 1] <= -1e9f);
    assert_int_equal(hd_engine_drawn(e, 0, &drawn, NULL), HD_OK);
    assert_true(drawn.id >= 0 && drawn.id < n && drawn.logprob < 0);
    assert_int_equal(hd_engine_drawn(e, 1, &drawn, NULL), HD_OK);
    hd_sampled wanted;
    for (int32_t i = 0; i < n; i++) assert_true(e->logits[n + i] <= e->logits[n + drawn.id]);
    hd_sampler_report(&wanted, e->logits + n, n, drawn.id, 0);
    assert_true(drawn.logprob - wanted.token.logprob < 1e-6f);
    assert_true(wanted.token.logprob - drawn.logprob < 1e-6f);
    hd_session_close(s);
    hd_engine_close(e);
}

static void what_needs_the_host_is_not_asked(void **state)
{
    hd_logit_bias const b = {3, 1};
    hd_sample_ask       ask;
    hd_sampling const   plain[] = {{0},
                                   {.temperature = 1},
                                   {.temperature = 1, .min_p = 0.2f},
                                   {.temperature = 1, .top_k = 9, .top_p = 1},
                                   {.top_p = 0.5f}};
    hd_sampling const others[] = {{.temperature = 1, .top_k = 8}, {.temperature = 1, .top_p = 0.9f},
                                  {.presence_penalty = 1},        {.frequency_penalty = -1},
                                  {.repetition_penalty = 1.1f},   {.bias = &b, .n_bias = 1}};
    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        assert_true(hd_sampler_ask(&plain[i], 3, 9, &ask));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(hd_sampler_ask(&others[i], 3, 9, &ask));
}

static void a_bad_logit_is_told(void **state)
{
    hd_engine *const e = open_any();
    hd_token_prob    drawn;
    hd_error         err = {0};
    float const      bad = -INFINITY;
    (void)state;
    e->drawn[0] = -1 - 17;
    memcpy(&e->drawn[e->max_rows], &bad, sizeof bad);
    assert_int_equal(hd_engine_drawn(e, 0, &drawn, &err), HD_ERR_NUMERIC);
    assert_string_equal(err.message, "logit 17 of 2048 is -inf: no token can be drawn");
    hd_engine_close(e);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_there_is_drawn_here),
        cmocka_unit_test(one_session_draws_alike),
        cmocka_unit_test(only_wanted_logits_come_over),
        cmocka_unit_test(what_needs_the_host_is_not_asked),
        cmocka_unit_test(a_bad_logit_is_told),
    };
    if (argc > 1) family = argv[1];
    return cmocka_run_group_tests_name("batch draw", tests, NULL, NULL);
}
