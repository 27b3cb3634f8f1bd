#include <math.h>

#include "cases.h"
#include "ops/compress_kv.h"

static const struct {
    int32_t t, d, r, n_seq, cap;
    bool    overlap;
} shapes[] = {
    {1, 128, 4, 1, 8, true},  {33, 128, 128, 1, 160, false}, {1, 512, 4, 2, 8, true},
    {0, 16, 4, 1, 8, true},   {8, 128, 4, 3, 11, true},      {6, 128, 128, 2, 130, false},
    {5, 32, 1, 1, 5, false},  {5, 32, 2, 2, 6, true},        {4, 64, 128, 1, 259, true},
    {21, 40, 4, 2, 19, true}, {517, 24, 4, 3, 190, true},    {515, 20, 128, 1, 643, false}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    hd_compress_kv_args *const a = args;
    int32_t const              i = c->index;
    if (i < N_SHAPES)
        *a = (hd_compress_kv_args){.t = shapes[i].t,
                                   .d = shapes[i].d,
                                   .r = shapes[i].r,
                                   .n_seq = shapes[i].n_seq,
                                   .cap = shapes[i].cap,
                                   .overlap = shapes[i].overlap};
    else
        *a = (hd_compress_kv_args){
            .t = 5, .d = 1 + i - N_SHAPES, .r = 4, .n_seq = 2, .cap = 10, .overlap = i & 1};
}

/* Each sequence has a run of the tokens. */
static int32_t sequence(const hd_compress_kv_args *a, int32_t i)
{
    return (int32_t)((int64_t)i * a->n_seq / a->t);
}

/* Rising by one; the end of the first, the second or a late group is in the middle of a run, and
 * where that has one token, it is the end. */
static int32_t position(const hd_compress_kv_args *a, int32_t i)
{
    static const int32_t groups[] = {1, 2, 3, 100, 7};
    int32_t              first = i, n = 0;
    while (first > 0 && sequence(a, first - 1) == sequence(a, i)) first--;
    while (first + n < a->t && sequence(a, first + n) == sequence(a, i)) n++;
    int32_t const start = groups[(sequence(a, i) + a->d) % 5] * a->r - 1 - n / 2;
    return (start > 0 ? start : 0) + i - first;
}

static int32_t first_slot(const hd_compress_kv_args *a, int32_t p)
{
    int32_t const first = p + 1 - (a->overlap ? 2 * a->r : a->r);
    return first > 0 ? first : 0;
}

/* Ring rows that no slot of a token uses, or that a token stores first, hold NaN. */
static void fill_ring(const hd_compress_kv_args *a, const hd_operand *o, float *ring, test_case *c)
{
    int64_t const w = hd_operand_cols(o) / (int64_t)sizeof *ring;
    test_fill_nan(ring, hd_operand_count(o) / (int64_t)sizeof *ring);
    for (int32_t i = 0; i < a->t; i++) {
        if (i > 0 && sequence(a, i - 1) == sequence(a, i)) continue;
        /* The first token of a sequence looks back furthest. */
        for (int32_t q = first_slot(a, position(a, i)); q < position(a, i); q++) {
            float *const row = ring + ((int64_t)sequence(a, i) * a->cap + q % a->cap) * w;
            for (int64_t e = 0; e < w; e++) row[e] = test_value(c);
        }
    }
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_compress_kv_args *const a = args;
    if (test_is(o, "seq"))
        for (int32_t i = 0; i < a->t; i++) ((int32_t *)data)[i] = sequence(a, i);
    else if (test_is(o, "pos"))
        for (int32_t i = 0; i < a->t; i++) ((int32_t *)data)[i] = position(a, i);
    else if (test_is(o, "ape"))
        test_fill_range(o, data, c, -3, 3);
    else if (o->dtype == HD_U8)
        fill_ring(a, o, data, c);
    else
        test_fill_floats(o, data, c);
}

const hd_cases hd_cases_compress_kv = {.n = N_SHAPES + 33,
                                       .patterns = TEST_FINITE & ~(1U << TEST_WIDE),
                                       .rows = TEST_NO_ROWS, /* tokens read what others store */
                                       .make = make,
                                       .fill = fill};
