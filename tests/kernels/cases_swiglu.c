#include <math.h>

#include "cases.h"
#include "ops/swiglu.h"
#include "ops/swiglu_nvfp4.h"

/* ---- swiglu ---- */

static const struct {
    int32_t r, n;
} shapes[] = {{4, 128}, {132, 128}, {6, 2048}, {0, 16}, {1, 1}, {7, 100}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    static const float    limits[] = {10, INFINITY, 0.5f};
    hd_swiglu_args *const a = args;
    int32_t const         i = c->index;
    if (i < N_SHAPES)
        *a = (hd_swiglu_args){.r = shapes[i].r, .n = shapes[i].n};
    else
        *a = (hd_swiglu_args){.r = 3, .n = 1 + i - N_SHAPES};
    a->limit = limits[i % 3];
    a->has_w = i % 2 == 0;
    a->is_paired = i % 3 != 1;
}

/* Uniform gates reach both flat parts of the sigmoid, and ups both clamps. */
static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    (void)args;
    if (c->pattern == TEST_UNIFORM && test_is(o, "gate"))
        test_fill_range(o, data, c, -120, 30);
    else if (c->pattern == TEST_UNIFORM && test_is(o, "gate_up"))
        test_fill_range(o, data, c, -120, 30);
    else if (c->pattern == TEST_UNIFORM && test_is(o, "up"))
        test_fill_range(o, data, c, -20, 20);
    else
        test_fill_floats(o, data, c);
}

const hd_cases hd_cases_swiglu = {.n = N_SHAPES + 33,
                                  .patterns = TEST_FINITE,
                                  .rows = offsetof(hd_swiglu_args, r),
                                  .make = make,
                                  .fill = fill,
                                  .alias = {{"gate", "y"}, {"up", "y"}}};

/* ---- swiglu_nvfp4 ---- */

/* Rows of one part and of several, the last one whole or not. */
static const struct {
    int32_t r, n;
} rounded[] = {{4, 128}, {132, 128}, {6, 2048}, {0, 16}, {1, 16}, {3, 1040}, {2, 3072}};
#define N_ROUNDED (int32_t)(sizeof rounded / sizeof rounded[0])

static void make_rounded(const test_case *c, void *args)
{
    static const float          limits[] = {10, INFINITY, 0.5f};
    hd_swiglu_nvfp4_args *const a = args;
    int32_t const               i = c->index;
    if (i < N_ROUNDED)
        *a = (hd_swiglu_nvfp4_args){.r = rounded[i].r, .n = rounded[i].n};
    else
        *a = (hd_swiglu_nvfp4_args){.r = 3, .n = 16 * (1 + i - N_ROUNDED)};
    a->limit = limits[i % 3];
    a->is_paired = i % 4 != 1;
    a->has_ids = i % 3 != 2;
    a->has_codes = i % 2 == 0;
    a->e = a->has_ids ? 5 : 1;
}

/* Scales that fit most rows, that saturate, that let blocks vanish, and dynamic ones. */
static void fill_rounded(const void *args, const hd_operand *o, void *data, test_case *c)
{
    static const float                scales[] = {4.0f / 2688, 0, 1e-7f, 1e6f, 1e-42f};
    const hd_swiglu_nvfp4_args *const a = args;
    for (int64_t i = 0; test_is(o, "ids") && i < a->r; i++)
        ((int32_t *)data)[i] = test_below(&c->rng, a->e);
    for (int32_t i = 0; test_is(o, "scale") && i < a->e; i++)
        ((float *)data)[i] = scales[(i + c->index) % 5];
    if (!test_is(o, "ids") && !test_is(o, "scale")) fill(args, o, data, c);
}

const hd_cases hd_cases_swiglu_nvfp4 = {.n = N_ROUNDED + 12,
                                        .patterns = TEST_ALL,
                                        .rows = offsetof(hd_swiglu_nvfp4_args, r),
                                        .make = make_rounded,
                                        .fill = fill_rounded};
