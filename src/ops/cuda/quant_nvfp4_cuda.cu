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

/* One element after rounding: its value, and what it and its block are as codes. */
struct rounded {
    float   y;
    uint8_t code, sf;
};

/* Rounds one element with the others of its block; counts the block's saturation. */
static __device__ rounded round_element(float x, float scale, int32_t *saturated)
{
    uint32_t bits = hd_magnitude_bits(x);
    for (int o = 8; o > 0; o >>= 1) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, o));
    if (bits >= HD_NOT_FINITE) return {x, 0, HD_E4M3_NAN};
    double const wanted = (double)__uint_as_float(bits) / 6.0 / (double)scale;
    double const sb = hd_round_e4m3(wanted), s = sb * (double)scale;
    *saturated += wanted > 448.0;
    if (!(s > 0)) return {0.0f, 0, hd_e4m3_code(sb)};
    double const v = hd_round_e2m1(x / s);
    return {(float)(v * s), hd_e2m1_code(v), hd_e4m3_code(sb)};
}

/* Element c of a slot's row of codes; the even lane of a pair writes both. */
static __device__ void store_code(const hd_quant_nvfp4_args &a, int64_t slot, int32_t c,
                                  const rounded &r)
{
    unsigned const right = __shfl_down_sync(0xffffffffu, (unsigned)r.code, 1);
    if (c >= a.k) return;
    if (c % 2 == 0) a.codes[(slot * a.k + c) / 2] = (uint8_t)(r.code | right << 4);
    if (c % HD_NVFP4_BLOCK == 0) a.sf[(slot * a.k + c) / HD_NVFP4_BLOCK] = r.sf;
}

static __global__ void round_slots(hd_quant_nvfp4_args const a)
{
    __shared__ float   scratch[32];
    int64_t const      slot = blockIdx.x;
    const float *const x = a.x + slot / a.s * a.k;
    float *const       y = a.y + slot * a.k;
    hd_take_turn();
    float const fixed = a.scale[a.has_ids ? a.ids[slot] : 0];
    float const scale = fixed > 0 ? fixed : find_dynamic_scale(x, a.k, scratch);
    int32_t     saturated = 0;
    for (int32_t base = 0; base < a.k; base += (int32_t)blockDim.x) {
        int32_t const c = base + (int32_t)threadIdx.x;
        rounded const r = round_element(c < a.k ? x[c] : 0.0f, scale, &saturated);
        if (c < a.k) y[c] = r.y;
        if (a.has_codes) store_code(a, slot, c, r);
    }
    if (a.has_codes && threadIdx.x == 0) a.g[slot] = scale;
    if (threadIdx.x % HD_NVFP4_BLOCK != 0) saturated = 0;
    float const sum = hd_block_sum((float)saturated, scratch); /* exact: far below 2^24 */
    if (threadIdx.x == 0) a.saturated[slot] = (int32_t)sum;
}

bool hd_quant_nvfp4_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_quant_nvfp4_cuda(const void *args, hd_stream *stream)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    int64_t const                    slots = (int64_t)a->t * a->s;
    if (slots == 0) return HD_OK;
    unsigned const threads = hd_threads(a->k, MAX_THREADS);
    return hd_launch(round_slots, (unsigned)slots, threads, 0, hd_cuda_stream(stream), *a);
}
