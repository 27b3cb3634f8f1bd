#ifndef HD_OPS_CUDA_ROUNDING_CUH
#define HD_OPS_CUDA_ROUNDING_CUH

#include <stdint.h>

/* Rounding to the small formats of quant/ and back, the same bits as there.  In double, as there: a
 * quotient by an NVFP4 scale must be rounded once before it is compared with midpoints. */

/* The largest power of two that is at most x, for normal x > 0. */
static __device__ __forceinline__ double hd_pow2_floor_cuda(double x)
{
    return __longlong_as_double(__double_as_longlong(x) & 0x7ff0000000000000LL);
}

/* The smallest power of two that is at least x, for normal x > 0. */
static __device__ __forceinline__ double hd_pow2_ceil_cuda(double x)
{
    return hd_pow2_floor_cuda(__longlong_as_double(__double_as_longlong(x) + 0xfffffffffffffLL));
}

/* e for x = 2^e, or the one below; for normal x > 0. */
static __device__ __forceinline__ int32_t hd_exponent_of(double x)
{
    return (int32_t)(__double_as_longlong(x) >> 52) - 1023;
}

/* The multiple of `step`, a power of two, nearest to a, ties to the even one; 0 <= a < 2^50 step:
 * the large number added leaves no bits below the step. */
static __device__ __forceinline__ double hd_round_to_step(double a, double step)
{
    double const large = step * 0x1.8p52;
    return __dadd_rn(__dadd_rn(a, large), -large);
}

/* Value of the E4M3 code of x: steps of an eighth of the binade, 2^-9 at the least. */
static __device__ __forceinline__ double hd_round_e4m3(double x)
{
    double const a = fmin(fabs(x), 448.0);
    double const step = hd_pow2_floor_cuda(fmax(a, 0x1p-6)) * 0.125;
    return copysign(hd_round_to_step(a, step), x);
}

/* Value of the E2M1 code of x: steps of half the binade, 0.5 at the least. */
static __device__ __forceinline__ double hd_round_e2m1(double x)
{
    double const a = fmin(fabs(x), 6.0);
    double const step = hd_pow2_floor_cuda(fmax(a, 1.0)) * 0.5;
    return copysign(hd_round_to_step(a, step), x);
}

#define HD_E4M3_NAN 0x7f

/* The code of a value that E4M3 holds, not below 0. */
static __device__ __forceinline__ uint8_t hd_e4m3_code(double v)
{
    if (v < 0x1p-6) return (uint8_t)(v * 0x1p9);
    return (uint8_t)((hd_exponent_of(v) + 7) << 3 | (__double_as_longlong(v) >> 49 & 7));
}

/* Bits of the bf16 nearest to x, ties to even; NaN stays NaN. */
static __device__ __forceinline__ uint16_t hd_f32_to_bf16_cuda(float x)
{
    uint32_t const u = __float_as_uint(x);
    if (x != x) return (uint16_t)((u >> 16) | 0x40);
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

static __device__ __forceinline__ float hd_bf16_to_f32_cuda(uint16_t b)
{
    return __uint_as_float((uint32_t)b << 16);
}

/* ---- values of codes that are not NaN ----
 * A small float shifted to the place of an f32's exponent and mantissa is that float times a
 * power of two, denormals included. */

static __device__ __forceinline__ float hd_e4m3_number(uint32_t code)
{
    return __uint_as_float((code & 0x7f) << 20 | (code & 0x80) << 24) * 0x1p120f;
}

/* Of the low four bits. */
static __device__ __forceinline__ float hd_e2m1_number(uint32_t code)
{
    return __uint_as_float((code & 7) << 22 | (code & 8) << 28) * 0x1p126f;
}

/* 2^(code - 127); code 0 is the denormal 2^-127. */
static __device__ __forceinline__ float hd_e8m0_number(uint32_t code)
{
    return __uint_as_float(code ? code << 23 : 0x00400000);
}

/* Magnitudes as integers: they order as the floats do, and what is not finite is above. */
#define HD_NOT_FINITE 0x7f800000u
static __device__ __forceinline__ uint32_t hd_magnitude_bits(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

#endif
