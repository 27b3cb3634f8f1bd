#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_device.h"
#include "kernel_harness.h"

/* Runs every kernel of ops/kernels.def on every case of its op, then the planted faults and
 * the table of chosen kernels.  Run from the root of the tree. */

static const char usage[] = "usage: test_kernels [--seed N] [--op NAME] [--isa FAMILIES]\n"
                            "       test_kernels --list | --dispatch | --dispatch-device\n";

typedef struct options {
    uint64_t    seed;
    const char *op;       /* NULL: all */
    uint32_t    isa;      /* whose kernels are run */
    uint32_t    dispatch; /* families whose table of chosen kernels is asked for; 0: none */
    bool        is_list;
} options;

typedef struct tally {
    int64_t passed, failed;
} tally;

static bool parse_options(options *o, int argc, char **argv)
{
    hd_error err = {0};
    *o = (options){.seed = 1, .isa = hd_cpu_isa() | hd_device_isa()};
    for (int i = 1; i < argc; i++) {
        const char *const value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--list") == 0)
            o->is_list = true;
        else if (strcmp(argv[i], "--dispatch") == 0)
            o->dispatch = HD_ISA_HOST;
        else if (strcmp(argv[i], "--dispatch-device") == 0)
            o->dispatch = HD_ISA_DEVICE;
        else if (strcmp(argv[i], "--seed") == 0 && value)
            o->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--op") == 0 && value)
            o->op = argv[++i];
        else if (strcmp(argv[i], "--isa") == 0 && value) {
            if (hd_isa_parse_names(&o->isa, argv[++i], &err) == HD_OK) continue;
            fprintf(stderr, "%s\n", err.message);
            return false;
        } else {
            fputs(usage, stderr);
            return false;
        }
    }
    return true;
}

static bool is_wanted(const options *o, const hd_op *op)
{
    return !o->op || strcmp(o->op, op->name) == 0;
}

static void count(tally *sum, bool ok)
{
    sum->passed += ok;
    sum->failed += !ok;
}

static void test_one(const options *o, const hd_kernel *k, const hd_kernel *ref,
                     const hd_cases *cases, tally *sum)
{
    test_report r;
    test_kernel(k, ref, cases, o->seed, &r);
    if (r.fault == FAULT_NONE)
        printf("%-28s %5" PRId64 " cases   worst %.3f of tolerance   seed %" PRIu64 "\n", k->name,
               r.cases, r.worst, o->seed);
    else
        printf("FAILED %s\n", r.message);
    count(sum, r.fault == FAULT_NONE);
}

static void test_op(const options *o, int32_t i, tally *sum)
{
    const hd_op *const     op = hd_ops[i];
    const hd_kernel *const ref = test_reference(hd_kernels, hd_n_kernels, op);
    if (!ref) {
        printf("FAILED %s: no reference stands last among its kernels\n", op->name);
        count(sum, false);
        return;
    }
    for (int32_t k = 0; k < hd_n_kernels; k++)
        if (hd_kernels[k].op == op && (hd_kernels[k].isa & o->isa))
            test_one(o, &hd_kernels[k], ref, test_all_cases[i], sum);
}

static int list_kernels(const options *o)
{
    for (int32_t k = 0; k < hd_n_kernels; k++) {
        char names[32];
        hd_isa_print(hd_kernels[k].isa, names, sizeof names);
        if (is_wanted(o, hd_kernels[k].op)) printf("%s %s\n", hd_kernels[k].name, names);
    }
    return 0;
}

static int print_dispatch(uint32_t isa)
{
    hd_buffer text = {0};
    test_dispatch_print(isa, &text);
    bool const ok = !text.failed && text.data && fputs(text.data, stdout) >= 0;
    hd_buffer_free(&text);
    return ok ? 0 : 1;
}

static int32_t count_kernels(const options *o, uint32_t isa)
{
    int32_t n = 0;
    for (int32_t k = 0; k < hd_n_kernels; k++)
        n += is_wanted(o, hd_kernels[k].op) && (hd_kernels[k].isa & isa);
    return n;
}

/* Says what a machine without an accelerator leaves out. */
static void report_left_out(const options *o)
{
    int32_t const n = count_kernels(o, HD_ISA_DEVICE & ~hd_device_isa());
    if (n > 0) printf("not run, for want of an accelerator: %d; they do not count as passed\n", n);
}

static void test_choice(const char *path, uint32_t isa, tally *sum)
{
    bool const same = test_dispatch_check(path, isa);
    if (same) printf("dispatch: as in %s\n", path);
    count(sum, same);
}

/* What is tested once, not for each op: the harness itself and the choice of kernels. */
static void test_the_rest(const options *o, tally *sum)
{
    int32_t n, missed = test_plants(o->seed, &n);
    sum->failed += missed;
    sum->passed += n - missed;
    printf("planted faults: %d of %d caught\n", n - missed, n);
    missed = test_emulated(o->seed, &n);
    sum->failed += missed;
    sum->passed += n - missed;
    printf("sm100, emulated: %d of %d as they should be\n", n - missed, n);
    test_choice("tests/golden/dispatch.txt", hd_cpu_isa(), sum);
    /* Which kernel is chosen needs no accelerator, only a build with its kernels. */
    if (count_kernels(o, HD_ISA_DEVICE) > 0)
        test_choice("tests/golden/dispatch_cuda.txt", HD_ISA_DEVICE, sum);
}

int main(int argc, char **argv)
{
    options o;
    if (!parse_options(&o, argc, argv)) return 2;
    if (o.is_list) return list_kernels(&o);
    if (o.dispatch) return print_dispatch(o.dispatch);
    tally sum = {0};
    for (int32_t i = 0; i < HD_N_OPS; i++)
        if (is_wanted(&o, hd_ops[i])) test_op(&o, i, &sum);
    if (!o.op && (o.isa & HD_ISA_REF)) test_the_rest(&o, &sum);
    report_left_out(&o);
    test_device_close();
    printf("%" PRId64 " passed, %" PRId64 " failed\n", sum.passed, sum.failed);
    return sum.failed > 0 || sum.passed == 0;
}
