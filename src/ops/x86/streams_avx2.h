#ifndef HD_OPS_X86_STREAMS_AVX2_H
#define HD_OPS_X86_STREAMS_AVX2_H

#include <math.h>

#include "ops/x86/product.h"
#include "ops/x86/vectors_avx2.h"

/* What hc_pre and hc_head share.  Both begin with a matrix of few rows times the streams; its
 * results wait in the rows of x until they are used up there. */

typedef struct stream_rows {
    const float *s;  /* [t, m, d] */
    const float *fn; /* [n, m*d]  */
    float       *x;  /* [t, d], n <= d */
    int32_t      t, m, d, n;
} stream_rows;

/* x[t, i] = fn[i] . flatten(s[t]) for i < n. */
static inline hd_status multiply_streams(const stream_rows *r, hd_stream *stream)
{
    int32_t const      k = r->m * r->d;
    hd_gemm_args const a = {r->s, r->fn, NULL, r->x, r->t, r->n, k, 1, 1, false, NULL, NULL, NULL};
    return hd_product_gemm_into(&a, r->d, stream, &hd_product_f32_avx2);
}

/* 1 / sqrt(mean(s[t]^2) + eps) */
static inline double inverse_rms(const stream_rows *r, int32_t t, float eps)
{
    int32_t const      width = r->m * r->d;
    const float *const s = r->s + (int64_t)t * width;
    __m256             sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int32_t c = 0; c < width; c += 8) {
        __m256 const v = load_first(s + c, width - c);
        sum[c / 8 % 2] = _mm256_fmadd_ps(v, v, sum[c / 8 % 2]);
    }
    return 1 / sqrt((double)add_lanes(_mm256_add_ps(sum[0], sum[1])) / width + eps);
}

static inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* x[t, c] = sum_i weight[i] * s[t, i, c] */
static inline void weigh_streams(const stream_rows *r, int32_t t, const float *weight)
{
    const float *const s = r->s + (int64_t)t * r->m * r->d;
    for (int32_t c = 0; c < r->d; c += 8) {
        __m256 sum = _mm256_setzero_ps();
        for (int32_t i = 0; i < r->m; i++)
            sum = _mm256_fmadd_ps(load_first(s + (int64_t)i * r->d + c, r->d - c),
                                  _mm256_set1_ps(weight[i]), sum);
        store_first(r->x + (int64_t)t * r->d + c, r->d - c, sum);
    }
}

#endif
