#include "ops/x86/e2m1_avx512.h"

/* A power of two; code 0 is a denormal. */
static inline vec decode_scale(uint8_t code)
{
    int32_t const bits = (int32_t)((uint32_t)code << 23);
    return _mm512_castsi512_ps(_mm512_set1_epi32(bits > 0x00400000 ? bits : 0x00400000));
}

static inline group decode(row_at at)
{
    vec const low = decode_scale(at.sf[0]), high = decode_scale(at.sf[1]);
    group     out;
#pragma GCC unroll 4
    for (int i = 0; i < GROUP_VECS; i++)
        out.v[i] = decode_16_e2m1(at.w + 8 * i, i < 2 ? low : high);
    return out;
}

static const layout mxfp4 = {32, 2, decode};

F32_FORMAT(hd_product_mxfp4_avx512, false, mxfp4, arrange_e2m1);
