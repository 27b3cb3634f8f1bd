#include <math.h>

#include "cases.h"
#include "kernel_rows.h"
#include "ops/head_rows.h"

#define NORM     1
#define WEIGHT   2
#define HADAMARD 4
#define STORE    8

static const struct {
    int32_t t, h, d, dr, group, steps;
    int32_t n_seq, cap, page; /* where rows are stored */
} shapes[] = {
    {1, 8, 128, 64, 1, NORM, 0, 0, 0},
    {33, 8, 128, 64, 1, NORM, 0, 0, 0},
    {1, 1, 512, 64, 1, NORM | WEIGHT | STORE, 4, 192, 64},
    {0, 4, 64, 32, 1, NORM, 0, 0, 0},
    {1, 64, 512, 64, 1, NORM, 0, 0, 0},
    {9, 1, 128, 64, 4, 0, 0, 0, 0},
    {9, 1, 128, 64, 128, NORM | WEIGHT, 0, 0, 0},
    {2, 3, 64, 64, 1, NORM | WEIGHT | HADAMARD, 0, 0, 0},
    {3, 2, 70, 0, 1, NORM, 0, 0, 0},
    {5, 1, 192, 128, 3, 0, 0, 0, 0},
    {1, 64, 128, 64, 1, HADAMARD, 0, 0, 0},
    {2, 1, 1023, 1022, 1, NORM, 0, 0, 0},
    {2, 1, 1024, 64, 1, NORM | WEIGHT | HADAMARD, 0, 0, 0},
    {33, 64, 128, 64, 1, HADAMARD, 0, 0, 0},
    /* from here on more rows than a GPU gives a block each */
    {257, 64, 16, 8, 1, NORM | HADAMARD, 0, 0, 0},
    {257, 64, 132, 64, 4, NORM, 0, 0, 0},
    {515, 9, 70, 32, 1, NORM | WEIGHT, 0, 0, 0},
    {4100, 1, 512, 64, 1, NORM | WEIGHT | STORE, 4, 1100, 64},
    {4100, 1, 128, 64, 4, NORM | WEIGHT | HADAMARD | STORE, 4, 300, 64},
};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define N_LARGE  5 /* the last of them */
/* Stored in each format. */
static const struct {
    int32_t t, d, n_seq, cap, group, page;
} pools[] = {
    {33, 128, 1, 256, 1, 64}, {8, 32, 1, 8, 1, 3}, {9, 64, 3, 4, 1, 4},  {16, 32, 2, 4, 4, 2},
    {20, 128, 1, 2, 16, 2},   {7, 24, 7, 1, 1, 1}, {6, 512, 2, 9, 2, 4},
};
#define N_POOLS  (int32_t)(sizeof pools / sizeof pools[0])
#define N_WIDTHS 33 /* rows of 1 .. 33 elements */
#define N_EACH   (N_POOLS + N_WIDTHS)
#define N_SIZES  11 /* transforms of 1 .. 1024 elements */
#define N_TAILS  33

static void set_steps(hd_head_rows_args *a, int32_t steps)
{
    a->has_norm = steps & NORM;
    a->has_w = steps & WEIGHT;
    a->has_hadamard = steps & HADAMARD;
    a->has_pool = steps & STORE;
    a->eps = 1e-6f;
}

static void make_shape(hd_head_rows_args *a, int32_t i)
{
    *a = (hd_head_rows_args){.t = shapes[i].t,
                             .h = shapes[i].h,
                             .d = shapes[i].d,
                             .dr = shapes[i].dr,
                             .group = shapes[i].group,
                             .n_seq = shapes[i].n_seq,
                             .cap = shapes[i].cap};
    set_steps(a, shapes[i].steps);
    if (a->has_pool) a->layout = test_row_layout(HD_ROW_FP8, a->d, shapes[i].page);
}

/* Pool or width i; every other one stores its rows as they are, NaN and all. */
static void make_stored(hd_head_rows_args *a, int32_t i, hd_row_format format)
{
    int32_t d = 1 + i - N_POOLS, page = 1 + i % 5;
    *a = (hd_head_rows_args){.t = 5, .n_seq = 2, .cap = 4, .group = 1};
    if (i < N_POOLS) {
        *a = (hd_head_rows_args){
            .t = pools[i].t, .n_seq = pools[i].n_seq, .cap = pools[i].cap, .group = pools[i].group};
        d = pools[i].d, page = pools[i].page;
    }
    set_steps(a, STORE | (i % 2 ? NORM | WEIGHT : 0));
    a->layout = test_row_layout(format, d, page);
    a->h = 1;
    a->d = a->layout.d;
    a->dr = i % 2 ? a->d / 4 * 2 : 0;
    if (format == HD_ROW_MXFP4 && i % 2) a->has_hadamard = (a->d & (a->d - 1)) == 0;
}

static void make(const test_case *c, void *args)
{
    hd_head_rows_args *const a = args;
    int32_t                  i = c->index;
    if (i < N_SHAPES) {
        make_shape(a, i);
        return;
    }
    if ((i -= N_SHAPES) < N_EACH * HD_N_ROW_FORMATS) {
        make_stored(a, i % N_EACH, (hd_row_format)(i / N_EACH));
        return;
    }
    i -= N_EACH * HD_N_ROW_FORMATS;
    if (i < N_SIZES) {
        *a = (hd_head_rows_args){.t = 3, .h = 1, .d = 1 << i, .group = 1};
        set_steps(a, HADAMARD);
        return;
    }
    int32_t const dr = 2 * (1 + i - N_SIZES);
    *a = (hd_head_rows_args){.t = 4, .h = 2, .d = dr + i % 5, .dr = dr, .group = 1 + i % 4};
    set_steps(a, (i & 1 ? NORM : 0) | (i % 4 == 3 ? WEIGHT : 0));
}

/* Where rows are stored each sequence continues somewhere with consecutive tokens; rings wrap. */
static int32_t position(const hd_head_rows_args *a, int32_t i, int32_t index)
{
    static const int32_t positions[] = {0, 1, 3, 4, 127, 128, 65536, 1048575};
    if (!a->has_pool) return positions[(i + index) % 8];
    return index * 37 % 1000 + i % a->n_seq * 5 + i / a->n_seq;
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_head_rows_args *const a = args;
    int64_t const                  n = hd_operand_count(o);
    if (test_is(o, "freq"))
        for (int32_t i = 0; i < a->dr / 2; i++)
            ((float *)data)[i] = (float)pow(10000, -2.0 * i / a->dr);
    else if (test_is(o, "pos"))
        for (int32_t i = 0; i < a->t; i++) ((int32_t *)data)[i] = position(a, i, c->index);
    else if (test_is(o, "seq"))
        test_fill_seq(data, a->t, a->n_seq);
    else if (test_is(o, "pool"))
        for (int64_t i = 0; i < n; i++) ((uint8_t *)data)[i] = (uint8_t)test_next(&c->rng);
    else
        test_fill_floats(o, data, c);
}

static bool is_large(int32_t i) { return i >= N_SHAPES - N_LARGE && i < N_SHAPES; }

const hd_cases hd_cases_head_rows = {.n = N_SHAPES + N_EACH * HD_N_ROW_FORMATS + N_SIZES + N_TAILS,
                                     .patterns = TEST_ALL,
                                     .rows = offsetof(hd_head_rows_args, t),
                                     .is_for_device = is_large,
                                     .make = make,
                                     .fill = fill};
