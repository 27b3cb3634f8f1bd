#ifndef HD_OPS_X86_VECTORS_AVX2_H
#define HD_OPS_X86_VECTORS_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

/* Small things that kernels share under AVX2. */

/* The sums of the eight lanes of each of eight vectors. */
static inline __m256 add_lanes_of_8(const __m256 v[8])
{
    __m256 const a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    __m256 const b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

static inline float add_lanes(__m256 v)
{
    __m128 const four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 const two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float largest_of_8(__m256 v)
{
    __m128 const four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 const two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* Whole numbers in the order of the scores; the lowest is left to NaN. */
static inline __m256i to_keys(__m256 score)
{
    __m256i const bits = _mm256_castps_si256(_mm256_add_ps(score, _mm256_setzero_ps())); /* no -0 */
    __m256i const size = _mm256_set1_epi32(INT32_MAX);
    __m256i const keys =
        _mm256_xor_si256(bits, _mm256_and_si256(_mm256_srai_epi32(bits, 31), size));
    __m256i const is_nan = _mm256_castps_si256(_mm256_cmp_ps(score, score, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(keys, _mm256_set1_epi32(INT32_MIN), is_nan);
}

/* All bits set in the first n of eight lanes. */
static inline __m256i first_lanes(int32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline __m256 load_first(const float *x, int32_t n)
{
    return n >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first_lanes(n));
}

static inline void store_first(float *x, int32_t n, __m256 v)
{
    if (n >= 8)
        _mm256_storeu_ps(x, v);
    else
        _mm256_maskstore_ps(x, first_lanes(n), v);
}

/* 2^n for whole n in -126 .. 127. */
static inline __m256 power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* e^x to 2 units in the last place, NaN for NaN: x = n ln 2 + r, and the series of e^r up to r^7
 * leaves 2^-27.  The power is applied in two halves, so that denormal results come out. */
static inline __m256 exp_of(__m256 x)
{
    static const float series[] = {0x1.a01a02p-13f,
                                   0x1.6c16c2p-10f,
                                   0x1.111112p-7f,
                                   0x1.555556p-5f,
                                   0x1.555556p-3f,
                                   0.5f,
                                   1.0f,
                                   1.0f};
    __m256 const in = _mm256_min_ps(_mm256_set1_ps(89), _mm256_max_ps(_mm256_set1_ps(-105), x));
    __m256 const n = _mm256_round_ps(_mm256_mul_ps(in, _mm256_set1_ps(0x1.715476p+0f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256       r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e4p-1f), in);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    __m256 sum = _mm256_set1_ps(series[0]);
    for (int i = 1; i < 8; i++) sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(series[i]));
    __m256i const whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(sum, power_of_two(half)),
                         power_of_two(_mm256_sub_epi32(whole, half)));
}

/* 32 E4M3 codes times a scale.  Shifted into place they are f16 with an exponent that is 8 too
 * small, so the scale is to be 2^8 times as large. */
static inline void decode_32_e4m3(const uint8_t *codes, __m256 scale, __m256 out[4])
{
    __m256i const bits = _mm256_set1_epi16((short)0xBF80), zero = _mm256_setzero_si256();
    __m256i const in = _mm256_loadu_si256((const __m256i *)(const void *)codes);
    __m256i const low = _mm256_srai_epi16(_mm256_unpacklo_epi8(zero, in), 1);
    __m256i const high = _mm256_srai_epi16(_mm256_unpackhi_epi8(zero, in), 1);
    __m256i const a = _mm256_and_si256(low, bits), b = _mm256_and_si256(high, bits);
    out[0] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), scale);
    out[1] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(b)), scale);
    out[2] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)), scale);
    out[3] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(b, 1)), scale);
}

/* Eight bf16. */
static inline __m256 load_bf16(const uint8_t *x)
{
    __m128i const words = _mm_loadu_si128((const __m128i *)(const void *)x);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

#endif
