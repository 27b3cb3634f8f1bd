/* Rounded activations, layer by layer: each layer starts from the expected streams of the one
 * before, because a rounding that falls to the other side travels on.  Rows are within 1e-5
 * except for a few, and those within 2e-2. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"

#define TIGHT 1e-5
#define LOOSE 2e-2

typedef struct layer_case {
    const char *model, *golden, *prompt, *streams;
    hd_act      act;
    double      share; /* of all rows that may be between TIGHT and LOOSE */
} layer_case;

static const layer_case cases[] = {
    {"models/demo", "demo.w4a4", "short", "streams", HD_ACT_NVFP4, 0.003},
    {"tests/models/tiny512-nvfp4", "tiny512-nvfp4.w4a4", "short", "streams", HD_ACT_NVFP4, 0.003},
    {"tests/models/tiny512-official", "tiny512-official.w8", "short", "streams", HD_ACT_OFFICIAL,
     0.03},
    {"tests/models/tiny512-official", "tiny512-official.w8", "edge", "streams.all", HD_ACT_OFFICIAL,
     0.03},
};
#define N_CASES ((int32_t)(sizeof cases / sizeof cases[0]))

/* Overwrites the streams with the expected ones whenever a layer ends. */
typedef struct feeder {
    recorded     r;
    const float *want; /* [layers, n, m, d] */
    float       *streams;
} feeder;

static hd_status feed(void *user, const hd_step *step, hd_error *err)
{
    feeder *const f = user;
    size_t const  count = (size_t)f->r.n * (size_t)f->r.m * (size_t)f->r.d;
    HD_TRY(record_step(&f->r, step, err));
    if (step->layer >= 0 && strcmp(step->label, "hc_ffn_post") == 0)
        memcpy(f->streams, f->want + (size_t)step->layer * count, count * sizeof *f->want);
    return HD_OK;
}

static int32_t count_loose(const feeder *f, int32_t layer)
{
    int64_t const width = (int64_t)f->r.m * f->r.d;
    int32_t       loose = 0;
    for (int32_t i = 0; i < f->r.n; i++) {
        int64_t const at = ((int64_t)layer * f->r.n + i) * width;
        double const  error = worst_row(f->r.streams + at, f->want + at, 1, width);
        if (!(error <= LOOSE)) fail_msg("layer %d, position %d is off by %.3e", layer, i, error);
        loose += !(error <= TIGHT);
    }
    return loose;
}

static void test_case(void **state)
{
    const layer_case *const c = *state;
    hd_st_file              golden = {0};
    int64_t                 n;
    hd_error                err = {0};
    golden_open(&golden, c->golden);
    const int32_t *const tokens = golden_i32(&golden, c->prompt, "tokens", &n);
    hd_engine *const     e = open_engine(c->model, c->act, (int32_t)n, (int32_t)n);
    feeder               f = {.want = golden_f32(&golden, c->prompt, c->streams, NULL),
                              .streams = e->pass.streams};
    record_open(&f.r, e, (int32_t)n);
    hd_pass_run const run = {
        .tokens = tokens, .n = (int32_t)n, .rows = HD_LOGITS_NONE, .after = feed, .user = &f};
    if (hd_engine_run(e, &run, &err) != HD_OK) fail_msg("%s", err.message);
    int32_t loose = 0;
    for (int32_t l = 0; l < f.r.n_layers; l++) {
        int32_t const here = count_loose(&f, l);
        loose += here;
        if (here > ceil(0.06 * (double)n))
            fail_msg("layer %d: %d of %d rows are loose", l, here, (int)n);
    }
    print_message("%s %s: %d of %d rows above %.0e\n", c->golden, c->prompt, loose,
                  (int)n * f.r.n_layers, TIGHT);
    if (loose > c->share * (double)n * f.r.n_layers + 1) fail_msg("%d rows are loose", loose);
    record_close(&f.r);
    hd_engine_close(e);
    hd_st_close(&golden);
}

int main(void)
{
    struct CMUnitTest tests[N_CASES];
    char              names[N_CASES][64];
    for (int32_t i = 0; i < N_CASES; i++) {
        snprintf(names[i], sizeof names[i], "%s %s", cases[i].golden, cases[i].prompt);
        tests[i] =
            (struct CMUnitTest){names[i], test_case, NULL, NULL, (void *)(uintptr_t)&cases[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
