#include "ops/x86/e2m1_avx512.h"

/* Scales of the four blocks: the bits of an E4M3 stand in an f32 with an exponent that is 120 too
 * small. */
static inline void decode_scales(const uint8_t *sf, float out[4])
{
    int32_t four;
    memcpy(&four, sf, sizeof four);
    __m128i const wide = _mm_slli_epi32(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)), 20);
    __m128i const bits = _mm_and_si128(wide, _mm_set1_epi32((int)0x87F00000));
    _mm_storeu_ps(out, _mm_mul_ps(_mm_castsi128_ps(bits), _mm_set1_ps(0x1p120f)));
}

static inline group decode(row_at at)
{
    float scale[4];
    group out;
    decode_scales(at.sf, scale);
#pragma GCC unroll 4
    for (int i = 0; i < GROUP_VECS; i++)
        out.v[i] = decode_16_e2m1(at.w + 8 * i, _mm512_set1_ps(scale[i]));
    return out;
}

static const layout nvfp4 = {32, 4, decode};

F32_FORMAT(hd_product_nvfp4_avx512, true, nvfp4, arrange_e2m1);
