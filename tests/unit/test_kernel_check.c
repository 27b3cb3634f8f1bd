/* The check of kernels beside a pass: healthy ones pass, and each planted fault is told with its
 * step and kernel, whether the pass had chosen that kernel or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "../support/norm_faults.h"
#include "doctor/kernel_check.h"
#include "ops/head_rows.h"
#include "ops/rmsnorm.h"
#include "ops/topk.h"

#define ROWS 5
#define D    64
#define K    4

/* ---- planted kernels ---- */

/* The last element of row 3 is not written: it stays what was there. */
static hd_status skip_tail(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_args *const a = args;
    float const                  before = a->y[3 * D + D - 1];
    hd_status const              s = hd_rmsnorm_ref(args, stream);
    a->y[3 * D + D - 1] = before;
    return s;
}

/* Right out of place, wrong where x is y. */
static hd_status write_early(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_args *const a = args;
    a->y[0] = 0;
    return hd_rmsnorm_ref(args, stream);
}

static hd_status end_badly(const void *args, hd_stream *stream)
{
    (void)args;
    (void)stream;
    return HD_ERR_NUMERIC;
}

static hd_status turn_twice(const void *args, hd_stream *stream)
{
    hd_status const s = hd_head_rows_ref(args, stream);
    return s == HD_OK ? hd_head_rows_ref(args, stream) : s;
}

static hd_status choose_wrong(const void *args, hd_stream *stream)
{
    const hd_topk_args *const a = args;
    hd_status const           s = hd_topk_ref(args, stream);
    a->ids[2 * K + 1] = 0;
    return s;
}

/* Places and kernels of a table: the planted one in front of the reference. */
#define REF(op)                                                       \
    {                                                                 \
        &hd_op_##op, #op "_ref", HD_ISA_REF, takes_all, hd_##op##_ref \
    }
#define BAD(op, run)                                           \
    {                                                          \
        &hd_op_##op, #op "_bad", HD_ISA_AVX2, takes_all, (run) \
    }

/* ---- a pass of three steps ---- */

typedef struct pass {
    float   x[ROWS * D], w[D], score[ROWS * 9], freq[D / 2];
    int32_t pos[ROWS], ids[ROWS * K];
    hd_step steps[3];
    hd_plan plan;

    hd_rmsnorm_args   norm; /* in place */
    hd_head_rows_args rope;
    hd_topk_args      topk;
    hd_kernel_check   check;
} pass;

static const hd_kernel healthy[] = {REF(rmsnorm), REF(head_rows), REF(topk)};

static void fill(pass *p)
{
    for (int i = 0; i < ROWS * D; i++) p->x[i] = (float)(i * 37 % 101 - 50) / 16;
    for (int i = 0; i < D; i++) p->w[i] = 1 + (float)i / 64;
    for (int i = 0; i < ROWS * 9; i++) p->score[i] = (float)(i * 53 % 97);
    for (int i = 0; i < D / 2; i++) p->freq[i] = 0.1f * (float)(i + 1);
    for (int i = 0; i < ROWS; i++) p->pos[i] = 35;
    p->norm = (hd_rmsnorm_args){
        .x = p->x, .w = p->w, .y = p->x, .t = ROWS, .d = D, .eps = 1e-6f, .has_w = true};
    p->rope = (hd_head_rows_args){
        .x = p->x, .freq = p->freq, .pos = p->pos, .t = ROWS, .h = 1, .d = D, .dr = 32, .group = 1};
    p->topk = (hd_topk_args){
        .score = p->score, .pos = p->pos, .ids = p->ids, .t = ROWS, .n = 9, .k = K, .group = 4};
}

