/* Many answers at once, as their users see them: limits and promises, cancelling, fairness, what
 * an answer says of itself, and failures that are one request's own. */
#include "../support/batch_run.h"
#include "../support/fake_grammar.h"

#include <math.h>

#include "../support/fail_each.h"

/* A prompt of n tokens that has nothing in it; answers to it go on until they are stopped. */
static hd_request request_of(int32_t n, int32_t max_new, heard *h)
{
    static int32_t prompt[CONTEXT];
    for (int32_t i = 0; i < CONTEXT; i++) prompt[i] = 3 + i * 37 % 1000;
    return (hd_request){
        .prompt = prompt,
        .n_prompt = n,
        .generate = {.max_new = max_new, .is_raw = true, .ignore_eos = true},
        .on_event = hear_answer,
        .user = h,
    };
}

static hd_status try_submit(hd_batch *b, const hd_request *r, hd_error *err)
{
    *err = (hd_error){0};
    return hd_batch_submit(b, r, NULL, err);
}

static hd_batch_stats stats_of(const hd_batch *b)
{
    hd_batch_stats s;
    hd_batch_stats_get(b, &s);
    return s;
}

static void expect_cancelled(const heard *h)
{
    assert_int_equal(h->n_ends, 1);
    assert_int_equal(h->end.error.code, HD_ERR_CANCELLED);
    assert_int_equal(h->end.finish, HD_FINISH_NONE);
}

/* ---- limits ---- */

static void test_limits(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 2});
    hd_batch *const  b = open_batch(e, (hd_batch_options){.n_waiting = 2});
    heard            h[3] = {0};
    hd_error         err;
    (void)state;
    hd_request r = request_of(CONTEXT, 2, &h[0]);
    assert_int_equal(try_submit(b, &r, &err), HD_ERR_LIMIT);
    assert_non_null(
        strstr(err.message, "512 tokens and max_new 2: 1 more than the context of 512"));
    r.n_prompt = CONTEXT + 7;
    assert_int_equal(try_submit(b, &r, &err), HD_ERR_LIMIT);
    assert_non_null(
        strstr(err.message, "prompt is too long: 519 tokens, the context is 512, 7 less"));
    r = request_of(CONTEXT, 1, &h[0]);
    submit(b, &r);
    r = request_of(CONTEXT - 1, 0, &h[1]);
    submit(b, &r);
    assert_int_equal(try_submit(b, &r, &err), HD_ERR_LIMIT);
    assert_int_equal(err.where, 1);
    run(b);
    expect_ok(&h[0], 0);
    assert_int_equal(h[0].n_tokens, 1);
    expect_ok(&h[1], 1);
    assert_int_equal(h[1].n_tokens, 2);
    assert_int_equal(h[1].end.finish, HD_FINISH_LENGTH);
    assert_int_equal(stats_of(b).n_requests, 2);
    hd_batch_close(b);
    hd_engine_close(e);
}

typedef struct refusal {
    const char *says;
    void (*spoil)(hd_request *r);
} refusal;
static void spoil_prompt(hd_request *r) { r->n_prompt = 0; }
static void spoil_id(hd_request *r) { ((int32_t *)(uintptr_t)r->prompt)[2] = 1 << 20; }
static void spoil_ear(hd_request *r) { r->on_event = NULL; }
static void spoil_temperature(hd_request *r) { r->generate.sampling.temperature = -1; }
static void spoil_max(hd_request *r) { r->generate.max_new = -1; }
static void spoil_stop(hd_request *r)
{
    r->generate.is_raw = false;
    r->generate.n_stop = 1;
}
static void spoil_grammar(hd_request *r)
{
    static const hd_grammar g = {0};
    r->grammar = &g;
}

static void test_refusals(void **state)
{
    static const refusal all[] = {{"a prompt of 0 tokens", spoil_prompt},
                                  {"token 2 of the prompt has id 1048576", spoil_id},
                                  {"nobody hears", spoil_ear},
                                  {"temperature", spoil_temperature},
                                  {"max_new -1", spoil_max},
                                  {"1 stop strings: none given", spoil_stop},
                                  {"ignore_eos", spoil_grammar}};
    hd_engine *const     e = open_engine((hd_options){0});
    hd_batch *const      b = open_batch(e, (hd_batch_options){0});
    hd_error             err;
    heard                h = {0};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hd_request r = request_of(9, 3, &h);
        all[i].spoil(&r);
        assert_int_equal(try_submit(b, &r, &err), HD_ERR_INVALID);
        if (!strstr(err.message, all[i].says)) fail_msg("%s", err.message);
    }
    assert_false(step(b));
    assert_int_equal(h.n_ends, 0);
    hd_batch_close(b);
    hd_engine_close(e);
}

