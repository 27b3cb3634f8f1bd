/* Many answers at once: each has the bits that it would have alone, whoever else is there, comes or
 * goes, and whatever shares the work; limits are promised, and failures are one request's own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/fail_each.h"
#include "../support/serving.h"

#define DEMO     "models/demo"
#define OFFICIAL "tests/models/tiny512-official"
#define N_OTHERS 50
#define N        (N_OTHERS + 1)
#define CONTEXT  512

/* ---- a grammar of our own: ids of one parity, the end after four tokens ---- */

struct hd_grammar {
    int32_t parity;
};
struct hd_matcher {
    const hd_grammar *g;
    int32_t           n;
};
static int n_matchers;

hd_status hd_matcher_open(hd_matcher **out, const hd_grammar *g, hd_parse_start start,
                          hd_error *err)
{
    (void)start;
    *out = hd_memory_alloc(sizeof **out);
    if (!*out) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a matcher");
    (*out)->g = g;
    n_matchers++;
    return HD_OK;
}

void hd_matcher_close(hd_matcher *m)
{
    if (m) n_matchers--;
    hd_memory_free(m);
}

bool hd_matcher_is_free(const hd_matcher *m) { return m->n == 1; }

hd_status hd_matcher_mask(hd_matcher *m, uint32_t *allowed, int32_t n_vocab, const int32_t *ends,
                          int32_t n_ends, hd_error *err)
{
    (void)err;
    memset(allowed, 0, ((size_t)n_vocab + 31) / 32 * sizeof *allowed);
    for (int32_t i = 8 + m->g->parity; i < n_vocab && m->n < 4; i += 2)
        allowed[i / 32] |= 1u << (i % 32);
    for (int32_t i = 0; i < n_ends && m->n >= 4; i++) allowed[ends[i] / 32] |= 1u << (ends[i] % 32);
    return HD_OK;
}

hd_status hd_matcher_accept(hd_matcher *m, int32_t id, hd_error *err)
{
    if (m->n != 1 && id % 2 != m->g->parity) HD_FAIL(err, HD_ERR_INVALID, "token %d", id);
    m->n++;
    return HD_OK;
}

/* ---- helpers ---- */

static hd_engine *open_engine(hd_options o)
{
    hd_error   err = {0};
    hd_engine *e = NULL;
    if (!o.model) o.model = DEMO;
    if (!o.max_tokens) o.max_tokens = CONTEXT;
    if (!o.marks) o.marks = -1;
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    return e;
}

static hd_batch *open_batch(hd_engine *e, hd_batch_options o)
{
    hd_error  err = {0};
    hd_batch *b = NULL;
    if (hd_batch_open(&b, e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    return b;
}

static bool step(hd_batch *b)
{
    hd_error err = {0};
    bool     is_idle;
    if (hd_batch_step(b, &is_idle, &err) != HD_OK) fail_msg("%s", err.message);
    return !is_idle;
}

static void run(hd_batch *b)
{
    while (step(b)) {
    }
}

static uint64_t submit(hd_batch *b, const hd_request *r)
{
    hd_error err = {0};
    uint64_t ticket = 0;
    if (hd_batch_submit(b, r, &ticket, &err) != HD_OK) fail_msg("%s", err.message);
    assert_true(ticket != 0);
    return ticket;
}

static uint64_t submit_made(hd_batch *b, int32_t i, heard *h)
{
    int32_t       prompt[MADE_PROMPT];
    hd_logit_bias bias;
    hd_request    r;
    make_request(&r, i, prompt, &bias, b->engine->model.config->n_vocab);
    r.user = h;
    return submit(b, &r);
}

static void expect_ok(const heard *h, int32_t i)
{
    if (h->n_ends != 1) fail_msg("request %d ended %d times", i, h->n_ends);
    if (h->end.error.code != HD_OK) fail_msg("request %d: %s", i, h->end.error.message);
}

static void expect_same(const heard *alone, const heard *h, int32_t i, const char *how)
{
    expect_ok(h, i);
    if (h->digest != alone->digest || h->n_tokens != alone->n_tokens ||
        strcmp(h->text, alone->text) != 0 || h->n_prompt != alone->n_prompt)
        fail_msg("%s: request %d differs from alone", how, i);
}

static void answer_alone(hd_engine *e, heard alone[N])
{
    hd_batch *const b = open_batch(e, (hd_batch_options){0});
    memset(alone, 0, N * sizeof *alone);
    for (int32_t i = 0; i < N; i++) {
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
    for (int32_t i = 0; i < N; i++) submit_made(b, i * stride % N, &h[i * stride % N]);
    for (int32_t n = 0; n < 8; n++) {
        uint64_t const t = submit_made(b, 1000 + n, &passers[n]);
        for (int32_t k = 0; k <= n; k++) step(b);
        hd_batch_cancel(b, t);
    }
    run(b);
    for (int32_t i = 0; i < N; i++) expect_same(&alone[i], &h[i], i, how);
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
    static heard            alone[N], other[N];
    const batch_case *const c = *state;
    hd_engine              *e = open_engine(options_of(c, 1));
    answer_alone(e, alone);
    answer_together(e, alone, 1, c->name);
    answer_together(e, alone, 7, c->name);
    hd_engine_close(e);
    e = open_engine(options_of(c, 3));
    hd_team_set_grain(e->team, 1);
    answer_together(e, alone, 23, c->name);
    answer_alone(e, other);
    for (int32_t i = 0; i < N; i++) expect_same(&alone[i], &other[i], i, "three threads");
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

int main(void)
{
    struct CMUnitTest tests[32];
    size_t            n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, test_same_bits, NULL, NULL,
                                         (void *)(uintptr_t)&cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_as_one_session);
    return _cmocka_run_group_tests("batch", tests, n, NULL, NULL);
}
