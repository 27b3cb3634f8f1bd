#include "ops/x86/dot.h"

/* Of 16 weights the even ones come first, then the odd ones. */
static inline group decode(row_at at)
{
    __m256i const upper = _mm256_set1_epi32((int)0xFFFF0000);
    group         out;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256i const w = _mm256_loadu_si256((const __m256i *)(const void *)(at.w + 32 * i));
        out.v[2 * i] = _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
        out.v[2 * i + 1] = _mm256_castsi256_ps(_mm256_and_si256(w, upper));
    }
    out.scale = vec_zero();
    return out;
}

static const layout bf16 = {2 * GROUP, 0, false, 1, decode};

static inline __m256 restore_halves(__m256 v)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xD8));
}

static inline void part_even_from_odd(const float *x, float *out)
{
    for (int i = 0; i < GROUP; i += 16) {
        __m256 const a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
        _mm256_storeu_ps(out + i, restore_halves(_mm256_shuffle_ps(a, b, 0x88)));
        _mm256_storeu_ps(out + i + 8, restore_halves(_mm256_shuffle_ps(a, b, 0xDD)));
    }
}

F32_FORMAT(hd_product_bf16_avx2, false, bf16, part_even_from_odd);
