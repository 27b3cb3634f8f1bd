#include <math.h>

#include "cases.h"
#include "ops/rmsnorm.h"

static const struct {
    int32_t t, d;
    bool    has_w;
} shapes[] = {{1, 256, true},  {33, 256, true}, {1, 4096, true}, {0, 64, true},
              {4, 128, false}, {2, 1000, true}, {7, 512, false}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    hd_rmsnorm_args *const a = args;
    int32_t const          i = c->index;
    if (i < N_SHAPES)
        *a = (hd_rmsnorm_args){.t = shapes[i].t, .d = shapes[i].d, .has_w = shapes[i].has_w};
    else
        *a = (hd_rmsnorm_args){.t = 3, .d = 1 + i - N_SHAPES, .has_w = i & 1};
    a->eps = 1e-6f;
}

const hd_cases hd_cases_rmsnorm = {.n = N_SHAPES + 33,
                                   .patterns = TEST_ALL,
                                   .rows = offsetof(hd_rmsnorm_args, t),
                                   .make = make,
                                   .alias = {{"x", "y"}}};
