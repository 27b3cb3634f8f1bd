#ifndef HD_OPS_X86_READ_ROW_AVX2_H
#define HD_OPS_X86_READ_ROW_AVX2_H

#include "kv/row.h"
#include "ops/x86/vectors_avx2.h"
#include "quant/bf16.h"
#include "quant/fp8.h"

/* Reads rows of a KV cache for kernels that take whole vectors. */

static inline void read_bf16(const uint8_t *in, int32_t n, float *out)
{
    int32_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(out + i, load_bf16(in + 2 * i));
    for (; i < n; i++) {
        uint16_t b;
        memcpy(&b, in + 2 * i, sizeof b);
        out[i] = hd_bf16_to_f32(b);
    }
}

/* Blocks of 64 with a power of two each; that of a block with NaN is NaN. */
static inline void read_fp8(const uint8_t *codes, const uint8_t *scales, int32_t n, float *out)
{
    for (int32_t i = 0; i < n; i += 32) {
        __m256 v[4];
        decode_32_e4m3(codes + i, _mm256_set1_ps(hd_e8m0_to_f32(scales[i / 64]) * 256), v);
        for (int k = 0; k < 4; k++) _mm256_storeu_ps(out + i + 8 * k, v[k]);
    }
}

/* 16 codes of four bits times a scale: doubled, they are whole numbers. */
static inline void read_e2m1(const uint8_t *codes, float scale, float *out)
{
    __m128i const doubled = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    __m128i const nibble = _mm_set1_epi8(15);
    __m128i const in = _mm_loadl_epi64((const __m128i *)(const void *)codes);
    __m128i const even = _mm_and_si128(in, nibble);
    __m128i const odd = _mm_and_si128(_mm_srli_epi16(in, 4), nibble);
    __m128i const value = _mm_shuffle_epi8(doubled, _mm_unpacklo_epi8(even, odd));
    __m256 const  s = _mm256_set1_ps(scale * 0.5f);
    __m256 const  low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(value));
    __m256 const  high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(value, 8)));
    _mm256_storeu_ps(out, _mm256_mul_ps(low, s));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(high, s));
}

/* The row as f32, as hd_row_read; but a negative zero may lose its sign. */
static inline const float *read_row(const hd_row_layout *l, const uint8_t *pool, int64_t row,
                                    float *buffer)
{
    const uint8_t *const data = pool + hd_row_data_at(l, row);
    const uint8_t *const scales = pool + hd_row_scale_at(l, row);
    int32_t const        n = l->d - l->tail;
    switch (l->format) {
    case HD_ROW_F32: return (const float *)(const void *)data;
    case HD_ROW_BF16: read_bf16(data, l->d, buffer); break;
    case HD_ROW_FP8:
        read_fp8(data, scales, n, buffer);
        read_bf16(data + n, l->tail, buffer + n);
        break;
    case HD_ROW_NVFP4:
        for (int32_t i = 0; i < n; i += 16)
            read_e2m1(data + i / 2, hd_e4m3_to_f32(scales[i / 16]), buffer + i);
        read_bf16(data + n / 2, l->tail, buffer + n);
        break;
    case HD_ROW_MXFP4:
        for (int32_t i = 0; i < n; i += 16)
            read_e2m1(data + i / 2, hd_e8m0_to_f32(scales[i / 32]), buffer + i);
        break;
    }
    return buffer;
}

#endif
