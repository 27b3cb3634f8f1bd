#include "ops/cuda/launch.cuh"
#include "ops/moe_sum.h"

/* Bound by bytes: (s + 2) * d for each token.
 * Grid: a block for each token and run of THREADS channels; a thread sums one channel in the
 * order of s. */

#define THREADS 256

static __global__ void sum_experts(hd_moe_sum_args const a)
{
    int64_t const t = blockIdx.x;
    int32_t const c = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    if (c >= a.d) return;
    hd_take_turn();
    const float *const y = a.y + t * a.s * a.d + c;
    float              sum = 0;
    for (int32_t s = 0; s < a.s; s++)
        sum = fmaf(a.has_w ? a.w[t * a.s + s] : 1.0f, y[(int64_t)s * a.d], sum);
    a.out[t * a.d + c] = sum + a.shared[t * a.d + c];
}

bool hd_moe_sum_cuda_supports(const void *args)
{
    return hd_fits_grid_y(((const hd_moe_sum_args *)args)->d, THREADS);
}

hd_status hd_moe_sum_cuda(const void *args, hd_stream *stream)
{
    const hd_moe_sum_args *const a = (const hd_moe_sum_args *)args;
    if (a->t == 0 || a->d == 0) return HD_OK;
    dim3 const grid((unsigned)a->t, hd_blocks(a->d, THREADS));
    return hd_launch(sum_experts, grid, THREADS, 0, hd_cuda_stream(stream), *a);
}
