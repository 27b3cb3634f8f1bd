/* Delta debugging: the smallest set that still fails, by how few tries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "doctor/subset.h"

/* Fails when all of any one culprit is in. */
typedef struct world {
    hd_subset culprits[4]; /* 0: none */
    int32_t   n_tries, refuse_at;
} world;

static hd_status try_set(void *user, hd_subset set, bool *fails, hd_error *err)
{
    world *const w = user;
    *fails = false;
    if (++w->n_tries == w->refuse_at) HD_FAIL(err, HD_ERR_IO, "refused");
    for (int i = 0; i < 4; i++)
        *fails = *fails || (w->culprits[i] && (set & w->culprits[i]) == w->culprits[i]);
    return HD_OK;
}

static hd_subset bits(int32_t a, int32_t b, int32_t c)
{
    return (hd_subset)1 << a | (hd_subset)1 << b | (hd_subset)1 << c;
}

static hd_subset minimize(world *w, int32_t n)
{
    hd_subset set = n == HD_MAX_SUBSET ? ~(hd_subset)0 : ((hd_subset)1 << n) - 1;
    assert_int_equal(hd_subset_minimize(&set, try_set, w, NULL), HD_OK);
    return set;
}

static void finds_each_single_one(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= HD_MAX_SUBSET; n++)
        for (int32_t i = 0; i < n; i++) {
            world w = {.culprits = {bits(i, i, i)}};
            assert_true(minimize(&w, n) == w.culprits[0]);
            assert_true(w.n_tries <= 12); /* two for each of six halvings */
        }
}

static void finds_those_that_fail_together(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 35; i++)
        for (int32_t j = i; j < 35; j++)
            for (int32_t k = j; k < 35; k += 5) {
                world w = {.culprits = {bits(i, j, k)}};
                assert_true(minimize(&w, 35) == w.culprits[0]);
                assert_true(w.n_tries < 35 * 35);
            }
}

/* What is left cannot be made smaller by one, whichever of several it is. */
static void leaves_one_of_several(void **state)
{
    (void)state;
    world           w = {.culprits = {bits(1, 20, 33), bits(2, 3, 3), bits(30, 31, 32)}};
    hd_subset const set = minimize(&w, 35);
    assert_true(set == w.culprits[0] || set == w.culprits[1] || set == w.culprits[2]);
}

static void counts(void **state)
{
    (void)state;
    assert_int_equal(hd_subset_count(0), 0);
    assert_int_equal(hd_subset_count(bits(0, 5, 63)), 3);
    assert_int_equal(hd_subset_count(~(hd_subset)0), 64);
}

static void ends_with_a_failed_try(void **state)
{
    (void)state;
    for (int32_t at = 1; at < 8; at++) {
        world     w = {.culprits = {bits(3, 17, 17)}, .refuse_at = at};
        hd_subset set = ((hd_subset)1 << 35) - 1;
        hd_error  err = {0};
        bool      fails = false;
        assert_int_equal(hd_subset_minimize(&set, try_set, &w, &err), HD_ERR_IO);
        assert_string_equal(err.message, "refused");
        w.refuse_at = 0;
        assert_int_equal(try_set(&w, set, &fails, NULL), HD_OK);
        assert_true(fails);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_each_single_one),  cmocka_unit_test(finds_those_that_fail_together),
        cmocka_unit_test(leaves_one_of_several),  cmocka_unit_test(counts),
        cmocka_unit_test(ends_with_a_failed_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
