#include "ops/x86/e2m1_avx2.h"

/* Scales of blocks 0 and 1 in the lower half, of 2 and 3 in the upper: the bits of an E4M3 stand
 * in an f32 with an exponent that is 120 too small. */
static inline __m256 decode_scales(const uint8_t *sf)
{
    __m256i const bits = _mm256_set1_epi32((int)0x87F00000);
    __m256i const place =
        _mm256_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2,
                         -1, -1, -1, 3, -1, -1, -1, 2, -1, -1, -1, 3);
    int32_t four;
    memcpy(&four, sf, sizeof four);
    __m256i const top = _mm256_shuffle_epi8(_mm256_set1_epi32(four), place);
    __m256i const f32 = _mm256_and_si256(_mm256_srai_epi32(top, 4), bits);
    return _mm256_mul_ps(_mm256_castsi256_ps(f32), _mm256_set1_ps(0x1p120f));
}

static inline group decode(row_at at)
{
    __m256 const scales = decode_scales(at.sf);
    return decode_e2m1(at.w, _mm256_permute_ps(scales, 0x00), _mm256_permute_ps(scales, 0x55));
}

static const layout nvfp4 = {GROUP / 2, GROUP / 16, false, 1, decode};

F32_FORMAT(hd_product_nvfp4_avx2, true, nvfp4, arrange_e2m1);
