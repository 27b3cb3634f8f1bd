#ifndef HD_KERNELS_CASES_H
#define HD_KERNELS_CASES_H

#include "ops/op.h"

/* Test cases of one op: shapes, valid inputs and the allowed error.  How a kernel is run and
 * judged is the same for all ops and lives in kernel_harness.c.
 *
 * Cases 0, 1, 2 of every op are the shapes of real models: one token of the demo model, a
 * prompt of the demo model, one token of a model as wide as DeepSeek-V4-Flash.  They are also
 * what tests/golden/dispatch.txt lists. */

HD_BEGIN_C

#define TEST_MODEL_CASES 3

/* What the floats of a case look like. */
typedef enum test_pattern {
    TEST_UNIFORM,  /* [-1, 1)                                                 */
    TEST_EQUAL,    /* one value everywhere: systematic rounding               */
    TEST_ZERO,     /* zeros of both signs                                     */
    TEST_WIDE,     /* magnitudes from 2^-30 to 2^30                           */
    TEST_DENORMAL, /* f32 denormals                                           */
    TEST_TIES,     /* multiples of 1/16: equal values, midpoints of encodings */
    TEST_SPECIAL,  /* uniform, one in 16 NaN or infinity                      */
    TEST_N_PATTERNS
} test_pattern;

/* Masks for hd_cases.patterns. */
#define TEST_ONLY_UNIFORM (1U << TEST_UNIFORM)
#define TEST_FINITE       ((1U << TEST_SPECIAL) - 1)
#define TEST_ALL          ((1U << TEST_N_PATTERNS) - 1)

typedef struct test_case {
    int32_t      index;
    int32_t      variant; /* of the hd_cases                              */
    int32_t      member;  /* of a list operand, while that is being filled */
    test_pattern pattern;
    uint64_t     rng;
} test_case;

typedef struct test_alias {
    const char *in, *out; /* operands of one shape that may be one memory */
} test_alias;

#define TEST_NO_ROWS ((size_t)-1)

/* More rows of a token than this are for an accelerator alone: its blocks come round to them. */
#define TEST_ROUND_ROWS 50000

typedef struct hd_cases {
    int32_t  n;
    int32_t  variant;  /* for files that serve several ops */
    uint32_t patterns; /* bits 1 << test_pattern */
    /* offsetof(args, count) of the int32_t that counts rows computed independently of each
     * other; each is also computed alone.  TEST_NO_ROWS: there is none. */
    size_t rows;
    /* Sets dimensions and scalars; args is zeroed and its pointers stay NULL. */
    void (*make)(const test_case *c, void *args);
    /* Fills one input operand; operands come in the order of describe().  NULL: floats of the
     * pattern everywhere. */
    void (*fill)(const void *args, const hd_operand *o, void *data, test_case *c);
    /* Whether case i is of a size that only kernels of an accelerator treat otherwise, and large:
     * the others have no such case.  NULL: there is none. */
    bool (*is_for_device)(int32_t i);
    test_alias alias[2];
} hd_cases;

/* ---- making values ---- */

uint64_t test_next(uint64_t *rng);
int32_t  test_below(uint64_t *rng, int32_t n); /* [0, n), n >= 1 */
float    test_uniform(uint64_t *rng, float low, float high);
float    test_value(test_case *c); /* one value of the pattern */

bool test_is(const hd_operand *o, const char *name);
/* Floats of the pattern, in the operand's type (F32 or BF16). */
void test_fill_floats(const hd_operand *o, void *data, test_case *c);
void test_fill_range(const hd_operand *o, void *data, test_case *c, float low, float high);
/* seq[i] = i % n_seq: the rule all ops with sequences follow here. */
void test_fill_seq(int32_t *seq, int64_t t, int32_t n_seq);
void test_fill_nan(float *data, int64_t n);

/* The table of all ops, in the order of hd_ops: an op without cases does not link. */
extern const hd_cases *const test_all_cases[];
#define OP(op) extern const hd_cases hd_cases_##op;
#define KERNEL(op, impl, isa)
#include "ops/kernels.def"
#undef OP
#undef KERNEL

HD_END_C
#endif
