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

static void arrange(const float *x, int32_t n, float *out) { arrange_all(x, n, out, arrange_e2m1); }

static void decode_part(const hd_product_part *p, float *out, int32_t stride)
{
    decode_rows(&mxfp4, p, out, stride);
}

static void dot(const hd_product_part *p, const hd_product_input *in, float *sums)
{
    dot_any(&mxfp4, p, in, sums);
}

const hd_product_format hd_product_mxfp4_avx512 = {
    VEC_LANES, false, arrange, decode_part, dot, multiply_tile, add_all_lanes};
