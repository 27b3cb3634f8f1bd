#ifndef HD_OPS_X86_CODES_AVX512_H
#define HD_OPS_X86_CODES_AVX512_H

#include "ops/x86/vec_avx512.h"

/* Four-bit codes as whole numbers under AVX-512: VNNI sums four products a lane.  For w4a4.h. */

#define CODE_ROWS   4 /* by CODE_INPUTS: what 32 registers hold */
#define CODE_INPUTS 3

typedef __m512i whole;

static inline whole whole_load(const void *p) { return _mm512_load_si512(p); }
static inline void  whole_store(void *p, whole v) { _mm512_store_si512(p, v); }

/* As vec_keep. */
static inline whole whole_keep(whole v)
{
    __asm__("" : "+v"(v));
    return v;
}

/* Values of the even and odd codes of 64 bytes.  A look-up minds six bits of an index, so the
 * table is there four times and upper codes need no masking. */
static inline void codes_spread(const uint8_t *codes, const int8_t table[16], whole *even,
                                whole *odd)
{
    __m128i const once = _mm_loadu_si128((const __m128i *)(const void *)table);
    __m512i const values = _mm512_broadcast_i32x4(once);
    __m512i const in = _mm512_loadu_si512(codes);
    *even = _mm512_permutexvar_epi8(in, values);
    *odd = _mm512_permutexvar_epi8(_mm512_srli_epi16(in, 4), values);
}

/* start + the sums of a's products with b in each lane; those of a have no sign. */
static inline whole codes_dot(whole start, whole even_a, whole odd_a, whole even_b, whole odd_b)
{
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, even_a, even_b), odd_a, odd_b);
}

static inline whole whole_zero(void) { return _mm512_setzero_si512(); }
static inline whole whole_bytes(char v) { return _mm512_set1_epi8(v); }
static inline whole whole_subtract(whole a, whole b) { return _mm512_sub_epi32(a, b); }
static inline vec   whole_to_f32(whole v) { return _mm512_cvtepi32_ps(v); }

/* Eight E4M3 scales, each in two lanes, times 2^-8: shifted into place they are f16 with an
 * exponent that is 8 too small. */
static inline vec scales_spread(const uint8_t *sf)
{
    __m256i const place = _mm256_setr_epi8(-1, 0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3,
                                           -1, 4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7);
    int64_t       eight;
    memcpy(&eight, sf, sizeof eight);
    __m256i const top = _mm256_shuffle_epi8(_mm256_set1_epi64x(eight), place);
    __m256i const bits = _mm256_set1_epi16((short)0xBF80);
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_srai_epi16(top, 1), bits));
}

#endif
