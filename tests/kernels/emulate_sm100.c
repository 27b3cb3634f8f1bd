#include <stdio.h>
#include <string.h>

#include "kernel_harness.h"
#include "tensor_core.h"

/* The kernels of Blackwell's tensor cores, on the emulated core of tensor_core.h: the same text of
 * their roles, descriptors and layouts, block by block, on all cases of their ops; and with faults,
 * each of which must be noticed.  A block's threads go on by chance, one step at a time, wherever
 * the barrier that they wait for lets them.
 *
 * Not proved here: the instructions themselves, and that of a block which is not in its roles (how
 * it takes and returns tensor memory, fences between threads, the experts' lists). */

typedef enum fault {
    NO_FAULT,
    UNSWIZZLED,       /* pieces lie as they come                                  */
    SCALES_BY_ROW,    /* scales lie row by row                                    */
    HALF_A_STRIDE,    /* from eight rows to the next                              */
    SAME_PART,        /* every product of a stage takes the first                 */
    UNPUBLISHED,      /* copies are not published                                 */
    ANNOUNCED_EARLY,  /* a stage is announced with one group still under way      */
    OVERWRITTEN,      /* stages are loaded without a look at whether they are empty */
    SCALES_IN_COMMON, /* all slots of the ring have the same columns for scales   */
    NOT_DONE,         /* sums are read without a look at whether they are done    */
    ALWAYS_ADDED,     /* the first product adds to what was there                 */
    OTHER_CODE,       /* E2M1 as kind::mxf8f6f4 writes it                         */
    NO_CONSTANT       /* descriptors as Hopper's                                  */
} fault;

static struct {
    fault    fault;
    int32_t  thread;
    uint32_t columns, tensor;
    uint64_t seed;
} now;

/* ---- what the roles call ---- */

#define HD_TC_ROLE static
#include "ops/cuda/w4a4_roles_sm100.cuh"

static void hd_tc_copy_16(uint32_t to, const void *from, bool is_in)
{
    uint32_t const swizzle = now.fault == UNSWIZZLED ? (to >> 7 & 7) << 4 : 0;
    core_copy(now.thread, to ^ swizzle, is_in ? from : NULL, 16);
}

static void hd_tc_copy_4(uint32_t to, const void *from, bool is_in)
{
    uint32_t const row = to % 512 / 16 + to % 16 / 4 * 32;
    if (now.fault == SCALES_BY_ROW) to = to / 512 * 512 + row * 4;
    core_copy(now.thread, to, is_in ? from : NULL, 4);
}

static void hd_tc_store_4(uint32_t to, uint32_t word) { core_store(now.thread, to, word); }
static void hd_tc_end_copies(void) { core_end_copies(now.thread); }

static void hd_tc_await_copies(void)
{
    core_await_copies(now.thread, HD_TC_AHEAD + (now.fault == ANNOUNCED_EARLY));
}

static void hd_tc_publish(void)
{
    if (now.fault != UNPUBLISHED) core_publish(now.thread);
}

static void hd_tc_arrive(uint32_t barrier) { core_arrive(barrier); }
static void hd_tc_commit(uint32_t barrier) { core_commit(barrier); }

/* Columns of scales of any slot as those of the first. */
static uint32_t same_column(uint32_t at)
{
    uint32_t const first = now.tensor + hd_tc_sfa_column(now.columns, 0, 0);
    uint32_t const each = hd_tc_sfa_column(now.columns, 1, 0) - (first - now.tensor);
    return now.fault == SCALES_IN_COMMON ? first + (at - first) % each : at;
}

static void hd_tc_copy_scales(uint32_t column, uint64_t descriptor)
{
    core_copy_scales(same_column(column), descriptor);
}

static uint64_t spoil(uint64_t descriptor)
{
    uint64_t const start = descriptor & 0x3FFF;
    if (now.fault == HALF_A_STRIDE) return descriptor ^ UINT64_C(0x60) << 32;
    if (now.fault == SAME_PART) return descriptor - (start & 7);
    if (now.fault == NO_CONSTANT) return descriptor & ~(UINT64_C(7) << 46);
    return descriptor;
}

static void hd_tc_multiply(const hd_tc_product *p)
{
    core_product const x = {.d = p->d,
                            .sfa = same_column(p->sfa),
                            .sfb = same_column(p->sfb),
                            .instruction = p->instruction ^ (now.fault == OTHER_CODE ? 4U << 7 : 0),
                            .a = spoil(p->a),
                            .b = spoil(p->b),
                            .is_first = p->is_first && now.fault != ALWAYS_ADDED};
    core_multiply(&x);
}

