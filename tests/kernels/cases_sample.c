#include <math.h>
#include <string.h>

#include "cases.h"
#include "ops/sample.h"

static const struct {
    int32_t t, n;
} shapes[] = {{1, 2048}, {16, 2048}, {1, 129280}, {0, 8},    {3, 1},
              {5, 31},   {4, 257},   {3, 8191},   {2, 8193}, {9, 9001}};
#define N_SHAPES (int32_t)(sizeof shapes / sizeof shapes[0])

static void make(const test_case *c, void *args)
{
    hd_sample_args *const a = args;
    *a = (hd_sample_args){.t = shapes[c->index].t, .n = shapes[c->index].n};
}

/* At the edges of [0, 1] too. */
static void fill_asks(int32_t t, uint8_t *out, test_case *c)
{
    static const float temperatures[] = {0, 1, 0.7f, 1, 0.01f, 30}, least[] = {0, 0.05f, 0, 1};
    for (int32_t i = 0; i < t; i++) {
        uint64_t const      u = test_next(&c->rng);
        hd_sample_ask const ask = {.uniform = u % 8 == 0 ? 0 : (double)(u >> 11) * 0x1p-53,
                                   .temperature = temperatures[test_below(&c->rng, 6)],
                                   .min_p = least[test_below(&c->rng, 4)]};
        memcpy(out + (size_t)i * sizeof ask, &ask, sizeof ask);
    }
}

/* Every other row of a special case has numbers that are none. */
static void fill(const void *args, const hd_operand *o, void *data, test_case *c)
{
    const hd_sample_args *const a = args;
    static const float          bad[] = {NAN, INFINITY, -INFINITY};
    float *const                x = data;
    if (test_is(o, "asks")) {
        fill_asks(a->t, data, c);
        return;
    }
    test_case finite = *c;
    if (c->pattern == TEST_SPECIAL) finite.pattern = TEST_UNIFORM;
    for (int64_t i = 0; i < (int64_t)a->t * a->n; i++)
        x[i] = test_value(&finite) * (c->index % 2 ? 8.0f : 1.0f);
    c->rng = finite.rng;
    if (c->pattern != TEST_SPECIAL) return;
    for (int32_t t = 0; t < a->t; t += 2)
        for (int k = 0; k < 3; k++) x[(int64_t)t * a->n + test_below(&c->rng, a->n)] = bad[k];
}

const hd_cases hd_cases_sample = {.n = N_SHAPES,
                                  .patterns = TEST_ALL,
                                  .rows = offsetof(hd_sample_args, t),
                                  .make = make,
                                  .fill = fill};
