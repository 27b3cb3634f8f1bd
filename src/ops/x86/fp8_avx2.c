#include "ops/x86/dot.h"

static inline group decode(row_at at)
{
    float sf;
    group out;
    memcpy(&sf, at.sf, sizeof sf);
    __m256 const scale = _mm256_set1_ps(sf * 256);
    decode_32_e4m3(at.w, scale, out.v);
    decode_32_e4m3(at.w + 32, scale, out.v + 4);
    out.scale = vec_zero();
    return out;
}

static const layout fp8 = {GROUP, 0, false, 1, decode};

static inline void keep_order(const float *x, float *out) { memcpy(out, x, GROUP * sizeof *x); }

F32_FORMAT(hd_product_fp8_avx2, false, fp8, keep_order);