static void hd_tc_load_sums(uint32_t at, int32_t lane, float v[8]) { core_load(at, lane, v); }

/* ---- a block ---- */

#define N_WARPS  (HD_TC_LOADERS / 32)
#define N_ACTORS (N_WARPS + 3) /* warps that load; products; the core; warps that write */

typedef struct block {
    const hd_tc_job *job;
    int32_t          loaded[N_WARPS], multiplied;
    bool             is_written;
} block;

static bool may_load(const block *b, int32_t warp)
{
    int32_t const  step = b->loaded[warp], steps = hd_tc_steps(b->job);
    uint32_t const empty = hd_tc_empty(now.columns, hd_tc_slot((uint32_t)step));
    if (step >= steps) return step < steps + HD_TC_AHEAD;
    return now.fault == OVERWRITTEN ||
           core_barrier_passed(empty, hd_tc_empty_parity((uint32_t)step));
}

static bool may_multiply(const block *b)
{
    uint32_t const step = (uint32_t)b->multiplied;
    return b->multiplied < hd_tc_steps(b->job) &&
           core_barrier_passed(hd_tc_full(now.columns, hd_tc_slot(step)), hd_tc_full_parity(step));
}

static bool may_write(const block *b)
{
    for (int32_t warp = 0; warp < N_WARPS; warp++)
        if (b->loaded[warp] < hd_tc_steps(b->job) + HD_TC_AHEAD) return false;
    return !b->is_written &&
           (now.fault == NOT_DONE || core_barrier_passed(hd_tc_done(now.columns), 0));
}

static void load(block *b, int32_t warp)
{
    for (now.thread = 32 * warp; now.thread < 32 * warp + 32; now.thread++)
        hd_tc_produce(b->job, now.thread, b->loaded[warp]);
    b->loaded[warp]++;
}

static void write(block *b)
{
    for (int32_t i = 0; i < HD_TC_LOADERS; i++) hd_tc_finish(b->job, i / 32, i % 32);
    b->is_written = true;
}

/* Lets one actor go on, if it may. */
static bool go_on(block *b, int32_t actor)
{
    if (actor < N_WARPS && may_load(b, actor)) {
        load(b, actor);
        return true;
    }
    if (actor == N_WARPS && may_multiply(b)) {
        hd_tc_consume(b->job, b->multiplied++);
        return true;
    }
    if (actor == N_WARPS + 1 && core_is_busy()) {
        core_work();
        return true;
    }
    if (actor == N_WARPS + 2 && may_write(b)) {
        write(b);
        return true;
    }
    return false;
}

/* Returns whether there was anyone who could. */
static bool go_on_by_chance(block *b)
{
    int32_t const first = test_below(&now.seed, N_ACTORS);
    for (int32_t i = 0; i < N_ACTORS; i++)
        if (go_on(b, (first + i) % N_ACTORS)) return true;
    return false;
}

/* HD_ERR_INVALID: it hangs, or breaks a rule of the instructions. */
static hd_status run_block(hd_tc_job *job)
{
    block b = {.job = job};
    now.columns = (uint32_t)job->columns;
    now.tensor = test_below(&now.seed, 2) ? 512 - hd_tc_tensor_columns(now.columns) : 0;
    job->tensor = now.tensor;
    job->shared = 1024 * (uint32_t)(1 + test_below(&now.seed, 3));
    core_open(job->shared, hd_tc_full(now.columns, 0), test_next(&now.seed));
    for (uint32_t slot = 0; slot < HD_TC_STAGES; slot++) {
        core_barrier_init(hd_tc_full(now.columns, slot), HD_TC_LOADERS);
        core_barrier_init(hd_tc_empty(now.columns, slot), 1);
    }
    core_barrier_init(hd_tc_done(now.columns), 1);
    while (!core_complaint() && go_on_by_chance(&b)) {
    }
    return b.is_written && !core_complaint() ? HD_OK : HD_ERR_INVALID;
}

static hd_status run_rows(hd_tc_job *job)
{
    hd_status s = HD_OK;
    for (job->row0 = 0; s == HD_OK && job->row0 < job->n; job->row0 += HD_TC_ROWS)
        s = run_block(job);
    return s;
}

/* ---- the kernels ---- */

static hd_tc_column columns[HD_TC_COLUMNS];

static bool gemm_fits(const void *args) { return hd_tc_gemm_fits(args); }
static bool grouped_fits(const void *args) { return hd_tc_grouped_fits(args); }

