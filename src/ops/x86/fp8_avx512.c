#include "ops/x86/dot.h"

/* 64 codes.  Shifted into place they are f16 with an exponent that is 8 too small.  Each quarter of
 * a register is widened by itself: first come the lower eight codes of each 16. */
static inline void decode_64(const uint8_t *w, vec out[4])
{
    __m512i const bits = _mm512_set1_epi16((short)0xBF80), zero = _mm512_setzero_si512();
    __m512i const codes = _mm512_loadu_si512(w);
    __m512i const low = _mm512_srai_epi16(_mm512_unpacklo_epi8(zero, codes), 1);
    __m512i const high = _mm512_srai_epi16(_mm512_unpackhi_epi8(zero, codes), 1);
    __m512i const a = _mm512_and_si512(low, bits), b = _mm512_and_si512(high, bits);
    out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(a));
    out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(a, 1));
    out[2] = _mm512_cvtph_ps(_mm512_castsi512_si256(b));
    out[3] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(b, 1));
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

static inline void part_halves(const float *x, float *out)
{
    for (int i = 0; i < GROUP; i += 64)
        for (int j = 0; j < 4; j++) {
            memcpy(out + i + 8 * j, x + i + 16 * j, 8 * sizeof *x);
            memcpy(out + i + 32 + 8 * j, x + i + 16 * j + 8, 8 * sizeof *x);
        }
}

F32_FORMAT(hd_product_fp8_avx512, false, fp8, part_halves);
