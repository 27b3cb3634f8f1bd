#include "ops/cuda/launch.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/rmsnorm.h"

/* Bound by bytes: a read and a write for each element, the second read comes from L1.
 * Grid: a block for each row, as many threads as the row has vectors of four, up to 1024: one
 * token of a wide model is read in one go. */

#define MAX_THREADS 1024

static __global__ void normalise_rows(hd_rmsnorm_args const a)
{
    __shared__ float   scratch[32];
    const float *const x = a.x + (int64_t)blockIdx.x * a.d;
    float *const       y = a.y + (int64_t)blockIdx.x * a.d;
    int32_t const      first = (int32_t)threadIdx.x * 4, step = (int32_t)blockDim.x * 4;
    bool const         is_wide = hd_is_wide(a.x, a.d) && hd_is_wide(a.y, a.d);
    bool const         is_w_wide = a.has_w && hd_is_wide(a.w, a.d);
    float              sum = 0;
    hd_take_turn();
    for (int32_t c = first; c < a.d; c += step) {
        float4 const v = hd_load4(x + c, a.d - c, is_wide);
        sum = hd_dot4(v, v, sum);
    }
    float const r = 1.0f / sqrtf(hd_block_sum(sum, scratch) / (float)a.d + a.eps);
    for (int32_t c = first; c < a.d; c += step) {
        float4 const v = hd_load4(x + c, a.d - c, is_wide);
        float4       w = {1, 1, 1, 1};
        if (a.has_w) w = hd_load4(a.w + c, a.d - c, is_w_wide);
        float4 const out = {v.x * r * w.x, v.y * r * w.y, v.z * r * w.z, v.w * r * w.w};
        hd_store4(y + c, out, a.d - c, is_wide);
    }
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
