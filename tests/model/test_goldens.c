/* Whole passes against values that two independent programs computed in fp64: logits, streams
 * after every layer, MTP block, chosen experts and rows, and greedy text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"

/* Without rounding the only difference is f32 storage between steps. */
#define EXACT 1e-5
/* An element at a rounding border may fall on the other side and travel on from there. */
#define ROUNDED_TRAINED 2e-2
#define ROUNDED_RANDOM  0.15

typedef struct golden_case {
    const char *model, *golden;
    hd_act      act;
    double      tolerance;
    uint32_t    isa; /* families; 0: all that this machine has */
} golden_case;

#define DEMO     "models/demo"
#define OFFICIAL "tests/models/tiny512-official"
#define NVFP4    "tests/models/tiny512-nvfp4"
static const golden_case cases[] = {
    {DEMO, "demo", HD_ACT_EXACT, EXACT, HD_ISA_REF},
    {DEMO, "demo.w4a4", HD_ACT_NVFP4, ROUNDED_TRAINED, HD_ISA_REF},
    {OFFICIAL, "tiny512-official", HD_ACT_EXACT, EXACT, HD_ISA_REF},
    {OFFICIAL, "tiny512-official.w8", HD_ACT_OFFICIAL, ROUNDED_RANDOM, HD_ISA_REF},
    {NVFP4, "tiny512-nvfp4", HD_ACT_EXACT, EXACT, HD_ISA_REF},
    {NVFP4, "tiny512-nvfp4.w4a4", HD_ACT_NVFP4, ROUNDED_RANDOM, HD_ISA_REF},
    {DEMO, "demo", HD_ACT_EXACT, EXACT, 0},
    {DEMO, "demo.w4a4", HD_ACT_NVFP4, ROUNDED_TRAINED, 0},
    {OFFICIAL, "tiny512-official", HD_ACT_EXACT, EXACT, 0},
    {NVFP4, "tiny512-nvfp4", HD_ACT_EXACT, EXACT, 0},
};
#define N_CASES ((int32_t)(sizeof cases / sizeof cases[0]))

/* References sum in double, so that they fall to the side of a rounding border that the expected
 * values fall to, and their choices are the same to the last one.  Faster kernels sum in f32: where
 * activations are rounded, a trained model's values stay within the tolerance above, its choices
 * need not be equal, and in a model of random weights one flip leads anywhere.  There test_layers
 * compares them, layer by layer. */
static bool is_same_choice(const golden_case *c)
{
    return c->isa == HD_ISA_REF || c->tolerance == EXACT;
}

/* One prompt in one pass: what the checks below look at. */
typedef struct passed {
    const golden_case *c;
    const hd_st_file  *golden;
    const char        *prompt;
    hd_engine         *e;
    int32_t            n;
    recorded           r;
    float             *logits; /* [n, vocab] of the main model */
} passed;

/* Rows [rows, cols] are the last positions of the prompt. */
static void check_rows(const passed *p, const char *what, const float *got, int64_t cols)
{
    int64_t            count;
    const float *const want = golden_f32(p->golden, p->prompt, what, &count);
    int64_t const      rows = count / cols;
    double const       error = worst_row(got + (p->n - rows) * cols, want, rows, cols);
    print_message("%s %s.%s: %.2e\n", p->c->golden, p->prompt, what, error);
    if (!(error <= p->c->tolerance)) fail_msg("%s is off by %.3e", what, error);
}

static void check_streams(const passed *p)
{
    const hd_st_tensor *const t = golden_tensor(p->golden, p->prompt, "streams");
    const float *const        want = golden_f32(p->golden, p->prompt, "streams", NULL);
    int64_t const             rows = t->shape[1], cols = (int64_t)p->r.m * p->r.d;
    for (int32_t l = 0; l < p->r.n_layers; l++) {
        const float *const got = p->r.streams + ((int64_t)l * p->n + p->n - rows) * cols;
        double const       error = worst_row(got, want + l * rows * cols, rows, cols);
        if (!(error <= p->c->tolerance)) fail_msg("streams of layer %d are off by %.3e", l, error);
    }
}

static void check_experts(const passed *p)
{
    int32_t const        k = p->r.n_experts_used;
    const int32_t *const want = golden_i32(p->golden, p->prompt, "experts.ids", NULL);
    for (int32_t l = 0; l < p->r.n_layers; l++)
        assert_memory_equal(p->r.experts + ((int64_t)l * p->n + p->n - 1) * k, want + l * k,
                            (size_t)k * sizeof *want);
}

static void check_index_rows(const passed *p)
{
    for (int32_t l = 0; l < p->r.n_layers; l++) {
        char    name[32];
        int64_t count;
        snprintf(name, sizeof name, "index.%d.rows", l);
        if (!golden_has(p->golden, p->prompt, name)) continue;
        const int32_t *const want = golden_i32(p->golden, p->prompt, name, &count);
        const int32_t *const got = p->r.rows + ((int64_t)l * p->n + p->n - 1) * p->r.topk;
        assert_memory_equal(got, want, (size_t)count * sizeof *want);
        for (int64_t i = count; i < p->r.topk; i++) assert_int_equal(got[i], -1);
    }
}

