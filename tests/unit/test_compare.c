/* What a comparison says of two tensors: errors, places, rows, logits.  Whole passes are compared
 * in tests/cli/test_cli_compare.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/compare_pair.h"

#define NEAR 1e-12 /* sums of a few doubles */

static hd_st_tensor make(hd_st_dtype dtype, const void *data, int64_t rows, int64_t cols)
{
    return (hd_st_tensor){
        .name = "t", .dtype = dtype, .rank = 2, .shape = {rows, cols}, .data = data};
}

static void test_equal(void **state)
{
    float const         x[6] = {1, -2, 3, 0, NAN, INFINITY};
    hd_st_tensor const  t = make(HD_ST_F32, x, 2, 3);
    hd_pair_stats const p = hd_pair_compare(&t, &t);
    (void)state;
    assert_int_equal(p.count, 6);
    assert_int_equal(p.different, 0);
    assert_int_equal(p.bad_a, 2);
    assert_int_equal(p.bad_b, 2);
    assert_float_equal(p.error, 0, 0);
    assert_float_equal(p.cosine, 1, NEAR);
    assert_float_equal(p.ratio, 1, NEAR);
}

/* A factor of 2 leaves the cosine as it is: error and ratio show it. */
static void test_magnitude(void **state)
{
    float const         a[4] = {2, 4, -6, 8}, b[4] = {1, 2, -3, 4};
    hd_st_tensor const  x = make(HD_ST_F32, a, 2, 2), y = make(HD_ST_F32, b, 2, 2);
    hd_pair_stats const p = hd_pair_compare(&x, &y);
    (void)state;
    assert_float_equal(p.cosine, 1, NEAR);
    assert_float_equal(p.ratio, 2, NEAR);
    assert_float_equal(p.error, 1, NEAR);
    assert_int_equal(p.different, 4);
    assert_int_equal(p.worst_at, 3);
    assert_float_equal(p.worst_a, 8, 0);
    assert_float_equal(p.worst_b, 4, 0);
}

/* One bad row among many that are large: the whole hides it, the row does not. */
static void test_worst_row(void **state)
{
    float a[3 * 4] = {100, 100, 100, 100, 100, 100, 100, 100, 0, 0, 0, 0.01f}, b[3 * 4];
    (void)state;
    memcpy(b, a, sizeof b);
    b[8] = 0.01f;
    b[11] = 0;
    hd_st_tensor const  x = make(HD_ST_F32, a, 3, 4), y = make(HD_ST_F32, b, 3, 4);
    hd_pair_stats const p = hd_pair_compare(&x, &y);
    assert_true(p.error < 1e-4);
    assert_int_equal(p.worst_row, 2);
    assert_float_equal(p.row_error, sqrt(2), NEAR);
    assert_int_equal(p.first_different, 8);
}

static void test_not_finite(void **state)
{
    float const         a[3] = {1, NAN, 3}, b[3] = {1, 2, 3};
    hd_st_tensor const  x = make(HD_ST_F32, a, 1, 3), y = make(HD_ST_F32, b, 1, 3);
    hd_pair_stats const p = hd_pair_compare(&x, &y);
    (void)state;
    assert_true(isinf(p.error));
    assert_int_equal(p.bad_a, 1);
    assert_int_equal(p.bad_b, 0);
    assert_int_equal(p.first_different, 1);
}

static void test_zeros(void **state)
{
    float const        zero[2] = {0, 0}, one[2] = {1, 0};
    hd_st_tensor const x = make(HD_ST_F32, zero, 1, 2), y = make(HD_ST_F32, one, 1, 2);
    (void)state;
    assert_float_equal(hd_pair_compare(&x, &x).error, 0, 0);
    assert_float_equal(hd_pair_compare(&x, &y).error, 1, 0);
    assert_true(isinf(hd_pair_compare(&y, &x).error));
}

/* Dumps of other programs: half precision, another rank, any address. */
static void test_other_dtypes(void **state)
{
    uint8_t            bytes[1 + 8];
    uint16_t const     half[4] = {0x3C00, 0xC000, 0, 0x4200}; /* F16: 1, -2, 0, 3 */
    uint16_t const     brain[4] = {0x3F80, 0xC000, 0, 0x4040};
    int32_t const      ids[4] = {3, 1, 0, 7};
    int64_t const      wide[4] = {3, 1, 5, 7};
    hd_st_tensor const x = make(HD_ST_F16, bytes + 1, 2, 2);
    hd_st_tensor const y = {
        .name = "t", .dtype = HD_ST_BF16, .rank = 1, .shape = {4}, .data = (const uint8_t *)brain};
    hd_st_tensor const i = make(HD_ST_I32, ids, 2, 2), w = make(HD_ST_I64, wide, 2, 2);
    (void)state;
    memcpy(bytes + 1, half, sizeof half);
    assert_int_equal(hd_pair_compare(&x, &y).different, 0);
    assert_float_equal(hd_pair_compare(&x, &y).error, 0, 0);
    assert_int_equal(hd_pair_compare(&i, &w).different, 1);
    assert_float_equal(hd_pair_compare(&i, &w).error, 0.25, 0);
}

static void test_logits(void **state)
{
    float const          a[2][6] = {{0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1}};
    float const          b[2][6] = {{0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 1, 1.6931471805599453f}};
    hd_st_tensor const   x = make(HD_ST_F32, a, 2, 6), y = make(HD_ST_F32, b, 2, 6);
    hd_logit_stats const same = hd_logits_compare(&x, &x), s = hd_logits_compare(&x, &y);
    double const         kl = 5.0 / 7 * log(6.0 / 7) + 2.0 / 7 * log(12.0 / 7);
    (void)state;
    assert_float_equal(same.kl_max, 0, NEAR);
    assert_float_equal(same.top1, 1, 0);
    assert_float_equal(same.top5, 1, 0);
    assert_float_equal(s.kl_max, kl, 1e-7); /* the 1.69 is an f32 */
    assert_float_equal(s.kl_mean, kl / 2, 1e-7);
    assert_int_equal(s.kl_row, 1);
    assert_float_equal(s.top1, 0.5, 0);    /* ties go to the lowest id */
    assert_float_equal(s.top5, 0.9, NEAR); /* 0 to 4 against 5 and 0 to 3 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),     cmocka_unit_test(test_magnitude),
        cmocka_unit_test(test_worst_row), cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_zeros),     cmocka_unit_test(test_other_dtypes),
        cmocka_unit_test(test_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
