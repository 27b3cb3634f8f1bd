#include "ops/x86/dot.h"

static inline group decode(row_at at)
{
    group out;
    memcpy(&out, at.w, sizeof out);
    return out;
}

static const layout f32 = {HD_PRODUCT_GROUP * 4, 0, decode};

static inline void keep_order(const float *x, float *out)
{
    memcpy(out, x, HD_PRODUCT_GROUP * sizeof *x);
}

static void arrange(const float *x, int32_t n, float *out) { arrange_all(x, n, out, keep_order); }

static void decode_part(const hd_product_part *p, float *out, int32_t stride)
{
    decode_rows(&f32, p, out, stride);
}

static void dot(const hd_product_part *p, const hd_product_input *in, float *sums)
{
    dot_any(&f32, p, in, sums);
}

const hd_product_format hd_product_f32_avx512 = {
    VEC_LANES, false, arrange, decode_part, dot, multiply_tile, add_all_lanes};
