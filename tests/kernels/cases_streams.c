#include <math.h>

#include "cases.h"
#include "ops/add_streams.h"
#include "ops/hc_head.h"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"

/* The four ops on residual streams share their shapes. */
static const struct {
    int32_t t, m, d;
} shapes[] = {{1, 4, 256}, {33, 4, 256}, {1, 4, 4096}, {0, 4, 16},
              {3, 1, 64},  {2, 8, 100},  {5, 2, 48},   {4, 3, 7}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])
#define N_CASES  (N_SHAPES + 33)

static int32_t tokens(int32_t i) { return i < N_SHAPES ? shapes[i].t : 3; }
static int32_t streams(int32_t i) { return i < N_SHAPES ? shapes[i].m : 1 + i % 8; }
static int32_t width(int32_t i) { return i < N_SHAPES ? shapes[i].d : 1 + i - N_SHAPES; }

/* ---- add_streams ---- */

static void make_add(const test_case *c, void *args)
{
    *(hd_add_streams_args *)args =
        (hd_add_streams_args){.t = tokens(c->index), .m = streams(c->index), .d = width(c->index)};
}

const hd_cases hd_cases_add_streams = {
    .n = N_CASES, .patterns = TEST_ALL, .rows = offsetof(hd_add_streams_args, t), .make = make_add};

/* ---- hc_post ---- */

static void make_post(const test_case *c, void *args)
{
    *(hd_hc_post_args *)args =
        (hd_hc_post_args){.t = tokens(c->index), .m = streams(c->index), .d = width(c->index)};
}

/* Row t*m + j of s. */
static void limit_post(const test_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_hc_post_args *const a = r->in;
    int64_t const                t = row / a->m, j = row % a->m;
    (void)o;
    for (int32_t c = 0; c < a->d; c++) {
        double sum = fabs((double)a->post[row] * a->y[t * a->d + c]);
        for (int32_t i = 0; i < a->m; i++)
            sum +=
                fabs((double)a->comb[(t * a->m + i) * a->m + j] * a->s[(t * a->m + i) * a->d + c]);
        allowed[c] = (a->m + 4) * TEST_U * sum;
    }
}

const hd_cases hd_cases_hc_post = {.n = N_CASES,
                                   .patterns = TEST_FINITE,
                                   .rows = offsetof(hd_hc_post_args, t),
                                   .make = make_post,
                                   .limit = limit_post};

/* ---- hc_pre, hc_head ---- */

static void make_pre(const test_case *c, void *args)
{
    static const int32_t iters[] = {20, 1, 3};
    *(hd_hc_pre_args *)args = (hd_hc_pre_args){.t = tokens(c->index),
                                               .m = streams(c->index),
                                               .d = width(c->index),
                                               .iters = iters[c->index % 3],
                                               .eps = 1e-6f,
                                               .hc_eps = 1e-6f};
}

static void make_head(const test_case *c, void *args)
{
    *(hd_hc_head_args *)args = (hd_hc_head_args){.t = tokens(c->index),
                                                 .m = streams(c->index),
                                                 .d = width(c->index),
                                                 .eps = 1e-6f,
                                                 .hc_eps = 1e-6f};
}

/* Mixing weights of a trained size: z stays within a few units. */
static void fill_mix(const void *args, const hd_operand *o, void *data, test_case *c)
{
    (void)args;
    float const size = 2 / sqrtf((float)hd_operand_cols(o));
    if (test_is(o, "fn"))
        test_fill_range(o, data, c, -size, size);
    else if (test_is(o, "s"))
        test_fill_floats(o, data, c);
    else
        test_fill_range(o, data, c, -1.5f, 1.5f);
}

/* One token of hc_pre or hc_head. */
typedef struct mix {
    const float *s, *fn;
    int32_t      m, d;
    double       eps;
} mix;

/* Error of z[i] in f32: that of its dot product over the root mean square. */
static double z_error(const mix *x, int64_t i)
{
    int64_t const      n = (int64_t)x->m * x->d;
    const float *const fn = x->fn + i * n;
    double             dot = 0, square = 0;
    for (int64_t c = 0; c < n; c++) {
        dot += fabs((double)fn[c] * x->s[c]);
        square += (double)x->s[c] * x->s[c];
    }
    return 2 * test_sum_error(n) * dot / sqrt(square / (double)n + x->eps);
}

static double largest_z_error(const mix *x, int32_t first, int32_t n)
{
    double largest = 0;
    for (int32_t i = first; i < first + n; i++) largest = fmax(largest, z_error(x, i));
    return largest;
}

/* A sigmoid is at most 1, its slope at most 1/4. */
static void limit_mixed(const mix *x, double gain, double *allowed)
{
    double const pre = largest_z_error(x, 0, x->m) * gain / 4 + 16 * TEST_U;
    for (int32_t c = 0; c < x->d; c++) {
        double sum = 0;
        for (int32_t i = 0; i < x->m; i++) sum += fabs((double)x->s[(int64_t)i * x->d + c]);
        allowed[c] = (pre + (x->m + 4) * TEST_U) * sum;
    }
}

/* Row t*m + i of comb.  Normalising rows and columns does not make relative differences
 * larger, but each pass rounds. */
static void limit_comb(const hd_hc_pre_args *ref, const mix *x, int64_t row, double *allowed)
{
    int32_t const m = x->m;
    double const  z = largest_z_error(x, 2 * m, m * m) * fabs((double)ref->scale[2]);
    double const  passes = 4.0 * ref->iters * (m + 4) * TEST_U;
    for (int32_t j = 0; j < m; j++)
        allowed[j] = (4 * z + passes + 32 * TEST_U) * fabs((double)ref->comb[row * m + j]);
}

static void limit_pre(const test_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_hc_pre_args *const a = r->in;
    int64_t const               t = test_is(o, "comb") ? row / a->m : row;
    mix const                   x = {a->s + t * a->m * a->d, a->fn, a->m, a->d, a->eps};
    if (test_is(o, "comb"))
        limit_comb(r->ref, &x, row, allowed);
    else if (test_is(o, "x"))
        limit_mixed(&x, fabs((double)a->scale[0]), allowed);
    else
        for (int32_t i = 0; i < a->m; i++)
            allowed[i] = z_error(&x, a->m + i) * fabs((double)a->scale[1]) / 2 + 16 * TEST_U;
}

const hd_cases hd_cases_hc_pre = {.n = N_CASES,
                                  .patterns = TEST_FINITE,
                                  .rows = offsetof(hd_hc_pre_args, t),
                                  .make = make_pre,
                                  .fill = fill_mix,
                                  .limit = limit_pre};

static void limit_head(const test_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_hc_head_args *const a = r->in;
    mix const                    x = {a->s + row * a->m * a->d, a->fn, a->m, a->d, a->eps};
    (void)o;
    limit_mixed(&x, fabs((double)a->scale[0]), allowed);
}

const hd_cases hd_cases_hc_head = {.n = N_CASES,
                                   .patterns = TEST_FINITE,
                                   .rows = offsetof(hd_hc_head_args, t),
                                   .make = make_head,
                                   .fill = fill_mix,
                                   .limit = limit_head};
