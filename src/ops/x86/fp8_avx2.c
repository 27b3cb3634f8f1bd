#include "ops/x86/dot.h"

static inline group decode(row_at at)
{
    float sf;
    group out;
    memcpy(&sf, at.sf, sizeof sf);
    __m256 const scale = _mm256_set1_ps(sf * 256);
    decode_32_e4m3(at.w, scale, out.v);
    decode_32_e4m3(at.w + 32, scale, out.v + 4);
    return out;
}

static const layout fp8 = {64, 0, decode};

static inline void keep_order(const float *x, float *out)
{
    memcpy(out, x, HD_PRODUCT_GROUP * sizeof *x);
}

static void arrange(const float *x, int32_t n, float *out) { arrange_all(x, n, out, keep_order); }

static void decode_part(const hd_product_part *p, float *out, int32_t stride)
{
    decode_rows(&fp8, p, out, stride);
}

static void dot(const hd_product_part *p, const hd_product_input *in, float *sums)
{
    dot_any(&fp8, p, in, sums);
}

const hd_product_format hd_product_fp8_avx2 = {8,   false,         arrange,      decode_part,
                                               dot, multiply_tile, add_all_lanes};
