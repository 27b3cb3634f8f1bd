#include <math.h>

#include "cases.h"
#include "ops/rope_tail.h"

static const struct {
    int32_t t, h, d, dr, group;
} shapes[] = {{1, 8, 128, 64, 1}, {33, 8, 128, 64, 1}, {1, 64, 512, 64, 1},
              {0, 4, 64, 32, 1},  {9, 1, 128, 64, 4},  {9, 1, 128, 64, 128},
              {2, 3, 64, 64, 1},  {3, 2, 70, 0, 1},    {5, 1, 192, 128, 3}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define N_TAILS  33

static void make(const test_case *c, void *args)
{
    hd_rope_tail_args *const a = args;
    int32_t const            i = c->index, dr = 2 * (1 + i - N_SHAPES);
    if (i < N_SHAPES)
        *a = (hd_rope_tail_args){.t = shapes[i].t,
                                 .h = shapes[i].h,
                                 .d = shapes[i].d,
                                 .dr = shapes[i].dr,
                                 .group = shapes[i].group};
    else
        *a = (hd_rope_tail_args){.t = 4, .h = 2, .d = dr + i % 5, .dr = dr, .group = 1 + i % 4};
    a->sign = i & 1 ? -1.0f : 1.0f;
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    static const int32_t           positions[] = {0, 1, 3, 4, 127, 128, 65536, 1048575};
    const hd_rope_tail_args *const a = args;
    if (test_is(o, "x")) test_fill_floats(o, data, c);
    if (test_is(o, "freq"))
        for (int32_t i = 0; i < a->dr / 2; i++)
            ((float *)data)[i] = (float)pow(10000, -2.0 * i / a->dr);
    if (test_is(o, "pos"))
        for (int32_t i = 0; i < a->t; i++) ((int32_t *)data)[i] = positions[(i + c->index) % 8];
}

const hd_cases hd_cases_rope_tail = {.n = N_SHAPES + N_TAILS,
                                     .patterns = TEST_FINITE,
                                     .rows = offsetof(hd_rope_tail_args, t),
                                     .make = make,
                                     .fill = fill};
