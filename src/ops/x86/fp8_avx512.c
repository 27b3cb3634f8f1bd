#include "ops/x86/dot.h"

/* Shifted into place E4M3 codes are f16 with an exponent that is 8 too small.  Each quarter of a
 * register is widened by itself: first come the lower eight codes of each 16. */
static inline group decode(row_at at)
{
    __m512i const bits = _mm512_set1_epi16((short)0xBF80), zero = _mm512_setzero_si512();
    __m512i const codes = _mm512_loadu_si512(at.w);
    __m512i const low = _mm512_srai_epi16(_mm512_unpacklo_epi8(zero, codes), 1);
    __m512i const high = _mm512_srai_epi16(_mm512_unpackhi_epi8(zero, codes), 1);
    __m512i const a = _mm512_and_si512(low, bits), b = _mm512_and_si512(high, bits);
    float         sf;
    group         out;
    memcpy(&sf, at.sf, sizeof sf);
    vec const scale = _mm512_set1_ps(sf * 256);
    out.v[0] = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(a)), scale);
    out.v[1] = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(a, 1)), scale);
    out.v[2] = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(b)), scale);
    out.v[3] = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(b, 1)), scale);
    return out;
}

static const layout fp8 = {64, 0, decode};

static inline void part_halves(const float *x, float *out)
{
    for (int i = 0; i < 4; i++) {
        memcpy(out + 8 * i, x + 16 * i, 8 * sizeof *x);
        memcpy(out + 32 + 8 * i, x + 16 * i + 8, 8 * sizeof *x);
    }
}

F32_FORMAT(hd_product_fp8_avx512, false, fp8, part_halves);
