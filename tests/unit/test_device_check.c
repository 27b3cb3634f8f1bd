/* The check of kernels beside a pass on an accelerator, here a made-up one whose memory is closed
 * to the host: references see copies, of experts only those that are named; faults are told; the
 * pass keeps what it left. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "../support/fail_each.h"
#include "../support/made_up_device.h"
#include "../support/norm_faults.h"
#include "doctor/kernel_check.h"
#include "ops/grouped_gemm.h"
#include "ops/head_rows.h"
#include "ops/rmsnorm.h"
#include "ops/topk.h"

#define ROWS    5
#define D       64
#define K       2
#define EXPERTS 6
#define N_STEPS 4

/* ---- kernels of the device ---- */

typedef hd_status run_fn(const void *args, hd_stream *stream);

/* Runs on the device's memory and on nothing else. */
static hd_status run_there(const hd_op *op, run_fn *run, const void *args, hd_stream *stream)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = op->describe(args, o);
    assert_ptr_equal(stream, hd_device_stream(&made_up));
    for (int32_t i = 0; i < n; i++) {
        size_t const bytes = o[i].list
                                 ? (size_t)o[i].list * sizeof(void *)
                                 : (size_t)hd_operand_count(&o[i]) * hd_dtype_bytes(o[i].dtype);
        assert_true(made_up_owns(hd_operand_pointer(args, &o[i]), bytes));
    }
    made_up_open_memory(true);
    hd_status const s = run(args, NULL);
    made_up_open_memory(false);
    return s;
}

static hd_status rmsnorm_there(const void *args, hd_stream *stream)
{
    return run_there(&hd_op_rmsnorm, hd_rmsnorm_ref, args, stream);
}

static hd_status rows_there(const void *args, hd_stream *stream)
{
    return run_there(&hd_op_head_rows, hd_head_rows_ref, args, stream);
}

static hd_status topk_there(const void *args, hd_stream *stream)
{
    return run_there(&hd_op_topk, hd_topk_ref, args, stream);
}

static hd_status experts_there(const void *args, hd_stream *stream)
{
    return run_there(&hd_op_grouped_gemm_f32, hd_grouped_gemm_f32_ref, args, stream);
}

/* ---- planted ones ---- */

static hd_status norm_badly(const void *args, hd_stream *stream)
{
    return run_there(&hd_op_rmsnorm, round_badly, args, stream);
}

static hd_status norm_drifting(const void *args, hd_stream *stream)
{
    return run_there(&hd_op_rmsnorm, drift, args, stream);
}

static hd_status turn_twice(const void *args, hd_stream *stream)
{
    hd_status const s = rows_there(args, stream);
    return s == HD_OK ? rows_there(args, stream) : s;
}

/* The last expert's row is that of the one before. */
static hd_status take_another(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = args;
    hd_status const                   s = hd_grouped_gemm_f32_ref(args, stream);
    memcpy(a->y + (ROWS * K - 1) * D, a->y + (ROWS * K - 2) * D, D * sizeof *a->y);
    return s;
}

static hd_status experts_badly(const void *args, hd_stream *stream)
{
    return run_there(&hd_op_grouped_gemm_f32, take_another, args, stream);
}

static hd_status end_badly(const void *args, hd_stream *stream)
{
    (void)args;
    (void)stream;
    return HD_ERR_NUMERIC;
}

#define REF(op)                                                       \
    {                                                                 \
        &hd_op_##op, #op "_ref", HD_ISA_REF, takes_all, hd_##op##_ref \
    }
#define THERE(op, run)                                          \
    {                                                           \
        &hd_op_##op, #op "_cuda", HD_ISA_CUDA, takes_all, (run) \
    }

static const hd_kernel healthy[] = {THERE(rmsnorm, rmsnorm_there),
                                    REF(rmsnorm),
                                    THERE(head_rows, rows_there),
                                    REF(head_rows),
                                    THERE(topk, topk_there),
                                    REF(topk),
                                    THERE(grouped_gemm_f32, experts_there),
                                    REF(grouped_gemm_f32)};
#define N_KERNELS 8

/* ---- a pass of four steps on the device ---- */

/* What the device holds. */
typedef struct content {
    float        x[ROWS * D], w[D], score[ROWS * 9], freq[D / 2], y[ROWS * K * D];
    float        experts[3][D * D]; /* 1, 3 and 4 */
    int32_t      pos[ROWS], top[ROWS * 4], ids[ROWS * K];
    const float *list[EXPERTS];
} content;

