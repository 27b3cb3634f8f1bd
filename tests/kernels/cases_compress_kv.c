#include <math.h>

#include "cases.h"
#include "ops/compress_kv.h"

static const struct {
    int32_t t, d, r, n_seq, cap;
    bool    overlap;
} shapes[] = {{1, 128, 4, 1, 8, true}, {33, 128, 128, 1, 160, false}, {1, 512, 4, 2, 8, true},
              {0, 16, 4, 1, 8, true},  {8, 128, 4, 3, 11, true},      {6, 128, 128, 2, 128, false},
              {5, 32, 1, 1, 1, false}, {5, 32, 2, 2, 4, true},        {4, 64, 128, 1, 256, true}};
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
            .t = 5, .d = 1 + i - N_SHAPES, .r = 4, .n_seq = 2, .cap = 9, .overlap = i & 1};
}

/* Ends of the first, second and a late group; the last token is inside a group. */
static int32_t position(const hd_compress_kv_args *a, int32_t i)
{
    static const int32_t groups[] = {1, 2, 3, 100, 7};
    int32_t const        end = groups[i % 5] * a->r - 1;
    return i > 0 && i % 4 == 3 ? end + 1 : end;
}

static int32_t first_slot(const hd_compress_kv_args *a, int32_t p)
{
    int32_t const first = p + 1 - (a->overlap ? 2 * a->r : a->r);
    return first > 0 ? first : 0;
}

/* Ring rows that no slot of a token uses hold NaN. */
static void fill_ring(const hd_compress_kv_args *a, const hd_operand *o, float *ring, test_case *c)
{
    int64_t const w = hd_operand_cols(o);
    test_fill_nan(ring, hd_operand_count(o));
    for (int32_t i = 0; i < a->t; i++)
        for (int32_t q = first_slot(a, position(a, i)); q <= position(a, i); q++) {
            float *const row = ring + ((int64_t)(i % a->n_seq) * a->cap + q % a->cap) * w;
            for (int64_t e = 0; e < w; e++) row[e] = test_value(c);
        }
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_compress_kv_args *const a = args;
    if (test_is(o, "seq"))
        test_fill_seq(data, a->t, a->n_seq);
    else if (test_is(o, "pos"))
        for (int32_t i = 0; i < a->t; i++) ((int32_t *)data)[i] = position(a, i);
    else if (test_is(o, "ape"))
        test_fill_range(o, data, c, -3, 3);
    else
        fill_ring(a, o, data, c);
}

const hd_cases hd_cases_compress_kv = {.n = N_SHAPES + 33,
                                       .patterns = TEST_FINITE & ~(1U << TEST_WIDE),
                                       .rows = offsetof(hd_compress_kv_args, t),
                                       .make = make,
                                       .fill = fill};
