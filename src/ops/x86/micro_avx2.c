#include "ops/x86/dot_avx2.h"
#include "ops/x86/vectors_avx2.h"

/* Products of decoded weights: four rows by up to three inputs at a time in registers. */

INLINE void multiply_block(const float *w, int32_t n, const float *x, int32_t stride, float *sums,
                           int32_t row_sums, const int n_x)
{
    __m256 sum[4][3];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < n_x; j++) sum[i][j] = _mm256_loadu_ps(sums + i * row_sums + j * 8);
    for (int32_t c = 0; c < n; c += 8) {
        __m256 in[3];
#pragma GCC unroll 3
        for (int j = 0; j < n_x; j++) in[j] = _mm256_loadu_ps(x + (int64_t)j * stride + c);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m256 const row = _mm256_loadu_ps(w + (int64_t)i * n + c);
#pragma GCC unroll 3
            for (int j = 0; j < n_x; j++) sum[i][j] = _mm256_fmadd_ps(row, in[j], sum[i][j]);
        }
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < n_x; j++) _mm256_storeu_ps(sums + i * row_sums + j * 8, sum[i][j]);
}

void hd_product_multiply_avx2(const float *w, int32_t n, const hd_product_input *in, float *sums)
{
    int32_t const row_sums = in->n_x * 8;
    for (int32_t j = 0; j < in->n_x; j += 3) {
        const float *const x = in->x + (int64_t)j * in->stride;
        for (int32_t i = 0; i < HD_PRODUCT_ROWS; i += 4) {
            const float *const rows = w + (int64_t)i * n;
            float *const       to = sums + (int64_t)i * row_sums + j * 8;
            switch (in->n_x - j) {
            case 1: multiply_block(rows, n, x, in->stride, to, row_sums, 1); break;
            case 2: multiply_block(rows, n, x, in->stride, to, row_sums, 2); break;
            default: multiply_block(rows, n, x, in->stride, to, row_sums, 3); break;
            }
        }
    }
}

float hd_product_add_lanes_avx2(const float *sums) { return add_lanes(_mm256_loadu_ps(sums)); }