typedef struct pass {
    content  here;
    content *there;
    hd_plan  plan;
    hd_step  steps[N_STEPS];

    hd_rmsnorm_args      norm; /* in place */
    hd_head_rows_args    rope;
    hd_topk_args         topk;
    hd_grouped_gemm_args experts;
    hd_kernel            table[N_KERNELS + 1];
    hd_kernel_check      check;
} pass;

static void fill(pass *p)
{
    static const int32_t ids[ROWS * K] = {1, 3, 3, 1, 4, 1, 1, 3, 3, 4};
    content *const       c = &p->here;
    for (int i = 0; i < ROWS * D; i++) c->x[i] = (float)(i * 37 % 101 - 50) / 16;
    for (int i = 0; i < D; i++) c->w[i] = 1 + (float)i / 64;
    for (int i = 0; i < ROWS * 9; i++) c->score[i] = (float)(i * 53 % 97);
    for (int i = 0; i < D / 2; i++) c->freq[i] = 0.1f * (float)(i + 1);
    for (int i = 0; i < ROWS; i++) c->pos[i] = 35;
    for (int e = 0; e < 3; e++)
        for (int i = 0; i < D * D; i++) c->experts[e][i] = (float)((i * 29 + e * 7) % 61 - 30) / 32;
    memcpy(c->ids, ids, sizeof ids);
    /* No other expert may be looked at. */
    for (int e = 0; e < EXPERTS; e++) c->list[e] = (const float *)(uintptr_t)16;
    c->list[1] = p->there->experts[0];
    c->list[3] = p->there->experts[1];
    c->list[4] = p->there->experts[2];
}

static void open_pass(pass *p)
{
    content *const c = p->there = hd_device_alloc(&made_up, sizeof *p->there);
    assert_non_null(c);
    fill(p);
    assert_int_equal(hd_device_write(&made_up, c, &p->here, sizeof *c, NULL), HD_OK);
    p->norm = (hd_rmsnorm_args){
        .x = c->x, .w = c->w, .y = c->x, .t = ROWS, .d = D, .eps = 1e-6f, .has_w = true};
    p->rope = (hd_head_rows_args){
        .x = c->x, .freq = c->freq, .pos = c->pos, .t = ROWS, .h = 1, .d = D, .dr = 32, .group = 1};
    p->topk = (hd_topk_args){
        .score = c->score, .pos = c->pos, .ids = c->top, .t = ROWS, .n = 9, .k = 4, .group = 4};
    p->experts = (hd_grouped_gemm_args){.x = c->x,
                                        .ids = c->ids,
                                        .w = (const void *const *)c->list,
                                        .w_scale = c->w, /* which only NVFP4 has as an operand */
                                        .y = c->y,
                                        .t = ROWS,
                                        .s = K,
                                        .xs = 1,
                                        .n = D,
                                        .k = D,
                                        .e = EXPERTS};
    const void *const args[N_STEPS] = {&p->norm, &p->rope, &p->topk, &p->experts};
    for (int i = 0; i < N_STEPS; i++) p->steps[i] = (hd_step){&healthy[2 * i], args[i], "step", i};
    p->plan = (hd_plan){.steps = p->steps, .n = N_STEPS};
    memcpy(p->table, healthy, sizeof healthy);
}

static hd_status run(void *user, hd_error *err)
{
    pass *const p = user;
    hd_status s = hd_kernel_check_open(&p->check, p->table, N_KERNELS, HD_ISA_CUDA, &made_up, err);
    if (s == HD_OK) s = hd_kernel_check_begin(&p->check, &p->plan, err);
    if (s == HD_OK)
        s = hd_plan_run(&p->plan, hd_device_stream(&made_up), hd_kernel_check_step, &p->check, err);
    return s;
}

static void close_pass(pass *p)
{
    hd_device_free(&made_up, p->there);
    for (int i = 0; i < MADE_UP_BLOCKS; i++) assert_null(made_up.blocks[i].at);
}

/* ---- tests ---- */

