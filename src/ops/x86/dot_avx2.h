#ifndef HD_OPS_X86_DOT_AVX2_H
#define HD_OPS_X86_DOT_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "ops/x86/product.h"

/* What formats share under AVX2: products of rows that are decoded in registers, given how a
 * group is decoded.  Everything is inlined into the format's file, with its decoder. */

#define INLINE static inline __attribute__((always_inline))

/* HD_PRODUCT_GROUP weights. */
typedef struct octet {
    __m256 v[8];
} octet;

/* Where a row's weights and scales of a group are. */
typedef struct row_at {
    const uint8_t *w, *sf;
} row_at;

/* How a format lies in memory: bytes of a group, columns of a scale. */
typedef struct layout {
    int32_t w_bytes, sf_bytes; /* of HD_PRODUCT_GROUP weights; sf_bytes 0: scales by blocks of
                                  128 x 128, or none */
    octet (*decode)(row_at at);
} layout;

/* Bytes from the first weight, or scale, of a row to column k0. */
INLINE int64_t w_offset(const layout *l, int64_t k0) { return k0 * l->w_bytes / HD_PRODUCT_GROUP; }
INLINE int64_t sf_offset(const layout *l, int64_t k0)
{
    return k0 * l->sf_bytes / HD_PRODUCT_GROUP;
}

INLINE row_at find_row(const layout *l, const hd_product_part *p, int32_t r)
{
    const hd_product_matrix *const m = p->m;
    int64_t const                  row = p->row + r;
    row_at                         at = {(const uint8_t *)m->w, (const uint8_t *)m->sf};
    at.w += row * w_offset(l, m->k) + w_offset(l, p->k0);
    if (l->sf_bytes)
        at.sf += row * sf_offset(l, m->k) + sf_offset(l, p->k0);
    else if (m->sf)
        at.sf += (row / 128 * ((m->k + 127) / 128) + p->k0 / 128) * (int64_t)sizeof(float);
    return at;
}

/* Group g of a row. */
INLINE row_at find_group(const layout *l, row_at row, int32_t g)
{
    row.w += (int64_t)g * l->w_bytes;
    if (l->sf_bytes)
        row.sf += (int64_t)g * l->sf_bytes;
    else if (row.sf)
        row.sf += (int64_t)(g * HD_PRODUCT_GROUP / 128) * (int64_t)sizeof(float);
    return row;
}

/* The last n weights of a row, copied and filled up with zeros, because behind them is the next
 * row or nothing. */
typedef struct row_end {
    uint8_t w[HD_PRODUCT_GROUP * 4], sf[8];
} row_end;

INLINE octet decode_end(const layout *l, row_at row, int32_t g, int32_t n)
{
    row_end end = {{0}, {0}};
    row_at  at = find_group(l, row, g);
    memcpy(end.w, at.w, (size_t)w_offset(l, n));
    if (l->sf_bytes) {
        memcpy(end.sf, at.sf, (size_t)sf_offset(l, n));
        at.sf = end.sf;
    }
    at.w = end.w;
    return l->decode(at);
}

INLINE __m256 add_products(const octet *w, const float *x, __m256 sum)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) sum = _mm256_fmadd_ps(w->v[i], _mm256_loadu_ps(x + 8 * i), sum);
    return sum;
}

INLINE void load_sums(__m256 sum[4], const float *sums, const int n_x)
{
    for (int j = 0; j < n_x; j++) sum[j] = _mm256_loadu_ps(sums + j * 8);
}

INLINE void store_sums(float *sums, const __m256 sum[4], const int n_x)
{
    for (int j = 0; j < n_x; j++) _mm256_storeu_ps(sums + j * 8, sum[j]);
}

/* All whole groups of n_r rows from r on by n_x inputs: so many that their sums, each a chain of
 * its own, keep the multipliers busy. */
