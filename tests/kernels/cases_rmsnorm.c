#include <math.h>
#include <string.h>

#include "cases.h"
#include "ops/rmsnorm.h"
#include "ops/rmsnorm_nvfp4.h"

/* ---- rmsnorm ---- */

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

/* ---- rmsnorm_nvfp4 ---- */

/* Rows of one part and of several, in blocks of their own and in one; all numbers of copies. */
static const struct {
    int32_t t, d, c;
    bool    has_w;
} rounded[] = {{1, 256, 2, true},  {33, 256, 2, true}, {1, 4096, 2, true},   {0, 64, 1, true},
               {4, 128, 1, false}, {2, 1040, 3, true}, {129, 2064, 2, true}, {3, 48, 4, true},
               {17, 16, 2, false}, {2, 5136, 2, true}};
#define N_ROUNDED (int32_t)(sizeof rounded / sizeof rounded[0])

static void make_rounded(const test_case *c, void *args)
{
    hd_rmsnorm_nvfp4_args *const a = args;
    int32_t const                i = c->index;
    if (i < N_ROUNDED)
        *a = (hd_rmsnorm_nvfp4_args){
            .t = rounded[i].t, .d = rounded[i].d, .c = rounded[i].c, .has_w = rounded[i].has_w};
    else
        *a = (hd_rmsnorm_nvfp4_args){.t = 2, .d = 16 * (1 + i - N_ROUNDED), .c = 1, .has_w = true};
    a->has_codes = i % 2 == 0;
    a->eps = 1e-6f;
}

/* Scales that fit most rows, that saturate, that let blocks vanish, and dynamic ones. */
static void fill_rounded(const void *args, const hd_operand *o, void *data, test_case *c)
{
    static const float scales[] = {4.0f / 2688, 0, 1e-7f, 1e6f, 1e-42f};
    (void)args;
    if (strncmp(o->name, "scale", 5) == 0)
        *(float *)data = scales[(o->name[5] - '0' + c->index / 2) % 5];
    else
        test_fill_floats(o, data, c);
}

const hd_cases hd_cases_rmsnorm_nvfp4 = {.n = N_ROUNDED + 12,
                                         .patterns = TEST_ALL,
                                         .rows = offsetof(hd_rmsnorm_nvfp4_args, t),
                                         .make = make_rounded,
                                         .fill = fill_rounded};
