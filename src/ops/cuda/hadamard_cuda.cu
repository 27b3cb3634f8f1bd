#include "ops/cuda/launch.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/hadamard.h"

/* Bound by latency for a few rows, by bytes for many; log2(k) rounds of sums in between.
 * Grid: a block for each row, a thread for four neighbours, up to MAX_THREADS.  The first two
 * rounds are a thread's own, five more its warp's; the others, of rows beyond 128, go through
 * shared memory: 16 KiB at most. */

#define MAX_THREADS 1024
#define OF_WARP     128 /* elements */
static_assert(HD_HADAMARD_MAX <= 4 * MAX_THREADS, "a thread for each four elements");

/* The rounds among a warp's elements; those from k on are 0 and stay by themselves. */
static __device__ __forceinline__ void transform_warp(float v[4], int32_t k)
{
    int const lane = (int)threadIdx.x % 32;
    if (k > 1) {
        float const a = v[0], c = v[2];
        v[0] = a + v[1];
        v[1] = a - v[1];
        v[2] = c + v[3];
        v[3] = c - v[3];
    }
    if (k > 2) {
        float const a = v[0], b = v[1];
        v[0] = a + v[2];
        v[1] = b + v[3];
        v[2] = a - v[2];
        v[3] = b - v[3];
    }
    for (int o = 1; o < 32 && 4 * o < k; o *= 2)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float const other = __shfl_xor_sync(0xffffffffu, v[i], o);
            v[i] = lane & o ? other - v[i] : v[i] + other;
        }
}

/* The other rounds; v is this thread's part of the row. */
static __device__ void transform_block(float v[4], int32_t k, float4 *row)
{
    float *const  one = (float *)row;
    int32_t const first = (int32_t)threadIdx.x, step = (int32_t)blockDim.x;
    row[first] = {v[0], v[1], v[2], v[3]};
    for (int32_t half = OF_WARP; half < k; half *= 2) {
        __syncthreads();
        for (int32_t i = first; i < k / 2; i += step) {
            int32_t const low = (i & ~(half - 1)) * 2 + (i & (half - 1));
            float const   p = one[low], q = one[low + half];
            one[low] = p + q;
            one[low + half] = p - q;
        }
    }
    __syncthreads();
    float4 const out = row[first];
    v[0] = out.x;
    v[1] = out.y;
    v[2] = out.z;
    v[3] = out.w;
}

static __global__ void transform_rows(hd_hadamard_args const a)
{
    extern __shared__ float4 row[];
    int32_t const            left = a.k - 4 * (int32_t)threadIdx.x;
    bool const               is_wide = hd_is_wide(a.x, a.k);
    float *const             x = a.x + (int64_t)blockIdx.x * a.k + 4 * threadIdx.x;
    hd_take_turn();
    float4 const in = left > 0 ? hd_load4(x, left, is_wide) : float4{0, 0, 0, 0};
    float        v[4] = {in.x, in.y, in.z, in.w};
    transform_warp(v, a.k);
    if (a.k > OF_WARP) transform_block(v, a.k, row);
    float const norm = 1.0f / sqrtf((float)a.k);
    if (left > 0) hd_store4(x, {v[0] * norm, v[1] * norm, v[2] * norm, v[3] * norm}, left, is_wide);
}

bool hd_hadamard_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_hadamard_cuda(const void *args, hd_stream *stream)
{
    const hd_hadamard_args *const a = (const hd_hadamard_args *)args;
    if (a->t == 0) return HD_OK;
    unsigned const threads = hd_threads(a->k / 4, MAX_THREADS);
    size_t const   bytes = a->k > OF_WARP ? (size_t)a->k * sizeof(float) : 0;
    return hd_launch(transform_rows, (unsigned)a->t, threads, bytes, hd_cuda_stream(stream), *a);
}
