#ifndef HD_OPS_CUDA_TCGEN05_SM100_CUH
#define HD_OPS_CUDA_TCGEN05_SM100_CUH

#include "barrier_sm90.cuh"
#include "ops/cuda/launch.cuh"

/* The instructions behind w4a4_roles_sm100.cuh, and what a block of its kernels begins and ends
 * with.  These functions have been translated by ptxas and no more; what the roles do with them is
 * proved by tests/kernels/emulate_sm100.c. */

#define HD_TC_ROLE static __device__ __forceinline__
#include "w4a4_roles_sm100.cuh"

#define HD_TC_THREADS (HD_TC_LOADERS + 32)
#define HD_TC_BLOCKS  2 /* that tensor memory has room for: registers need not be saved for more */

extern __shared__ __align__(1024) uint8_t hd_tc_shared[];

/* What lies behind the stages, beginning with the barriers of tcgen05_layout.cuh. */
struct hd_tc_tail {
    uint64_t     full[HD_TC_STAGES], empty[HD_TC_STAGES], done;
    uint32_t     tensor; /* address of the block's tensor memory */
    hd_tc_column column[HD_TC_COLUMNS];
};

template <int columns> static __device__ __forceinline__ hd_tc_tail *hd_tc_tail_of(void)
{
    return (hd_tc_tail *)(hd_tc_shared + hd_tc_full(columns, 0));
}

static_assert(offsetof(hd_tc_tail, empty) == hd_tc_empty(8, 0) - hd_tc_full(8, 0) &&
                  offsetof(hd_tc_tail, done) == hd_tc_done(8) - hd_tc_full(8, 0),
              "barriers lie where the roles look for them");
static_assert(hd_tc_full(HD_TC_COLUMNS, 0) + sizeof(hd_tc_tail) + 6 * 1024 <= 227 * 1024,
              "fits a block's memory, with the units of experts");

template <int columns> constexpr size_t hd_tc_shared_bytes(void)
{
    return hd_tc_full(columns, 0) + sizeof(hd_tc_tail);
}

/* ---- what the roles call ---- */

HD_TC_ROLE void hd_tc_copy_16(uint32_t to, const void *from, bool is_in)
{
    hd_copy_16_or_zero(hd_tc_shared + to, from, is_in);
}

HD_TC_ROLE void hd_tc_copy_4(uint32_t to, const void *from, bool is_in)
{
    hd_copy_4_or_zero(hd_tc_shared + to, from, is_in);
}

HD_TC_ROLE void hd_tc_store_4(uint32_t to, uint32_t word)
{
    *(uint32_t *)(hd_tc_shared + to) = word;
}

HD_TC_ROLE void hd_tc_end_copies(void) { hd_copy_commit(); }
HD_TC_ROLE void hd_tc_await_copies(void) { hd_copy_wait<HD_TC_AHEAD>(); }
HD_TC_ROLE void hd_tc_publish(void) { hd_bulk_fence(); }

HD_TC_ROLE void hd_tc_arrive(uint32_t barrier)
{
    hd_barrier_arrive((uint64_t *)(hd_tc_shared + barrier));
}

HD_TC_ROLE void hd_tc_copy_scales(uint32_t column, uint64_t descriptor)
{
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(column), "l"(descriptor)
                 : "memory");
}

HD_TC_ROLE void hd_tc_multiply(const hd_tc_product *p)
{
    asm volatile("{ .reg .pred p;\n"
                 "setp.eq.u32 p, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X "
                 "[%0], %1, %2, %3, [%4], [%5], p; }" ::"r"(p->d),
                 "l"(p->a), "l"(p->b), "r"(p->instruction), "r"(p->sfa), "r"(p->sfb),
                 "r"((uint32_t)p->is_first)
                 : "memory");
}

HD_TC_ROLE void hd_tc_commit(uint32_t barrier)
{
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
            hd_shared_address(hd_tc_shared + barrier))
        : "memory");
}

