#ifndef HD_OPS_CUDA_NVFP4_QUADS_CUH
#define HD_OPS_CUDA_NVFP4_QUADS_CUH

#include "ops/cuda/rounding.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/quant_nvfp4.h"
#include "quant/fp4.h"

/* Rounding to NVFP4, four elements a thread: a block of 16 is four lanes side by side, which find
 * its scale each for themselves.  The same bits as quant/fp4.c. */

static_assert(HD_NVFP4_BLOCK == 16, "four lanes of four elements");

/* Elements c .. c + 3 of a row of k, zeros behind it; both are multiples of four. */
static __device__ __forceinline__ float4 hd_load4_in(const float *row, int32_t c, int32_t k,
                                                     bool is_wide)
{
    return c < k ? hd_load4(row + c, 4, is_wide) : float4{0, 0, 0, 0};
}

/* A global scale, and about 1 / (6 g); NaN where that may leave the range of f32. */
struct hd_nvfp4_global {
    float g, inverse;
};

static __device__ __forceinline__ hd_nvfp4_global hd_nvfp4_global_of(float g)
{
    bool const is_plain = g >= 0x1p-100f && g <= 0x1p100f;
    return {g, is_plain ? __fdividef(1.0f, 6.0f * g) : __int_as_float(0x7fffffff)};
}

/* The scale that lets a row whose largest finite magnitude is amax just fit, rounded up; 1 for
 * zeros. */
static __device__ __forceinline__ float hd_nvfp4_dynamic_scale(float amax)
{
    float const scale = __double2float_ru((double)amax / (6.0 * 448.0));
    return scale > 0 ? scale : 1.0f;
}

static __device__ __forceinline__ float hd_finite_magnitude(float x)
{
    return hd_magnitude_bits(x) < HD_NOT_FINITE ? fabsf(x) : 0.0f;
}

static __device__ __forceinline__ float hd_finite_magnitude4(float4 v)
{
    return fmaxf(fmaxf(hd_finite_magnitude(v.x), hd_finite_magnitude(v.y)),
                 fmaxf(hd_finite_magnitude(v.z), hd_finite_magnitude(v.w)));
}

struct hd_block_scale {
    uint32_t code; /* E4M3 */
    bool     is_saturated;
};

static __device__ __forceinline__ hd_block_scale hd_exact_block_scale(float amax, float g)
{
    double const wanted = (double)amax / 6.0 / (double)g;
    return {hd_e4m3_code(hd_round_e4m3(wanted)), wanted > 448.0};
}

/* E4M3 codes of two numbers that are not negative, nearest, ties to even, 448 at the most. */
static __device__ __forceinline__ uint32_t hd_e4m3_codes(float high, float low)
{
    uint16_t codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
}

/* e4m3(amax / 6 / g).  The quotient in f32 errs by less than 2^-21 of itself: 2^-24 in 6 g, 2^-22
 * in its reciprocal, 2^-24 in the product; what is below the normal numbers has code 0 anyhow.  So
 * the true one lies between `low` and `high`, rounding keeps order, and where both have one code
 * and are on one side of 448 there is nothing to look up in double.  NaN has code 0x7f. */
static __device__ __forceinline__ hd_block_scale hd_find_block_scale(float                  amax,
                                                                     const hd_nvfp4_global &scale)
{
    float const    q = amax * scale.inverse;
    float const    low = q * (1 - 0x1p-20f), high = q * (1 + 0x1p-20f);
    uint32_t const codes = hd_e4m3_codes(high, low), code = codes & 0xff;
    bool const     is_saturated = low > 448.0f;
    if (codes >> 8 == code && code != HD_E4M3_NAN && is_saturated == (high > 448.0f))
        return {code, is_saturated};
    return hd_exact_block_scale(amax, scale.g);
}

/* Magnitudes at which codes change: midpoints between neighbours times the scale s = sb g.  A
 * midpoint times sb is exact in f32.  An f32 above the product with g is above the product rounded
 * down, one that is not below it, which is enough where a tie goes up to an even code, is not
 * below the product rounded up, and the other way round: no quotient is needed. */
struct hd_code_borders {
    float up[3];    /* 0.75, 1.75, 3.5 */
    float above[4]; /* 0.25, 1.25, 2.5, 5 */
};

