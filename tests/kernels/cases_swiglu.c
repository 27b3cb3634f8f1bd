#include <math.h>

#include "cases.h"
#include "ops/swiglu.h"

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
