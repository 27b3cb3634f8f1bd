/* Drawing tokens: greedy choice, filters, distributions, log probabilities and refusals.
 *
 * Public faults met here: DET-04 (top_k = 1 and temperature 0 take the lower id of equals). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "hadal.h"

#define MOST 64

/* Only ids of a mask, whatever the sampling; what is reported is of all. */
static void test_allowed(void **state)
{
    enum { N = 40 };
    static const uint32_t allowed[] = {1u << 3 | 1u << 31, 1u << 7}, none[2] = {0};
    float                 logits[N], changed[N];
    int32_t               scratch[N];
    hd_sampled            out;
    hd_error              err = {0};
    (void)state;
    for (int32_t i = 0; i < N; i++) logits[i] = (float)(i == 39 ? -5 : i == 20 ? 9 : 0);
    hd_draw d = {.logits = logits,
                 .n = N,
                 .n_top = 1,
                 .allowed = allowed,
                 .scratch = scratch,
                 .changed = changed};
    assert_int_equal(hd_sample(&out, &(hd_sampling){0}, &d, &err), HD_OK);
    assert_int_equal(out.token.id, 3);
    assert_int_equal(out.top[0].id, 20);
    for (d.step = 0; d.step < 200; d.step++) {
        hd_sampling const s = {.temperature = 1, .top_k = d.step % 2 ? 3 : 0, .seed = 5};
        assert_int_equal(hd_sample(&out, &s, &d, &err), HD_OK);
        assert_true(out.token.id == 3 || out.token.id == 31 || out.token.id == 39);
    }
    d.allowed = none;
    assert_int_equal(hd_sample(&out, &(hd_sampling){0}, &d, &err), HD_ERR_INVALID);
    d.allowed = allowed;
    d.changed = NULL;
    assert_int_equal(hd_sample(&out, &(hd_sampling){0}, &d, &err), HD_ERR_INVALID);
}

static hd_sampled sample(const float *logits, int32_t n, hd_sampling s, uint64_t step,
                         int32_t n_top)
{
    hd_error   err = {0};
    hd_sampled out = {0};
    int32_t    scratch[MOST];
    assert_in_range(n, 1, MOST);
    hd_draw const d = {.logits = logits, .n = n, .n_top = n_top, .step = step, .scratch = scratch};
    if (hd_sample(&out, &s, &d, &err) != HD_OK) fail_msg("%s", err.message);
    return out;
}

static int32_t draw(const float *logits, int32_t n, hd_sampling s, uint64_t step)
{
    return sample(logits, n, s, step, 0).token.id;
}

/* ---- greedy ---- */

static void test_greedy(void **state)
{
    static const float rising[] = {-3, -2, -1}, ties[] = {1, 7, 3, 7, 7}, equal[] = {0, 0, 0};
    (void)state;
    assert_int_equal(draw(rising, 3, (hd_sampling){0}, 0), 2);
    assert_int_equal(draw(equal, 3, (hd_sampling){0}, 9), 0);
    for (uint64_t seed = 0; seed < 100; seed++) {
        hd_sampling const greedy = {.seed = seed};
        hd_sampling const one = {.temperature = 1, .top_k = 1, .seed = seed};
        hd_sampling const tiny = {.temperature = 1, .top_p = 1e-6f, .seed = seed};
        assert_int_equal(draw(ties, 5, greedy, seed), 1);
        assert_int_equal(draw(ties, 5, one, seed), 1);
        assert_int_equal(draw(ties, 5, tiny, seed), 1);
    }
}

static void test_one_logit(void **state)
{
    static const float lonely[] = {-1e30f};
    (void)state;
    for (int i = 0; i < 2; i++) {
        hd_sampling const s = {.temperature = (float)i, .top_p = 0.5f, .top_k = 3, .min_p = 1};
        hd_sampled const  got = sample(lonely, 1, s, 4, 5);
        assert_int_equal(got.token.id, 0);
        assert_true(got.token.logprob == 0);
        assert_int_equal(got.n_top, 1);
        assert_int_equal(got.top[0].id, 0);
    }
}

