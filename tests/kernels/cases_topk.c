#include <math.h>

#include "cases.h"
#include "ops/topk.h"

static const struct {
    int32_t t, n, k, group;
} shapes[] = {{1, 64, 64, 4},     {33, 100, 64, 4},  {1, 2000, 512, 4}, {0, 8, 4, 4},
              {3, 0, 4, 4},       {4, 600, 512, 1},  {5, 16, 1, 4},     {3, 16, 16, 4},
              {2, 16, 0, 4},      {6, 33, 40, 128},  {5, 9001, 512, 4}, {1, 33333, 1024, 4},
              {1, 70001, 512, 4}, {1, 6000, 2500, 4}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    hd_topk_args *const a = args;
    int32_t const       i = c->index, tail = i - N_SHAPES;
    if (i < N_SHAPES)
        *a = (hd_topk_args){
            .t = shapes[i].t, .n = shapes[i].n, .k = shapes[i].k, .group = shapes[i].group};
    else
        *a = (hd_topk_args){.t = 3, .n = 1 + tail, .k = 1 + tail * 3 % 17, .group = 4};
}

/* Rows visible to token i: all, none, about k, half. */
static int32_t visible_rows(const hd_topk_args *a, int32_t i)
{
    int32_t const counts[] = {a->n, 0, a->k, a->k + 1, a->n / 2, 1};
    int32_t const v = counts[i % 6];
    return v < a->n ? v : a->n;
}

/* What a token does not see is NaN or higher than all it sees. */
static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_topk_args *const a = args;
    if (test_is(o, "pos")) {
        for (int32_t i = 0; i < a->t; i++) {
            int32_t const p = visible_rows(a, i) * a->group;
            ((int32_t *)data)[i] = p > 0 && a->group == 1 ? p - 1 : p;
        }
        return;
    }
    for (int32_t i = 0; i < a->t; i++) {
        float *const row = (float *)data + (int64_t)i * a->n;
        for (int32_t j = 0; j < a->n; j++)
            row[j] = j < visible_rows(a, i) ? test_value(c) : i & 1 ? NAN : 3e38f;
    }
}

const hd_cases hd_cases_topk = {.n = N_SHAPES + 40,
                                .patterns = TEST_ALL,
                                .rows = offsetof(hd_topk_args, t),
                                .make = make,
                                .fill = fill};