INLINE void dot_groups(const layout *l, const hd_product_part *p, const hd_product_input *in,
                       float *sums, int32_t r, const int n_r, const int n_x)
{
    row_at row[4];
    __m256 sum[4][4];
    for (int i = 0; i < n_r; i++) row[i] = find_row(l, p, r + i);
    for (int i = 0; i < n_r; i++) load_sums(sum[i], sums + (r + i) * n_x * 8, n_x);
    for (int32_t g = 0; g < p->n / HD_PRODUCT_GROUP; g++) {
        const float *const x = in->x + g * HD_PRODUCT_GROUP;
#pragma GCC unroll 4
        for (int i = 0; i < n_r; i++) {
            octet const w = l->decode(find_group(l, row[i], g));
#pragma GCC unroll 4
            for (int j = 0; j < n_x; j++)
                sum[i][j] = add_products(&w, x + (int64_t)j * in->stride, sum[i][j]);
        }
    }
    for (int i = 0; i < n_r; i++) store_sums(sums + (r + i) * n_x * 8, sum[i], n_x);
}

/* What is left of all rows behind the last whole group. */
INLINE void dot_ends(const layout *l, const hd_product_part *p, const hd_product_input *in,
                     float *sums, const int n_x)
{
    int32_t const groups = p->n / HD_PRODUCT_GROUP, end = p->n % HD_PRODUCT_GROUP;
    for (int32_t r = 0; end > 0 && r < p->n_rows; r++) {
        octet const w = decode_end(l, find_row(l, p, r), groups, end);
        __m256      sum[4];
        load_sums(sum, sums + r * n_x * 8, n_x);
        for (int j = 0; j < n_x; j++)
            sum[j] = add_products(&w, in->x + (int64_t)j * in->stride + groups * HD_PRODUCT_GROUP,
                                  sum[j]);
        store_sums(sums + r * n_x * 8, sum, n_x);
    }
}

INLINE void dot_rows(const layout *l, const hd_product_part *p, const hd_product_input *in,
                     float *sums, const int n_r, const int n_x)
{
    int32_t r = 0;
    for (; r + n_r <= p->n_rows; r += n_r) dot_groups(l, p, in, sums, r, n_r, n_x);
    for (; r < p->n_rows; r++) dot_groups(l, p, in, sums, r, 1, n_x);
    dot_ends(l, p, in, sums, n_x);
}

INLINE void dot_any(const layout *l, const hd_product_part *p, const hd_product_input *in,
                    float *sums)
{
    switch (in->n_x) {
    case 1: dot_rows(l, p, in, sums, 4, 1); break;
    case 2: dot_rows(l, p, in, sums, 2, 2); break;
    case 3: dot_rows(l, p, in, sums, 2, 3); break;
    default: dot_rows(l, p, in, sums, 1, 4); break;
    }
}

INLINE void store_octet(float *out, octet w)
{
    for (int i = 0; i < 8; i++) _mm256_storeu_ps(out + 8 * i, w.v[i]);
}

INLINE void decode_rows(const layout *l, const hd_product_part *p, float *out, int32_t stride)
{
    int32_t const groups = p->n / HD_PRODUCT_GROUP, end = p->n % HD_PRODUCT_GROUP;
    for (int32_t r = 0; r < p->n_rows; r++) {
        row_at const row = find_row(l, p, r);
        float *const to = out + (int64_t)r * stride;
        for (int32_t g = 0; g < groups; g++)
            store_octet(to + g * HD_PRODUCT_GROUP, l->decode(find_group(l, row, g)));
        if (end) store_octet(to + groups * HD_PRODUCT_GROUP, decode_end(l, row, groups, end));
    }
}

/* Puts n activations into the order of the weights, a group at a time. */
INLINE void arrange_all(const float *x, int32_t n, float *out,
                        void (*arrange)(const float *x, float *out))
{
    int32_t i = 0;
    for (; i + HD_PRODUCT_GROUP <= n; i += HD_PRODUCT_GROUP) arrange(x + i, out + i);
    if (i == n) return;
    float end[HD_PRODUCT_GROUP] = {0};
    memcpy(end, x + i, (size_t)(n - i) * sizeof *x);
    arrange(end, out + i);
}

