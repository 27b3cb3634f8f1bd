#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/device.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "ops/rmsnorm.h"

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void every_op_ends_with_its_reference(void **state)
{
    (void)state;
    for (int32_t i = 0; i < HD_N_OPS; i++) {
        const hd_kernel *last = NULL;
        for (int32_t k = 0; k < hd_n_kernels; k++)
            if (hd_kernels[k].op == hd_ops[i]) last = &hd_kernels[k];
        assert_non_null(last);
        assert_int_equal(last->isa, HD_ISA_REF);
        assert_string_equal(last->name + strlen(hd_ops[i]->name), "_ref");
    }
}

/* Kernels of an op stand together, the fastest first, under the op's own name. */
static void kernels_are_in_order(void **state)
{
    (void)state;
    int32_t op = 0;
    for (int32_t k = 0; k < hd_n_kernels; k++) {
        const hd_kernel *const now = &hd_kernels[k], *const before = k ? now - 1 : NULL;
        if (before && before->op != now->op) op++;
        assert_ptr_equal(now->op, hd_ops[op]);
        assert_true(starts_with(now->name, now->op->name));
        assert_int_equal(now->isa & (now->isa - 1), 0); /* one family */
        if (before && before->op == now->op) assert_true(before->isa >= now->isa);
    }
    assert_int_equal(op, HD_N_OPS - 1);
}

static void op_names_are_unique(void **state)
{
    (void)state;
    for (int32_t i = 0; i < HD_N_OPS; i++)
        for (int32_t j = 0; j < i; j++) assert_string_not_equal(hd_ops[i]->name, hd_ops[j]->name);
}

/* describe() reads no pointer (all are NULL here) and names slots inside the args struct. */
static void descriptions_fit_their_structs(void **state)
{
    (void)state;
    for (int32_t i = 0; i < HD_N_OPS; i++) {
        char          args[512] = {0};
        hd_operand    o[HD_MAX_OPERANDS];
        int32_t const n = hd_ops[i]->describe(args, o);
        assert_in_range(hd_ops[i]->args_bytes, sizeof(void *), sizeof args);
        assert_in_range(n, 1, HD_MAX_OPERANDS);
        for (int32_t j = 0; j < n; j++) {
            assert_in_range(o[j].rank, 1, HD_MAX_RANK);
            assert_true(o[j].slot + sizeof(void *) <= hd_ops[i]->args_bytes);
            assert_null(hd_operand_pointer(args, &o[j]));
            for (int32_t k = 0; k < j; k++) assert_int_not_equal(o[j].slot, o[k].slot);
        }
    }
}

static void counts_operands(void **state)
{
    (void)state;
    float              x[1], w[1];
    hd_gemm_args const a = {.x = x, .w = w, .t = 70000, .n = 3, .k = 65536, .g = 2};
    hd_operand         o[HD_MAX_OPERANDS];
    assert_int_equal(hd_op_gemm_nvfp4.describe(&a, o), 4);
    assert_string_equal(o[0].name, "x");
    assert_ptr_equal(hd_operand_pointer(&a, &o[0]), x);
    assert_ptr_equal(hd_operand_pointer(&a, &o[1]), w);
    assert_int_equal(hd_operand_rows(&o[0]), 70000);
    assert_int_equal(hd_operand_cols(&o[0]), 131072);
    assert_int_equal(hd_operand_count(&o[0]), INT64_C(9175040000)); /* beyond 32 bits */
    assert_int_equal(hd_operand_cols(&o[1]), 32768);
    assert_int_equal(hd_operand_cols(&o[2]), 4096);
    assert_int_equal(o[3].role, HD_OUT);
    assert_int_equal(hd_dtype_bytes(HD_BF16), 2);
    assert_int_equal(hd_dtype_bytes(HD_I32), 4);
}

static void describes_lists_of_matrices(void **state)
{
    (void)state;
    hd_grouped_gemm_args const a = {.t = 2, .s = 3, .xs = 1, .n = 130, .k = 256, .e = 5};
    hd_operand                 o[HD_MAX_OPERANDS];
    assert_int_equal(hd_op_grouped_gemm_fp8.describe(&a, o), 5);
    assert_string_equal(o[3].name, "sf");
    assert_int_equal(o[3].list, 5);
    assert_int_equal(o[3].shape[0], 2);
    assert_int_equal(o[3].shape[1], 2);
    assert_int_equal(hd_op_grouped_gemm_bf16.describe(&a, o), 4);
    assert_int_equal(o[2].list, 5);
    assert_int_equal(o[2].dtype, HD_BF16);
}

static void selects_inside_the_mask(void **state)
{
    (void)state;
    hd_rmsnorm_args const a = {.t = 1, .d = 256, .eps = 1e-6f};
    hd_kernel_choice      c = hd_kernel_choice_of(0);
    assert_null(hd_kernel_select(&c, &hd_op_rmsnorm, &a));
    c = hd_kernel_choice_of(HD_ISA_REF);
    const hd_kernel *const ref = hd_kernel_select(&c, &hd_op_rmsnorm, &a);
    assert_string_equal(ref->name, "rmsnorm_ref");
    c = hd_kernel_choice_of(hd_cpu_isa());
    const hd_kernel *const best = hd_kernel_select(&c, &hd_op_rmsnorm, &a);
    assert_non_null(best);
    assert_true(best->isa >= ref->isa);
    assert_ptr_equal(best->op, &hd_op_rmsnorm);
}

