#include "ops/cuda/launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/quant_fp8.h"

/* Bound by bytes.
 * Grid: a warp for each block of elements that share a scale, and one more for the tail of each
 * row; WARPS of them in a block.  A lane keeps to its own elements, so y may be x. */

#define WARPS 4

static __device__ void round_run(const float *x, float *y, int32_t n, int32_t lane)
{
    uint32_t bits = 0;
    for (int32_t i = lane; i < n; i += 32) bits = max(bits, hd_magnitude_bits(x[i]));
    bits = hd_warp_max_bits(bits);
    bool const   is_finite = bits < HD_NOT_FINITE;
    double const amax = fmax((double)__uint_as_float(bits), 1e-4);
    double const s = is_finite ? hd_pow2_ceil_cuda(amax / 448.0) : 1.0, inverse = 1.0 / s;
    for (int32_t i = lane; i < n; i += 32)
        y[i] = is_finite ? (float)(hd_round_e4m3(x[i] * inverse) * s) : x[i];
}

static __global__ void round_rows(hd_quant_fp8_args const a)
{
    int32_t const lane = (int32_t)threadIdx.x % 32;
    int32_t const blocks = (a.k - a.tail) / a.block, runs = blocks + (a.tail > 0);
    int64_t const at = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int64_t const t = at / runs;
    int32_t const run = (int32_t)(at % runs);
    if (t >= a.t) return;
    hd_take_turn();
    const float *const x = a.x + t * a.k;
    float *const       y = a.y + t * a.k;
    if (run < blocks)
        round_run(x + (int64_t)run * a.block, y + (int64_t)run * a.block, a.block, lane);
    else
        for (int32_t c = a.k - a.tail + lane; c < a.k; c += 32)
            y[c] = hd_bf16_to_f32_cuda(hd_f32_to_bf16_cuda(x[c]));
}

bool hd_quant_fp8_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_fp8_cuda(const void *args, hd_stream *stream)
{
    const hd_quant_fp8_args *const a = (const hd_quant_fp8_args *)args;
    int64_t const n = (int64_t)a->t * ((a->k - a->tail) / a->block + (a->tail > 0));
    if (n == 0) return HD_OK;
    return hd_launch(round_rows, hd_blocks(n, WARPS), WARPS * 32, 0, hd_cuda_stream(stream), *a);
}