/* In micro_avx2.c. */
void  hd_product_multiply_avx2(const float *w, int32_t n, const hd_product_input *in, float *sums);
float hd_product_add_lanes_avx2(const float *sums);

/* ---- four-bit codes ----
 * A group is 32 bytes, four blocks of 16 codes.  A vector holds every fourth code of a block in
 * its lower half, and the same ones two blocks later in its upper half; first come the even codes
 * of blocks 0 and 1, then the odd ones. */

/* The upper halves of f32 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, split into bytes. */
INLINE __m256i e2m1_low_bytes(void)
{
    return _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -128, -64, 0, 64, -128, -64, 0, 0, -128, -64, 0, 64, -128, -64));
}
INLINE __m256i e2m1_high_bytes(void)
{
    return _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40,
                                                     -128, -65, -65, -65, -64, -64, -64, -64));
}

/* 16 halves of f32 to two vectors times a scale: the even ones and the odd ones. */
INLINE void widen(__m256i halves, __m256 scale, __m256 *even, __m256 *odd)
{
    __m256i const upper = _mm256_set1_epi32((int)0xFFFF0000);
    *even = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(halves, 16)), scale);
    *odd = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(halves, upper)), scale);
}

/* Scale j is that of blocks j and j + 2, each in its half. */
INLINE octet decode_e2m1(const uint8_t *w, __m256 scale0, __m256 scale1)
{
    __m256i const nibble = _mm256_set1_epi8(15);
    __m256i const codes = _mm256_loadu_si256((const __m256i *)(const void *)w);
    __m256i const even = _mm256_and_si256(codes, nibble);
    __m256i const odd = _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble);
    __m256i const even_low = _mm256_shuffle_epi8(e2m1_low_bytes(), even);
    __m256i const even_high = _mm256_shuffle_epi8(e2m1_high_bytes(), even);
    __m256i const odd_low = _mm256_shuffle_epi8(e2m1_low_bytes(), odd);
    __m256i const odd_high = _mm256_shuffle_epi8(e2m1_high_bytes(), odd);
    octet         out;
    widen(_mm256_unpacklo_epi8(even_low, even_high), scale0, &out.v[0], &out.v[1]);
    widen(_mm256_unpackhi_epi8(even_low, even_high), scale1, &out.v[2], &out.v[3]);
    widen(_mm256_unpacklo_epi8(odd_low, odd_high), scale0, &out.v[4], &out.v[5]);
    widen(_mm256_unpackhi_epi8(odd_low, odd_high), scale1, &out.v[6], &out.v[7]);
    return out;
}

INLINE __m256 load_halves(const float *low, const float *high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

/* Two blocks as columns of a 4 x 4 matrix each, transposed: even columns, then the odd ones four
 * vectors behind. */
INLINE void arrange_blocks(const float *x, float *out)
{
    __m256 const a = load_halves(x, x + 32), b = load_halves(x + 4, x + 36);
    __m256 const c = load_halves(x + 8, x + 40), d = load_halves(x + 12, x + 44);
    __m256 const ab0 = _mm256_unpacklo_ps(a, b), ab1 = _mm256_unpackhi_ps(a, b);
    __m256 const cd0 = _mm256_unpacklo_ps(c, d), cd1 = _mm256_unpackhi_ps(c, d);
    _mm256_storeu_ps(out, _mm256_shuffle_ps(ab0, cd0, 0x44));
    _mm256_storeu_ps(out + 8, _mm256_shuffle_ps(ab1, cd1, 0x44));
    _mm256_storeu_ps(out + 32, _mm256_shuffle_ps(ab0, cd0, 0xEE));
    _mm256_storeu_ps(out + 40, _mm256_shuffle_ps(ab1, cd1, 0xEE));
}

INLINE void arrange_e2m1(const float *x, float *out)
{
    arrange_blocks(x, out);
    arrange_blocks(x + 16, out + 16);
}

#endif
