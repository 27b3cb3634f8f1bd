#include "ops/cuda/launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/quant_nvfp4.h"
#include "quant/fp4.h"

/* Bound by bytes: a row is read for each expert that it goes to, from L2 after the first.
 * Grid: a block for each slot, up to MAX_THREADS threads, one for each element of a step; half a
 * warp holds one block of 16. */

#define MAX_THREADS 1024
static_assert(HD_NVFP4_BLOCK == 16, "half a warp holds a block");

/* The scale that lets the row's largest finite magnitude just fit, rounded up; 1 for zeros. */
static __device__ float find_dynamic_scale(const float *x, int32_t k, float *scratch)
{
    float amax = 0;
    for (int32_t c = (int32_t)threadIdx.x; c < k; c += (int32_t)blockDim.x)
        if (hd_magnitude_bits(x[c]) < HD_NOT_FINITE) amax = fmaxf(amax, fabsf(x[c]));
    amax = hd_block_max(amax, scratch);
    float const scale = __double2float_ru((double)amax / (6.0 * 448.0));
    return scale > 0 ? scale : 1.0f;
}

/* Rounds one element with the others of its block; `first` counts the block's saturation. */
static __device__ float round_element(float x, float scale, int32_t *saturated)
{
    uint32_t bits = hd_magnitude_bits(x);
    for (int o = 8; o > 0; o >>= 1) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, o));
    if (bits >= HD_NOT_FINITE) return x;
    double const wanted = (double)__uint_as_float(bits) / 6.0 / (double)scale;
    double const s = hd_round_e4m3(wanted) * (double)scale;
    *saturated += wanted > 448.0;
    return s > 0 ? (float)(hd_round_e2m1(x / s) * s) : 0.0f;
}

static __global__ void round_slots(hd_quant_nvfp4_args const a)
{
    __shared__ float   scratch[32];
    int64_t const      slot = blockIdx.x;
    const float *const x = a.x + slot / a.s * a.k;
    float *const       y = a.y + slot * a.k;
    float const        fixed = a.scale[a.has_ids ? a.ids[slot] : 0];
    float const        scale = fixed > 0 ? fixed : find_dynamic_scale(x, a.k, scratch);
    int32_t            saturated = 0;
    for (int32_t base = 0; base < a.k; base += (int32_t)blockDim.x) {
        int32_t const c = base + (int32_t)threadIdx.x;
        float const   v = round_element(c < a.k ? x[c] : 0.0f, scale, &saturated);
        if (c < a.k) y[c] = v;
    }
    if (threadIdx.x % HD_NVFP4_BLOCK != 0) saturated = 0;
    float const sum = hd_block_sum((float)saturated, scratch); /* exact: far below 2^24 */
    if (threadIdx.x == 0) a.saturated[slot] = (int32_t)sum;
}

/* Kernels of GPUs multiply floats. */
bool hd_quant_nvfp4_cuda_supports(const void *args)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    return !a->has_codes;
}

hd_status hd_quant_nvfp4_cuda(const void *args, hd_stream *stream)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    int64_t const                    slots = (int64_t)a->t * a->s;
    if (slots == 0) return HD_OK;
    unsigned const threads = hd_threads(a->k, MAX_THREADS);
    round_slots<<<(unsigned)slots, threads, 0, hd_cuda_stream(stream)>>>(*a);
    return hd_launched();
}