static void test_open_refusals(void **state)
{
    static const hd_batch_options bad[] = {
        {.n_waiting = -1}, {.chunk = -1}, {.chunk = 1000}, {.kv_bytes = -1}};
    hd_engine *const e = open_engine((hd_options){0});
    hd_batch        *b = NULL;
    hd_session      *s = NULL;
    hd_error         err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(hd_batch_open(&b, e, &bad[i], &err), HD_ERR_INVALID);
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    assert_int_equal(hd_batch_open(&b, e, NULL, &err), HD_ERR_LIMIT);
    hd_session_close(s);
    assert_int_equal(hd_batch_open(&b, e, NULL, &err), HD_OK);
    assert_int_equal(hd_session_open(&s, e, NULL), HD_ERR_LIMIT);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* What was promised to one is not there for the next, until it has ended. */
static void test_promises(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 3});
    int64_t const    page = hd_model_rows_bytes(&e->model, 256);
    hd_batch *const  b = open_batch(e, (hd_batch_options){.kv_bytes = 2 * page - 1});
    heard            h[3] = {0};
    hd_error         err;
    (void)state;
    hd_request r = request_of(250, 8, &h[0]);
    assert_int_equal(try_submit(b, &r, &err), HD_ERR_LIMIT);
    assert_non_null(strstr(err.message, "bytes of KV rows"));
    for (int i = 0; i < 3; i++) {
        r = request_of(250, 7, &h[i]);
        submit(b, &r);
    }
    for (int i = 0; i < 3; i++) {
        step(b);
        assert_int_equal(stats_of(b).n_running, 1);
        assert_int_equal(stats_of(b).n_waiting, 2 - i);
        while (!h[i].n_ends) step(b);
        assert_int_equal(b->promised, 0);
        expect_ok(&h[i], i);
    }
    assert_false(step(b));
    hd_batch_close(b);
    hd_engine_close(e);
}

/* Rows that an answer filled are memory again when it ends. */
static void test_memory_comes_back(void **state)
{
    hd_engine *const     e = open_engine((hd_options){.max_tokens = 8192, .chunk = 512});
    hd_batch *const      b = open_batch(e, (hd_batch_options){.chunk = 512});
    const hd_cache_pool *p = NULL;
    heard                h = {0};
    int32_t             *prompt = calloc(8000, sizeof *prompt);
    (void)state;
    for (int32_t l = 0; l < e->model.config->n_layers; l++)
        if (e->model.caches[l].ratio == 4) p = &e->model.caches[l].rows;
    assert_non_null(p);
    int64_t const bytes = hd_row_pages(&p->layout, p->cap) * hd_row_page_bytes(&p->layout);
    hd_request    r = request_of(1, 1, &h);
    for (int32_t i = 0; i < 8000; i++) prompt[i] = 3 + i % 1000;
    r.prompt = prompt;
    r.n_prompt = 8000;
    submit(b, &r);
    while (b->stats.n_running == 0 || b->running[0]->session->length < 7500) step(b);
    int64_t n_used = 0, n_left = 0;
    for (int64_t i = 0; i < bytes; i++) n_used += p->data[i] != 0;
    run(b);
    for (int64_t i = 0; i < bytes; i++) n_left += p->data[i] != 0;
    assert_true(n_used > bytes / 2);
    assert_true(n_left < 2 * 4096);
    free(prompt);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* ---- cancelling ---- */

static void test_cancels(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 2});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    heard            h[5] = {0};
    uint64_t         t[5];
    (void)state;
    for (int i = 0; i < 5; i++) {
        hd_request r = request_of(20 + i, 6, &h[i]);
        h[i].leave_at = i == 1 ? 3 : 0;
        t[i] = submit(b, &r);
    }
    step(b);
    hd_batch_cancel(b, t[0]); /* runs */
    hd_batch_cancel(b, t[4]); /* waits, as the last one */
    hd_batch_cancel(b, t[0]);
    hd_batch_cancel(b, 999);
    step(b);
    expect_cancelled(&h[0]);
    expect_cancelled(&h[4]);
    assert_int_equal(stats_of(b).n_running, 2);
    run(b);
    expect_cancelled(&h[1]);
    assert_int_equal(h[1].n_tokens, 3);
    expect_ok(&h[2], 2);
    expect_ok(&h[3], 3);
    assert_int_equal(stats_of(b).n_failed, 3);
    hd_request r = request_of(5, 2, &h[0]);
    submit(b, &r); /* the queue has its end again */
    run(b);
    assert_int_equal(h[0].n_ends, 2);
    assert_int_equal(h[0].end.error.code, HD_OK);
    hd_batch_close(b);
    hd_engine_close(e);
}

