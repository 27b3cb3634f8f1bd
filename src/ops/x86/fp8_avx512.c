#include "ops/x86/dot.h"

/* Widened by the half from memory, which costs one instruction; from a register it is three. */
static inline void widen_32(__m512i f16, vec *low, vec *high)
{
    __m512i at[1] = {f16};
    __asm__("" : "+m"(at)); /* or GCC sees that it has it in a register */
    *low = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)at));
    *high = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)at + 1));
}

/* 64 codes, the even ones first.  Shifted into place they are f16 with an exponent that is 8 too
 * small. */
static inline void decode_64(const uint8_t *w, vec out[4])
{
    __m512i const bits = _mm512_set1_epi16((short)0xBF80);
    __m512i const codes = _mm512_loadu_si512(w);
    __m512i const even = _mm512_srai_epi16(_mm512_slli_epi16(codes, 8), 1);
    __m512i const odd = _mm512_srai_epi16(codes, 1);
    widen_32(_mm512_and_si512(even, bits), &out[0], &out[1]);
    widen_32(_mm512_and_si512(odd, bits), &out[2], &out[3]);
}

/* A group is as wide as a block, so one scale serves it; 2^8 make the exponents right. */
static inline group decode(row_at at)
{
    float sf;
    group out;
    decode_64(at.w, out.v);
    decode_64(at.w + 64, out.v + 4);
    memcpy(&sf, at.sf, sizeof sf);
    out.scale = _mm512_set1_ps(sf * 256);
    return out;
}

static const layout fp8 = {GROUP, 0, true, 1, decode};

static inline void part_even_from_odd(const float *x, float *out)
{
    __m512i const even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    __m512i const odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int i = 0; i < GROUP; i += 64)
        for (int j = 0; j < 2; j++) {
            vec const a = vec_load(x + i + 32 * j), b = vec_load(x + i + 32 * j + 16);
            vec_store(out + i + 16 * j, _mm512_permutex2var_ps(a, even, b));
            vec_store(out + i + 32 + 16 * j, _mm512_permutex2var_ps(a, odd, b));
        }
}

F32_FORMAT(hd_product_fp8_avx512, false, fp8, part_even_from_odd);
