/* A plan as a recording: each step waits for those that it must wait for and for no others, also
 * where a step launches nothing or much; a failure in the middle leaves nothing behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "../support/fail_each.h"
#include "../support/made_up_device.h"
#include "model/plan_order.h"

#define MOST_STEPS 24
#define PLACES     40 /* of floats that steps read and write */

/* ---- steps ---- */

/* y = something of a and b, in so many launches; NULL: no such operand. */
typedef struct hd_work_args {
    const float *a, *b;
    float       *y;
    int32_t      na, nb, ny, n_launches;
} hd_work_args;

static int32_t describe_work(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_work_args *const x = args;
    out[0] = HD_OPERAND(work, a, HD_IN, HD_F32, x->na);
    out[1] = HD_OPERAND(work, b, HD_IN, HD_F32, x->nb);
    out[2] = HD_OPERAND(work, y, HD_INOUT, HD_F32, x->ny);
    return 3;
}

static const hd_op op_work = {"work", sizeof(hd_work_args), describe_work, NULL, NULL, NULL};

static int32_t n_ran; /* launches that ran */

static hd_status launch_work(const void *args, hd_stream *stream)
{
    const hd_work_args *const x = args;
    assert_ptr_equal(stream, hd_device_stream(&made_up));
    if (made_up_try(NULL) != HD_OK) return HD_ERR_DEVICE;
    for (int32_t i = 0; i < x->n_launches; i++) n_ran += !made_up_record(args);
    return HD_OK;
}

static const hd_kernel work = {&op_work, "work_cuda", HD_ISA_CUDA, NULL, launch_work};

typedef struct recorded {
    float         memory[PLACES];
    hd_work_args  args[MOST_STEPS];
    hd_step       steps[MOST_STEPS];
    hd_plan       plan;
    hd_plan_order order;
    bool          is_before[MOST_STEPS][MOST_STEPS]; /* by order: step i ends before j begins */
    hd_graph     *graph;
} recorded;

/* Adds a step that reads place a, writes place y; -1: none. */
static void add(recorded *r, int a, int y, int32_t n_launches)
{
    int32_t const n = r->plan.n++;
    r->args[n] = (hd_work_args){.a = a < 0 ? NULL : &r->memory[a],
                                .y = y < 0 ? NULL : &r->memory[y],
                                .na = 1,
                                .ny = 1,
                                .n_launches = n_launches};
    r->steps[n] = (hd_step){&work, &r->args[n], "work", n};
    r->plan.steps = r->steps;
}

/* ---- recording ---- */

/* Steps stand behind all that they wait for, so those in front are done. */
static void close_order(recorded *r)
{
    const hd_plan_order *const o = &r->order;
    for (int32_t j = 0; j < o->n; j++)
        for (int32_t k = o->first[j]; k < o->first[j + 1]; k++) {
            int32_t const at = o->after[k];
            r->is_before[at][j] = true;
            for (int32_t i = 0; i < at; i++) r->is_before[i][j] |= r->is_before[i][at];
        }
}

static void record(recorded *r)
{
    hd_error err = {0};
    n_ran = 0;
    assert_int_equal(hd_plan_order_make(&r->order, &r->plan, &err), HD_OK);
    close_order(r);
    if (hd_plan_record(&r->plan, &made_up, &r->graph, &err) != HD_OK) fail_msg("%s", err.message);
    assert_null(made_up.recording);
    assert_int_equal(made_up.n_graphs, 1);
}

static void forget(recorded *r)
{
    hd_graph_free(r->graph);
    hd_plan_order_free(&r->order);
    assert_int_equal(made_up.n_graphs, 0);
}

/* Each launch ran once and was recorded once. */
static void check_launches(const recorded *r)
{
    int32_t n[MOST_STEPS] = {0}, total = 0;
    for (int32_t p = 0; p < r->graph->n; p++)
        n[(const hd_work_args *)r->graph->points[p].args - r->args]++;
    for (int32_t i = 0; i < r->plan.n; i++) {
        assert_int_equal(n[i], r->args[i].n_launches);
        total += n[i];
    }
    assert_int_equal(n_ran, total);
}

static void check_waits(const recorded *r)
{
    const hd_graph *const g = r->graph;
    for (int32_t q = 0; q < g->n; q++)
        for (int32_t p = 0; p < g->n; p++) {
            int64_t const i = (const hd_work_args *)g->points[p].args - r->args;
            int64_t const j = (const hd_work_args *)g->points[q].args - r->args;
            bool const    wanted = i == j ? p < q : r->is_before[i][j];
            if (made_up_has(&g->points[q].before, p) != wanted)
                fail_msg("step %d %s step %d", (int)j, wanted ? "does not wait for" : "waits for",
                         (int)i);
        }
    for (int32_t p = 0; p < g->n; p++) assert_true(made_up_has(&g->end, p));
}