static void test_close_ends_all(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 2});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    heard            h[4] = {0};
    (void)state;
    for (int i = 0; i < 4; i++) {
        hd_request r = request_of(20, 6, &h[i]);
        submit(b, &r);
    }
    step(b);
    hd_batch_close(b);
    for (int i = 0; i < 4; i++) expect_cancelled(&h[i]);
    hd_engine_close(e);
}

/* ---- fairness ---- */

/* An answer has a token in every pass, whatever is read; a pass is no longer than promised; a short
 * prompt behind a long one does not wait for its end. */
static void test_fair(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 4, .chunk = 64});
    hd_batch *const  b = open_batch(e, (hd_batch_options){.chunk = 16});
    heard            drawn = {0}, lengthy = {0}, brief = {0};
    (void)state;
    hd_request r = request_of(5, 60, &drawn);
    submit(b, &r);
    step(b);
    r = request_of(480, 4, &lengthy);
    submit(b, &r);
    step(b);
    r = request_of(12, 4, &brief);
    submit(b, &r);
    for (int32_t n = 2; lengthy.n_tokens == 0; n++) {
        assert_int_equal(drawn.n_tokens, n);
        step(b);
        assert_true(b->n_rows <= 16 + 3);
        if (n == 4) assert_true(brief.n_tokens > 0);
    }
    run(b);
    expect_ok(&drawn, 0);
    expect_ok(&lengthy, 1);
    expect_ok(&brief, 2);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* ---- what an answer says of itself ---- */

