#ifndef HD_OPS_X86_HADAMARD_AVX2_H
#define HD_OPS_X86_HADAMARD_AVX2_H

#include <math.h>

#include "ops/x86/vectors_avx2.h"

/* Sums and differences at distance 1, 2, 4, ..: the product in k log k steps. */

/* Within a vector: partners in `other`, the upper one of each pair negated by `sign`. */
static inline __m256 add_partners(__m256 v, __m256 other, __m256 sign)
{
    return _mm256_add_ps(_mm256_xor_ps(v, sign), other);
}

static inline __m256 transform_8(__m256 v)
{
    float const  n = -0.0f;
    __m256 const s1 = _mm256_setr_ps(0, n, 0, n, 0, n, 0, n);
    __m256 const s2 = _mm256_setr_ps(0, 0, n, n, 0, 0, n, n);
    __m256 const s4 = _mm256_setr_ps(0, 0, 0, 0, n, n, n, n);
    v = add_partners(v, _mm256_permute_ps(v, 0xB1), s1);
    v = add_partners(v, _mm256_permute_ps(v, 0x4E), s2);
    return add_partners(v, _mm256_permute2f128_ps(v, v, 0x01), s4);
}

static inline void transform_small(float *x, int32_t k, float norm)
{
    for (int32_t step = 1; step < k; step *= 2)
        for (int32_t i = 0; i < k; i++) {
            if (i & step) continue;
            float const a = x[i], b = x[i + step];
            x[i] = a + b;
            x[i + step] = a - b;
        }
    for (int32_t i = 0; i < k; i++) x[i] *= norm;
}

static inline void transform_large(float *x, int32_t k, float norm)
{
    for (int32_t i = 0; i < k; i += 8)
        _mm256_storeu_ps(x + i,
                         _mm256_mul_ps(transform_8(_mm256_loadu_ps(x + i)), _mm256_set1_ps(norm)));
    for (int32_t step = 8; step < k; step *= 2)
        for (int32_t i = 0; i < k; i += 8) {
            if (i & step) continue;
            __m256 const a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + step);
            _mm256_storeu_ps(x + i, _mm256_add_ps(a, b));
            _mm256_storeu_ps(x + i + step, _mm256_sub_ps(a, b));
        }
}

/* In place; k a power of two. */
static inline void transform_row(float *x, int32_t k)
{
    float const norm = (float)(1 / sqrt(k));
    if (k >= 8)
        transform_large(x, k, norm);
    else
        transform_small(x, k, norm);
}

#endif
