#include "ops/cuda/launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/quant_mxfp4.h"
#include "quant/fp4.h"

/* Bound by bytes.
 * Grid: a warp for each block of 32, a lane for each element; rows follow each other without a
 * gap, so the blocks are counted over all of them. */

#define WARPS 4
static_assert(HD_MXFP4_BLOCK == 32, "a lane holds one element of a block");

static __global__ void round_blocks(hd_quant_mxfp4_args const a)
{
    int64_t const block = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (block >= (int64_t)a.t * (a.k / 32)) return;
    hd_take_turn();
    int64_t const  at = block * 32 + threadIdx.x % 32;
    float const    x = a.x[at];
    uint32_t const bits = hd_warp_max_bits(hd_magnitude_bits(x));
    double const   amax = fmax((double)__uint_as_float(bits), 6 * 0x1p-126);
    double const   s = hd_pow2_ceil_cuda(amax / 6.0);
    a.y[at] = bits < HD_NOT_FINITE ? (float)(hd_round_e2m1(x / s) * s) : x;
}

bool hd_quant_mxfp4_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_mxfp4_cuda(const void *args, hd_stream *stream)
{
    const hd_quant_mxfp4_args *const a = (const hd_quant_mxfp4_args *)args;
    int64_t const                    n = (int64_t)a->t * (a->k / 32);
    if (n == 0) return HD_OK;
    return hd_launch(round_blocks, hd_blocks(n, WARPS), WARPS * 32, 0, hd_cuda_stream(stream), *a);
}