static hd_status run_gemm(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = args;
    hd_tc_job                 job = {.column = columns, .columns = hd_tc_choose_columns(a->t)};
    hd_status                 s = HD_OK;
    (void)stream;
    for (int32_t group = 0; group < a->g; group++)
        for (int32_t first = 0; s == HD_OK && first < a->t; first += job.columns) {
            hd_tc_gemm_job(a, group, &job);
            job.used = a->t - first < job.columns ? a->t - first : job.columns;
            for (int32_t i = 0; i < job.used; i++)
                columns[i] = hd_tc_gemm_column(a, group, first + i);
            s = run_rows(&job);
        }
    return s;
}

/* The slots of expert e from *at on that fit a tile. */
static int32_t list_unit(const hd_grouped_gemm_args *a, int32_t e, int32_t most, int32_t *at)
{
    int32_t n = 0;
    for (; *at < a->t * a->s && n < most; ++*at)
        if (a->ids[*at] == e) columns[n++] = hd_tc_grouped_column(a, *at);
    return n;
}

static hd_status run_grouped(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = args;
    hd_tc_job                         job = {.column = columns};
    int64_t                           units = 0;
    hd_status                         s = HD_OK;
    (void)stream;
    job.columns = hd_tc_unit_columns(a);
    for (int32_t e = 0; e < a->e; e++)
        for (int32_t at = 0; s == HD_OK && at < a->t * a->s;) {
            job.used = list_unit(a, e, job.columns, &at);
            if (job.used == 0) continue;
            hd_tc_grouped_job(a, e, &job);
            s = run_rows(&job);
            units++;
        }
    return units > hd_tc_units(a) ? HD_ERR_INVALID : s;
}

#define GEMM(name)                                                                  \
    {                                                                               \
        &hd_op_gemm_nvfp4, "gemm_nvfp4_sm100" name, HD_ISA_REF, gemm_fits, run_gemm \
    }
#define GROUPED(name)                                                                         \
    {                                                                                         \
        &hd_op_grouped_gemm_nvfp4, "grouped_gemm_nvfp4_sm100" name, HD_ISA_REF, grouped_fits, \
            run_grouped                                                                       \
    }

static const struct {
    fault     fault;
    hd_kernel kernel;
} runs[] = {
    {NO_FAULT, GEMM(" emulated")},           {NO_FAULT, GROUPED(" emulated")},
    {UNSWIZZLED, GEMM(" unswizzled")},       {SCALES_BY_ROW, GEMM(" scales_by_row")},
    {HALF_A_STRIDE, GEMM(" half_a_stride")}, {SAME_PART, GEMM(" same_part")},
    {UNPUBLISHED, GEMM(" unpublished")},     {ANNOUNCED_EARLY, GEMM(" announced_early")},
    {OVERWRITTEN, GEMM(" overwritten")},     {SCALES_IN_COMMON, GEMM(" scales_in_common")},
    {NOT_DONE, GROUPED(" not_done")},        {ALWAYS_ADDED, GROUPED(" always_added")},
    {OTHER_CODE, GROUPED(" other_code")},    {NO_CONSTANT, GROUPED(" no_constant")},
};
#define N_RUNS (int32_t)(sizeof runs / sizeof runs[0])

/* A sound kernel is right in all cases, a faulty one wrong in some. */
static bool is_as_wanted(int32_t i, uint64_t seed)
{
    const hd_kernel *const k = &runs[i].kernel;
    const hd_kernel *const ref = test_reference(hd_kernels, hd_n_kernels, k->op);
    const hd_cases *const  cases =
        k->op == &hd_op_gemm_nvfp4 ? &hd_cases_gemm_nvfp4 : &hd_cases_grouped_gemm_nvfp4;
    test_report r;
    now.fault = runs[i].fault;
    now.seed = seed;
    test_kernel(k, ref, cases, seed, &r);
    if (now.fault == NO_FAULT && r.fault == FAULT_NONE)
        printf("%-34s %5d cases   worst %.3f of tolerance\n", k->name, (int32_t)r.cases, r.worst);
    if ((now.fault == NO_FAULT) == (r.fault == FAULT_NONE)) return true;
    printf("FAILED %s: %s %s\n", k->name, r.fault == FAULT_NONE ? "is not noticed" : r.message,
           core_complaint() ? core_complaint() : "");
    return false;
}

int32_t test_emulated(uint64_t seed, int32_t *n)
{
    int32_t missed = 0;
    for (int32_t i = 0; i < N_RUNS; i++) missed += !is_as_wanted(i, seed);
    *n = N_RUNS;
    return missed;
}
