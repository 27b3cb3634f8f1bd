#include <math.h>

#include "cases.h"
#include "kernel_rows.h"
#include "ops/index_score.h"
#include "quant/fp4.h"

static const struct {
    int32_t t, h, d, n_seq, cap, group, page;
} shapes[] = {
    {1, 4, 128, 1, 64, 4, 64},   {33, 4, 128, 1, 64, 4, 64},   {1, 64, 128, 1, 600, 4, 64},
    {0, 2, 16, 1, 4, 4, 4},      {5, 3, 64, 3, 9, 4, 4},       {4, 1, 32, 2, 1, 128, 64},
    {3, 2, 48, 1, 0, 4, 64},     {6, 2, 32, 2, 17, 1, 5},      {6, 7, 128, 2, 75, 4, 32},
    {5, 64, 128, 1, 41, 1, 32},  {133, 1, 128, 1, 400, 1, 32}, {267, 1, 128, 1, 100, 1, 64},
    {266, 2, 128, 2, 40, 1, 16},
};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define N_WIDTHS 33 /* rows of 1 .. 33 elements */
#define N_EACH   (N_SHAPES - TEST_MODEL_CASES + N_WIDTHS)

/* Case i is a model's shape, then each shape and width in each format. */
static hd_row_format format_of(int32_t i)
{
    static const hd_row_format models[TEST_MODEL_CASES] = {HD_ROW_F32, HD_ROW_F32, HD_ROW_MXFP4};
    return i < TEST_MODEL_CASES ? models[i] : (hd_row_format)((i - TEST_MODEL_CASES) / N_EACH);
}

static void make(const test_case *c, void *args)
{
    hd_index_score_args *const a = args;
    int32_t const              at = c->index, n = TEST_MODEL_CASES;
    int32_t const              i = at < n ? at : n + (at - n) % N_EACH;
    int32_t                    d = 1 + i - N_SHAPES, page = 1 + i % 7;
    if (i < N_SHAPES) {
        *a = (hd_index_score_args){.t = shapes[i].t,
                                   .h = shapes[i].h,
                                   .n_seq = shapes[i].n_seq,
                                   .cap = shapes[i].cap,
                                   .group = shapes[i].group};
        d = shapes[i].d, page = shapes[i].page;
    } else {
        *a = (hd_index_score_args){
            .t = 2, .h = 1 + i % 5, .n_seq = 2, .cap = 1 + (i - N_SHAPES) * 7 % 33, .group = 4};
    }
    a->layout = test_row_layout(format_of(at), d, page);
    a->d = a->layout.d;
    a->scale = (float)(1 / sqrt((double)a->d * a->h));
}

/* No row visible, one, the border of a row, all of them. */
static int32_t position(const hd_index_score_args *a, int32_t i)
{
    int32_t const full = (a->cap + 1) * a->group - 2; /* the last with cap rows */
    int32_t const places[] = {full, 0, a->group - 1, full / 2, full - a->group, a->group - 2};
    int32_t const p = places[i % 6];
    return p < 0 ? 0 : p > full && full >= 0 ? full : p;
}

/* Kernels may take q that was rounded to MXFP4 in another way: two of four tokens have such q. */
static void fill_q(const hd_index_score_args *a, const hd_operand *o, float *q, test_case *c)
{
    hd_row_layout const l = {HD_ROW_MXFP4, a->d, 0, 1};
    uint8_t             coded[HD_ROW_MAX];
    test_fill_floats(o, q, c);
    if (a->d % HD_MXFP4_BLOCK != 0) return;
    for (int64_t h = 0; h < (int64_t)a->t * a->h; h++) {
        if (h / a->h & 2) continue;
        hd_row_write(&l, coded, 0, q + h * a->d);
        hd_row_read(&l, coded, 0, q + h * a->d); /* into its buffer */
    }
}

/* Blocks of every third row lie 2^0, 2^2, 2^4 or 2^6 apart. */
static void fill_row(const hd_index_score_args *a, void *keys, int64_t row, test_case *c)
{
    float     x[HD_ROW_MAX];
    int const apart = row % 3 == 2 ? (int)(row / 3 % 4) * 2 : 0;
    for (int32_t i = 0; i < a->d; i++) x[i] = ldexpf(test_value(c), i / HD_MXFP4_BLOCK * apart);
    hd_row_write(&a->layout, keys, row, x);
}

/* Rows that no token of the sequence sees hold NaN. */
static void fill_keys(const hd_index_score_args *a, const hd_operand *o, void *keys, test_case *c)
{
    test_fill_pool_nan(o, keys);
    for (int32_t i = 0; i < a->t; i++) {
        int32_t const visible = (position(a, i) + 1) / a->group;
        for (int32_t r = 0; r < visible; r++)
            fill_row(a, keys, hd_row_of(&a->layout, i % a->n_seq, a->cap, r), c);
    }
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_index_score_args *const a = args;
    if (test_is(o, "seq"))
        test_fill_seq(data, a->t, a->n_seq);
    else if (test_is(o, "pos"))
        for (int32_t i = 0; i < a->t; i++) ((int32_t *)data)[i] = position(a, i);
    else if (test_is(o, "q"))
        fill_q(a, o, data, c);
    else if (test_is(o, "keys"))
        fill_keys(a, o, data, c);
    else
        test_fill_floats(o, data, c);
}

const hd_cases hd_cases_index_score = {.n = TEST_MODEL_CASES + N_EACH * HD_N_ROW_FORMATS,
                                       .patterns = TEST_FINITE,
                                       .rows = offsetof(hd_index_score_args, t),
                                       .make = make,
                                       .fill = fill};
