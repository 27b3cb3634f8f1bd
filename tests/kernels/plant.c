#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel_harness.h"
#include "ops/gemm.h"
#include "ops/rmsnorm.h"
#include "quant/fp4.h"
#include "quant/fp8.h"

/* Faulty kernels that the harness must catch, each under its own name and for its own reason.
 * A sound kernel with one fault switched on: what the harness misses here it would miss in a
 * real kernel. */

typedef enum plant {
    PLANT_NOTHING,
    PLANT_DROPPED_TAIL,
    PLANT_ONE_NAN,
    PLANT_ZERO_ROW,
    PLANT_WRITE_PAST_END,
    PLANT_WRITE_BEFORE,
    PLANT_READ_PAST_END,
    PLANT_UNWRITTEN,
    PLANT_SWAPPED_NIBBLES,
    PLANT_SUPPORTS_NOTHING,
    PLANT_CHANGED_INPUT,
    PLANT_SKIPPED_BLOCK,
    PLANT_NOT_REPEATABLE,
    PLANT_BY_ALIGNMENT,
    PLANT_BY_BATCH,
    PLANT_BY_THREADS,
    PLANT_NOT_IN_PLACE,
    PLANT_STATUS,
    PLANT_FLUSHED_DENORMALS,
    PLANT_LOST_NAN,
    PLANT_WRONG_BYTE,
    PLANT_UNWRITTEN_BYTE,
    PLANT_WRONG_COUNT,
    PLANT_UNWRITTEN_COUNT,
    PLANT_STATE_NOT_WRITTEN
} plant;

static plant planted;

static bool supports(const void *args)
{
    (void)args;
    return planted != PLANT_SUPPORTS_NOTHING;
}

/* ---- rmsnorm ---- */

/* Elements of a row that are summed: all, unless the tail of a vector of eight is lost. */
static int32_t summed(int32_t d) { return planted == PLANT_DROPPED_TAIL && d > 8 ? d & ~7 : d; }

static float row_factor(const hd_rmsnorm_args *a, const float *x)
{
    static int32_t calls;
    double         sum = 0;
    for (int32_t c = 0; c < summed(a->d); c++) {
        float const v = planted == PLANT_FLUSHED_DENORMALS && fabsf(x[c]) < 0x1p-10f ? 0 : x[c];
        sum += (double)v * v;
    }
    double r = 1 / sqrt(sum / a->d + a->eps);
    if (planted == PLANT_NOT_REPEATABLE) r *= 1 + (calls++ & 1) * 0x1p-23;
    if (planted == PLANT_BY_ALIGNMENT) r *= 1 + ((uintptr_t)a->x % 4096 != 0) * 0x1p-23;
    if (planted == PLANT_BY_BATCH) r *= 1 + (a->t == 1) * 0x1p-23;
    return (float)r;
}

static void write_row(const hd_rmsnorm_args *a, int64_t t)
{
    const float *const x = a->x + t * a->d;
    float *const       y = a->y + t * a->d;
    float const        r = planted == PLANT_ZERO_ROW && t == a->t - 1 ? 0 : row_factor(a, x);
    int32_t const      last = a->d - (planted == PLANT_UNWRITTEN && t == 1);
    if (planted == PLANT_NOT_IN_PLACE) memset(y, 0, (size_t)a->d * sizeof *y);
    for (int32_t c = 0; c < last; c++) {
        y[c] = x[c] * r * (a->has_w ? a->w[c] : 1);
        if (planted == PLANT_LOST_NAN && isnan(y[c])) y[c] = 0;
    }
}

static void misbehave(const hd_rmsnorm_args *a)
{
    int64_t const n = (int64_t)a->t * a->d;
    if (n == 0) return;
    volatile float *const y = a->y;
    const volatile float *x = a->x;
    if (planted == PLANT_ONE_NAN) y[n / 2] = NAN;
    if (planted == PLANT_WRITE_PAST_END) y[n] = 0;
    if (planted == PLANT_WRITE_BEFORE) y[-1] = 0;
    if (planted == PLANT_READ_PAST_END) (void)x[n];
    if (planted == PLANT_CHANGED_INPUT) *(volatile float *)(uintptr_t)x = 2 * x[0] + 1;
}

static hd_status run_rmsnorm(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_args *const a = args;
    for (int64_t t = 0; t < a->t; t++) write_row(a, t);
    if (planted == PLANT_BY_THREADS && stream && a->t * a->d > 0) a->y[0] *= 1 + 0x1p-22f;
    misbehave(a);
    return planted == PLANT_STATUS ? HD_ERR_INVALID : HD_OK;
}

/* ---- gemm_nvfp4 ---- */

static double weight(const hd_gemm_args *a, int64_t row, int32_t j)
{
    bool const    is_high = (j & 1) != (planted == PLANT_SWAPPED_NIBBLES);
    uint8_t const pair = ((const uint8_t *)a->w)[row * (a->k / 2) + j / 2];
    uint8_t const sf = ((const uint8_t *)a->sf)[row * (a->k / 16) + j / 16];
    return (double)hd_e2m1_to_f32(is_high ? pair >> 4 : pair) * hd_e4m3_to_f32(sf) * a->w_scale;
}