static void test_counts(void **state)
{
    hd_engine *const e = open_engine((hd_options){0});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    heard            h = {0};
    (void)state;
    hd_request r = request_of(40, 5, &h);
    submit(b, &r);
    run(b);
    assert_int_equal(h.end.n_prompt, 40);
    assert_int_equal(h.end.n_cached, 0);
    assert_int_equal(h.end.n_new, 5);
    assert_int_equal(h.end.stop, -1);
    assert_int_equal(h.end.blank, HD_BLANK_NO);
    assert_true(h.end.wait_s >= 0 && h.end.prompt_s > 0 && h.end.new_s >= 0);
    hd_batch_stats const s = stats_of(b);
    assert_int_equal(s.prompt_tokens, 40);
    assert_int_equal(s.new_tokens, 5);
    assert_int_equal(s.n_failed, 0);
    assert_int_equal(s.n_running + s.n_waiting, 0);
    assert_int_equal(s.n_passes, 5);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* Why an answer has no text: each reason is made by letting one token be far likelier. */
static heard answer_biased(hd_batch *b, int32_t id, void (*change)(hd_request *r))
{
    heard               h = {0};
    hd_logit_bias const bias = {id, 100};
    hd_request          r = request_of(30, 4, &h);
    r.generate.is_raw = r.generate.ignore_eos = false;
    r.generate.start = HD_START_CONTENT;
    r.generate.sampling.bias = &bias;
    r.generate.sampling.n_bias = 1;
    if (change) change(&r);
    submit(b, &r);
    run(b);
    expect_ok(&h, 0);
    return h;
}

static void start_reasoning(hd_request *r) { r->generate.start = HD_START_REASONING; }
static void stop_at_a(hd_request *r)
{
    static const char *const stops[] = {"zz", "a"};
    r->generate.stop = stops;
    r->generate.n_stop = 2;
}
static void stop_at_id(hd_request *r)
{
    static const int32_t ids[] = {77};
    r->generate.stop_ids = ids;
    r->generate.n_stop_ids = 1;
}

static void test_blanks(void **state)
{
    hd_engine *const e = open_engine((hd_options){0});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    int32_t          a, n;
    (void)state;
    assert_int_equal(hd_tokenizer_encode(e->tokenizer, "a", 1, false, &a, 1, &n, NULL), HD_OK);
    heard h = answer_biased(b, e->model.config->eos[0], NULL);
    assert_int_equal(h.end.blank, HD_BLANK_EOS);
    assert_int_equal(h.end.n_new, 1);
    h = answer_biased(b, a, start_reasoning);
    assert_int_equal(h.end.blank, HD_BLANK_REASONING);
    assert_int_equal(h.end.n_reasoning, 4);
    h = answer_biased(b, a, stop_at_a);
    assert_int_equal(h.end.blank, HD_BLANK_STOP);
    assert_int_equal(h.end.stop, 1);
    h = answer_biased(b, 77, stop_at_id);
    assert_int_equal(h.end.blank, HD_BLANK_STOP);
    assert_int_equal(h.end.stop, -1);
    h = answer_biased(b, a, NULL);
    assert_int_equal(h.end.blank, HD_BLANK_NO);
    assert_string_equal(h.text, "aaaa");
    assert_string_equal(hd_blank_name(HD_BLANK_UNPARSED), "unparsed");
    hd_batch_close(b);
    hd_engine_close(e);
}

/* ---- scoring ---- */

typedef struct scores {
    float   logprob[CONTEXT];
    int32_t n, n_top;
    bool    has_end;
} scores;

static bool hear_scores(void *user, const hd_answer_event *e)
{
    scores *const s = user;
    if (e->prompt) {
        s->n_top += e->prompt->n_top;
        s->logprob[s->n++] = e->prompt->token.logprob;
    }
    assert_null(e->token);
    s->has_end |= e->end && e->end->error.code == HD_OK && e->end->finish == HD_FINISH_STOP;
    return true;
}

static void test_scores(void **state)
{
    hd_engine *const e = open_engine((hd_options){.chunk = 32});
    float            wanted[100];
    scores           got = {.n = 0};
    hd_session      *s = NULL;
    (void)state;
    hd_request r = request_of(100, -1, NULL);
    r.is_scored = true;
    r.generate.n_top = 2;
    r.on_event = hear_scores;
    r.user = &got;
    hd_batch *const b = open_batch(e, (hd_batch_options){0});
    submit(b, &r);
    run(b);
    hd_batch_close(b);
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    assert_int_equal(hd_session_score(s, r.prompt, 100, wanted, NULL), HD_OK);
    assert_true(got.has_end);
    assert_int_equal(got.n, 100);
    assert_int_equal(got.n_top, 2 * 99);
    assert_true(isnan(got.logprob[0]));
    for (int32_t i = 1; i < 100; i++) assert_true(fabsf(got.logprob[i] - wanted[i]) < 1e-5f);
    hd_session_close(s);
    hd_engine_close(e);
}

/* ---- grammars ---- */

static void test_grammar(void **state)
{
    static const hd_grammar odd = {1}, even = {0};
    hd_engine *const        e = open_engine((hd_options){.n_sessions = 2});
    hd_batch *const         b = open_batch(e, (hd_batch_options){0});
    heard                   h[2] = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        hd_request r = request_of(30, 9, &h[i]);
        r.grammar = i ? &odd : &even;
        r.generate.ignore_eos = false;
        r.generate.min_new = i ? 0 : 9; /* the grammar has an end, and no more to say */
        submit(b, &r);
    }
    run(b);
    for (int i = 0; i < 2; i++) {
        expect_ok(&h[i], i);
        assert_int_equal(h[i].n_tokens, 5);
        assert_int_equal(h[i].end.finish, HD_FINISH_STOP);
        for (int t = 0; t < 4; t++) assert_true(t == 1 || h[i].ids[t] % 2 == i);
        assert_int_equal(h[i].ids[4], e->model.config->eos[0]);
    }
    assert_int_equal(n_matchers, 0);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* ---- failures ---- */

/* One id has an embedding that is no number. */
static void test_nan_is_ones_own(void **state)
{
    enum { BAD = 500 };
    hd_engine *const e = open_engine((hd_options){.n_sessions = 4});
    size_t const     row = (size_t)e->model.config->d_model * sizeof(uint16_t);
    size_t const     bytes = row * (size_t)e->model.config->n_vocab;
    const void      *good = e->weights->embed.w;
    uint8_t *const   bad = malloc(bytes);
    hd_batch *const  b = open_batch(e, (hd_batch_options){.chunk = 16});
    heard            h[3] = {0}, alone = {0};
    int32_t          prompt[60];
    (void)state;
    hd_request r = request_of(33, 6, &alone);
    submit(b, &r);
    run(b);
    memcpy(bad, good, bytes);
    memset(bad + BAD * row + 10, 0xFF, 2);
    e->weights->embed.w = bad;
    for (int i = 0; i < HD_N_PLANS; i++) e->plans[i].t = 0; /* they point to the good ones */
    for (int i = 0; i < 3; i++) {
        r = request_of(33, 6, &h[i]);
        for (int32_t t = 0; t < 60; t++) prompt[t] = i == 1 && t == 42 ? BAD : 3 + t;
        if (i == 1) r.prompt = prompt;
        if (i == 1) r.n_prompt = 60;
        submit(b, &r);
    }
    run(b);
    assert_int_equal(h[1].end.error.code, HD_ERR_NUMERIC);
    assert_non_null(strstr(h[1].end.error.message, "step embed"));
    assert_non_null(strstr(h[1].end.error.message, "token 42"));
    expect_same(&alone, &h[0], 0, "beside NaN");
    expect_same(&alone, &h[2], 2, "beside NaN");
    e->weights->embed.w = good;
    free(bad);
    hd_batch_close(b);
    hd_engine_close(e);
}

static hd_status fail_device(const void *args, hd_stream *stream)
{
    (void)args;
    (void)stream;
    return HD_ERR_DEVICE;
}

/* Once the device fails all requests end, and there are no others. */
static void test_dead_engine(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 2});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    heard            h[3] = {0};
    hd_error         err = {0};
    bool             is_idle;
    (void)state;
    for (int i = 0; i < 3; i++) {
        hd_request r = request_of(8, 6, &h[i]);
        submit(b, &r);
    }
    step(b);
    step(b);
    for (int i = 0; i < HD_N_PLANS; i++)
        if (e->plans[i].t == 2) {
            hd_step *const   first = &e->plans[i].plan.steps[0];
            static hd_kernel broken;
            broken = *first->kernel;
            broken.run = fail_device;
            first->kernel = &broken;
        }
    assert_int_equal(hd_batch_step(b, &is_idle, &err), HD_ERR_DEVICE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(h[i].n_ends, 1);
        assert_int_equal(h[i].end.error.code, HD_ERR_DEVICE);
    }
    hd_request r = request_of(8, 6, &h[0]);
    assert_int_equal(try_submit(b, &r, &err), HD_ERR_DEVICE);
    assert_int_equal(hd_batch_step(b, &is_idle, &err), HD_ERR_DEVICE);
    hd_batch_wait(b, -1); /* does not hang */
    hd_batch_close(b);
    hd_engine_close(e);
}

