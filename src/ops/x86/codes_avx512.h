#ifndef HD_OPS_X86_CODES_AVX512_H
#define HD_OPS_X86_CODES_AVX512_H

#include <math.h>

#include "ops/x86/vec_avx512.h"

/* Four-bit codes as whole numbers under AVX-512: VNNI sums four products a lane.  For w4a4.h. */

#define CODE_ROWS   2 /* by CODE_INPUTS: what 32 registers hold */
#define CODE_INPUTS 6

typedef __m512i whole;

static inline whole whole_load(const void *p) { return _mm512_load_si512(p); }
static inline void  whole_store(void *p, whole v) { _mm512_store_si512(p, v); }

/* As vec_keep. */
static inline whole whole_keep(whole v)
{
    __asm__("" : "+v"(v));
    return v;
}

/* Values of the codes of 16 blocks, 128 bytes.  Lane 2i has those of block i, lane 2i + 1 those of
 * block 8 + i; even and odd codes of a block's first half, then of its second.  A look-up minds
 * six bits of an index, so the table is there four times and upper codes need no masking. */
static inline void codes_spread(const uint8_t *codes, const int8_t table[16], whole out[4])
{
    __m128i const once = _mm_loadu_si128((const __m128i *)(const void *)table);
    __m512i const values = _mm512_broadcast_i32x4(once);
    __m512i const a = _mm512_loadu_si512(codes), b = _mm512_loadu_si512(codes + 64);
    __m512i const first = _mm512_mask_shuffle_epi32(a, 0xAAAA, b, _MM_PERM_CCAA);
    __m512i const second = _mm512_mask_shuffle_epi32(b, 0x5555, a, _MM_PERM_DDBB);
    out[0] = _mm512_permutexvar_epi8(first, values);
    out[1] = _mm512_permutexvar_epi8(_mm512_srli_epi16(first, 4), values);
    out[2] = _mm512_permutexvar_epi8(second, values);
    out[3] = _mm512_permutexvar_epi8(_mm512_srli_epi16(second, 4), values);
}

/* start + the sums of a's products with b in each lane; those of a have no sign. */
static inline whole codes_dot(whole start, const whole a[4], const whole b[4])
{
    whole const half = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(start, a[0], b[0]), a[1], b[1]);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(half, a[2], b[2]), a[3], b[3]);
}

static inline whole whole_zero(void) { return _mm512_setzero_si512(); }
static inline whole whole_bytes(char v) { return _mm512_set1_epi8(v); }
static inline whole whole_subtract(whole a, whole b) { return _mm512_sub_epi32(a, b); }
static inline vec   whole_to_f32(whole v) { return _mm512_cvtepi32_ps(v); }

/* Eight E4M3 scales, each in two lanes, times 2^-8: shifted into place they are f32 with an
 * exponent that is 120 too small.  (By way of f16 it is one instruction more.) */
static inline vec scales_spread(const uint8_t *sf)
{
    /* The upper byte of lanes 2i and 2i + 1 is byte i; the others are none. */
    __m512i const pair = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    __m512i const lane = _mm512_or_si512(_mm512_slli_epi64(pair, 56), _mm512_slli_epi64(pair, 24));
    __m512i const place = _mm512_or_si512(lane, _mm512_set1_epi32(0x00808080));
    int64_t       eight;
    memcpy(&eight, sf, sizeof eight);
    __m512i const top = _mm512_shuffle_epi8(_mm512_set1_epi64(eight), place);
    __m512i const bits = _mm512_set1_epi32((int)0x87F00000);
    __m512i const f32 = _mm512_and_si512(_mm512_srai_epi32(top, 4), bits);
    return _mm512_mul_ps(_mm512_castsi512_ps(f32), _mm512_set1_ps(0x1p112f));
}

/* 16 E4M3 scales in the order of codes_spread, likewise times 2^-8. */
static inline vec block_scales(const uint8_t *sf)
{
    __m128i const place = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    __m128i const all = _mm_loadu_si128((const __m128i *)(const void *)sf);
    __m256i const codes = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(all, place));
    __m256i const bits = _mm256_set1_epi16((short)0xBF80);
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(codes, 7), bits));
}

/* The same, where a code may be NaN. */
static inline vec block_scales_or_nan(const uint8_t *sf)
{
    __m128i const place = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    __m128i const all = _mm_loadu_si128((const __m128i *)(const void *)sf);
    __m128i const nan = _mm_set1_epi8(0x7F);
    __m128i const size = _mm_and_si128(_mm_shuffle_epi8(all, place), nan);
    return _mm512_mask_mov_ps(block_scales(sf), _mm_cmpeq_epi8_mask(size, nan),
                              _mm512_set1_ps(NAN));
}

#endif