/* Step i runs chosen[i]. */
static void run(pass *p, const hd_kernel *const chosen[3], const hd_kernel *table, int32_t n)
{
    const void *const args[3] = {&p->norm, &p->rope, &p->topk};
    fill(p);
    for (int i = 0; i < 3; i++) p->steps[i] = (hd_step){chosen[i], args[i], "step", i};
    p->plan = (hd_plan){.steps = p->steps, .n = 3};
    assert_int_equal(
        hd_kernel_check_open(&p->check, table, n, HD_ISA_REF | HD_ISA_AVX2, NULL, NULL), HD_OK);
    assert_int_equal(hd_kernel_check_begin(&p->check, &p->plan, NULL), HD_OK);
    assert_int_equal(hd_plan_run(&p->plan, NULL, hd_kernel_check_step, &p->check, NULL), HD_OK);
}

static void test_healthy(void **state)
{
    pass                   p = {0};
    const hd_kernel *const chosen[3] = {&healthy[0], &healthy[1], &healthy[2]};
    (void)state;
    run(&p, chosen, healthy, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(p.check.results[i].fault, "");
        assert_int_equal(p.check.results[i].steps, 1);
        assert_true(p.check.results[i].worst <= 0);
    }
    hd_kernel_check_close(&p.check);
}

/* A planted kernel in the place of op `at`, chosen by the pass or not; `fault` is how the message
 * begins, empty when there must be none. */
static void expect(int at, hd_kernel bad, bool is_chosen, const char *fault)
{
    pass             p = {0};
    hd_kernel        table[4] = {bad, healthy[0], healthy[1], healthy[2]};
    const hd_kernel *chosen[3] = {&table[1], &table[2], &table[3]};
    if (is_chosen) chosen[at] = &table[0];
    n_calls = 0;
    run(&p, chosen, table, 4);
    const char *const got = p.check.results[0].fault;
    if (*fault ? strncmp(got, fault, strlen(fault)) != 0 : *got != 0)
        fail_msg("\"%s\", wanted \"%s\"", got, fault);
    for (int i = 1; i < 4; i++) assert_string_equal(p.check.results[i].fault, "");
    hd_kernel_check_close(&p.check);
}

static void test_skipped_tail(void **state)
{
    (void)state;
    expect(0, (hd_kernel)BAD(rmsnorm, skip_tail), true, "L00.step: y: row 3, element 63 is ");
    expect(0, (hd_kernel)BAD(rmsnorm, skip_tail), false,
           "L00.step: y: row 3, element 63 is "); /* the poison stays */
}

/* Only the pass itself runs in place. */
static void test_in_place(void **state)
{
    (void)state;
    expect(0, (hd_kernel)BAD(rmsnorm, write_early), true, "L00.step: y: row 0, element 0 is 0, ");
    expect(0, (hd_kernel)BAD(rmsnorm, write_early), false, "");
}

/* The limit of an element is the op's own, as in tests/kernels. */
static void test_small_error(void **state)
{
    (void)state;
    for (int is_chosen = 0; is_chosen < 2; is_chosen++)
        expect(0, (hd_kernel)BAD(rmsnorm, round_badly), is_chosen,
               "L00.step: y: row 2, element 9 is ");
}

static void test_other_bits(void **state)
{
    (void)state;
    expect(0, (hd_kernel)BAD(rmsnorm, drift), true, "L00.step: y: other bits for the same input");
}

static void test_status(void **state)
{
    (void)state;
    expect(2, (hd_kernel)BAD(topk, end_badly), false, "L02.step: ended with 'numeric'");
}

/* The input is the output: it is kept from before the step. */
static void test_in_and_out(void **state)
{
    (void)state;
    expect(1, (hd_kernel)BAD(head_rows, turn_twice), true, "L01.step: row 0: x[");
    expect(1, (hd_kernel)BAD(head_rows, turn_twice), false, "L01.step: row 0: x[");
}

static void test_ids(void **state)
{
    (void)state;
    expect(2, (hd_kernel)BAD(topk, choose_wrong), true,
           "L02.step: ids: element 9 is not the reference's");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),  cmocka_unit_test(test_skipped_tail),
        cmocka_unit_test(test_in_place), cmocka_unit_test(test_other_bits),
        cmocka_unit_test(test_status),   cmocka_unit_test(test_in_and_out),
        cmocka_unit_test(test_ids),      cmocka_unit_test(test_small_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