/* A pass that fails otherwise ends those who were in it. */
static void test_failed_pass(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 2});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    heard            h[2] = {0};
    size_t const     cap = e->act.cap;
    (void)state;
    hd_request r = request_of(8, 6, &h[0]);
    submit(b, &r);
    e->act.cap = e->act_mark;
    step(b);
    e->act.cap = cap;
    e->act.failed = false;
    assert_int_equal(h[0].end.error.code, HD_ERR_MEMORY);
    r.user = &h[1];
    submit(b, &r);
    run(b);
    expect_ok(&h[1], 1);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* ---- allocations ---- */

static hd_status open_and_close(void *user, hd_error *err)
{
    hd_batch *b = NULL;
    HD_TRY(hd_batch_open(&b, user, NULL, err));
    hd_batch_close(b);
    return HD_OK;
}

static hd_status submit_once(void *user, hd_error *err)
{
    static const char *const stops[] = {"stop"};
    static const int32_t     ids[] = {77};
    static const hd_grammar  odd = {1};
    hd_logit_bias const      bias = {5, 1};
    static heard             h;
    hd_request               r = request_of(8, 2, &h);
    r.grammar = &odd;
    r.generate.is_raw = r.generate.ignore_eos = false;
    r.generate.sampling.bias = &bias;
    r.generate.sampling.n_bias = 1;
    r.generate.stop = stops;
    r.generate.n_stop = 1;
    r.generate.stop_ids = ids;
    r.generate.n_stop_ids = 1;
    return hd_batch_submit(user, &r, NULL, err);
}

