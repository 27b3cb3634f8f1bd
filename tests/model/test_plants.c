/* Faults of kernels as users of other engines met them, planted into one step of a pass: a
 * comparison with the healthy pass names that step, and a trace the one that makes no numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/kernel_plants.h"
#include "../support/st_image.h"
#include "doctor/compare_parts.h"
#include "doctor/trace.h"
#include "doctor/trace_report.h"
#include "ops/gemm.h"

#define MODEL "models/demo"

/* ---- a step that is not what it should be ---- */

static struct {
    const hd_kernel    *real;
    const kernel_plant *plant;
} planted;

static hd_status run_planted(const void *args, hd_stream *stream)
{
    return kernel_plant_run(planted.plant, planted.real, args, stream);
}

typedef struct fixture {
    temp_folder folder;
    char        dump[512]; /* of the healthy pass */
    hd_engine  *e;
} fixture;

static int open_all(void **state)
{
    static fixture   f;
    hd_error         err = {0};
    hd_trace_result  result;
    hd_options const o = {.model = MODEL,
                          .max_tokens = KERNEL_PLANT_TOKENS,
                          .chunk = KERNEL_PLANT_TOKENS,
                          .isa = HD_ISA_REF};
    temp_folder_make(&f.folder);
    temp_folder_path(&f.folder, "healthy.safetensors", f.dump, sizeof f.dump);
    hd_trace_options const t = {f.dump, NULL};
    if (hd_engine_open(&f.e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    assert_int_equal(hd_trace(f.e, kernel_plant_tokens, KERNEL_PLANT_TOKENS, &t, &result, &err),
                     HD_OK);
    *state = &f;
    return 0;
}

static int close_all(void **state)
{
    fixture *const f = *state;
    hd_engine_close(f->e);
    temp_folder_remove(&f->folder);
    return 0;
}

/* The plan is the engine's and stays bound; a test may change its steps. */
static hd_step *find_step(const fixture *f, const char *name)
{
    hd_pass_walk const w = {.ids = kernel_plant_tokens, .n = KERNEL_PLANT_TOKENS};
    const hd_plan     *plan = NULL;
    char               label[96];
    assert_int_equal(hd_pass_walk_plan(f->e, &w, false, &plan, NULL), HD_OK);
    for (int32_t i = 0; i < plan->n; i++) {
        hd_step_name(&plan->steps[i], label, sizeof label);
        if (strcmp(label, name) == 0) return &plan->steps[i];
    }
    fail_msg("no step %s", name);
    return NULL;
}

/* The first tensor that is not the healthy one, and its cosine. */
static void compare(const fixture *f, char name[96], double *cosine)
{
    hd_error                 err = {0};
    hd_compare              *c = NULL;
    hd_compare_options const o = {.a = {MODEL, f->e},
                                  .b = {f->dump, NULL},
                                  .ids = kernel_plant_tokens,
                                  .n = KERNEL_PLANT_TOKENS,
                                  .tolerance = 1e-3};
    if (hd_compare_run(&c, &o, &err) != HD_OK) fail_msg("%s", err.message);
    snprintf(name, 96, "nothing");
    for (int32_t i = 0; i < c->n_pairs; i++) {
        if (c->pairs[i].stats.error <= o.tolerance) continue;
        snprintf(name, 96, "%s", c->sides[1].list[c->pairs[i].b].st.name);
        *cosine = c->pairs[i].stats.cosine;
        break;
    }
    hd_compare_close(c);
}

static void test_plants(void **state)
{
    const fixture *const f = *state;
    int32_t              wrong = 0, hidden = 0;
    for (int32_t i = 0; i < n_kernel_plants; i++) {
        const kernel_plant *const p = &kernel_plants[i];
        hd_step *const            step = find_step(f, p->step);
        char                      named[96];
        double                    cosine = 0;
        planted.real = step->kernel;
        planted.plant = p;
        hd_kernel fake = *step->kernel;
        fake.run = run_planted;
        step->kernel = &fake;
        compare(f, named, &cosine);
        step->kernel = planted.real;
        if (strcmp(named, p->named) != 0) {
            print_error("planted at %s: %s differs first, wanted %s\n", p->step, named, p->named);
            wrong++;
        }
        hidden += cosine > 0.99;
    }
    assert_int_equal(wrong, 0);
    /* Whoever looks at the cosine alone misses those that change a magnitude or a few rows. */
    print_message("%d plants, a cosine above 0.99 hides %d\n", n_kernel_plants, hidden);
    assert_true(hidden >= 3);
}

static void test_healthy(void **state)
{
    char   named[96];
    double cosine;
    compare(*state, named, &cosine);
    assert_string_equal(named, "nothing");
}

/* ---- what is no number ---- */

static void spill(void *args)
{
    const hd_gemm_args *const a = args;
    a->y[3 * a->n + 5] = NAN;
}

static void test_trace(void **state)
{
    const fixture *const          f = *state;
    hd_buffer                     out = {0};
    bool                          is_bad = false;
    hd_trace_report_options const o = {.ids = kernel_plant_tokens, .n = KERNEL_PLANT_TOKENS};
    hd_step *const                step = find_step(f, "L04.o_b");
    hd_kernel                     fake = *step->kernel;
    kernel_plant const            nan = {.after = spill};
    planted.real = step->kernel;
    planted.plant = &nan;
    fake.run = run_planted;
    step->kernel = &fake;
    assert_int_equal(hd_trace_report(f->e, &o, &out, &is_bad, NULL), HD_OK);
    step->kernel = planted.real;
    assert_true(is_bad);
    assert_non_null(strstr(out.data, "step L04.o_b (gemm_nvfp4_ref): 1 of 1536 values of y are NaN "
                                     "or infinite, the first at [3, 5]; the steps before left "
                                     "none\n"));
    assert_null(strstr(out.data, "L04.hc_attn_post"));
    hd_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy),
        cmocka_unit_test(test_plants),
        cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
