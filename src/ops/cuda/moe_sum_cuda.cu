#include "ops/cuda/launch.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/moe_sum.h"

/* Bound by bytes: (s + 2) * d for each token.
 * Grid: a block for each token and run of channels, four of them a thread, which sums each in the
 * order of s and has the loads of AHEAD experts on their way at once. */

#define THREADS  128
#define CHANNELS (4 * THREADS)
#define AHEAD    8

/* Adds experts [begin, begin + AHEAD), as far as there are any. */
static __device__ __forceinline__ float4 add_experts(const hd_moe_sum_args &a, int64_t t,
                                                     int32_t begin, int32_t c, bool is_wide,
                                                     float4 sum)
{
    int64_t const first = t * a.s + begin;
    float4        y[AHEAD];
    float         w[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        if (begin + i >= a.s) break;
        y[i] = hd_load4(a.y + (first + i) * a.d + c, a.d - c, is_wide);
        w[i] = a.has_w ? a.w[first + i] : 1.0f;
    }
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        if (begin + i >= a.s) break;
        sum = {fmaf(w[i], y[i].x, sum.x), fmaf(w[i], y[i].y, sum.y), fmaf(w[i], y[i].z, sum.z),
               fmaf(w[i], y[i].w, sum.w)};
    }
    return sum;
}

static __global__ void __launch_bounds__(THREADS)
    sum_experts(__grid_constant__ hd_moe_sum_args const a)
{
    int64_t const t = blockIdx.x;
    int32_t const c = (int32_t)(blockIdx.y * CHANNELS + threadIdx.x * 4);
    bool const    is_wide =
        hd_is_wide(a.y, a.d) && hd_is_wide(a.shared, a.d) && hd_is_wide(a.out, a.d);
    if (c >= a.d) return;
    hd_take_turn();
    float4 const shared = hd_load4(a.shared + t * a.d + c, a.d - c, is_wide);
    float4       sum = {0, 0, 0, 0};
    for (int32_t s = 0; s < a.s; s += AHEAD) sum = add_experts(a, t, s, c, is_wide, sum);
    sum = {sum.x + shared.x, sum.y + shared.y, sum.z + shared.z, sum.w + shared.w};
    hd_store4(a.out + t * a.d + c, sum, a.d - c, is_wide);
}

bool hd_moe_sum_cuda_supports(const void *args)
{
    return hd_fits_grid_y(((const hd_moe_sum_args *)args)->d, CHANNELS);
}

hd_status hd_moe_sum_cuda(const void *args, hd_stream *stream)
{
    const hd_moe_sum_args *const a = (const hd_moe_sum_args *)args;
    if (a->t == 0 || a->d == 0) return HD_OK;
    dim3 const grid((unsigned)a->t, hd_blocks(a->d, CHANNELS));
    return hd_launch(sum_experts, grid, THREADS, 0, hd_cuda_stream(stream), *a);
}