static void test_failing_allocations(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 2});
    (void)state;
    fail_each(&(fail_each_call){hd_memory_fail_at, HD_ERR_MEMORY, open_and_close, NULL, e});
    hd_batch *const b = open_batch(e, (hd_batch_options){0});
    fail_each(&(fail_each_call){hd_memory_fail_at, HD_ERR_MEMORY, submit_once, NULL, b});
    assert_int_equal(stats_of(b).n_waiting, 1);
    run(b);
    hd_batch_close(b);
    assert_int_equal(n_matchers, 0);
    hd_engine_close(e);
}

/* Passes allocate nothing; a parser may, and it is the answer's. */
static void test_passes_allocate_nothing(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 3});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    heard            h[5] = {0};
    (void)state;
    for (int i = 0; i < 5; i++) {
        hd_request r = request_of(30 + i, 6, &h[i]);
        submit(b, &r);
    }
    hd_memory_seal();
    run(b);
    hd_memory_unseal();
    for (int i = 0; i < 5; i++) expect_ok(&h[i], i);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* ---- threads ---- */

typedef struct asker {
    hd_batch *b;
    heard     h[20];
    int32_t   first;
} asker;

static void *ask_all(void *user)
{
    asker *const a = user;
    for (int32_t i = 0; i < 20; i++) {
        int32_t       prompt[MADE_PROMPT];
        hd_logit_bias bias;
        hd_request    r;
        uint64_t      ticket;
        make_request(&r, a->first + i, prompt, &bias, a->b->engine->model.config->n_vocab);
        r.n_prompt = r.n_prompt < 20 ? r.n_prompt : 20;
        r.user = &a->h[i];
        if (hd_batch_submit(a->b, &r, &ticket, NULL) != HD_OK) abort();
        if (i % 4 == 3) hd_batch_cancel(a->b, ticket);
        hd_batch_stats_get(a->b, &(hd_batch_stats){0});
    }
    hd_batch_wake(a->b);
    return NULL;
}

static void test_askers(void **state)
{
    static asker     askers[3];
    hd_engine *const e = open_engine((hd_options){.n_sessions = 4});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    pthread_t        threads[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        askers[i] = (asker){.b = b, .first = 100 * i};
        assert_int_equal(pthread_create(&threads[i], NULL, ask_all, &askers[i]), 0);
    }
    while (stats_of(b).n_requests < 60) {
        hd_batch_wait(b, 1000);
        step(b);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    run(b);
    for (int i = 0; i < 3; i++)
        for (int n = 0; n < 20; n++) {
            const heard *const h = &askers[i].h[n];
            assert_int_equal(h->n_ends, 1);
            assert_true(h->end.error.code == HD_OK ||
                        (n % 4 == 3 && h->end.error.code == HD_ERR_CANCELLED));
        }
    hd_batch_close(b);
    hd_engine_close(e);
}

static void test_wait(void **state)
{
    hd_engine *const e = open_engine((hd_options){0});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    double const     start = hd_reply_now();
    (void)state;
    hd_batch_wait(b, 30);
    assert_true(hd_reply_now() - start >= 0.029);
    hd_batch_wake(b);
    hd_batch_wait(b, -1); /* was woken */
    hd_batch_close(b);
    hd_batch_close(NULL);
    hd_engine_close(e);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_open_refusals),
        cmocka_unit_test(test_promises),
        cmocka_unit_test(test_memory_comes_back),
        cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_close_ends_all),
        cmocka_unit_test(test_fair),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_nan_is_ones_own),
        cmocka_unit_test(test_dead_engine),
        cmocka_unit_test(test_failed_pass),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_passes_allocate_nothing),
        cmocka_unit_test(test_askers),
        cmocka_unit_test(test_wait),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
