#include "ops/x86/e2m1_avx2.h"

/* The scale of blocks 0 and 1, one of 32 here, in the lower half, of 2 and 3 in the upper.  Code
 * 0 is a denormal. */
static inline __m256 decode_scales(const uint8_t *sf)
{
    __m256i const denormal = _mm256_set1_epi32(0x00400000);
    __m256i const codes =
        _mm256_insertf128_si256(_mm256_set1_epi32(sf[0]), _mm_set1_epi32(sf[1]), 1);
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_slli_epi32(codes, 23), denormal));
}

static inline group decode(row_at at)
{
    __m256 const scales = decode_scales(at.sf);
    return decode_e2m1(at.w, scales, scales);
}

static const layout mxfp4 = {GROUP / 2, GROUP / 32, false, 1, decode};

F32_FORMAT(hd_product_mxfp4_avx2, false, mxfp4, arrange_e2m1);
