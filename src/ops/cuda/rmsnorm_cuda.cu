#include "ops/cuda/launch.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/rmsnorm.h"

/* Bound by latency for one token, by bytes for many: a read and a write for each element.
 * Grid: a block for each row, as many threads as the row has vectors of four, up to 1024.  A thread
 * keeps its first vector, all that it has of most rows; of longer ones the second read comes from
 * L1. */

#define MAX_THREADS 1024

struct norm_row {
    const float *x, *w;
    float       *y;
    int32_t      d;
    bool         is_wide, is_w_wide;

    __device__ __forceinline__ float4 load(int32_t c) const
    {
        return c < d ? hd_load4(x + c, d - c, is_wide) : float4{0, 0, 0, 0};
    }
    __device__ __forceinline__ float4 weight(int32_t c) const
    {
        return w && c < d ? hd_load4(w + c, d - c, is_w_wide) : float4{1, 1, 1, 1};
    }
    __device__ __forceinline__ void store(int32_t c, float4 v, float r, float4 by) const
    {
        float4 const out = {v.x * r * by.x, v.y * r * by.y, v.z * r * by.z, v.w * r * by.w};
        if (c < d) hd_store4(y + c, out, d - c, is_wide);
    }
};

static __global__ void normalise_rows(hd_rmsnorm_args const a)
{
    __shared__ float scratch[32];
    int64_t const    at = (int64_t)blockIdx.x * a.d;
    int32_t const    first = (int32_t)threadIdx.x * 4, step = (int32_t)blockDim.x * 4;
    norm_row const   row = {a.x + at,
                          a.has_w ? a.w : NULL,
                            a.y + at,
                            a.d,
                            hd_is_wide(a.x, a.d) && hd_is_wide(a.y, a.d),
                            hd_is_wide(a.w, a.d)};
    hd_release_next();
    float4 const w = row.weight(first);
    hd_await_previous();
    float4 const x = row.load(first);
    float        sum = hd_dot4(x, x, 0);
    for (int32_t c = first + step; c < a.d; c += step) {
        float4 const v = row.load(c);
        sum = hd_dot4(v, v, sum);
    }
    float const r = 1.0f / sqrtf(hd_block_sum(sum, scratch) / (float)a.d + a.eps);
    row.store(first, x, r, w);
    for (int32_t c = first + step; c < a.d; c += step) row.store(c, row.load(c), r, row.weight(c));
}

bool hd_rmsnorm_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_rmsnorm_cuda(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_args *const a = (const hd_rmsnorm_args *)args;
    if (a->t == 0) return HD_OK;
    unsigned const threads = hd_threads(((int64_t)a->d + 3) / 4, MAX_THREADS);
    return hd_launch(normalise_rows, (unsigned)a->t, threads, 0, hd_cuda_stream(stream), *a);
}
