#include "ops/x86/dot_avx2.h"

/* Eight E4M3 in the upper bytes of words become f16 with an exponent that is 8 too small. */
static inline __m256 to_f32(__m128i words, __m256 scale)
{
    return _mm256_mul_ps(_mm256_cvtph_ps(words), scale);
}

static inline void decode_half(const uint8_t *w, __m256 scale, __m256 out[4])
{
    __m256i const bits = _mm256_set1_epi16((short)0xBF80), zero = _mm256_setzero_si256();
    __m256i const codes = _mm256_loadu_si256((const __m256i *)(const void *)w);
    __m256i const low = _mm256_unpacklo_epi8(zero, codes);
    __m256i const high = _mm256_unpackhi_epi8(zero, codes);
    __m256i const a = _mm256_and_si256(_mm256_srai_epi16(low, 1), bits);
    __m256i const b = _mm256_and_si256(_mm256_srai_epi16(high, 1), bits);
    out[0] = to_f32(_mm256_castsi256_si128(a), scale);
    out[1] = to_f32(_mm256_castsi256_si128(b), scale);
    out[2] = to_f32(_mm256_extracti128_si256(a, 1), scale);
    out[3] = to_f32(_mm256_extracti128_si256(b, 1), scale);
}

static inline octet decode(row_at at)
{
    float sf;
    octet out;
    memcpy(&sf, at.sf, sizeof sf);
    __m256 const scale = _mm256_set1_ps(sf * 256);
    decode_half(at.w, scale, out.v);
    decode_half(at.w + 32, scale, out.v + 4);
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

const hd_product_format hd_product_fp8_avx2 = {
    8, false, arrange, decode_part, dot, hd_product_multiply_avx2, hd_product_add_lanes_avx2};