static __device__ __forceinline__ hd_code_borders hd_find_borders(float sb, float g)
{
    return {{__fmul_ru(0.75f * sb, g), __fmul_ru(1.75f * sb, g), __fmul_ru(3.5f * sb, g)},
            {__fmul_rd(0.25f * sb, g), __fmul_rd(1.25f * sb, g), __fmul_rd(2.5f * sb, g),
             __fmul_rd(5.0f * sb, g)}};
}

/* The E2M1 code of x / s: three bits, each found by a comparison, and the sign. */
static __device__ __forceinline__ uint32_t hd_find_code(float x, const hd_code_borders &b)
{
    float const a = fabsf(x);
    bool const  is_2 = a >= b.up[1];
    bool const  is_1 = a >= (is_2 ? b.up[2] : b.up[0]);
    float const last = is_2 ? (is_1 ? b.above[3] : b.above[2]) : (is_1 ? b.above[1] : b.above[0]);
    uint32_t const code = (is_2 ? 4 : 0) + (is_1 ? 2 : 0) + (a > last ? 1 : 0);
    return code | (__float_as_uint(x) >> 28 & 8);
}

/* Four elements after rounding: values, codes with the first in the low nibble, and what all lanes
 * of the block know. */
struct hd_quad {
    float4   v;
    uint32_t codes, sf;
    bool     is_saturated;
};

/* A code times s is exact in double and its scale part in f32: rounded once either way. */
static __device__ __forceinline__ float hd_code_value(uint32_t code, float sb, float g)
{
    return hd_e2m1_number(code) * sb * g;
}

static __device__ __forceinline__ uint32_t hd_block_magnitude(float4 v)
{
    uint32_t const bits = max(max(hd_magnitude_bits(v.x), hd_magnitude_bits(v.y)),
                              max(hd_magnitude_bits(v.z), hd_magnitude_bits(v.w)));
    uint32_t const pair = max(bits, __shfl_xor_sync(0xffffffffu, bits, 1));
    return max(pair, __shfl_xor_sync(0xffffffffu, pair, 2));
}

/* `bits` is what hd_block_magnitude finds. */
static __device__ __forceinline__ hd_quad hd_round_quad_of(float4 v, uint32_t bits,
                                                           const hd_nvfp4_global &scale)
{
    if (bits >= HD_NOT_FINITE) return {v, 0, HD_E4M3_NAN, false};
    hd_block_scale const  s = hd_find_block_scale(__uint_as_float(bits), scale);
    float const           sb = hd_e4m3_number(s.code);
    hd_code_borders const b = hd_find_borders(sb, scale.g);
    if (s.code == 0) return {float4{0, 0, 0, 0}, 0, 0, s.is_saturated};
    uint32_t const x = hd_find_code(v.x, b), y = hd_find_code(v.y, b);
    uint32_t const z = hd_find_code(v.z, b), w = hd_find_code(v.w, b);
    return {{hd_code_value(x, sb, scale.g), hd_code_value(y, sb, scale.g),
             hd_code_value(z, sb, scale.g), hd_code_value(w, sb, scale.g)},
            x | y << 4 | z << 8 | w << 12,
            s.code,
            s.is_saturated};
}

/* Every lane of the warp calls, also one that has no elements: it brings zeros. */
static __device__ __forceinline__ hd_quad hd_round_quad(float4 v, const hd_nvfp4_global &scale)
{
    return hd_round_quad_of(v, hd_block_magnitude(v), scale);
}

/* Where rounded rows go; codes and sf are NULL where nobody asked for them. */
struct hd_quad_rows {
    float   *y;
    uint8_t *codes, *sf;
    bool     is_wide;
};

/* `at` counts elements from the first row on. */
static __device__ __forceinline__ void hd_store_quad(const hd_quad_rows &to, int64_t at,
                                                     const hd_quad &q)
{
    hd_store4(to.y + at, q.v, 4, to.is_wide);
    if (!to.codes) return;
    uint8_t *const codes = to.codes + at / 2;
    if (((uintptr_t)to.codes & 1) == 0) {
        *(uint16_t *)codes = (uint16_t)q.codes;
    } else {
        codes[0] = (uint8_t)q.codes;
        codes[1] = (uint8_t)(q.codes >> 8);
    }
    if (threadIdx.x % 4 == 0) to.sf[at / HD_NVFP4_BLOCK] = (uint8_t)q.sf;
}

#endif
