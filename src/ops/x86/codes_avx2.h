#ifndef HD_OPS_X86_CODES_AVX2_H
#define HD_OPS_X86_CODES_AVX2_H

#include "ops/x86/vec_avx2.h"

/* Four-bit codes as whole numbers under AVX2: products of bytes are summed by two in 16 bits,
 * where four of at most 24 * 12 fit, then in 32.  For w4a4.h. */

#define CODE_ROWS   2 /* by CODE_INPUTS: what 16 registers hold */
#define CODE_INPUTS 2

typedef __m256i whole;

static inline whole whole_load(const void *p) { return _mm256_load_si256((const __m256i *)p); }
static inline void  whole_store(void *p, whole v) { _mm256_store_si256((__m256i *)p, v); }

/* As vec_keep. */
static inline whole whole_keep(whole v) { return v; }

/* Values of the even and odd codes of 32 bytes. */
static inline void codes_spread(const uint8_t *codes, const int8_t table[16], whole *even,
                                whole *odd)
{
    __m128i const once = _mm_loadu_si128((const __m128i *)(const void *)table);
    __m256i const values = _mm256_broadcastsi128_si256(once), nibble = _mm256_set1_epi8(15);
    __m256i const in = _mm256_loadu_si256((const __m256i *)(const void *)codes);
    *even = _mm256_shuffle_epi8(values, _mm256_and_si256(in, nibble));
    *odd = _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(in, 4), nibble));
}

/* start + the sums of a's products with b in each lane; those of a have no sign. */
static inline whole codes_dot(whole start, whole even_a, whole odd_a, whole even_b, whole odd_b)
{
    __m256i const even = _mm256_maddubs_epi16(even_a, even_b);
    __m256i const pairs = _mm256_add_epi16(even, _mm256_maddubs_epi16(odd_a, odd_b));
    return _mm256_add_epi32(start, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline whole whole_zero(void) { return _mm256_setzero_si256(); }
static inline whole whole_bytes(char v) { return _mm256_set1_epi8(v); }
static inline whole whole_subtract(whole a, whole b) { return _mm256_sub_epi32(a, b); }
static inline vec   whole_to_f32(whole v) { return _mm256_cvtepi32_ps(v); }

/* Four E4M3 scales, each in two lanes, times 2^-8: shifted into place they are f16 with an
 * exponent that is 8 too small. */
static inline vec scales_spread(const uint8_t *sf)
{
    __m128i const place = _mm_setr_epi8(-1, 0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3);
    int32_t       four;
    memcpy(&four, sf, sizeof four);
    __m128i const top = _mm_shuffle_epi8(_mm_cvtsi32_si128(four), place);
    __m128i const bits = _mm_set1_epi16((short)0xBF80);
    return _mm256_cvtph_ps(_mm_and_si128(_mm_srai_epi16(top, 1), bits));
}

#endif