/* Temperatures at both ends of what f32 holds. */
static void test_extreme_temperature(void **state)
{
    static const float logits[] = {1, 3, 2, 3};
    int32_t            seen[4] = {0};
    (void)state;
    for (uint64_t step = 0; step < 4000; step++) {
        int32_t const cold = draw(logits, 4, (hd_sampling){.temperature = 1e-45f}, step);
        assert_true(cold == 1 || cold == 3);
        seen[draw(logits, 4, (hd_sampling){.temperature = 3e38f}, step)]++;
    }
    for (int i = 0; i < 4; i++) assert_in_range(seen[i], 850, 1150);
}

/* ---- filters ---- */

/* ln of 0.4, 0.3, 0.15, 0.1, 0.05 in mixed order, moved up: only differences count. */
#define N_SHARES 5
static const double shares[N_SHARES] = {0.1, 0.4, 0.05, 0.3, 0.15};

static void fill_logits(float *logits)
{
    for (int i = 0; i < N_SHARES; i++) logits[i] = (float)(log(shares[i]) + 11);
}

typedef struct filter_case {
    const char *name;
    hd_sampling s;
    bool        kept[N_SHARES];
} filter_case;

static const filter_case filter_cases[] = {
    {"none", {.temperature = 1}, {1, 1, 1, 1, 1}},
    {"all of each", {.temperature = 1, .top_k = 5, .top_p = 1}, {1, 1, 1, 1, 1}},
    {"top_k beyond the vocabulary", {.temperature = 1, .top_k = INT32_MAX}, {1, 1, 1, 1, 1}},
    {"top_k 1", {.temperature = 1, .top_k = 1}, {0, 1, 0, 0, 0}},
    {"top_k 3", {.temperature = 1, .top_k = 3}, {0, 1, 0, 1, 1}},
    {"top_p below the best", {.temperature = 1, .top_p = 0.39f}, {0, 1, 0, 0, 0}},
    {"top_p above the best", {.temperature = 1, .top_p = 0.41f}, {0, 1, 0, 1, 0}},
    {"top_p above three", {.temperature = 1, .top_p = 0.86f}, {1, 1, 0, 1, 1}},
    {"top_p nearly 1", {.temperature = 1, .top_p = 0.9999f}, {1, 1, 1, 1, 1}},
    {"min_p", {.temperature = 1, .min_p = 0.3f}, {0, 1, 0, 1, 1}},
    {"min_p 1", {.temperature = 1, .min_p = 1}, {0, 1, 0, 0, 0}},
    {"min_p below all", {.temperature = 1, .min_p = 0.1f}, {1, 1, 1, 1, 1}},
    /* 0.4 of 0.85 is 0.47, 0.7 of 0.85 is 0.82 */
    {"top_p of what top_k left", {.temperature = 1, .top_k = 3, .top_p = 0.45f}, {0, 1, 0, 0, 0}},
    {"top_p of three", {.temperature = 1, .top_k = 3, .top_p = 0.8f}, {0, 1, 0, 1, 0}},
    {"top_p and min_p", {.temperature = 1, .top_p = 0.99f, .min_p = 0.2f}, {1, 1, 0, 1, 1}},
    {"all three", {.temperature = 1, .top_k = 4, .top_p = 0.97f, .min_p = 0.5f}, {0, 1, 0, 1, 0}},
    {"hot", {.temperature = 2, .top_k = 4}, {1, 1, 0, 1, 1}},
    {"hot top_p", {.temperature = 4, .top_p = 0.8f}, {1, 1, 0, 1, 1}},
    {"cold min_p", {.temperature = 0.5f, .min_p = 0.3f}, {0, 1, 0, 1, 0}},
};
#define N_FILTER_CASES ((int32_t)(sizeof filter_cases / sizeof filter_cases[0]))

#define N_DRAWS 20000
/* Of chi-square with 0..4 degrees of freedom, exceeded once in 100,000; seeds are fixed. */
static const double chi_limit[N_SHARES] = {0, 19.5, 23.0, 25.9, 28.5};

