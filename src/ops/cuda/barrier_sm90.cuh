#ifndef HD_OPS_CUDA_BARRIER_SM90_CUH
#define HD_OPS_CUDA_BARRIER_SM90_CUH

#include "async_copy.cuh"

/* Hopper's barriers in shared memory and its bulk copies. */

static __device__ __forceinline__ void hd_barrier_init(uint64_t *b, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(hd_shared_address(b)), "r"(arrivals));
}

/* Lets other blocks and the copy engine see barriers that were just made. */
static __device__ __forceinline__ void hd_barrier_publish(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* Arrives, and announces bytes that copies will add. */
static __device__ __forceinline__ void hd_barrier_expect(uint64_t *b, uint32_t bytes)
{
    asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" ::"r"(
                     hd_shared_address(b)),
                 "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void hd_barrier_arrive(uint64_t *b)
{
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(hd_shared_address(b))
                 : "memory");
}

/* Arrives when all copies that the thread has started are there; counted as any arrival. */
static __device__ __forceinline__ void hd_barrier_arrive_copied(uint64_t *b)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(hd_shared_address(b))
                 : "memory");
}

/* The address, among those of the cluster, of what lies in block `rank` where p lies in this one.
 */
static __device__ __forceinline__ uint32_t hd_cluster_address(const void *p, uint32_t rank)
{
    uint32_t out;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"(hd_shared_address(p)), "r"(rank));
    return out;
}

/* What lies in shared memory of the cluster. */
static __device__ __forceinline__ float hd_load_at(uint32_t address)
{
    float x;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
    return x;
}

/* Arrives at a barrier of the cluster.  Orders nothing but what was read. */
static __device__ __forceinline__ void hd_barrier_arrive_at(uint32_t address)
{
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
}

/* All threads of the cluster: what was stored before the arrival is seen behind the wait.  The
 * second kind of arrival orders nothing but what was read, and waits for no store. */
static __device__ __forceinline__ void hd_cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

static __device__ __forceinline__ void hd_cluster_arrive_read(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

static __device__ __forceinline__ void hd_cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Arrives at a barrier of the cluster, and announces bytes that copies will add.  Orders nothing:
 * the copies do. */
static __device__ __forceinline__ void hd_barrier_expect_at(uint32_t address, uint32_t bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(address),
        "r"(bytes)
        : "memory");
}

/* Stores in a block of the cluster; its barrier gets four bytes when that is done. */
static __device__ __forceinline__ void hd_store_at(uint32_t address, float x, uint32_t barrier)
{
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
            address),
        "f"(x), "r"(barrier)
        : "memory");
}

/* The same with sixteen bytes: a message has its price, whatever it carries. */
static __device__ __forceinline__ void hd_store4_at(uint32_t address, float4 x, uint32_t barrier)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], "
                 "{%1,%2,%3,%4}, [%5];" ::"r"(address),
                 "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier)
                 : "memory");
}

/* Waits until the phase of this parity is complete. */
static __device__ __forceinline__ void hd_barrier_wait(uint64_t *b, uint32_t parity)
{
    asm volatile("{ .reg .pred p;\n"
                 "WAIT_%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n"
                 "@!p bra WAIT_%=; }" ::"r"(hd_shared_address(b)),
                 "r"(parity)
                 : "memory");
}

/* A place of a ring, and the parity of its barrier. */
template <int places> struct hd_ring_place {
    int      at;
    uint32_t parity;

    __device__ __forceinline__ void next(void)
    {
        if (++at == places) {
            at = 0;
            parity ^= 1;
        }
    }
};

/* True for one lane of a whole warp; the compiler knows that what it does is uniform. */
static __device__ __forceinline__ bool hd_is_elected(void)
{
    uint32_t is;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(is));
    return is != 0;
}

/* Starts copying; multiples of 16 bytes.  The barrier gets the bytes when they are there. */
static __device__ __forceinline__ void hd_bulk_copy(void *to, const void *from, uint32_t bytes,
                                                    uint64_t *b)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(hd_shared_address(to)),
        "l"(from), "r"(bytes), "r"(hd_shared_address(b))
        : "memory");
}

/* What this thread stored in shared memory comes before bulk copies to the same place that are
 * started behind the next barrier. */
static __device__ __forceinline__ void hd_bulk_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Brings bytes, a multiple of 16, to the second cache. */
static __device__ __forceinline__ void hd_bulk_fetch(const void *from, uint32_t bytes)
{
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

/* Starts copying from this block's shared memory to another's of the cluster, whose barrier gets
 * the bytes.
 * to, barrier  addresses among those of the cluster */
static __device__ __forceinline__ void hd_bulk_copy_at(uint32_t to, const void *from,
                                                       uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], "
                 "[%1], %2, [%3];" ::"r"(to),
                 "r"(hd_shared_address(from)), "r"(bytes), "r"(barrier)
                 : "memory");
}

#endif
