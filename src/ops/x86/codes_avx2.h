#ifndef HD_OPS_X86_CODES_AVX2_H
#define HD_OPS_X86_CODES_AVX2_H

#include <math.h>

#include "ops/x86/vec_avx2.h"

/* Four-bit codes as whole numbers under AVX2: products of bytes are summed by two in 16 bits,
 * where eight of at most 24 * 12 fit, then in 32.  For w4a4.h. */

#define CODE_ROWS   2 /* by CODE_INPUTS: what 16 registers hold */
#define CODE_INPUTS 2

typedef __m256i whole;

static inline whole whole_load(const void *p) { return _mm256_load_si256((const __m256i *)p); }
static inline void  whole_store(void *p, whole v) { _mm256_store_si256((__m256i *)p, v); }

/* As vec_keep. */
static inline whole whole_keep(whole v) { return v; }

/* Values of 32 codes, four bits a byte from bit 0 or 4 on. */
static inline whole look_up(whole in, int shift, const int8_t table[16])
{
    __m128i const once = _mm_loadu_si128((const __m128i *)(const void *)table);
    __m256i const values = _mm256_broadcastsi128_si256(once), nibble = _mm256_set1_epi8(15);
    return _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(in, shift), nibble));
}

/* Values of the codes of 8 blocks, 64 bytes.  Lane 2i has those of block i, lane 2i + 1 those of
 * block 4 + i; even and odd codes of a block's first half, then of its second. */
static inline void codes_spread(const uint8_t *codes, const int8_t table[16], whole out[4])
{
    __m256i const a = _mm256_loadu_si256((const __m256i *)(const void *)codes);
    __m256i const b = _mm256_loadu_si256((const __m256i *)(const void *)(codes + 32));
    __m256i const first = _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xAA);
    __m256i const second = _mm256_blend_epi32(_mm256_srli_epi64(a, 32), b, 0xAA);
    out[0] = look_up(first, 0, table);
    out[1] = look_up(first, 4, table);
    out[2] = look_up(second, 0, table);
    out[3] = look_up(second, 4, table);
}

/* start + the sums of a's products with b in each lane; those of a have no sign. */
static inline whole codes_dot(whole start, const whole a[4], const whole b[4])
{
    __m256i const first =
        _mm256_add_epi16(_mm256_maddubs_epi16(a[0], b[0]), _mm256_maddubs_epi16(a[1], b[1]));
    __m256i const second =
        _mm256_add_epi16(_mm256_maddubs_epi16(a[2], b[2]), _mm256_maddubs_epi16(a[3], b[3]));
    __m256i const pairs = _mm256_add_epi16(first, second);
    return _mm256_add_epi32(start, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline whole whole_zero(void) { return _mm256_setzero_si256(); }
static inline whole whole_bytes(char v) { return _mm256_set1_epi8(v); }
static inline whole whole_subtract(whole a, whole b) { return _mm256_sub_epi32(a, b); }
static inline vec   whole_to_f32(whole v) { return _mm256_cvtepi32_ps(v); }

/* Eight E4M3 codes in the order of codes_spread, each the upper half of 16 bits. */
static inline __m128i scale_codes(const uint8_t *sf)
{
    __m128i const place = _mm_setr_epi8(-1, 0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7);
    return _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(const void *)sf), place);
}

/* Their values times 2^-8: shifted into place they are f16 with an exponent that is 8 too small. */
static inline vec block_scales(const uint8_t *sf)
{
    __m128i const bits = _mm_set1_epi16((short)0xBF80);
    return _mm256_cvtph_ps(_mm_and_si128(_mm_srai_epi16(scale_codes(sf), 1), bits));
}

/* The same, where a code may be NaN. */
static inline vec block_scales_or_nan(const uint8_t *sf)
{
    __m128i const nan = _mm_set1_epi16(0x7F00);
    __m128i const is_nan = _mm_cmpeq_epi16(_mm_and_si128(scale_codes(sf), nan), nan);
    __m256 const  where = _mm256_castsi256_ps(_mm256_cvtepi16_epi32(is_nan));
    return _mm256_blendv_ps(block_scales(sf), _mm256_set1_ps(NAN), where);
}

#endif