static void check_filter(const filter_case *f, uint64_t seed)
{
    float       logits[N_SHARES];
    double      want[N_SHARES], total = 0, chi = 0;
    int32_t     seen[N_SHARES] = {0}, freedom = -1;
    hd_sampling s = f->s;
    s.seed = seed;
    fill_logits(logits);
    for (uint64_t step = 0; step < N_DRAWS; step++) seen[draw(logits, N_SHARES, s, step)]++;
    for (int i = 0; i < N_SHARES; i++)
        total += want[i] = f->kept[i] ? pow(shares[i], 1 / (double)s.temperature) : 0;
    for (int i = 0; i < N_SHARES; i++) {
        double const expected = want[i] / total * N_DRAWS;
        if (!f->kept[i] && seen[i]) fail_msg("%s: token %d is no candidate", f->name, i);
        if (!f->kept[i]) continue;
        if (!seen[i]) fail_msg("%s: token %d is never drawn", f->name, i);
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
        freedom++;
    }
    if (!(chi <= chi_limit[freedom])) fail_msg("%s: chi-square is %.1f", f->name, chi);
}

static void test_filters(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_FILTER_CASES; i++)
        for (uint64_t seed = 1; seed <= 3; seed++) check_filter(&filter_cases[i], seed);
}

/* Of equal logits at the edge of a filter the lower ids stay. */
static void test_ties_at_the_edge(void **state)
{
    static const float logits[] = {0, 1, 0, 1, 0, 1};
    bool               seen[6] = {0};
    (void)state;
    for (uint64_t step = 0; step < 2000; step++) {
        seen[draw(logits, 6, (hd_sampling){.temperature = 1, .top_k = 4}, step)] = true;
        int32_t const two = draw(logits, 6, (hd_sampling){.temperature = 1, .top_k = 2}, step);
        assert_true(two == 1 || two == 3);
    }
    static const bool want[] = {1, 1, 0, 1, 0, 1};
    assert_memory_equal(seen, want, sizeof seen);
}

/* Logits so far apart that weights underflow: no candidate of weight 0 is drawn. */
static void test_underflow(void **state)
{
    float logits[MOST];
    (void)state;
    for (int i = 0; i < MOST; i++) logits[i] = -3e38f;
    logits[40] = 3e38f;
    for (uint64_t step = 0; step < 1000; step++) {
        assert_int_equal(draw(logits, MOST, (hd_sampling){.temperature = 1}, step), 40);
        assert_int_equal(draw(logits, MOST, (hd_sampling){.temperature = 1, .top_k = 9}, step), 40);
        assert_int_equal(draw(logits, MOST, (hd_sampling){.temperature = 1, .top_p = 0.999f}, step),
                         40);
    }
}

/* ---- seeds ---- */

/* Draw k of a seed depends on both and on nothing else: not on order, history or alternatives. */
static void test_pure(void **state)
{
    float   logits[MOST];
    int32_t forward[200];
    int32_t equal_seed = 0, equal_step = 0;
    (void)state;
    for (int i = 0; i < MOST; i++) logits[i] = (float)(i % 7) / 5;
    hd_sampling const a = {.temperature = 1, .seed = 42}, b = {.temperature = 1, .seed = 43};
    for (uint64_t k = 0; k < 200; k++) forward[k] = draw(logits, MOST, a, k);
    for (uint64_t k = 200; k-- > 0;) {
        assert_int_equal(draw(logits, MOST, a, k), forward[k]);
        assert_int_equal(sample(logits, MOST, a, k, 20).token.id, forward[k]);
        equal_seed += draw(logits, MOST, b, k) == forward[k];
        equal_step += k > 0 && forward[k] == forward[k - 1];
    }
    assert_in_range(equal_seed, 0, 15);
    assert_in_range(equal_step, 0, 15);
}

