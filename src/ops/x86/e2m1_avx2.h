#ifndef HD_OPS_X86_E2M1_AVX2_H
#define HD_OPS_X86_E2M1_AVX2_H

#include "ops/x86/dot.h"

/* ---- four-bit codes ----
 * A group is 32 bytes, four blocks of 16 codes.  A vector holds every fourth code of a block in
 * its lower half, and the same ones two blocks later in its upper half; first come the even codes
 * of blocks 0 and 1, then the odd ones. */

/* The upper halves of f32 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, split into bytes. */
INLINE __m256i e2m1_low_bytes(void)
{
    return _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64));
}
INLINE __m256i e2m1_high_bytes(void)
{
    return _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40,
                                                     -128, -65, -65, -65, -64, -64, -64, -64));
}

/* 16 halves of f32 to two vectors times a scale: the even ones and the odd ones. */
INLINE void widen(__m256i halves, __m256 scale, __m256 *even, __m256 *odd)
{
    __m256i const upper = _mm256_set1_epi32((int)0xFFFF0000);
    *even = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(halves, 16)), scale);
    *odd = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(halves, upper)), scale);
}

/* Scale j is that of blocks j and j + 2, each in its half. */
INLINE group decode_e2m1(const uint8_t *w, __m256 scale0, __m256 scale1)
{
    __m256i const nibble = _mm256_set1_epi8(15);
    __m256i const codes = _mm256_loadu_si256((const __m256i *)(const void *)w);
    __m256i const even = _mm256_and_si256(codes, nibble);
    __m256i const odd = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble);
    __m256i const even_low = _mm256_shuffle_epi8(e2m1_low_bytes(), even);
    __m256i const even_high = _mm256_shuffle_epi8(e2m1_high_bytes(), even);
    __m256i const odd_low = _mm256_shuffle_epi8(e2m1_low_bytes(), odd);
    __m256i const odd_high = _mm256_shuffle_epi8(e2m1_high_bytes(), odd);
    group         out;
    widen(_mm256_unpacklo_epi8(even_low, even_high), scale0, &out.v[0], &out.v[1]);
    widen(_mm256_unpackhi_epi8(even_low, even_high), scale1, &out.v[2], &out.v[3]);
    widen(_mm256_unpacklo_epi8(odd_low, odd_high), scale0, &out.v[4], &out.v[5]);
    widen(_mm256_unpackhi_epi8(odd_low, odd_high), scale1, &out.v[6], &out.v[7]);
    out.scale = vec_zero();
    return out;
}

INLINE __m256 load_halves(const float *low, const float *high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

/* Two blocks as columns of a 4 x 4 matrix each, transposed: even columns, then the odd ones four
 * vectors behind. */
INLINE void arrange_blocks(const float *x, float *out)
{
    __m256 const a = load_halves(x, x + 32), b = load_halves(x + 4, x + 36);
    __m256 const c = load_halves(x + 8, x + 40), d = load_halves(x + 12, x + 44);
    __m256 const ab0 = _mm256_unpacklo_ps(a, b), ab1 = _mm256_unpackhi_ps(a, b);
    __m256 const cd0 = _mm256_unpacklo_ps(c, d), cd1 = _mm256_unpackhi_ps(c, d);
    _mm256_storeu_ps(out, _mm256_shuffle_ps(ab0, cd0, 0x44));
    _mm256_storeu_ps(out + 8, _mm256_shuffle_ps(ab1, cd1, 0x44));
    _mm256_storeu_ps(out + 32, _mm256_shuffle_ps(ab0, cd0, 0xEE));
    _mm256_storeu_ps(out + 40, _mm256_shuffle_ps(ab1, cd1, 0xEE));
}

INLINE void arrange_e2m1(const float *x, float *out)
{
    arrange_blocks(x, out);
    arrange_blocks(x + 16, out + 16);
}

#endif
