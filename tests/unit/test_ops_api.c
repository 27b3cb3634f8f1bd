#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "hadal_ops.h"
#include "ops/gemm.h"
#include "ops/router.h"

#define LONGEST_ARGS 512

static hd_status choose(const char *op, const void *args, size_t bytes, hd_error *err)
{
    const hd_kernel *k = NULL;
    return hd_ops_choose(&k, op, args, bytes, HD_ISA_REF, err);
}

static void every_op_is_there_by_name(void **state)
{
    (void)state;
    assert_int_equal(hd_ops_count(), HD_N_OPS);
    for (int32_t i = 0; i < hd_ops_count(); i++) {
        char     args[LONGEST_ARGS + 1] = {0};
        hd_error err = {0};
        assert_true(hd_ops[i]->args_bytes <= LONGEST_ARGS);
        assert_int_equal(choose(hd_ops_name(i), args, hd_ops[i]->args_bytes + 1, &err),
                         HD_ERR_INVALID);
        assert_non_null(strstr(err.message, hd_ops_name(i)));
    }
}

/* Whatever stands in the arguments, choosing reads dimensions only and ends well. */
static void any_arguments_are_taken_or_refused(void **state)
{
    static const unsigned char fills[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    (void)state;
    for (int32_t i = 0; i < hd_ops_count(); i++)
        for (size_t f = 0; f < sizeof fills; f++) {
            _Alignas(16) char args[LONGEST_ARGS];
            hd_error          err = {0};
            /* A bool holds 0 or 1 only: other fills are for structs whose bools are known here. */
            if (fills[f] > 1 && strncmp(hd_ops_name(i), "gemm", 4) != 0) continue;
            memset(args, fills[f], sizeof args);
            if (fills[f] > 1) ((hd_gemm_args *)(void *)args)->has_codes = fills[f] & 1;
            hd_status const s = choose(hd_ops_name(i), args, hd_ops[i]->args_bytes, &err);
            assert_true(s == HD_OK || s == HD_ERR_INVALID || s == HD_ERR_UNSUPPORTED);
            if (s != HD_OK) assert_non_null(strstr(err.message, hd_ops_name(i)));
        }
}

static void limits_of_the_contract_are_named(void **state)
{
    hd_gemm_args   g = {.t = 1, .n = 4, .k = 40, .g = 1};
    hd_router_args r = {.t = 1, .s = 9, .e = 8};
    hd_error       err = {0};
    (void)state;
    assert_int_equal(choose("gemm_mxfp4", &g, sizeof g, &err), HD_ERR_INVALID);
    assert_non_null(strstr(err.message, "k % 32 == 0"));
    assert_int_equal(choose("gemm_nvfp4", &g, sizeof g, &err), HD_ERR_INVALID);
    assert_non_null(strstr(err.message, "k % 16 == 0"));
    assert_int_equal(choose("gemm_f32", &g, sizeof g, &err), HD_OK);
    g.g = 0;
    assert_int_equal(choose("gemm_f32", &g, sizeof g, &err), HD_ERR_INVALID);
    assert_int_equal(choose("router", &r, sizeof r, &err), HD_ERR_INVALID);
    assert_non_null(strstr(err.message, "s <= e"));
}

static void pointers_are_filled_in_after_choosing(void **state)
{
    float const      x[2] = {1, 2}, w[4] = {1, 10, 100, 1000};
    float            y[2] = {NAN, NAN};
    hd_gemm_args     a = {.t = 1, .n = 2, .k = 2, .g = 1};
    const hd_kernel *k = NULL;
    hd_error         err = {0};
    hd_operand       o[HD_MAX_OPERANDS];
    (void)state;
    assert_int_equal(hd_ops_choose(&k, "gemm_f32", &a, sizeof a, HD_ISA_REF, &err), HD_OK);
    assert_string_equal(hd_ops_kernel_name(k), "gemm_f32_ref");
    assert_int_equal(hd_ops_describe(k, &a, o), 3);
    assert_string_equal(o[2].name, "y");
    a.x = x;
    a.w = w;
    assert_int_equal(hd_ops_launch(k, &a, NULL, &err), HD_ERR_INVALID);
    assert_non_null(strstr(err.message, "y is NULL"));
    a.y = y;
    assert_int_equal(hd_ops_launch(k, &a, NULL, &err), HD_OK);
    assert_true(y[0] == 21 && y[1] == 2100);
}

static void families_are_those_of_one_place(void **state)
{
    hd_gemm_args     a = {.t = 1, .n = 2, .k = 2, .g = 1};
    const hd_kernel *k = NULL;
    hd_error         err = {0};
    (void)state;
    assert_true(hd_ops_families() & HD_ISA_REF);
    assert_int_equal(hd_ops_choose(&k, "gemm_f32", &a, sizeof a, 0, &err), HD_ERR_INVALID);
    assert_int_equal(hd_ops_choose(&k, "gemm_f32", &a, sizeof a, HD_ISA_REF | HD_ISA_CUDA, &err),
                     HD_ERR_INVALID);
    assert_int_equal(hd_ops_choose(&k, "no_such_op", &a, sizeof a, HD_ISA_REF, &err),
                     HD_ERR_INVALID);
    assert_null(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_is_there_by_name),
        cmocka_unit_test(any_arguments_are_taken_or_refused),
        cmocka_unit_test(limits_of_the_contract_are_named),
        cmocka_unit_test(pointers_are_filled_in_after_choosing),
        cmocka_unit_test(families_are_those_of_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