/* The last block of one output of the widest case is lost. */
static int32_t depth(const hd_gemm_args *a, int64_t row)
{
    return planted == PLANT_SKIPPED_BLOCK && a->k >= 4096 && row == 7 ? a->k - 16 : a->k;
}

static hd_status run_gemm(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = args;
    int64_t const             rows = (int64_t)a->g * a->n;
    (void)stream;
    for (int64_t at = 0; at < a->t * rows; at++) {
        int64_t const      row = at % rows;
        const float *const x = a->x + at / rows * a->g * a->k + row / a->n * a->k;
        double             sum = 0;
        for (int32_t j = 0; j < depth(a, row); j++) sum += weight(a, row, j) * x[j];
        a->y[at] = (float)sum;
    }
    return HD_OK;
}

/* ---- an op of its own, with the other kinds of output ---- */

/* bytes: y[t,i] = the lowest byte of x[t,i], n[t] = how many are odd, s[t,i] += 1. */
typedef struct hd_bytes_args {
    const int32_t *x; /* [t, d] in         */
    uint8_t       *y; /* [t, d] out        */
    int32_t       *n; /* [t, 1] out        */
    float         *s; /* [t, d] in and out */
    int32_t        t, d;
} hd_bytes_args;

static int32_t describe_bytes(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_bytes_args *const a = args;
    int32_t                    n = 0;
    out[n++] = HD_OPERAND(bytes, x, HD_IN, HD_I32, a->t, a->d);
    out[n++] = HD_OPERAND(bytes, y, HD_OUT, HD_U8, a->t, a->d);
    out[n++] = HD_OPERAND(bytes, n, HD_OUT, HD_I32, a->t, 1);
    out[n++] = HD_OPERAND(bytes, s, HD_INOUT, HD_F32, a->t, a->d);
    return n;
}

static const hd_op op_bytes = {"bytes", sizeof(hd_bytes_args), describe_bytes, NULL, NULL, NULL};

static void make_bytes(const test_case *c, void *args)
{
    *(hd_bytes_args *)args = (hd_bytes_args){.t = 1 + c->index % 4, .d = 1 + c->index};
}

static void fill_bytes(const void *args, const hd_operand *o, void *data, test_case *c)
{
    (void)args;
    if (test_is(o, "s"))
        test_fill_floats(o, data, c);
    else
        for (int64_t i = 0; i < hd_operand_count(o); i++)
            ((int32_t *)data)[i] = test_below(&c->rng, 255); /* 255 is the poison */
}

static const hd_cases cases_bytes = {.n = 33,
                                     .patterns = TEST_ALL,
                                     .rows = offsetof(hd_bytes_args, t),
                                     .make = make_bytes,
                                     .fill = fill_bytes};

static hd_status run_bytes_soundly(const void *args, hd_stream *stream)
{
    const hd_bytes_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        a->n[t] = 0;
        for (int64_t at = (int64_t)t * a->d; at < (int64_t)(t + 1) * a->d; at++) {
            a->y[at] = (uint8_t)a->x[at];
            a->n[t] += a->x[at] & 1;
            a->s[at] += 1;
        }
    }
    return HD_OK;
}

static hd_status run_bytes(const void *args, hd_stream *stream)
{
    const hd_bytes_args *const a = args;
    int64_t const              last = (int64_t)a->t * a->d - 1;
    uint8_t const              before = a->y[last];
    int32_t const              count = a->n[a->t - 1];
    float const                state = a->s[last];
    run_bytes_soundly(args, stream);
    if (planted == PLANT_WRONG_BYTE) a->y[last] ^= 0x80;
    if (planted == PLANT_UNWRITTEN_BYTE) a->y[last] = before;
    if (planted == PLANT_WRONG_COUNT) a->n[0]++;
    if (planted == PLANT_UNWRITTEN_COUNT) a->n[a->t - 1] = count;
    if (planted == PLANT_STATE_NOT_WRITTEN) a->s[last] = state;
    return HD_OK;
}

static const hd_kernel bytes_ref = {&op_bytes, "bytes_ref", HD_ISA_REF, supports,
                                    run_bytes_soundly};

/* ---- the list ---- */

/* References are not run by several threads. */
#define THREADED(name)                                                      \
    {                                                                       \
        &hd_op_rmsnorm, "rmsnorm_" name, HD_ISA_AVX2, supports, run_rmsnorm \
    }
#define RMSNORM(name)                                                      \
    {                                                                      \
        &hd_op_rmsnorm, "rmsnorm_" name, HD_ISA_REF, supports, run_rmsnorm \
    }
#define GEMM(name)                                                            \
    {                                                                         \
        &hd_op_gemm_nvfp4, "gemm_nvfp4_" name, HD_ISA_REF, supports, run_gemm \
    }
#define BYTES(name)                                               \
    {                                                             \
        &op_bytes, "bytes_" name, HD_ISA_REF, supports, run_bytes \
    }

