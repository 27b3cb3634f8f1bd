#include <math.h>

#include "cases.h"
#include "ops/add_streams.h"
#include "ops/hc_head.h"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"

/* The four ops on residual streams share their shapes. */
static const struct {
    int32_t t, m, d;
} shapes[] = {{1, 4, 256}, {33, 4, 256}, {1, 4, 4096}, {0, 4, 16},    {3, 1, 64},   {2, 8, 100},
              {5, 2, 48},  {4, 3, 7},    {150, 4, 64}, {70, 4, 4160}, {4500, 4, 64}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define N_CASES  (N_SHAPES + 33)

static int32_t tokens(int32_t i) { return i < N_SHAPES ? shapes[i].t : 3; }
static int32_t streams(int32_t i) { return i < N_SHAPES ? shapes[i].m : 1 + i % 8; }
static int32_t width(int32_t i) { return i < N_SHAPES ? shapes[i].d : 1 + i - N_SHAPES; }

/* ---- add_streams ---- */

static void make_add(const test_case *c, void *args)
{
    *(hd_add_streams_args *)args =
        (hd_add_streams_args){.t = tokens(c->index), .m = streams(c->index), .d = width(c->index)};
}

const hd_cases hd_cases_add_streams = {
    .n = N_CASES, .patterns = TEST_ALL, .rows = offsetof(hd_add_streams_args, t), .make = make_add};

/* ---- hc_post ---- */

static void make_post(const test_case *c, void *args)
{
    *(hd_hc_post_args *)args =
        (hd_hc_post_args){.t = tokens(c->index), .m = streams(c->index), .d = width(c->index)};
}

const hd_cases hd_cases_hc_post = {
    .n = N_CASES, .patterns = TEST_FINITE, .rows = offsetof(hd_hc_post_args, t), .make = make_post};

/* ---- hc_pre, hc_head ---- */

static void make_pre(const test_case *c, void *args)
{
    static const int32_t iters[] = {20, 1, 3};
    *(hd_hc_pre_args *)args = (hd_hc_pre_args){.t = tokens(c->index),
                                               .m = streams(c->index),
                                               .d = width(c->index),
                                               .iters = iters[c->index % 3],
                                               .eps = 1e-6f,
                                               .hc_eps = 1e-6f};
}

static void make_head(const test_case *c, void *args)
{
    *(hd_hc_head_args *)args = (hd_hc_head_args){.t = tokens(c->index),
                                                 .m = streams(c->index),
                                                 .d = width(c->index),
                                                 .eps = 1e-6f,
                                                 .hc_eps = 1e-6f};
}

/* Mixing weights of a trained size: z stays within a few units. */
static void fill_mix(const void *args, const hd_operand *o, void *data, test_case *c)
{
    (void)args;
    float const size = 2 / sqrtf((float)hd_operand_cols(o));
    if (test_is(o, "fn"))
        test_fill_range(o, data, c, -size, size);
    else if (test_is(o, "s"))
        test_fill_floats(o, data, c);
    else
        test_fill_range(o, data, c, -1.5f, 1.5f);
}

const hd_cases hd_cases_hc_pre = {.n = N_CASES,
                                  .patterns = TEST_FINITE,
                                  .rows = offsetof(hd_hc_pre_args, t),
                                  .make = make_pre,
                                  .fill = fill_mix};

const hd_cases hd_cases_hc_head = {.n = N_CASES,
                                   .patterns = TEST_FINITE,
                                   .rows = offsetof(hd_hc_head_args, t),
                                   .make = make_head,
                                   .fill = fill_mix};
