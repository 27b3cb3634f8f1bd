#ifndef HD_OPS_CUDA_LAUNCH_CUH
#define HD_OPS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

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