/* The pass leaves what it leaves without the check. */
static void healthy_kernels_pass(void **state)
{
    pass    p = {0};
    content alone, beside;
    (void)state;
    open_pass(&p);
    assert_int_equal(hd_plan_run(&p.plan, hd_device_stream(&made_up), NULL, NULL, NULL), HD_OK);
    assert_int_equal(hd_device_read(&made_up, &alone, p.there, sizeof alone, NULL), HD_OK);
    close_pass(&p);
    open_pass(&p);
    assert_int_equal(run(&p, NULL), HD_OK);
    for (int i = 0; i < N_KERNELS; i++) {
        assert_string_equal(p.check.results[i].fault, "");
        assert_int_equal(p.check.results[i].steps, p.table[i].isa == HD_ISA_CUDA);
        assert_true(p.check.results[i].worst <= 0);
    }
    hd_kernel_check_close(&p.check);
    assert_int_equal(hd_device_read(&made_up, &beside, p.there, sizeof beside, NULL), HD_OK);
    assert_memory_equal(beside.x, alone.x, sizeof alone.x);
    assert_memory_equal(beside.y, alone.y, sizeof alone.y);
    assert_memory_equal(beside.top, alone.top, sizeof alone.top);
    close_pass(&p);
}

/* A planted kernel at step `at`, chosen by the pass or not; `fault` is how the message begins. */
static void expect(int at, run_fn *bad, bool is_chosen, const char *fault)
{
    pass p = {0};
    open_pass(&p);
    n_calls = 0;
    p.table[2 * at].run = bad;
    p.table[2 * at].name = "bad";
    if (is_chosen) p.steps[at].kernel = &p.table[2 * at];
    assert_int_equal(run(&p, NULL), HD_OK);
    for (int i = 0; i < N_KERNELS; i++) {
        const char *const got = p.check.results[i].fault, *const want = i == 2 * at ? fault : "";
        if (*want ? strncmp(got, want, strlen(want)) != 0 : *got != 0)
            fail_msg("\"%s\", wanted \"%s\"", got, want);
    }
    hd_kernel_check_close(&p.check);
    close_pass(&p);
}

static void faults_are_told(void **state)
{
    (void)state;
    for (int is_chosen = 0; is_chosen < 2; is_chosen++) {
        expect(0, norm_badly, is_chosen, "L00.step: y: row 2, element 9 is ");
        expect(1, turn_twice, is_chosen, "L01.step: row 0: x[0,");
        expect(3, experts_badly, is_chosen, "L03.step: y: row 9, element ");
    }
    expect(0, norm_drifting, true, "L00.step: y: other bits for the same input");
    expect(2, end_badly, false, "L02.step: ended with 'numeric'");
}

static void an_id_of_no_expert_is_refused(void **state)
{
    pass          p = {0};
    hd_error      err = {0};
    int32_t const id = EXPERTS;
    (void)state;
    open_pass(&p);
    p.plan.n = 3;
    assert_int_equal(hd_device_write(&made_up, &p.there->ids[7], &id, sizeof id, NULL), HD_OK);
    assert_int_equal(run(&p, NULL), HD_OK);
    p.plan = (hd_plan){.steps = p.steps + 3, .n = 1};
    assert_int_equal(hd_kernel_check_begin(&p.check, &p.plan, NULL), HD_OK);
    assert_int_equal(hd_kernel_check_step(&p.check, &p.steps[3], &err), HD_ERR_NUMERIC);
    assert_string_equal(err.message, "step L03.step: id 6, there are 6");
    hd_kernel_check_close(&p.check);
    close_pass(&p);
}

static hd_status check_once(void *user, hd_error *err)
{
    pass *const     p = user;
    hd_status const s = run(p, err);
    hd_kernel_check_close(&p->check);
    return s;
}

/* Each copy and each allocation. */
static void failures_of_the_device_end_the_check(void **state)
{
    pass           p = {0};
    fail_each_call c = {made_up_fail_at, HD_ERR_DEVICE, check_once, NULL, &p};
    (void)state;
    open_pass(&p);
    assert_true(fail_each(&c) > 20);
    c.fail_at = hd_memory_fail_at;
    c.code = HD_ERR_MEMORY;
    assert_true(fail_each(&c) > 6);
    close_pass(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_kernels_pass),
        cmocka_unit_test(faults_are_told),
        cmocka_unit_test(an_id_of_no_expert_is_refused),
        cmocka_unit_test(failures_of_the_device_end_the_check),
    };
    return cmocka_run_group_tests_name("device check", tests, NULL, NULL);
}
