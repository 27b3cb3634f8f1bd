#ifndef HD_OPS_X86_FP4_CODES_AVX2_H
#define HD_OPS_X86_FP4_CODES_AVX2_H

#include <stdbool.h>

#include "ops/x86/rounding_avx2.h"

/* Codes of four bits from floats, with the bits of quant/fp4.h. */

/* What a magnitude must exceed, as f32, to be at or above four midpoints between codes times s.
 * The product is exact in double; x / s rounded to double lies on the same side of a midpoint,
 * because 24 bits of x and 31 of the product tell them apart long before.  Where a tie goes
 * up, to an even code, equality is enough. */
static inline __m128 find_borders(__m256d midpoints, __m256d ties_up, __m256d s)
{
    __m256d const exact = _mm256_mul_pd(midpoints, s);
    __m128 const  nearest = _mm256_cvtpd_ps(exact);
    __m256d const back = _mm256_cvtps_pd(nearest);
    __m256d const equal = _mm256_and_pd(_mm256_cmp_pd(back, exact, _CMP_EQ_OQ), ties_up);
    __m256d const above = _mm256_or_pd(_mm256_cmp_pd(back, exact, _CMP_GT_OQ), equal);
    __m128 const  one_less = _mm_shuffle_ps(_mm_castpd_ps(_mm256_castpd256_pd128(above)),
                                            _mm_castpd_ps(_mm256_extractf128_pd(above, 1)), 0x88);
    return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(nearest), _mm_castps_si128(one_less)));
}

/* The codes of a block as f32 values, and where one ends and the next begins. */
typedef struct code_scale {
    __m256 value;
    float  border[8]; /* the last is none */
} code_scale;

static inline code_scale make_scale(double scale)
{
    code_scale    c;
    __m256d const s = _mm256_set1_pd(scale);
    __m256d const up = _mm256_castsi256_pd(_mm256_setr_epi64x(0, -1, 0, -1));
    __m256d const low = _mm256_setr_pd(0, 0.5, 1, 1.5), high = _mm256_setr_pd(2, 3, 4, 6);
    _mm_storeu_ps(c.border, find_borders(_mm256_setr_pd(0.25, 0.75, 1.25, 1.75), up, s));
    _mm_storeu_ps(c.border + 4, find_borders(_mm256_setr_pd(2.5, 3.5, 5, 6), up, s));
    c.value = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_mul_pd(high, s)),
                              _mm256_cvtpd_ps(_mm256_mul_pd(low, s)));
    return c;
}

/* Eight codes without their signs. */
static inline __m256i find_codes(const code_scale *c, __m256 x)
{
    __m256 const a = magnitude(x);
    __m256i      code = _mm256_setzero_si256();
    for (int i = 0; i < 7; i++) {
        __m256 const is_above = _mm256_cmp_ps(a, _mm256_broadcast_ss(&c->border[i]), _CMP_GT_OQ);
        code = _mm256_sub_epi32(code, _mm256_castps_si256(is_above));
    }
    return code;
}

static inline __m256 code_values(const code_scale *c, __m256i code, __m256 x)
{
    __m256 const sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    return _mm256_or_ps(_mm256_permutevar8x32_ps(c->value, code), sign);
}

/* 16 codes with the signs of what they came from, two a byte. */
static inline void store_codes(__m256i low, __m256 x_low, __m256i high, __m256 x_high, uint8_t *out)
{
    __m256i const sign = _mm256_set1_epi32(8);
    __m256i const sign_low = _mm256_srli_epi32(_mm256_castps_si256(x_low), 28);
    __m256i const sign_high = _mm256_srli_epi32(_mm256_castps_si256(x_high), 28);
    __m256i const a = _mm256_or_si256(low, _mm256_and_si256(sign_low, sign));
    __m256i const b = _mm256_or_si256(high, _mm256_and_si256(sign_high, sign));
    __m256i const words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
    __m256i const pairs = _mm256_madd_epi16(words, _mm256_set1_epi32(1 | 16 << 16));
    __m128i const half =
        _mm_packs_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    _mm_storel_epi64((__m128i *)(void *)out, _mm_packus_epi16(half, half));
}

static inline bool is_finite_block(__m256 a, __m256 b)
{
    __m256 const inf = _mm256_set1_ps(INFINITY);
    __m256 const wrong = _mm256_or_ps(_mm256_cmp_ps(magnitude(a), inf, _CMP_NLT_UQ),
                                      _mm256_cmp_ps(magnitude(b), inf, _CMP_NLT_UQ));
    return _mm256_movemask_ps(wrong) == 0;
}

#endif
