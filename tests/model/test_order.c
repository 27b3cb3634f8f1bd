/* Steps in any order that keeps the waits give the same bits as the list. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"
#include "model/plan_order.h"

#define N_BEFORE 70 /* tokens that are there already */

/* An engine at rest behind N_BEFORE tokens, and a pass that has run from there. */
typedef struct ordered {
    hd_engine     *e;
    hd_session    *s;
    const hd_plan *plan;
    char          *before, *after; /* [e->kv.used] owned: caches around the pass */
    float         *logits;         /* [n_vocab] owned: what it left */
    hd_plan_order  order;
    int32_t        n;
} ordered;

static char *copy_caches(const hd_engine *e)
{
    char *const out = hd_memory_alloc(e->kv.used);
    assert_non_null(out);
    return memcpy(out, e->kv.base, e->kv.used);
}

static void open_pass(ordered *r, const char *model, int32_t n)
{
    hd_error         err = {0};
    int32_t          tokens[N_BEFORE + 128];
    hd_options const o = {.model = model, .max_tokens = 256, .chunk = 128, .n_threads = 1};
    *r = (ordered){.n = n};
    if (hd_engine_open(&r->e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    for (int32_t i = 0; i < N_BEFORE + n; i++) tokens[i] = i * 37 % 2000 + 3;
    assert_int_equal(hd_session_open(&r->s, r->e, NULL), HD_OK);
    assert_int_equal(hd_session_eval(r->s, tokens, N_BEFORE, &err), HD_OK);
    r->before = copy_caches(r->e);
    assert_int_equal(hd_session_eval(r->s, tokens + N_BEFORE, n, &err), HD_OK);
    r->after = copy_caches(r->e);
    size_t const bytes = (size_t)r->e->model.config->n_vocab * sizeof(float);
    r->logits = hd_memory_alloc(bytes);
    assert_non_null(r->logits);
    memcpy(r->logits, r->e->logits, bytes);
    hd_pass_run const run = {.tokens = tokens + N_BEFORE,
                             .n = n,
                             .seq = r->s->seq,
                             .pos = N_BEFORE,
                             .rows = HD_LOGITS_LAST};
    assert_int_equal(hd_engine_plan(r->e, &run, &r->plan, &err), HD_OK);
    assert_int_equal(hd_plan_order_make(&r->order, r->plan, &err), HD_OK);
}

static void close_pass(ordered *r)
{
    hd_plan_order_free(&r->order);
    hd_memory_free(r->before);
    hd_memory_free(r->after);
    hd_memory_free(r->logits);
    hd_session_close(r->s);
    hd_engine_close(r->e);
}

static bool is_ready(const hd_plan_order *o, const bool *is_done, int32_t step)
{
    for (int32_t i = o->first[step]; i < o->first[step + 1]; i++)
        if (!is_done[o->after[i]]) return false;
    return true;
}

/* The step to run next, of those that may: the last one, or with a seed any. */
static int32_t choose(const hd_plan_order *o, const bool *is_done, uint64_t *rng)
{
    int32_t chosen = -1, n = 0;
    for (int32_t i = 0; i < o->n; i++) {
        if (is_done[i] || !is_ready(o, is_done, i)) continue;
        *rng = *rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (chosen < 0 || *rng % 2 == 0 || (*rng >> 33) % (uint64_t)++n == 0) chosen = i;
    }
    return chosen;
}

/* The k-th step of the list, but the first layer's queries are turned when nobody needs them any
 * more. */
static int32_t break_order(const hd_plan *p, int32_t k)
{
    int32_t turn = 0, attn = 0;
    while (strcmp(p->steps[turn].label, "q_rope") != 0) turn++;
    while (strcmp(p->steps[attn].label, "attn") != 0) attn++;
    return k < turn || k > attn ? k : k == attn ? turn : k + 1;
}

/* Runs the pass once more from where it began; what it computed the first time is NaN now. */
static bool gives_the_same(ordered *r, uint64_t seed, bool keeps_waits)
{
    hd_engine *const e = r->e;
    bool *const      is_done = hd_memory_alloc((size_t)r->plan->n * sizeof *is_done);
    uint64_t         rng = seed;
    assert_non_null(is_done);
    memcpy(e->kv.base, r->before, e->kv.used);
    memset(e->act.base + e->act_mark, 0xff, e->act.cap - e->act_mark);
    for (int32_t k = 0; k < r->plan->n; k++) {
        int32_t const i = keeps_waits ? choose(&r->order, is_done, &rng) : break_order(r->plan, k);
        assert_true(i >= 0);
        hd_plan const one = {.steps = r->plan->steps + i, .n = 1};
        assert_int_equal(hd_plan_run(&one, e->stream, NULL, NULL, NULL), HD_OK);
        is_done[i] = true;
    }
    hd_memory_free(is_done);
    size_t const bytes = (size_t)e->model.config->n_vocab * sizeof(float);
    return memcmp(e->logits, r->logits, bytes) == 0 &&
           memcmp(e->kv.base, r->after, e->kv.used) == 0;
}

static void any_order_gives_the_same_bits(void **state)
{
    static const int32_t numbers[] = {1, 3, 100};
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        ordered r;
        open_pass(&r, *state, numbers[k]);
        for (uint64_t seed = 0; seed < 6; seed++)
            if (!gives_the_same(&r, seed, true))
                fail_msg("%d tokens, order %d: other bits", r.n, (int)seed);
        assert_false(gives_the_same(&r, 0, false));
        close_pass(&r);
    }
}

/* Steps of the longest chain of waits. */
static int32_t measure_depth(const hd_plan_order *o)
{
    int32_t *const depth = hd_memory_alloc((size_t)o->n * sizeof *depth);
    int32_t        deepest = 0;
    assert_non_null(depth);
    for (int32_t i = 0; i < o->n; i++) {
        depth[i] = 1;
        for (int32_t k = o->first[i]; k < o->first[i + 1]; k++)
            if (depth[o->after[k]] >= depth[i]) depth[i] = depth[o->after[k]] + 1;
        if (depth[i] > deepest) deepest = depth[i];
    }
    hd_memory_free(depth);
    return deepest;
}

/* The queries, the row of the window, the two compressors and the indexer go side by side, and so
 * do the experts. */
static void independent_steps_do_not_wait(void **state)
{
    ordered r;
    open_pass(&r, *state, 1);
    int32_t const depth = measure_depth(&r.order);
    if (depth * 10 > r.plan->n * 7) fail_msg("%d of %d steps in a chain", depth, r.plan->n);
    close_pass(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(any_order_gives_the_same_bits, "models/demo"),
        cmocka_unit_test_prestate(any_order_gives_the_same_bits, "tests/models/tiny512-official"),
        cmocka_unit_test_prestate(independent_steps_do_not_wait, "models/demo"),
        cmocka_unit_test_prestate(independent_steps_do_not_wait, "tests/models/tiny512-nvfp4"),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
