#ifndef HD_OPS_X86_NORM_AVX2_H
#define HD_OPS_X86_NORM_AVX2_H

#include <math.h>

#include "ops/x86/vectors_avx2.h"

/* Squares in double: a row may be as large as f32 allows. */
static inline double square_sum(const float *x, int32_t d)
{
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    double  part[4];
    for (int32_t c = 0; c < d; c += 8) {
        __m256 const  v = load_first(x + c, d - c);
        __m256d const a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d const b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        low = _mm256_fmadd_pd(a, a, low);
        high = _mm256_fmadd_pd(b, b, high);
    }
    _mm256_storeu_pd(part, _mm256_add_pd(low, high));
    return part[0] + part[1] + part[2] + part[3];
}

/* RMSNorm of a row; w NULL for none, y may be x. */
static inline void norm_row(const float *x, const float *w, int32_t d, float eps, float *y)
{
    __m256d const factor = _mm256_set1_pd(1 / sqrt(square_sum(x, d) / d + eps));
    for (int32_t c = 0; c < d; c += 8) {
        __m256 const  v = load_first(x + c, d - c);
        __m256d const low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d const high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        __m256 const  scaled = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_mul_pd(high, factor)),
                                               _mm256_cvtpd_ps(_mm256_mul_pd(low, factor)));
        __m256 const  by = w ? load_first(w + c, d - c) : _mm256_set1_ps(1);
        store_first(y + c, d - c, _mm256_mul_ps(scaled, by));
    }
}

#endif