/* Neighbouring seeds and steps must not walk in step: pairs fill a 4 x 4 table evenly. */
static void test_independence(void **state)
{
    static const float equal[4] = {0};
    int32_t            pairs[2][16] = {{0}};
    (void)state;
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        hd_sampling const s = {.temperature = 1, .seed = i},
                          next = {.temperature = 1, .seed = i + 1};
        pairs[0][4 * draw(equal, 4, s, 0) + draw(equal, 4, next, 0)]++;
        pairs[1][4 * draw(equal, 4, s, 0) + draw(equal, 4, s, 1)]++;
    }
    for (int table = 0; table < 2; table++) {
        double       chi = 0;
        double const expected = N_DRAWS / 16.0;
        for (int i = 0; i < 16; i++)
            chi += (pairs[table][i] - expected) * (pairs[table][i] - expected) / expected;
        assert_true(chi < 48); /* 15 degrees of freedom, once in 40,000 */
    }
}

/* ---- log probabilities ---- */

static void test_logprobs(void **state)
{
    float logits[N_SHARES];
    (void)state;
    fill_logits(logits);
    hd_sampling const filtered = {.temperature = 7, .top_k = 1, .min_p = 1};
    hd_sampled const  got = sample(logits, N_SHARES, filtered, 0, HD_MAX_TOP_LOGPROBS);
    static const int  order[N_SHARES] = {1, 3, 4, 0, 2};
    assert_int_equal(got.token.id, 1);
    assert_true(fabs(got.token.logprob - log(0.4)) < 1e-6);
    assert_int_equal(got.n_top, N_SHARES);
    for (int i = 0; i < N_SHARES; i++) {
        assert_int_equal(got.top[i].id, order[i]);
        assert_true(fabs(got.top[i].logprob - log(shares[order[i]])) < 1e-6);
    }
}

static void test_top_ties(void **state)
{
    static const float logits[] = {2, 5, 2, 5, 1, 2};
    static const int   order[] = {1, 3, 0, 2};
    (void)state;
    for (int32_t n_top = 0; n_top <= 4; n_top++) {
        hd_sampled const got = sample(logits, 6, (hd_sampling){0}, 0, n_top);
        assert_int_equal(got.n_top, n_top);
        for (int i = 0; i < n_top; i++) assert_int_equal(got.top[i].id, order[i]);
    }
}

/* ---- changed logits ---- */

/* Ids 0 and 1 stand in the prompt, 1, 2, 2 and 3 were drawn. */
static const int32_t past[] = {0, 1, 0, 1, 2, 2, 3};
#define N_PAST   ((int32_t)(sizeof past / sizeof past[0]))
#define N_PROMPT 3
#define N_IDS    6

static hd_status try_changed(hd_sampled *out, float *changed, hd_sampling s, const int32_t *banned,
                             int32_t n_banned)
{
    static const float logits[N_IDS] = {4, -1, 3, 0, -2, 2.5f};
    int32_t            scratch[N_IDS];
    hd_draw const      d = {.logits = logits,
                            .n = N_IDS,
                            .n_top = N_IDS,
                            .past = past,
                            .n_past = N_PAST,
                            .n_prompt = N_PROMPT,
                            .banned = banned,
                            .n_banned = n_banned,
                            .scratch = scratch,
                            .changed = changed};
    return hd_sample(out, &s, &d, NULL);
}