/* A write or a read past the end is caught at whichever guard stands there. */
static const struct {
    plant      plant;
    test_fault wanted;
    hd_kernel  kernel;
} plants[] = {
    {PLANT_NOTHING, FAULT_NONE, RMSNORM("sound")},
    {PLANT_NOTHING, FAULT_NONE, GEMM("sound")},
    {PLANT_DROPPED_TAIL, FAULT_VALUE, RMSNORM("dropped_tail")},
    {PLANT_ONE_NAN, FAULT_NONFINITE, RMSNORM("one_nan")},
    {PLANT_ZERO_ROW, FAULT_VALUE, RMSNORM("zero_row")},
    {PLANT_WRITE_PAST_END, FAULT_GUARD, RMSNORM("write_past_end")},
    {PLANT_WRITE_BEFORE, FAULT_ACCESS, RMSNORM("write_before")},
    {PLANT_READ_PAST_END, FAULT_ACCESS, RMSNORM("read_past_end")},
    {PLANT_UNWRITTEN, FAULT_UNWRITTEN, RMSNORM("unwritten")},
    {PLANT_SWAPPED_NIBBLES, FAULT_VALUE, GEMM("swapped_nibbles")},
    {PLANT_SUPPORTS_NOTHING, FAULT_UNSUPPORTED, RMSNORM("supports_nothing")},
    {PLANT_CHANGED_INPUT, FAULT_INPUT, RMSNORM("changed_input")},
    {PLANT_SKIPPED_BLOCK, FAULT_VALUE, GEMM("skipped_block")},
    {PLANT_NOT_REPEATABLE, FAULT_REPEAT, RMSNORM("not_repeatable")},
    {PLANT_BY_ALIGNMENT, FAULT_PLACEMENT, RMSNORM("by_alignment")},
    {PLANT_BY_BATCH, FAULT_BATCH, RMSNORM("by_batch")},
    {PLANT_BY_THREADS, FAULT_THREADS, THREADED("by_threads")},
    {PLANT_NOT_IN_PLACE, FAULT_ALIAS, RMSNORM("not_in_place")},
    {PLANT_STATUS, FAULT_STATUS, RMSNORM("status")},
    {PLANT_FLUSHED_DENORMALS, FAULT_VALUE, RMSNORM("flushed_denormals")},
    {PLANT_LOST_NAN, FAULT_NONFINITE, RMSNORM("lost_nan")},
    {PLANT_NOTHING, FAULT_NONE, BYTES("sound")},
    {PLANT_WRONG_BYTE, FAULT_VALUE, BYTES("wrong_byte")},
    {PLANT_UNWRITTEN_BYTE, FAULT_VALUE, BYTES("unwritten_byte")},
    {PLANT_WRONG_COUNT, FAULT_VALUE, BYTES("wrong_count")},
    {PLANT_UNWRITTEN_COUNT, FAULT_UNWRITTEN, BYTES("unwritten_count")},
    {PLANT_STATE_NOT_WRITTEN, FAULT_VALUE, BYTES("state_not_written")},
};
#define N_PLANTS (int32_t)(sizeof plants / sizeof plants[0])

static void run_planted(const hd_kernel *k, uint64_t seed, test_report *r)
{
    const hd_kernel *const listed = test_reference(hd_kernels, hd_n_kernels, k->op);
    const hd_kernel *const ref = k->op == &op_bytes ? &bytes_ref : listed;
    const hd_cases *const  cases = k->op == &op_bytes        ? &cases_bytes
                                   : k->op == &hd_op_rmsnorm ? &hd_cases_rmsnorm
                                                             : &hd_cases_gemm_nvfp4;
    test_kernel(k, ref, cases, seed, r);
}

static bool is_caught(int32_t i, uint64_t seed)
{
    const hd_kernel *const k = &plants[i].kernel;
    test_report            r;
    planted = plants[i].plant;
    run_planted(k, seed, &r);
    bool const is_named = r.fault == FAULT_NONE || strstr(r.message, k->name) != NULL;
    if (r.fault == plants[i].wanted && is_named) return true;
    printf("FAILED planted %s: want '%s', found '%s' %s\n", k->name,
           test_fault_name(plants[i].wanted), test_fault_name(r.fault), r.message);
    return false;
}

/* An op whose kernels have no reference among them is noticed before anything runs. */
static bool is_lack_of_reference_caught(void)
{
    const hd_kernel *const ref = test_reference(hd_kernels, hd_n_kernels, &hd_op_rmsnorm);
    hd_kernel              only_fast = *ref;
    only_fast.isa = HD_ISA_AVX2;
    if (!test_reference(&only_fast, 1, &hd_op_rmsnorm) &&
        !test_reference(&only_fast, 1, &hd_op_gemm_nvfp4))
        return true;
    printf("FAILED planted: an op without a reference is not noticed\n");
    return false;
}

int32_t test_plants(uint64_t seed, int32_t *n)
{
    int32_t missed = !is_lack_of_reference_caught();
    for (int32_t i = 0; i < N_PLANTS; i++) missed += !is_caught(i, seed);
    *n = N_PLANTS + 1;
    return missed;
}