HD_TC_ROLE void hd_tc_load_sums(uint32_t at, int32_t lane, float v[8])
{
    uint32_t w[8];
    (void)lane; /* the instruction's own */
    __syncwarp();
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]), "=r"(w[4]), "=r"(w[5]),
                   "=r"(w[6]), "=r"(w[7])
                 : "r"(at));
    /* The words are there behind this; they pass through it, so that none is read before. */
    asm volatile("tcgen05.wait::ld.sync.aligned;"
                 : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3]), "+r"(w[4]), "+r"(w[5]),
                   "+r"(w[6]), "+r"(w[7])::"memory");
    for (int i = 0; i < 8; i++) v[i] = __uint_as_float(w[i]);
}

/* ---- a block ---- */

/* What tensor cores did comes before the barrier that follows; what they will do, behind the one
 * before. */
static __device__ __forceinline__ void hd_tc_fence_before(void)
{
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

static __device__ __forceinline__ void hd_tc_fence_after(void)
{
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/* Makes barriers and takes tensor memory, for which it may have to wait.  Only then may the next
 * kernel begin: its blocks, which wait for this kernel, would else take what this block needs. */
template <int columns> static __device__ __forceinline__ void hd_tc_open(void)
{
    hd_tc_tail *const tail = hd_tc_tail_of<columns>();
    if (threadIdx.x == 0) {
        for (int i = 0; i < HD_TC_STAGES; i++) {
            hd_barrier_init(&tail->full[i], HD_TC_LOADERS);
            hd_barrier_init(&tail->empty[i], 1);
        }
        hd_barrier_init(&tail->done, 1);
        hd_barrier_publish();
    }
    if (threadIdx.x / 32 == HD_TC_LOADERS / 32) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(
                         hd_shared_address(&tail->tensor)),
                     "r"(hd_tc_tensor_columns(columns))
                     : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    hd_tc_fence_before();
    __syncthreads();
    hd_tc_fence_after();
    hd_release_next();
}

static __device__ __forceinline__ void hd_tc_run_loader(const hd_tc_job &job)
{
    uint32_t const columns = (uint32_t)job.columns;
    int32_t const  steps = hd_tc_steps(&job);
    for (int32_t step = 0; step < steps + HD_TC_AHEAD; step++) {
        uint32_t const empty = hd_tc_empty(columns, hd_tc_slot((uint32_t)step));
        if (step < steps)
            hd_barrier_wait((uint64_t *)(hd_tc_shared + empty), hd_tc_empty_parity((uint32_t)step));
        hd_tc_produce(&job, (int32_t)threadIdx.x, step);
    }
    hd_barrier_wait((uint64_t *)(hd_tc_shared + hd_tc_done(columns)), 0);
    hd_tc_fence_after();
    hd_tc_finish(&job, (int32_t)threadIdx.x / 32, (int32_t)threadIdx.x % 32);
}

static __device__ __forceinline__ void hd_tc_run_multiplier(const hd_tc_job &job)
{
    uint32_t const columns = (uint32_t)job.columns;
    for (int32_t step = 0; step < hd_tc_steps(&job); step++) {
        uint32_t const full = hd_tc_full(columns, hd_tc_slot((uint32_t)step));
        hd_barrier_wait((uint64_t *)(hd_tc_shared + full), hd_tc_full_parity((uint32_t)step));
        hd_tc_fence_after();
        hd_tc_consume(&job, step);
    }
}

/* The whole job, after hd_tc_open and a barrier behind the lists of rows; gives tensor memory back.
 */
template <int columns> static __device__ __forceinline__ void hd_tc_run(const hd_tc_job &job)
{
    bool const is_loader = threadIdx.x < HD_TC_LOADERS;
    if (is_loader) hd_tc_run_loader(job);
    if (!is_loader && hd_is_elected()) hd_tc_run_multiplier(job);
    __syncwarp();
    hd_tc_fence_before();
    __syncthreads();
    if (is_loader) return;
    hd_tc_fence_after();
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(job.tensor),
                 "r"(hd_tc_tensor_columns(columns)));
}

/* What does not depend on the op. */
template <int columns> static __device__ __forceinline__ void hd_tc_place_job(hd_tc_job *job)
{
    hd_tc_tail *const tail = hd_tc_tail_of<columns>();
    job->columns = columns;
    job->column = tail->column;
    job->shared = hd_shared_address(hd_tc_shared);
    job->tensor = tail->tensor;
}

#endif
