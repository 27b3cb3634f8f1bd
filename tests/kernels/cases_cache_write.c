#include "cases.h"
#include "kernel_rows.h"
#include "ops/cache_write.h"

static const struct {
    int32_t t, d, n_seq, cap, group, page;
} shapes[] = {
    {1, 128, 2, 192, 1, 64}, {33, 128, 1, 256, 1, 64}, {1, 512, 4, 128, 4, 64},
    {0, 64, 1, 8, 1, 64},    {8, 32, 1, 8, 1, 3},      {9, 64, 3, 4, 1, 4},
    {16, 32, 2, 4, 4, 2},    {20, 128, 1, 2, 16, 2},   {7, 24, 7, 1, 1, 1},
};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define N_WIDTHS 33 /* rows of 1 .. 33 elements */
#define N_EACH   (N_SHAPES - TEST_MODEL_CASES + N_WIDTHS)

/* Case i is a model's shape, then each shape and width in each format. */
static hd_row_format format_of(int32_t i)
{
    static const hd_row_format models[TEST_MODEL_CASES] = {HD_ROW_F32, HD_ROW_F32, HD_ROW_FP8};
    return i < TEST_MODEL_CASES ? models[i] : (hd_row_format)((i - TEST_MODEL_CASES) / N_EACH);
}

static void make(const test_case *c, void *args)
{
    hd_cache_write_args *const a = args;
    int32_t const              at = c->index, n = TEST_MODEL_CASES;
    int32_t const              i = at < n ? at : n + (at - n) % N_EACH;
    int32_t                    d = 1 + i - N_SHAPES, page = 1 + i % 5;
    if (i < N_SHAPES) {
        *a = (hd_cache_write_args){.t = shapes[i].t,
                                   .n_seq = shapes[i].n_seq,
                                   .cap = shapes[i].cap,
                                   .group = shapes[i].group};
        d = shapes[i].d, page = shapes[i].page;
    } else {
        *a = (hd_cache_write_args){.t = 5, .n_seq = 2, .cap = 4, .group = 1};
    }
    a->layout = test_row_layout(format_of(at), d, page);
    a->d = a->layout.d;
}

static void fill_bytes(const hd_operand *o, uint8_t *pool, test_case *c)
{
    for (int64_t i = 0; i < hd_operand_count(o); i++) pool[i] = (uint8_t)test_next(&c->rng);
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
    else if (test_is(o, "pool"))
        fill_bytes(o, data, c);
    else
        test_fill_floats(o, data, c);
}

const hd_cases hd_cases_cache_write = {.n = TEST_MODEL_CASES + N_EACH * HD_N_ROW_FORMATS,
                                       .patterns = TEST_ALL,
                                       .rows = TEST_NO_ROWS,
                                       .make = make,
                                       .fill = fill};
