#include <math.h>

#include "cases.h"
#include "kernel_rows.h"
#include "ops/attn_sparse.h"

static const struct {
    int32_t t, h, d, n_seq, win_cap, row_cap, window, group, k;
} shapes[] = {
    {1, 8, 128, 1, 160, 100, 128, 4, 64}, /* demo, indexed layer    */
    {17, 8, 128, 1, 160, 8, 128, 128, 0}, /* demo, compressed layer */
    {1, 64, 512, 1, 128, 600, 128, 4, 512}, {0, 2, 16, 1, 8, 8, 8, 4, 2},
    {6, 2, 64, 2, 11, 0, 8, 0, 0}, /* window only */
    {5, 3, 32, 3, 8, 40, 8, 4, 6},          {6, 2, 32, 1, 16, 20, 4, 4, 0},
    {4, 1, 48, 2, 5, 9, 5, 1, 3},           {3, 2, 40, 1, 1, 3, 1, 2, 0},
    {6, 2, 512, 2, 70, 90, 60, 4, 50},    /* as wide as Flash: lists with unused places */
    {35, 1, 512, 1, 20, 240, 20, 4, 240}, /* more tokens than one wave of blocks */
    {2, 33, 512, 1, 24, 10, 24, 4, 0},    /* more heads than a block takes */
    {1, 2, 512, 1, 40, 700, 40, 4, 0},    /* several tiles a block                      */
    {1, 1, 512, 1, 3, 0, 3, 0, 0},        /* most blocks without keys                   */
    {16, 33, 512, 1, 70, 90, 66, 4, 70},  /* prompts: several tiles */
    {70, 33, 512, 2, 6, 3, 4, 128, 0},    /* several tokens a block */
    {16, 65, 512, 1, 6, 0, 4, 0, 0},      /* two clusters a token   */
};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define N_LARGE  3  /* the last of them */
#define N_WIDTHS 33 /* rows of 1 .. 33 elements */
#define N_EACH   (N_SHAPES - TEST_MODEL_CASES + N_WIDTHS)

/* Case i is a model's shape, then each shape and width in each format. */
static hd_row_format format_of(int32_t i)
{
    static const hd_row_format models[TEST_MODEL_CASES] = {HD_ROW_F32, HD_ROW_F32, HD_ROW_FP8};
    return i < TEST_MODEL_CASES ? models[i] : (hd_row_format)((i - TEST_MODEL_CASES) / N_EACH);
}

static void make_shape(hd_attn_sparse_args *a, int32_t i)
{
    int32_t const tail = i - N_SHAPES;
    if (i < N_SHAPES)
        *a = (hd_attn_sparse_args){.t = shapes[i].t,
                                   .h = shapes[i].h,
                                   .d = shapes[i].d,
                                   .n_seq = shapes[i].n_seq,
                                   .win_cap = shapes[i].win_cap,
                                   .row_cap = shapes[i].row_cap,
                                   .window = shapes[i].window,
                                   .group = shapes[i].group,
                                   .k = shapes[i].k};
    else
        *a = (hd_attn_sparse_args){.t = 3,
                                   .h = 1 + i % 3,
                                   .d = 1 + tail,
                                   .n_seq = 1,
                                   .win_cap = 6 + tail % 3,
                                   .row_cap = 12,
                                   .window = 1 + tail % 6,
                                   .group = 4,
                                   .k = tail % 5};
}

/* Pages as in models where the shapes are theirs, small ones elsewhere. */
static void make(const test_case *c, void *args)
{
    hd_attn_sparse_args *const a = args;
    int32_t const              at = c->index, n = TEST_MODEL_CASES;
    make_shape(a, at < n ? at : n + (at - n) % N_EACH);
    bool const is_model = a->window == 128;
    a->win_layout = test_row_layout(format_of(at), a->d, is_model ? 64 : 1 + at % 4);
    a->row_layout = a->win_layout;
    a->row_layout.page = is_model ? 256 / a->group : 1 + at % 3;
    a->d = a->win_layout.d;
    a->scale = (float)(1 / sqrt((double)a->d));
    /* As models do; narrow rows in every width that there is, and none. */
    a->dr = is_model || a->d >= 512 ? 64 : at % (a->d / 2 + 1) * 2;
}