/* What the public description of each option makes of these logits, worked out by hand. */
static void test_changes(void **state)
{
    static const hd_logit_bias some[] = {{4, 100}, {0, -100}, {4, -1.5f}};
    static const hd_logit_bias most[] = {{0, 100}}, nine[] = {{1, 9}};
    static const int32_t       banned[] = {0, 5};
    static const struct {
        const char *name;
        hd_sampling s;
        int32_t     n_banned;
        float       want[N_IDS];
        int32_t     greedy;
    } cases[] = {
        {"presence", {.presence_penalty = 1.5f}, 0, {4, -2.5f, 1.5f, -1.5f, -2, 2.5f}, 0},
        {"presence below 0", {.presence_penalty = -2}, 0, {4, 1, 5, 2, -2, 2.5f}, 2},
        {"frequency", {.frequency_penalty = 0.5f}, 0, {4, -1.5f, 2, -0.5f, -2, 2.5f}, 0},
        {"both", {.presence_penalty = 1, .frequency_penalty = -1}, 0, {4, -1, 4, 0, -2, 2.5f}, 0},
        {"repetition", {.repetition_penalty = 2}, 0, {2, -2, 1.5f, 0, -2, 2.5f}, 5},
        {"repetition below 1", {.repetition_penalty = 0.5f}, 0, {8, -0.5f, 6, 0, -2, 2.5f}, 0},
        {"bias", {.bias = some, .n_bias = 3}, 0, {-96, -1, 3, 0, 96.5f, 2.5f}, 4},
        {"bans", {.temperature = 0}, 2, {-INFINITY, -1, 3, 0, -2, -INFINITY}, 2},
        {"a ban stands over a bias",
         {.bias = most, .n_bias = 1},
         1,
         {-INFINITY, -1, 3, 0, -2, 2.5f},
         2},
        {"bias, then repetition, then the others",
         {.presence_penalty = 1,
          .frequency_penalty = 0.25f,
          .repetition_penalty = 2,
          .bias = nine,
          .n_bias = 1},
         0,
         {2, 2.75f, 0, -1.25f, -2, 2.5f},
         1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hd_sampled plain, out;
        float      changed[N_IDS];
        assert_int_equal(try_changed(&plain, NULL, (hd_sampling){0}, NULL, 0), HD_OK);
        assert_int_equal(try_changed(&out, changed, cases[i].s, banned, cases[i].n_banned), HD_OK);
        for (int j = 0; j < N_IDS; j++)
            if (changed[j] != cases[i].want[j])
                fail_msg("%s: logit %d is %g", cases[i].name, j, (double)changed[j]);
        if (out.token.id != cases[i].greedy) fail_msg("%s: took %d", cases[i].name, out.token.id);
        /* Log probabilities are those of the model. */
        assert_memory_equal(out.top, plain.top, N_IDS * sizeof *out.top);
        for (int j = 0; j < N_IDS; j++)
            if (plain.top[j].id == out.token.id)
                assert_true(plain.top[j].logprob == out.token.logprob);
    }
}

/* With the temperature above 0 too: only what is left is drawn, in its new shares. */
static void test_changed_draws(void **state)
{
    static const int32_t banned[] = {0, 2, 3, 5};
    int32_t              seen[N_IDS] = {0};
    float                changed[N_IDS];
    hd_sampled           out;
    (void)state;
    for (uint64_t seed = 0; seed < N_DRAWS; seed++) {
        hd_sampling const s = {.temperature = 1,
                               .seed = seed,
                               .top_k = seed % 2 ? N_IDS - 1 : 0,
                               .top_p = seed % 3 ? 0.999f : 0,
                               .bias = &(const hd_logit_bias){1, -1},
                               .n_bias = 1};
        assert_int_equal(try_changed(&out, changed, s, banned, 4), HD_OK);
        seen[out.token.id]++;
    }
    assert_int_equal(seen[1] + seen[4], N_DRAWS);
    assert_in_range(seen[1], N_DRAWS * 48 / 100, N_DRAWS * 52 / 100);
}

/* Nothing that is not banned gets infinite, whatever is multiplied. */
static void test_extreme_changes(void **state)
{
    static const float   logits[] = {3e38f, -3e38f, 3e38f};
    static const int32_t drawn[] = {0, 1};
    float                changed[3];
    int32_t              scratch[3];
    hd_sampled           out;
    hd_sampling const    s = {.repetition_penalty = 100, .presence_penalty = -2},
                      up = {.repetition_penalty = 0.01f};
    hd_draw const d = {.logits = logits,
                       .n = 3,
                       .past = drawn,
                       .n_past = 2,
                       .scratch = scratch,
                       .changed = changed};
    (void)state;
    assert_int_equal(hd_sample(&out, &s, &d, NULL), HD_OK);
    assert_int_equal(out.token.id, 2);
    assert_true(isfinite(changed[0]) && isfinite(changed[1]));
    assert_int_equal(hd_sample(&out, &up, &d, NULL), HD_OK);
    assert_int_equal(out.token.id, 0);
    assert_true(isfinite(changed[0]));
}

static void check_draw_refused(hd_draw d, const hd_sampling *s, const char *message)
{
    static const float logits[] = {1, 2};
    int32_t            scratch[2];
    hd_sampled         out;
    hd_error           err = {0};
    d.logits = logits;
    d.n = 2;
    d.scratch = scratch;
    assert_int_equal(hd_sample(&out, s, &d, &err), HD_ERR_INVALID);
    assert_string_equal(err.message, message);
}

static void test_bad_draws(void **state)
{
    static const int32_t both[] = {1, 0, 2, -1};
    float                changed[2];
    hd_sampling const    plain = {.temperature = 0}, present = {.presence_penalty = 1};
    (void)state;
    check_draw_refused((hd_draw){.past = both, .n_past = 2}, &present,
                       "nowhere to put changed logits");
    check_draw_refused((hd_draw){.past = both, .n_past = 3, .changed = changed}, &present,
                       "token 2 before the draw has id 2 of 2");
    check_draw_refused((hd_draw){.past = both + 3, .n_past = 1, .changed = changed}, &present,
                       "token 0 before the draw has id -1 of 2");
    check_draw_refused((hd_draw){.past = both, .n_past = 2, .n_prompt = 3}, &plain,
                       "prompt of 3 in 2 tokens");
    check_draw_refused((hd_draw){.banned = both, .n_banned = 2, .changed = changed}, &plain,
                       "all 2 ids are banned");
    check_draw_refused((hd_draw){.banned = both, .n_banned = 3, .changed = changed}, &plain,
                       "banned id 2: the vocabulary is 0 .. 1");
}

/* ---- refusals ---- */

static void check_refused(const float *logits, int32_t n, hd_sampling s, int32_t n_top,
                          hd_status want, const char *message)
{
    hd_error   err = {0};
    hd_sampled out, before;
    int32_t    scratch[MOST];
    memset(&out, 0x5A, sizeof out);
    memcpy(&before, &out, sizeof out);
    hd_draw const d = {.logits = logits, .n = n, .n_top = n_top, .scratch = scratch};
    assert_int_equal(hd_sample(&out, &s, &d, &err), want);
    assert_int_equal(err.code, want);
    assert_string_equal(err.message, message);
    assert_memory_equal(&out, &before, sizeof out);
    assert_int_equal(hd_sample(&out, &s, &d, NULL), want);
}

static void test_bad_logits(void **state)
{
    float logits[MOST] = {0};
    (void)state;
    hd_sampling const both[] = {{0}, {.temperature = 1, .top_k = 2}};
    for (int i = 0; i < 2; i++) {
        logits[63] = NAN;
        check_refused(logits, MOST, both[i], 0, HD_ERR_NUMERIC,
                      "logit 63 of 64 is nan: no token can be drawn");
        logits[7] = INFINITY;
        check_refused(logits, MOST, both[i], 3, HD_ERR_NUMERIC,
                      "logit 7 of 64 is inf: no token can be drawn");
        logits[0] = -INFINITY;
        check_refused(logits, MOST, both[i], 20, HD_ERR_NUMERIC,
                      "logit 0 of 64 is -inf: no token can be drawn");
        logits[0] = logits[7] = 0;
    }
}

static void test_bad_options(void **state)
{
    static const float         logits[] = {1, 2};
    static const hd_logit_bias low[] = {{-1, 0}}, high[] = {{1, 100}, {2, 0}},
                               much[] = {{0, 100.5f}};
    static const hd_logit_bias nan_bias[] = {{1, NAN}};
    static const struct {
        hd_sampling s;
        int32_t     n_top;
        const char *message;
    } cases[] = {
        {{.temperature = -0.5f}, 0, "temperature -0.5: wanted 0 or more"},
        {{.temperature = NAN}, 0, "temperature nan: wanted 0 or more"},
        {{.temperature = INFINITY}, 0, "temperature inf: wanted 0 or more"},
        {{.top_k = -1}, 0, "top_k -1: wanted 0 or more"},
        {{.top_p = -0.25f}, 0, "top_p -0.25: wanted 0 .. 1"},
        {{.top_p = 1.5f}, 0, "top_p 1.5: wanted 0 .. 1"},
        {{.top_p = NAN}, 0, "top_p nan: wanted 0 .. 1"},
        {{.min_p = -1}, 0, "min_p -1: wanted 0 .. 1"},
        {{.min_p = 2}, 0, "min_p 2: wanted 0 .. 1"},
        {{.min_p = NAN}, 0, "min_p nan: wanted 0 .. 1"},
        {{.presence_penalty = -2.1f}, 0, "presence_penalty -2.1: wanted -2 .. 2"},
        {{.presence_penalty = NAN}, 0, "presence_penalty nan: wanted -2 .. 2"},
        {{.frequency_penalty = 2.5f}, 0, "frequency_penalty 2.5: wanted -2 .. 2"},
        {{.frequency_penalty = INFINITY}, 0, "frequency_penalty inf: wanted -2 .. 2"},
        {{.repetition_penalty = -1}, 0, "repetition_penalty -1: wanted 0 .. 100"},
        {{.repetition_penalty = 101}, 0, "repetition_penalty 101: wanted 0 .. 100"},
        {{.repetition_penalty = NAN}, 0, "repetition_penalty nan: wanted 0 .. 100"},
        {{.bias = low, .n_bias = 1}, 0, "logit bias of id -1: the vocabulary is 0 .. 1"},
        {{.bias = high, .n_bias = 2}, 0, "logit bias of id 2: the vocabulary is 0 .. 1"},
        {{.bias = much, .n_bias = 1}, 0, "logit bias 100.5 of id 0: wanted -100 .. 100"},
        {{.bias = nan_bias, .n_bias = 1}, 0, "logit bias nan of id 1: wanted -100 .. 100"},
        {{.bias = much, .n_bias = -1}, 0, "-1 logit biases given"},
        {{.n_bias = 1}, 0, "1 logit biases given"},
        {{.temperature = 0}, -1, "-1 alternatives: wanted 0 .. 20"},
        {{.temperature = 0}, 21, "21 alternatives: wanted 0 .. 20"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(logits, 2, cases[i].s, cases[i].n_top, HD_ERR_INVALID, cases[i].message);
    check_refused(logits, 0, (hd_sampling){0}, 0, HD_ERR_INVALID, "0 logits");
    check_refused(logits, -3, (hd_sampling){0}, 0, HD_ERR_INVALID, "-3 logits");
}

/* ---- the real vocabulary ---- */

#define VOCAB 129280

static double seconds_of(const float *logits, int32_t *scratch, hd_sampling s)
{
    clock_t const start = clock();
    hd_sampled    out;
    hd_draw       d = {.logits = logits, .n = VOCAB, .n_top = 20, .scratch = scratch};
    for (d.step = 0; d.step < 5; d.step++) assert_int_equal(hd_sample(&out, &s, &d, NULL), HD_OK);
    return (double)(clock() - start) / CLOCKS_PER_SEC / 5;
}

/* A bound that only a wrong order of growth breaks, also under a sanitizer. */
static void test_speed(void **state)
{
    float *const   logits = malloc(VOCAB * sizeof *logits);
    int32_t *const scratch = malloc(VOCAB * sizeof *scratch);
    (void)state;
    assert_true(logits && scratch);
    for (int32_t i = 0; i < VOCAB; i++)
        logits[i] = (float)((uint32_t)i * 2654435761u >> 8) / 16777216.0f * 12;
    static const hd_sampling cases[] = {
        {0},
        {.temperature = 1},
        {.temperature = 1, .min_p = 0.05f},
        {.temperature = 1, .top_k = 50, .top_p = 0.95f},
        {.temperature = 1, .top_p = 0.95f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double const s = seconds_of(logits, scratch, cases[i]);
        print_message("temperature %g, top_k %d, top_p %g: %.2f ms\n", (double)cases[i].temperature,
                      cases[i].top_k, (double)cases[i].top_p, s * 1e3);
        assert_true(s < 0.5);
    }
    free(logits);
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_one_logit),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_extreme_temperature),
        cmocka_unit_test(test_underflow),
        cmocka_unit_test(test_ties_at_the_edge),
        cmocka_unit_test(test_pure),
        cmocka_unit_test(test_independence),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_top_ties),
        cmocka_unit_test(test_bad_logits),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_changed_draws),
        cmocka_unit_test(test_bad_draws),
        cmocka_unit_test(test_extreme_changes),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
