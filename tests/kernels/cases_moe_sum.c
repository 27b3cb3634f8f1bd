#include <math.h>

#include "cases.h"
#include "ops/moe_sum.h"

static const struct {
    int32_t t, s, d;
    bool    has_w;
} shapes[] = {{1, 4, 256, false}, {33, 4, 256, false}, {1, 6, 4096, true},
              {0, 2, 16, true},   {3, 1, 64, true},    {5, 8, 100, false}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    hd_moe_sum_args *const a = args;
    int32_t const          i = c->index;
    if (i < N_SHAPES)
        *a = (hd_moe_sum_args){
            .t = shapes[i].t, .s = shapes[i].s, .d = shapes[i].d, .has_w = shapes[i].has_w};
    else
        *a = (hd_moe_sum_args){.t = 3, .s = 1 + i % 7, .d = 1 + i - N_SHAPES, .has_w = i & 1};
}

const hd_cases hd_cases_moe_sum = {.n = N_SHAPES + 33,
                                   .patterns = TEST_ALL,
                                   .rows = offsetof(hd_moe_sum_args, t),
                                   .make = make,
                                   .alias = {{"shared", "out"}}};