/* The last position, the first, the edge of the window, the wrap of the ring, a late one. */
static int32_t position(const hd_attn_sparse_args *a, int32_t i)
{
    int32_t const last = a->group > 0 ? (a->row_cap + 1) * a->group - 2 : 100000;
    int32_t const places[] = {last, 0, a->window - 1, a->window, a->win_cap, 2 * a->win_cap + 3};
    int32_t const p = places[i % 6];
    return p < last ? p : last;
}

/* Entry j of the list of token i: spread over what it sees, every fifth place unused. */
static int32_t listed_row(const hd_attn_sparse_args *a, int32_t i, int32_t j)
{
    int32_t const visible = (position(a, i) + 1) / a->group;
    if (j >= visible || (i % 2 == 1 && j % 5 == 4)) return -1;
    return visible <= a->k ? j : (int32_t)((int64_t)j * visible / a->k);
}

/* Keys of token i: entries below win_cap are window rows, win_cap + r is row r. */
#define MAX_KEYS 2048
static int32_t list_keys(const hd_attn_sparse_args *a, int32_t i, int32_t *key)
{
    int32_t const p = position(a, i), first = p + 1 > a->window ? p + 1 - a->window : 0;
    int32_t       n = 0;
    for (int32_t q = first; q <= p; q++) key[n++] = q % a->win_cap;
    if (a->group == 0) return n;
    int32_t const rows = a->k > 0 ? a->k : (p + 1) / a->group;
    for (int32_t j = 0; j < rows; j++) {
        int32_t const row = a->k > 0 ? listed_row(a, i, j) : j;
        if (row >= 0) key[n++] = a->win_cap + row;
    }
    return n;
}

/* Pool rows that are no token's key hold NaN.  Wide values are kept where exp still tells
 * them apart: one key then takes all the weight. */
static void fill_pool(const hd_attn_sparse_args *a, const hd_operand *o, void *pool, test_case *c)
{
    bool const                 is_win = test_is(o, "win");
    const hd_row_layout *const l = is_win ? &a->win_layout : &a->row_layout;
    int32_t const cap = is_win ? a->win_cap : a->row_cap, base = is_win ? 0 : a->win_cap;
    int32_t       key[MAX_KEYS];
    test_fill_pool_nan(o, pool);
    for (int32_t i = 0; i < a->t; i++) {
        int32_t const n = list_keys(a, i, key);
        for (int32_t j = 0; j < n; j++) {
            if (key[j] < base || key[j] >= base + cap) continue;
            test_fill_row(l, pool, hd_row_of(l, i % a->n_seq, cap, key[j] - base), c);
        }
    }
}

static void fill_ids(const hd_attn_sparse_args *a, int32_t *ids)
{
    for (int32_t i = 0; i < a->t; i++)
        for (int32_t j = 0; j < a->k; j++) ids[i * a->k + j] = listed_row(a, i, j);
}

static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_attn_sparse_args *const a = args;
    if (test_is(o, "seq"))
        test_fill_seq(data, a->t, a->n_seq);
    else if (test_is(o, "pos"))
        for (int32_t i = 0; i < a->t; i++) ((int32_t *)data)[i] = position(a, i);
    else if (test_is(o, "ids"))
        fill_ids(a, data);
    else if (test_is(o, "win") || test_is(o, "rows"))
        fill_pool(a, o, data, c);
    else if (test_is(o, "sink"))
        test_fill_range(o, data, c, -5, 5);
    else if (test_is(o, "freq"))
        for (int32_t i = 0; i < a->dr / 2; i++)
            ((float *)data)[i] = (float)pow(10000, -2.0 * i / a->dr);
    else
        test_fill_floats(o, data, c);
}

static bool is_large(int32_t i)
{
    int32_t const shape = TEST_MODEL_CASES + (i - TEST_MODEL_CASES) % N_EACH;
    return i >= TEST_MODEL_CASES && shape >= N_SHAPES - N_LARGE && shape < N_SHAPES;
}

const hd_cases hd_cases_attn_sparse = {.n = TEST_MODEL_CASES + N_EACH * HD_N_ROW_FORMATS,
                                       .patterns = TEST_FINITE & ~(1U << TEST_WIDE),
                                       .rows = offsetof(hd_attn_sparse_args, t),
                                       .is_for_device = is_large,
                                       .make = make,
                                       .fill = fill};