static bool waits(const recorded *r, int32_t point, int32_t for_point)
{
    return made_up_has(&r->graph->points[point].before, for_point);
}

/* ---- tests ---- */

static void steps_wait_for_what_they_must(void **state)
{
    recorded r = {0};
    (void)state;
    add(&r, -1, 0, 1);
    add(&r, 0, 1, 1); /* two that read the first */
    add(&r, 0, 2, 1);
    add(&r, 2, 0, 1); /* and one that writes where they read */
    record(&r);
    check_launches(&r);
    check_waits(&r);
    assert_true(waits(&r, 1, 0) && waits(&r, 2, 0));
    assert_false(waits(&r, 2, 1));
    assert_true(waits(&r, 3, 1) && waits(&r, 3, 2));
    forget(&r);
}

/* 0 - nothing - 2: the last waits for the first all the same, and the graph ends behind both. */
static void a_step_without_work_hands_its_waits_on(void **state)
{
    recorded r = {0};
    (void)state;
    add(&r, -1, 0, 1);
    add(&r, 0, 1, 0);
    add(&r, 1, 2, 0);
    add(&r, 2, 3, 1);
    add(&r, 3, 4, 0);
    record(&r);
    check_launches(&r);
    check_waits(&r);
    assert_true(waits(&r, 1, 0));
    forget(&r);
}

static void a_plan_may_do_nothing(void **state)
{
    recorded r = {0};
    (void)state;
    record(&r);
    assert_int_equal(r.graph->n, 0);
    forget(&r);
    add(&r, -1, 0, 0);
    add(&r, 0, 1, 0);
    record(&r);
    check_launches(&r);
    forget(&r);
}

/* Operands of any place and size, up to two launches. */
static void fill(recorded *r, uint64_t seed)
{
    uint64_t rng = seed;
    int32_t  n[5];
    *r = (recorded){.plan = {.n = 0}};
    while (r->plan.n < MOST_STEPS) {
        for (int k = 0; k < 5; k++) {
            rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            n[k] = (int32_t)(rng >> 33) % (PLACES - 4);
        }
        hd_work_args *const a = &r->args[r->plan.n];
        add(r, n[0], n[1], n[2] % 3);
        a->b = n[3] % 2 ? &r->memory[n[3]] : NULL;
        a->na = 1 + n[4] % 4;
        a->nb = 1 + n[4] / 4 % 4;
        a->ny = 1 + n[4] / 16 % 2;
    }
}

static void any_plan_waits_as_its_order_says(void **state)
{
    recorded r;
    int32_t  n_free = 0, n_bound = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fill(&r, seed);
        record(&r);
        check_launches(&r);
        check_waits(&r);
        for (int32_t q = 1; q < r.graph->n; q++) *(waits(&r, q, q - 1) ? &n_bound : &n_free) += 1;
        forget(&r);
    }
    assert_true(n_free > 100 && n_bound > 100);
}

/* ---- failures ---- */

static hd_status record_once(void *user, hd_error *err)
{
    recorded *const r = user;
    r->graph = (hd_graph *)(uintptr_t)1;
    hd_status const s = hd_plan_record(&r->plan, &made_up, &r->graph, err);
    if (s == HD_OK) hd_graph_free(r->graph);
    return s;
}

static void check_nothing_is_left(void *user, const hd_error *err)
{
    const recorded *const r = user;
    (void)err;
    assert_null(made_up.recording);
    assert_null(r->graph);
    assert_int_equal(made_up.n_graphs, 0);
}

/* Each kernel, in the run before and in the recording, and each call of the device. */
static void a_failure_leaves_nothing_open(void **state)
{
    recorded       r;
    fail_each_call c = {made_up_fail_at, HD_ERR_DEVICE, record_once, check_nothing_is_left, &r};
    (void)state;
    fill(&r, 7);
    assert_true(fail_each(&c) >= 4 * MOST_STEPS);
    c.fail_at = hd_memory_fail_at;
    c.code = HD_ERR_MEMORY;
    assert_true(fail_each(&c) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_wait_for_what_they_must),
        cmocka_unit_test(a_step_without_work_hands_its_waits_on),
        cmocka_unit_test(a_plan_may_do_nothing),
        cmocka_unit_test(any_plan_waits_as_its_order_says),
        cmocka_unit_test(a_failure_leaves_nothing_open),
    };
    return cmocka_run_group_tests_name("plan record", tests, NULL, NULL);
}
