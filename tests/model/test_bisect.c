/* Bisecting two settings: an op with a planted fault is named among all that run other kernels,
 * two that are wrong only together are named together, and modes and formats are found too. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/kernel_plants.h"
#include "doctor/bisect_parts.h"

#define MODEL "models/demo"

/* ---- a family with faults ---- */

#define MAX_KERNELS 256
#define N_FAULTY    2

/* Of one op: the reference, with a fault in one of its steps of a pass. */
typedef struct faulty {
    const hd_kernel    *real;
    const kernel_plant *plant;
    int32_t             call, n_calls, at; /* calls are steps of the op, at is the bad one */
} faulty;

static struct {
    faulty  of[N_FAULTY];
    int32_t n;
    bool    needs_both; /* none is wrong without the other */
} family;

static bool is_wrong(int32_t i)
{
    faulty *const f = &family.of[i];
    bool const    is_here = f->call == f->at;
    bool const    is_alone = family.n > 1 && family.of[1 - i].call == 0;
    f->call = (f->call + 1) % f->n_calls;
    return is_here && !(family.needs_both && is_alone);
}

static hd_status run_faulty(int32_t i, const void *args, hd_stream *stream)
{
    const faulty *const f = &family.of[i];
    return is_wrong(i) ? kernel_plant_run(f->plant, f->real, args, stream)
                       : f->real->run(args, stream);
}

static hd_status run_first(const void *args, hd_stream *s) { return run_faulty(0, args, s); }
static hd_status run_second(const void *args, hd_stream *s) { return run_faulty(1, args, s); }

/* The table that a bisection chooses from: the faulty ones, called AVX2, then this build's. */
static hd_kernel kernels[MAX_KERNELS];

static void make_table(void)
{
    static hd_status (*const runs[N_FAULTY])(const void *, hd_stream *) = {run_first, run_second};
    assert_true(family.n + hd_n_kernels <= MAX_KERNELS);
    for (int32_t i = 0; i < family.n; i++) {
        kernels[i] = *family.of[i].real;
        kernels[i].name = "planted";
        kernels[i].isa = HD_ISA_AVX2;
        kernels[i].run = runs[i];
    }
    memcpy(kernels + family.n, hd_kernels, (size_t)hd_n_kernels * sizeof *kernels);
}

/* ---- which call of its op a step is ---- */

static int open_reference(void **state)
{
    static hd_engine *e;
    hd_error          err = {0};
    hd_options const  o = {.model = MODEL,
                           .max_tokens = KERNEL_PLANT_TOKENS,
                           .chunk = KERNEL_PLANT_TOKENS,
                           .isa = HD_ISA_REF};
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    *state = e;
    return 0;
}

static int close_reference(void **state)
{
    hd_engine_close(*state);
    return 0;
}

static const hd_plan *plan_of(hd_engine *e)
{
    hd_pass_walk const w = {.ids = kernel_plant_tokens, .n = KERNEL_PLANT_TOKENS};
    const hd_plan     *plan = NULL;
    assert_int_equal(hd_pass_walk_plan(e, &w, false, &plan, NULL), HD_OK);
    return plan;
}

static faulty place(hd_engine *e, const kernel_plant *p)
{
    const hd_plan *const plan = plan_of(e);
    faulty               f = {.plant = p, .at = -1};
    char                 name[96];
    for (int32_t i = 0; i < plan->n; i++) {
        hd_step_name(&plan->steps[i], name, sizeof name);
        if (strcmp(name, p->step) == 0) f.real = plan->steps[i].kernel;
    }
    assert_non_null(f.real);
    for (int32_t i = 0; i < plan->n; i++) {
        if (plan->steps[i].kernel->op != f.real->op) continue;
        hd_step_name(&plan->steps[i], name, sizeof name);
        if (strcmp(name, p->step) == 0) f.at = f.n_calls;
        f.n_calls++;
    }
    return f;
}

static const kernel_plant *find_plant(const char *step)
{
    for (int32_t i = 0; i < n_kernel_plants; i++)
        if (strcmp(kernel_plants[i].step, step) == 0) return &kernel_plants[i];
    fail_msg("nothing is planted at %s", step);
    return NULL;
}

/* ---- bisecting ---- */

static hd_bisect_options settings(uint32_t good, uint32_t bad)
{
    hd_options const  o = {.model = MODEL,
                           .max_tokens = KERNEL_PLANT_TOKENS,
                           .chunk = KERNEL_PLANT_TOKENS,
                           .is_trusted = true,
                           .isa = good};
    hd_bisect_options b = {.good = o,
                           .bad = o,
                           .ids = kernel_plant_tokens,
                           .n = KERNEL_PLANT_TOKENS,
                           .tolerance = 1e-4};
    b.bad.isa = bad;
    return b;
}

