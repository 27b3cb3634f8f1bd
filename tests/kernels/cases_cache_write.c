#include "cases.h"
#include "ops/cache_write.h"

static const struct {
    int32_t t, d, n_seq, cap, group;
} shapes[] = {{1, 128, 2, 128, 1}, {33, 128, 1, 256, 1}, {1, 512, 4, 128, 4},
              {0, 16, 1, 8, 1},    {8, 32, 1, 8, 1},     {9, 64, 3, 4, 1},
              {16, 32, 2, 4, 4},   {20, 16, 1, 2, 16},   {7, 24, 7, 1, 1}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    hd_cache_write_args *const a = args;
    int32_t const              i = c->index;
    if (i < N_SHAPES)
        *a = (hd_cache_write_args){.t = shapes[i].t,
                                   .d = shapes[i].d,
                                   .n_seq = shapes[i].n_seq,
                                   .cap = shapes[i].cap,
                                   .group = shapes[i].group};
    else
        *a = (hd_cache_write_args){.t = 5, .d = 1 + i - N_SHAPES, .n_seq = 2, .cap = 4, .group = 1};
}

/* Each sequence continues somewhere with consecutive tokens; rings wrap. */
static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_cache_write_args *const a = args;
    if (test_is(o, "seq"))
        test_fill_seq(data, a->t, a->n_seq);
    else if (test_is(o, "pos"))
        for (int32_t i = 0; i < a->t; i++)
            ((int32_t *)data)[i] = c->index * 37 % 1000 + i % a->n_seq * 5 + i / a->n_seq;
    else
        test_fill_floats(o, data, c);
}

const hd_cases hd_cases_cache_write = {
    .n = N_SHAPES + 33, .patterns = TEST_ALL, .rows = TEST_NO_ROWS, .make = make, .fill = fill};
