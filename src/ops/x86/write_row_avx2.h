#ifndef HD_OPS_X86_WRITE_ROW_AVX2_H
#define HD_OPS_X86_WRITE_ROW_AVX2_H

#include "kv/row.h"
#include "ops/x86/fp4_codes_avx2.h"
#include "quant/bf16.h"
#include "quant/fp4.h"
#include "quant/fp8.h"

/* Rows of a cache from f32, for kernels that make them: the bytes of hd_row_write. */

/* NaN stays NaN, and a quiet one. */
static inline void encode_bf16(const float *x, int32_t n, uint8_t *out)
{
    __m256i const one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7FFF);
    int32_t       i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 const  v = _mm256_loadu_ps(x + i);
        __m256i const u = _mm256_castps_si256(v), high = _mm256_srli_epi32(u, 16);
        __m256i const up = _mm256_add_epi32(half, _mm256_and_si256(high, one));
        __m256i const rounded = _mm256_srli_epi32(_mm256_add_epi32(u, up), 16);
        __m256i const quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
        __m256i const is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        __m256i const b = _mm256_blendv_epi8(rounded, quiet, is_nan);
        __m128i const words =
            _mm_packus_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * i), words);
    }
    for (; i < n; i++) {
        uint16_t const b = hd_f32_to_bf16(x[i]);
        memcpy(out + 2 * i, &b, sizeof b);
    }
}

/* Eight E4M3 codes, one in each lane, of values that E4M3 has: below 2^-6 whole steps of 2^-9,
 * above the upper bits of the f32 with another bias. */
static inline __m256i e4m3_codes(__m256 v)
{
    __m256 const  a = magnitude(v);
    __m256i const steps = _mm256_cvtps_epi32(_mm256_mul_ps(a, _mm256_set1_ps(512)));
    __m256i const normal = _mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(a), 20),
                                            _mm256_set1_epi32((127 - 7) << 3));
    __m256i const is_small =
        _mm256_castps_si256(_mm256_cmp_ps(a, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ));
    __m256i const sign =
        _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(v), 24), _mm256_set1_epi32(0x80));
    return _mm256_or_si256(_mm256_blendv_epi8(normal, steps, is_small), sign);
}

/* n elements, a multiple of 32, that share the scale returned as its E8M0 code. */
static inline uint8_t encode_e4m3(const float *x, int32_t n, uint8_t *codes)
{
    float const largest = finite_largest(x, n);
    if (largest != largest) {
        memset(codes, 0x7F, (size_t)n);
        return 0xFF;
    }
    double const  scale = hd_fp8_scale(largest);
    __m256 const  inverse = _mm256_set1_ps((float)(1 / scale)); /* a power of two: exact */
    __m256i const order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int32_t i = 0; i < n; i += 32) {
        __m256i c[4];
        for (int k = 0; k < 4; k++) {
            __m256 const v = _mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * k), inverse);
            c[k] = e4m3_codes(round_to_steps(v, 3, -6));
        }
        __m256i const bytes =
            _mm256_packus_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
        _mm256_storeu_si256((__m256i *)(void *)(codes + i),
                            _mm256_permutevar8x32_epi32(bytes, order));
    }
    return (uint8_t)(ilogb(scale) + 127);
}

/* 16 codes of the same scale, which is above 0. */
static inline void encode_16_e2m1(const float *x, const code_scale *c, uint8_t *codes)
{
    __m256 const a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(x + 8);
    store_codes(find_codes(c, a), a, find_codes(c, b), b, codes);
}

/* A block of NVFP4 whose tensor has scale 1; returns its own scale. */
static inline uint8_t encode_nvfp4(const float *x, uint8_t *codes)
{
    int32_t       saturated = 0;
    float const   largest = finite_largest(x, HD_NVFP4_BLOCK);
    uint8_t const scale = hd_nvfp4_block_scale(largest, 1, &saturated);
    double const  s = hd_e4m3_to_f32(scale);
    if (s > 0) {
        code_scale const c = make_scale(s);
        encode_16_e2m1(x, &c, codes);
    } else {
        memset(codes, 0, HD_NVFP4_BLOCK / 2);
    }
    return scale;
}

/* A block of MXFP4; returns its scale. */
static inline uint8_t encode_mxfp4(const float *x, uint8_t *codes)
{
    float const largest = finite_largest(x, HD_MXFP4_BLOCK);
    int         exponent = 0;
    if (largest != largest) {
        memset(codes, 0, HD_MXFP4_BLOCK / 2);
        return 0xFF;
    }
    if (largest > 0) exponent = ilogb(hd_pow2_ceil(largest / HD_E2M1_MAX));
    if (exponent < -127) exponent = -127;
    code_scale const c = make_scale(ldexp(1, exponent));
    for (int32_t i = 0; i < HD_MXFP4_BLOCK; i += 16) encode_16_e2m1(x + i, &c, codes + i / 2);
    return (uint8_t)(exponent + 127);
}

/* Stores x [d]. */
static inline void write_row(const hd_row_layout *l, uint8_t *pool, int64_t row, const float *x)
{
    uint8_t *const data = pool + hd_row_data_at(l, row);
    uint8_t *const scales = pool + hd_row_scale_at(l, row);
    int32_t const  n = l->d - l->tail;
    switch (l->format) {
    case HD_ROW_F32: memcpy(data, x, (size_t)l->d * sizeof *x); break;
    case HD_ROW_BF16: encode_bf16(x, l->d, data); break;
    case HD_ROW_FP8:
        memset(scales, 0, (size_t)hd_row_scale_bytes(l));
        for (int32_t i = 0; i < n; i += 64) scales[i / 64] = encode_e4m3(x + i, 64, data + i);
        encode_bf16(x + n, l->tail, data + n);
        break;
    case HD_ROW_NVFP4:
        memset(scales, 0, (size_t)hd_row_scale_bytes(l));
        for (int32_t i = 0; i < n; i += 16) scales[i / 16] = encode_nvfp4(x + i, data + i / 2);
        encode_bf16(x + n, l->tail, data + n / 2);
        break;
    case HD_ROW_MXFP4:
        for (int32_t i = 0; i < n; i += 32) scales[i / 32] = encode_mxfp4(x + i, data + i / 2);
        break;
    }
}

#endif