static void each_op_has_its_own_families(void **state)
{
    (void)state;
    hd_rmsnorm_args const a = {.t = 1, .d = 256, .eps = 1e-6f};
    hd_kernel_choice      c = hd_kernel_choice_of(HD_ISA_REF);
    int32_t const         place = hd_op_place(&hd_op_rmsnorm);
    assert_ptr_equal(hd_ops[place], &hd_op_rmsnorm);
    c.isa[place] = 0;
    assert_null(hd_kernel_select(&c, &hd_op_rmsnorm, &a));
    c.isa[place] = HD_ISA_REF;
    c.isa[(place + 1) % HD_N_OPS] = 0;
    assert_string_equal(hd_kernel_select(&c, &hd_op_rmsnorm, &a)->name, "rmsnorm_ref");
    hd_kernel const own = {&hd_op_rmsnorm, "own", HD_ISA_REF, hd_rmsnorm_ref_supports, NULL};
    c.kernels = &own;
    c.n = 1;
    assert_ptr_equal(hd_kernel_select(&c, &hd_op_rmsnorm, &a), &own);
}

static void reads_quotas(void **state)
{
    (void)state;
    assert_int_equal(hd_cpu_quota("200000 100000\n"), 2);
    assert_int_equal(hd_cpu_quota("150000 100000\n"), 2);
    assert_int_equal(hd_cpu_quota("1000 100000\n"), 1);
    static const char *const none[] = {"", "max 100000\n", "100000", "100000 0", "-1 100000", "x"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(hd_cpu_quota(none[i]), 0);
    assert_int_equal(hd_cpu_quota("9223372036854775807 1"), 0);
    assert_true(hd_cpu_quota_read() >= 0);
}

static void parses_families(void **state)
{
    (void)state;
    uint32_t mask = 99;
    hd_error err = {0};
    char     names[32];
    assert_int_equal(hd_isa_parse(&mask, "ref", &err), HD_OK);
    assert_int_equal(mask, HD_ISA_REF);
    assert_int_equal(hd_isa_parse(&mask, "all", &err), HD_OK);
    assert_int_equal(mask, hd_cpu_isa());
    mask = 99;
    assert_int_equal(hd_isa_parse(&mask, "ref,sse9", &err), HD_ERR_INVALID);
    assert_non_null(strstr(err.message, "sse9"));
    assert_int_equal(hd_isa_parse(&mask, "", &err), HD_ERR_INVALID);
    assert_int_equal(hd_isa_parse(&mask, "ref,", NULL), HD_ERR_INVALID);
    assert_int_equal(mask, 99);
    /* What this machine or build does not run is refused by name, never tried. */
    static const char *const families[] = {"avx2", "avx512", "cuda", "sm90", "sm100", "sm120"};
    static const uint32_t    bits[] = {HD_ISA_AVX2, HD_ISA_AVX512, HD_ISA_CUDA,
                                       HD_ISA_SM90, HD_ISA_SM100,  HD_ISA_SM120};
    for (int i = 0; i < 6; i++) {
        bool const runs = ((hd_cpu_isa() | hd_device_isa()) & bits[i]) != 0;
        assert_int_equal(hd_isa_parse(&mask, families[i], &err), runs ? HD_OK : HD_ERR_INVALID);
        if (!runs) {
            assert_non_null(strstr(err.message, families[i]));
            continue;
        }
        assert_int_equal(mask, bits[i] | (i < 2 ? HD_ISA_REF : HD_ISA_CUDA));
        assert_int_equal(hd_isa_parse_names(&mask, families[i], &err), HD_OK);
        assert_int_equal(mask, bits[i]);
    }
    uint32_t const both = HD_ISA_REF | HD_ISA_CUDA;
    assert_int_equal(hd_isa_check(HD_ISA_REF, both, &err), HD_OK);
    assert_int_equal(hd_isa_check(HD_ISA_CUDA, both, &err), HD_OK);
    assert_int_equal(hd_isa_check(both, both, &err), HD_ERR_INVALID);
    assert_non_null(strstr(err.message, "do not mix"));
    assert_int_equal(hd_isa_check(0, both, &err), HD_ERR_INVALID);
    assert_int_equal(hd_isa_check(UINT32_C(0x8000), both, &err), HD_ERR_INVALID);
    assert_non_null(strstr(err.message, "0x8000"));
    hd_isa_print(HD_ISA_REF | HD_ISA_AVX512, names, sizeof names);
    assert_string_equal(names, "ref+avx512");
    hd_isa_print(HD_ISA_REF | HD_ISA_AVX2 | HD_ISA_AVX512, names, 6);
    assert_true(strlen(names) < 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_ends_with_its_reference),
        cmocka_unit_test(kernels_are_in_order),
        cmocka_unit_test(op_names_are_unique),
        cmocka_unit_test(descriptions_fit_their_structs),
        cmocka_unit_test(counts_operands),
        cmocka_unit_test(describes_lists_of_matrices),
        cmocka_unit_test(selects_inside_the_mask),
        cmocka_unit_test(each_op_has_its_own_families),
        cmocka_unit_test(reads_quotas),
        cmocka_unit_test(parses_families),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