/* The MTP block reads the streams of the pass before and the tokens one place later. */
static void check_mtp(passed *p, const int32_t *tokens)
{
    hd_error err = {0};
    int32_t  next[1024];
    if (!golden_has(p->golden, p->prompt, "mtp.logits")) return;
    memcpy(next, tokens + 1, (size_t)(p->n - 1) * sizeof *next);
    next[p->n - 1] = golden_i32(p->golden, p->prompt, "mtp.next", NULL)[1];
    hd_pass_run const run = {.tokens = tokens,
                             .next = next,
                             .n = p->n,
                             .rows = HD_LOGITS_ALL,
                             .is_mtp = true,
                             .after = record_step,
                             .user = &p->r};
    assert_int_equal(hd_engine_run(p->e, &run, &err), HD_OK);
    int64_t const width = (int64_t)p->r.m * p->r.d;
    check_rows(p, "mtp.logits", p->e->pass.logits, p->e->model.config->n_vocab);
    check_rows(p, "mtp.streams", p->r.streams + p->r.n_layers * p->n * width, width);
}

/* A clamped SwiGLU puts many blocks exactly at the calibrated maximum, where fp64 counts a
 * block that exceeds 448 in the ninth digit and f32 does not: never more than expected. */
static void check_saturation(const passed *p)
{
    if (!golden_has(p->golden, p->prompt, "saturated")) return;
    int32_t const want = golden_i32(p->golden, p->prompt, "saturated", NULL)[0];
    print_message("%d of %d blocks saturated\n", (int)p->r.n_saturated, want);
    assert_in_range(p->r.n_saturated, 0, want);
}

static void check_prompt(const golden_case *c, const hd_st_file *golden, const char *prompt)
{
    int64_t              n;
    hd_error             err = {0};
    const int32_t *const tokens = golden_i32(golden, prompt, "tokens", &n);
    passed               p = {.c = c, .golden = golden, .prompt = prompt, .n = (int32_t)n};
    p.e = open_engine_on(c->isa, c->model, c->act, p.n, p.n);
    record_open(&p.r, p.e, p.n);
    hd_pass_run const run = {
        .tokens = tokens, .n = p.n, .rows = HD_LOGITS_ALL, .after = record_step, .user = &p.r};
    if (hd_engine_run(p.e, &run, &err) != HD_OK) fail_msg("%s", err.message);
    check_rows(&p, "logits", p.e->pass.logits, p.e->model.config->n_vocab);
    check_streams(&p);
    if (is_same_choice(c)) check_experts(&p);
    if (is_same_choice(c)) check_saturation(&p);
    /* Where roundings flip, equal scores in the indexer may change places. */
    if (c->act != HD_ACT_OFFICIAL && is_same_choice(c)) check_index_rows(&p);
    check_mtp(&p, tokens);
    record_close(&p.r);
    hd_engine_close(p.e);
}

/* Greedy text, wherever the winner leads by more than the logits may be off. */
static void check_greedy(const golden_case *c, const hd_st_file *golden)
{
    int64_t              n_prompt, n;
    const int32_t *const prompt = golden_i32(golden, "greedy", "prompt", &n_prompt);
    const int32_t *const want = golden_i32(golden, "greedy", "tokens", &n);
    const float *const   gap = golden_f32(golden, "greedy", "gap", NULL);
    hd_engine *const     e = open_engine_on(c->isa, c->model, c->act, (int32_t)(n_prompt + n), 0);
    hd_session          *s = NULL;
    const float         *logits = NULL;
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    assert_int_equal(hd_session_eval(s, prompt, (int32_t)n_prompt, NULL), HD_OK);
    for (int64_t i = 0; i < n; i++) {
        hd_sampled        drawn;
        hd_sampling const greedy = {0};
        assert_int_equal(hd_session_logits(s, &logits, NULL), HD_OK);
        assert_int_equal(hd_sample(&drawn, &greedy,
                                   &(hd_draw){.logits = logits, .n = e->model.config->n_vocab},
                                   NULL),
                         HD_OK);
        if (drawn.token.id != want[i] && gap[i] > 2e-4)
            fail_msg("greedy token %d is %d, wanted %d", (int)i, drawn.token.id, want[i]);
        assert_int_equal(hd_session_eval(s, &want[i], 1, NULL), HD_OK);
    }
    hd_session_close(s);
    hd_engine_close(e);
}

static void test_case(void **state)
{
    const golden_case *const c = *state;
    hd_st_file               golden = {0};
    golden_open(&golden, c->golden);
    static const char *const prompts[] = {"short", "edge", "long"};
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++)
        if (golden_has(&golden, prompts[i], "tokens")) check_prompt(c, &golden, prompts[i]);
    check_greedy(c, &golden);
    hd_st_close(&golden);
}

int main(void)
{
    struct CMUnitTest tests[N_CASES];
    char              names[N_CASES][64];
    for (int32_t i = 0; i < N_CASES; i++) {
        snprintf(names[i], sizeof names[i], "%s %s", cases[i].golden, cases[i].isa ? "ref" : "all");
        tests[i] =
            (struct CMUnitTest){names[i], test_case, NULL, NULL, (void *)(uintptr_t)&cases[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