static hd_bisect *bisect(const hd_bisect_options *o)
{
    hd_error   err = {0};
    hd_bisect *b = NULL;
    if (hd_bisect_run(&b, o, &err) != HD_OK) fail_msg("%s", err.message);
    return b;
}

static hd_bisect *bisect_family(void)
{
    hd_bisect_options o = settings(HD_ISA_REF, HD_ISA_REF | HD_ISA_AVX2);
    make_table();
    o.kernels = kernels;
    o.n_kernels = family.n + hd_n_kernels;
    return bisect(&o);
}

static hd_subset bit_of(const hd_bisect *b, const char *name)
{
    for (int32_t i = 0; i < b->n_parts; i++)
        if (strcmp(b->parts[i].name, name) == 0) return (hd_subset)1 << i;
    fail_msg("%s is no difference", name);
    return 0;
}

static void test_healthy(void **state)
{
    (void)state;
    hd_bisect_options const o = settings(HD_ISA_REF, HD_ISA_REF | HD_ISA_AVX2);
    hd_bisect *const        b = bisect(&o);
    assert_false(hd_bisect_differs(b));
    assert_true(b->n_parts >= 14);
    assert_int_equal(b->n_trials, 2);
    hd_bisect_close(b);
}

/* Faults that the model takes back before the logits, in this pass. */
static bool is_silent(const char *step)
{
    static const char *const silent[] = {
        "L03.kv",          /* twice the row: the norm behind it divides it away   */
        "L00.swiglu",      /* above the clamp the rounding in front of w2 is full */
        "L02.index_score", /* one group so far: there is nothing to choose        */
    };
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++)
        if (strcmp(step, silent[i]) == 0) return true;
    return false;
}

/* Each fault is in one step of one op, which is the only culprit, unless it is no fault of the
 * logits. */
static void test_plants(void **state)
{
    int32_t wrong = 0, named = 0;
    for (int32_t i = 0; i < n_kernel_plants; i++) {
        const char *const step = kernel_plants[i].step;
        family.n = 1;
        family.of[0] = place(*state, &kernel_plants[i]);
        hd_bisect *const b = bisect_family();
        bool const       is_named = b->n_culprits == 1 &&
                              b->culprits[0].set == bit_of(b, family.of[0].real->op->name) &&
                              !hd_bisect_is_far(b, b->culprits[0].rest);
        bool const is_right = is_silent(step) ? b->n_culprits == 0 : is_named;
        assert_true(b->n_trials <= 2 + 2 * 6 + 1);
        if (!is_right) print_error("planted at %s: %d culprits\n", step, b->n_culprits);
        wrong += !is_right;
        named += is_named;
        hd_bisect_close(b);
    }
    print_message("%d plants, %d named\n", n_kernel_plants, named);
    assert_int_equal(wrong, 0);
    assert_true(named >= 28);
}

/* Neither fault acts without the other: halving must end with both. */
static void test_together(void **state)
{
    family.n = 2;
    family.needs_both = true;
    family.of[0] = place(*state, find_plant("L03.moe_sum"));
    family.of[1] = place(*state, find_plant("L04.attn"));
    hd_bisect *const b = bisect_family();
    hd_subset const  first = bit_of(b, "moe_sum"), second = bit_of(b, "attn_sparse");
    family.needs_both = false;
    assert_int_equal(b->n_culprits, 1);
    assert_true(b->culprits[0].set == (first | second));
    assert_true(hd_bisect_error(b, first) < 1e-4 && hd_bisect_error(b, second) < 1e-4);
    assert_true(b->culprits[0].error > 1e-3 && b->culprits[0].rest < 1e-4);
    hd_bisect_close(b);
}

/* Two faults that have nothing to do with each other are two culprits. */
static void test_apart(void **state)
{
    family.n = 2;
    family.of[0] = place(*state, find_plant("L03.moe_sum"));
    family.of[1] = place(*state, find_plant("L04.attn"));
    hd_bisect *const b = bisect_family();
    assert_int_equal(b->n_culprits, 2);
    assert_true((b->culprits[0].set | b->culprits[1].set) ==
                (bit_of(b, "moe_sum") | bit_of(b, "attn_sparse")));
    assert_true(hd_bisect_is_far(b, b->culprits[0].rest));
    assert_false(hd_bisect_is_far(b, b->culprits[1].rest));
    hd_bisect_close(b);
}

