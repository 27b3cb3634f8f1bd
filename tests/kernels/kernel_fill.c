#include <math.h>
#include <string.h>

#include "cases.h"
#include "quant/bf16.h"

const hd_cases *const test_all_cases[] = {
#define OP(op) &hd_cases_##op,
#define KERNEL(op, impl, isa)
#include "ops/kernels.def"
#undef OP
#undef KERNEL
};

/* splitmix64 */
uint64_t test_next(uint64_t *rng)
{
    uint64_t z = *rng += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

int32_t test_below(uint64_t *rng, int32_t n) { return (int32_t)(test_next(rng) % (uint64_t)n); }

float test_uniform(uint64_t *rng, float low, float high)
{
    return low + (high - low) * (float)(test_next(rng) >> 40) * 0x1p-24f;
}

static float special_value(uint64_t *rng)
{
    static const float specials[] = {NAN, INFINITY, -INFINITY};
    if (test_below(rng, 16) == 0) return specials[test_below(rng, 3)];
    return test_uniform(rng, -1, 1);
}

float test_value(test_case *c)
{
    uint64_t *const rng = &c->rng;
    float const     sign = test_next(rng) & 1 ? -1.0f : 1.0f;
    switch (c->pattern) {
    case TEST_EQUAL: return 0.7f;
    case TEST_ZERO: return sign * 0.0f;
    case TEST_WIDE: return sign * ldexpf(test_uniform(rng, 1, 2), test_below(rng, 60) - 30);
    case TEST_DENORMAL: return sign * ldexpf((float)test_below(rng, 1 << 23), -149);
    case TEST_TIES: return (float)(test_below(rng, 257) - 128) / 16;
    case TEST_SPECIAL: return special_value(rng);
    case TEST_UNIFORM:
    case TEST_N_PATTERNS: break;
    }
    return test_uniform(rng, -1, 1);
}

bool test_is(const hd_operand *o, const char *name) { return strcmp(o->name, name) == 0; }

void test_fill_floats(const hd_operand *o, void *data, test_case *c)
{
    int64_t const n = hd_operand_count(o);
    for (int64_t i = 0; i < n; i++) {
        float const v = test_value(c);
        if (o->dtype == HD_BF16)
            ((uint16_t *)data)[i] = hd_f32_to_bf16(v);
        else
            ((float *)data)[i] = v;
    }
}

void test_fill_range(const hd_operand *o, void *data, test_case *c, float low, float high)
{
    int64_t const n = hd_operand_count(o);
    for (int64_t i = 0; i < n; i++) ((float *)data)[i] = test_uniform(&c->rng, low, high);
}

void test_fill_seq(int32_t *seq, int64_t t, int32_t n_seq)
{
    for (int64_t i = 0; i < t; i++) seq[i] = (int32_t)(i % n_seq);
}

void test_fill_nan(float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++) data[i] = NAN;
}
