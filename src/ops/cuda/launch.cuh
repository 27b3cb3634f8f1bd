#ifndef HD_OPS_CUDA_LAUNCH_CUH
#define HD_OPS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include "base/recording_cuda.cuh"
#include "ops/op.h"

/* What every launcher shares.  A launcher reads the args on the host, launches on the stream
 * and returns; it never waits, so a run of launchers can be captured. */

static inline cudaStream_t hd_cuda_stream(hd_stream *s) { return (cudaStream_t)s; }

/* The status of the launch just made; errors of the kernel itself surface at the next sync. */
static inline hd_status hd_launched(void)
{
    return cudaGetLastError() == cudaSuccess ? HD_OK : HD_ERR_DEVICE;
}

static inline unsigned hd_blocks(int64_t n, int32_t threads)
{
    return (unsigned)((n + threads - 1) / threads);
}

/* Threads of a block that has `n` things to do: whole warps, at most `most`. */
static inline unsigned hd_threads(int64_t n, int32_t most)
{
    int64_t const warps = n > 32 ? (n + 31) / 32 : 1;
    return (unsigned)(warps * 32 < most ? warps * 32 : most);
}

/* Whether `n` things, `threads` of them in a block, fit the second dimension of a grid. */
static inline bool hd_fits_grid_y(int64_t n, int32_t threads)
{
    return (n + threads - 1) / threads <= 65535;
}

/* Multiprocessors of the GPU in use. */
static inline int hd_sm_count(void)
{
    static int n = 0;
    if (!n && cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0) != cudaSuccess) n = 1;
    return n;
}

/* Lets a kernel use `bytes` of dynamic shared memory, which above 48 KiB must be asked for. */
static inline bool hd_allow_shared(const void *kernel, size_t bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) ==
           cudaSuccess;
}

/* ---- programmatic launch: a kernel may begin while the one before it ends ----
 *
 * That hides what a launch costs, and lets a kernel load its weights meanwhile.  Every kernel that
 * hd_launch starts calls both functions below, in every thread that touches what other kernels
 * touch: a kernel is then complete only after all that precede it, so none needs to look further
 * back than to the one before. */

/* Whether these are kernels, and some: copies and the like have no end to wait for early. */
static inline bool hd_are_kernels(const cudaGraphNode_t *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        cudaGraphNodeType type;
        if (cudaGraphNodeGetType(nodes[i], &type) != cudaSuccess || type != cudaGraphNodeTypeKernel)
            return false;
    }
    return n > 0;
}

/* Whether the next launch on the stream may overlap with what precedes it: only while a graph is
 * recorded, where it is known that kernels do.  A graph may be another engine's. */
static inline bool hd_may_overlap(cudaStream_t stream)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t  *nodes = NULL;
    size_t                  n = 0;
    return hd_get_waits(stream, &status, &nodes, &n) == cudaSuccess &&
           status == cudaStreamCaptureStatusActive && hd_are_kernels(nodes, n);
}

/* Launches kernel(args...), `cluster` blocks of the grid's x together. */
template <typename... parameters, typename... values>
static inline hd_status hd_launch_clusters(void (*kernel)(parameters...), dim3 grid,
                                           unsigned cluster, dim3 block, size_t shared_bytes,
                                           cudaStream_t stream, values &&...args)
{
    cudaLaunchAttribute attributes[2] = {}, *last = attributes;
    cudaLaunchConfig_t  config = {};
    if (cluster > 1) {
        last->id = cudaLaunchAttributeClusterDimension;
        last->val.clusterDim.x = cluster;
        last->val.clusterDim.y = last->val.clusterDim.z = 1;
        last++;
    }
    if (hd_may_overlap(stream)) {
        last->id = cudaLaunchAttributeProgrammaticStreamSerialization;
        last->val.programmaticStreamSerializationAllowed = 1;
        last++;
    }
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = (unsigned)(last - attributes);
    return cudaLaunchKernelEx(&config, kernel, args...) == cudaSuccess ? HD_OK : HD_ERR_DEVICE;
}

template <typename... parameters, typename... values>
static inline hd_status hd_launch(void (*kernel)(parameters...), dim3 grid, dim3 block,
                                  size_t shared_bytes, cudaStream_t stream, values &&...args)
{
    return hd_launch_clusters(kernel, grid, 1, block, shared_bytes, stream, args...);
}

/* Clusters that the GPU holds at once: processors of one part of it share clusters, and their
 * number need not be a multiple.  0: it has none so large. */
static inline int hd_resident_clusters(const void *kernel, unsigned cluster, unsigned threads,
                                       size_t shared_bytes)
{
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t  config = {};
    int                 n = 0;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.gridDim = dim3(cluster);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    /* More than eight blocks are beyond what every GPU promises. */
    if (cluster > 8 && cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed,
                                            1) != cudaSuccess)
        return 0;
    return cudaOccupancyMaxActiveClusters(&n, kernel, &config) == cudaSuccess ? n : 0;
}

/* The next kernel may begin, as soon as all blocks have called this and there is room. */
static __device__ __forceinline__ void hd_release_next(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* Returns when the kernel before is complete.  Until then a kernel touches only what no kernel
 * writes: its args and the weights. */
static __device__ __forceinline__ void hd_await_previous(void)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* What a kernel begins with that loads no weights. */
static __device__ __forceinline__ void hd_take_turn(void)
{
    hd_release_next();
    hd_await_previous();
}

/* ---- reductions: every thread gets the result ---- */

static __device__ __forceinline__ float hd_warp_sum(float x)
{
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

static __device__ __forceinline__ float hd_warp_max(float x)
{
    for (int o = 16; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

static __device__ __forceinline__ uint32_t hd_warp_max_bits(uint32_t x)
{
    return __reduce_max_sync(0xffffffffu, x);
}

/* Sums of `count` values, a power of two up to 32: lane l gets that of value l / (32 / count). Each
 * step halves what a lane still holds; the order of a sum is that of hd_warp_sum. */
template <int count, int offset = 16> static __device__ __forceinline__ float hd_warp_join(float *v)
{
    constexpr int n = count / 2;
    bool const    is_high = threadIdx.x & offset;
#pragma unroll
    for (int i = 0; i < n; i++) {
        float const given = is_high ? v[i] : v[i + n], kept = is_high ? v[i + n] : v[i];
        v[i] = kept + __shfl_xor_sync(0xffffffffu, given, offset);
    }
    if constexpr (count == 1) v[0] += __shfl_xor_sync(0xffffffffu, v[0], offset);
    if constexpr (offset > 1) return hd_warp_join<(count > 1 ? n : 1), offset / 2>(v);
    return v[0];
}

/* Over a block of any whole number of warps, at most 32; `scratch` is [32] shared and may be
 * used again after the call returned. */
static __device__ __forceinline__ float hd_block_sum(float x, float *scratch)
{
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = (blockDim.x + 31) / 32;
    x = hd_warp_sum(x);
    __syncthreads();
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    return hd_warp_sum(lane < n ? scratch[lane] : 0.0f);
}

static __device__ __forceinline__ float hd_block_max(float x, float *scratch)
{
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = (blockDim.x + 31) / 32;
    x = hd_warp_max(x);
    __syncthreads();
    if (lane == 0) scratch[warp] = x;
    __syncthreads();
    return hd_warp_max(lane < n ? scratch[lane] : -__int_as_float(0x7f800000));
}

#endif