static void test_modes(void **state)
{
    (void)state;
    hd_bisect_options o = settings(HD_ISA_REF, HD_ISA_REF | HD_ISA_AVX2);
    o.tolerance = 0.01;
    o.bad.act = HD_ACT_EXACT;
    o.bad.kv = HD_KV_NVFP4;
    hd_bisect *const b = bisect(&o);
    assert_int_equal(b->n_culprits, 2);
    assert_true((b->culprits[0].set | b->culprits[1].set) == (bit_of(b, "act") | bit_of(b, "kv")));
    /* What it says is what the engines say that run these settings. */
    for (int i = 0; i < 2; i++) {
        hd_bisect_options one = settings(HD_ISA_REF, HD_ISA_REF);
        one.bad.act = i ? HD_ACT_EXACT : HD_ACT_DEFAULT;
        one.bad.kv = i ? HD_KV_DEFAULT : HD_KV_NVFP4;
        hd_bisect *const alone = bisect(&one);
        assert_int_equal(alone->n_parts, 1);
        assert_true(hd_bisect_error(alone, 1) == hd_bisect_error(b, bit_of(b, i ? "act" : "kv")));
        hd_bisect_close(alone);
    }
    hd_bisect_close(b);
}

/* ---- what cannot be bisected ---- */

static void refuse(const hd_bisect_options *o, hd_status code, const char *says)
{
    hd_error   err = {0};
    hd_bisect *b = NULL;
    assert_int_equal(hd_bisect_run(&b, o, &err), code);
    assert_null(b);
    assert_non_null(strstr(err.message, says));
}

static hd_status leave_nan(const void *args, hd_stream *stream)
{
    hd_status const s = family.of[0].real->run(args, stream);
    hd_operand      o[HD_MAX_OPERANDS];
    (void)family.of[0].real->op->describe(args, o);
    *(float *)hd_operand_pointer(args, &o[2]) = NAN;
    return s;
}

/* Each run is another. */
static hd_status leave_other(const void *args, hd_stream *stream)
{
    static float    n;
    hd_status const s = family.of[0].real->run(args, stream);
    hd_operand      o[HD_MAX_OPERANDS];
    (void)family.of[0].real->op->describe(args, o);
    *(float *)hd_operand_pointer(args, &o[2]) += n += 100;
    return s;
}

static void test_refusals(void **state)
{
    hd_bisect_options o = settings(HD_ISA_REF, HD_ISA_REF);
    refuse(&o, HD_ERR_INVALID, "the same kernels, activations and KV rows");
    o.bad.act = HD_ACT_NVFP4; /* the default of this model */
    refuse(&o, HD_ERR_INVALID, "the same kernels, activations and KV rows");
    o.bad.isa = HD_ISA_CUDA;
    refuse(&o, HD_ERR_INVALID, "in one place");
    o = settings(HD_ISA_REF, HD_ISA_REF | HD_ISA_AVX2);
    o.good.model = o.bad.model = "models/nowhere";
    refuse(&o, HD_ERR_IO, "models/nowhere");
    /* The good setting has the bad kernel: gemm_bf16 makes the logits. */
    o = settings(HD_ISA_REF, HD_ISA_REF | HD_ISA_AVX2);
    o.kernels = kernels;
    o.n_kernels = 1 + hd_n_kernels;
    family.n = 1;
    family.of[0] = place(*state, find_plant("head"));
    make_table();
    kernels[0].isa = HD_ISA_REF;
    kernels[0].run = leave_nan;
    refuse(&o, HD_ERR_NUMERIC, "not finite");
    kernels[0].run = leave_other;
    refuse(&o, HD_ERR_NUMERIC, "run twice");
}

/* ---- the report ---- */

static void test_report(void **state)
{
    family.n = 1;
    family.of[0] = place(*state, find_plant("L03.moe_sum"));
    hd_buffer        out = {0};
    hd_bisect *const b = bisect_family();
    hd_bisect_print(b, &out);
    assert_non_null(strstr(out.data, "\nculprit, relative error 0."));
    assert_non_null(
        strstr(out.data, "\n  moe_sum              moe_sum_ref | planted\nwithout it, "));
    hd_buffer_clear(&out);
    hd_bisect_print_json(b, &out);
    assert_non_null(strstr(out.data, "\"culprits\":[{\"parts\":[{\"kind\":\"op\",\"name\":"
                                     "\"moe_sum\",\"good\":\"moe_sum_ref\",\"bad\":\"planted\""));
    hd_buffer_free(&out);
    hd_bisect_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),  cmocka_unit_test(test_plants),
        cmocka_unit_test(test_together), cmocka_unit_test(test_apart),
        cmocka_unit_test(test_modes),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, open_reference, close_reference);
}
