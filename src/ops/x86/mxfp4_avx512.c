#include "ops/x86/e2m1_avx512.h"

/* Four powers of two, each in the four lanes of its block; code 0 is a denormal. */
static inline vec decode_scales(const uint8_t *sf)
{
    /* Byte i becomes the upper one of lanes 4i .. 4i + 3. */
    __m512i const byte = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512i const place =
        _mm512_or_si512(_mm512_slli_epi32(byte, 24), _mm512_set1_epi32(0x00808080));
    int32_t four;
    memcpy(&four, sf, sizeof four);
    __m512i const bits = _mm512_srli_epi32(_mm512_shuffle_epi8(_mm512_set1_epi32(four), place), 1);
    return _mm512_castsi512_ps(_mm512_max_epu32(bits, _mm512_set1_epi32(0x00400000)));
}

static inline group decode(row_at at)
{
    group out;
    decode_e2m1(at.w, out.v);
    out.scale = decode_scales(at.sf);
    return out;
}

static const layout mxfp4 = {GROUP / 2, GROUP / 32, true, E2M1_UNIT, decode};

F32_FORMAT(hd_product_mxfp4_avx512, false, mxfp4, arrange_e2m1);
