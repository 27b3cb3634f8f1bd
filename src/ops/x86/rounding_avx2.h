#ifndef HD_OPS_X86_ROUNDING_AVX2_H
#define HD_OPS_X86_ROUNDING_AVX2_H

#include <math.h>

#include "ops/x86/vectors_avx2.h"

/* Rounding activations to what small formats hold, with the bits of the references. */

static inline __m256 magnitude(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }

/* The largest magnitude of n elements; NaN when one is NaN or infinity. */
static inline float finite_largest(const float *x, int32_t n)
{
    __m256 largest = _mm256_setzero_ps(), wrong = _mm256_setzero_ps();
    for (int32_t i = 0; i < n; i += 8) {
        __m256 const a = magnitude(load_first(x + i, n - i));
        largest = _mm256_max_ps(largest, a);
        wrong = _mm256_or_ps(wrong, _mm256_cmp_ps(a, _mm256_set1_ps(INFINITY), _CMP_NLT_UQ));
    }
    return _mm256_movemask_ps(wrong) ? NAN : largest_of_8(largest);
}

/* Rounds to floats of `bits` bits behind the leading one, whose exponent is at least `least`
 * (smaller numbers are multiples of the smallest step): adding 1.5 times the power of two that is
 * 2^23 steps leaves whole steps, ties to even.  Larger numbers than a format has do not come. */
static inline __m256 round_to_steps(__m256 v, int32_t bits, int32_t least)
{
    __m256i const exponent =
        _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7F800000));
    __m256i const floor = _mm256_set1_epi32((127 + least) << 23);
    __m256i const shift = _mm256_set1_epi32(((23 - bits) << 23) + 0x00400000);
    __m256 const  large =
        _mm256_castsi256_ps(_mm256_add_epi32(_mm256_max_epi32(exponent, floor), shift));
    __m256 const sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    return _mm256_or_ps(_mm256_sub_ps(_mm256_add_ps(v, large), large), sign);
}

/* n elements that share a scale, a power of two, which divides without rounding. */
static inline void round_run(const float *x, float *y, int32_t n, float scale, int32_t bits,
                             int32_t least)
{
    __m256 const s = _mm256_set1_ps(scale), inverse = _mm256_set1_ps(1 / scale);
    for (int32_t i = 0; i < n; i += 8) {
        __m256 const v = _mm256_mul_ps(load_first(x + i, n - i), inverse);
        store_first(y + i, n - i, _mm256_mul_ps(round_to_steps(v, bits, least), s));
    }
}

#endif
