#include <math.h>

#include "cases.h"
#include "ops/index_score.h"

static const struct {
    int32_t t, h, d, n_seq, cap, group;
} shapes[] = {{1, 4, 128, 1, 64, 4}, {33, 4, 128, 1, 64, 4}, {1, 64, 128, 1, 600, 4},
              {0, 2, 16, 1, 4, 4},   {5, 3, 64, 3, 9, 4},    {4, 1, 32, 2, 1, 128},
              {3, 2, 48, 1, 0, 4},   {6, 2, 32, 2, 17, 1}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    hd_index_score_args *const a = args;
    int32_t const              i = c->index;
    if (i < N_SHAPES)
        *a = (hd_index_score_args){.t = shapes[i].t,
                                   .h = shapes[i].h,
                                   .d = shapes[i].d,
                                   .n_seq = shapes[i].n_seq,
                                   .cap = shapes[i].cap,
                                   .group = shapes[i].group};
    else
        *a = (hd_index_score_args){.t = 2,
                                   .h = 1 + i % 5,
                                   .d = 1 + i - N_SHAPES,
                                   .n_seq = 2,
                                   .cap = 1 + (i - N_SHAPES) * 7 % 33,
                                   .group = 4};
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

/* Rows that no token of the sequence sees hold NaN. */
static void fill_keys(const hd_index_score_args *a, const hd_operand *o, float *keys, test_case *c)
{
    test_fill_nan(keys, hd_operand_count(o));
    for (int32_t i = 0; i < a->t; i++) {
        int32_t const visible = (position(a, i) + 1) / a->group;
        float *const  part = keys + (int64_t)(i % a->n_seq) * a->cap * a->d;
        for (int64_t e = 0; e < (int64_t)visible * a->d; e++) part[e] = test_value(c);
    }
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_index_score_args *const a = args;
    if (test_is(o, "seq"))
        test_fill_seq(data, a->t, a->n_seq);
    else if (test_is(o, "pos"))
        for (int32_t i = 0; i < a->t; i++) ((int32_t *)data)[i] = position(a, i);
    else if (test_is(o, "keys"))
        fill_keys(a, o, data, c);
    else
        test_fill_floats(o, data, c);
}

static double score_magnitude(const hd_index_score_args *a, int64_t t, int32_t r)
{
    const float *const key = a->keys + ((int64_t)a->seq[t] * a->cap + r) * a->d;
    double             sum = 0;
    for (int32_t h = 0; h < a->h; h++) {
        const float *const q = a->q + (t * a->h + h) * a->d;
        double             dot = 0;
        for (int32_t c = 0; c < a->d; c++) dot += fabs((double)q[c] * key[c]);
        sum += fabs((double)a->wgt[t * a->h + h] * a->scale) * dot;
    }
    return sum;
}

static void limit(const test_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_index_score_args *const a = r->in;
    int32_t const                    visible = (a->pos[row] + 1) / a->group;
    (void)o;
    for (int32_t i = 0; i < a->cap; i++)
        allowed[i] = i < visible ? test_sum_error(a->d + 8 * a->h) * score_magnitude(a, row, i) : 0;
}

const hd_cases hd_cases_index_score = {.n = N_SHAPES + 33,
                                       .patterns = TEST_FINITE,
                                       .rows = offsetof(hd_index_score_args, t),
                                       .make = make,
                                       .fill = fill,
                                       .limit = limit};
