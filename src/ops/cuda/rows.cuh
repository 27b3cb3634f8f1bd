#ifndef HD_OPS_CUDA_ROWS_CUH
#define HD_OPS_CUDA_ROWS_CUH

#include <stdint.h>

#include "kv/row.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/nvfp4_quads.cuh"
#include "quant/fp4.h"

/* Cache rows on the device, the bytes and values of kv/row.h.  The sizes are worked out on the
 * host, by kv/row.h itself, and go to a kernel with its args. */
typedef struct hd_row_map {
    hd_row_format format;
    int32_t       d;
    int32_t       coded;    /* the first elements, in codes with scales           */
    int32_t       plain_at; /* byte of a row where the others begin, bf16 or f32   */
    int32_t       page;     /* rows of a page                                      */
    int32_t       data_bytes, scale_bytes;
    int64_t       page_bytes;
    int64_t       seq_bytes; /* from one sequence's part of a pool to the next */
} hd_row_map;

#define HD_ROW_FP8_BLOCK 64

static inline hd_row_map hd_row_map_of(const hd_row_layout *l, int32_t cap)
{
    bool const has_codes = l->format != HD_ROW_F32 && l->format != HD_ROW_BF16;
    hd_row_map m;
    m.format = l->format;
    m.d = l->d;
    m.coded = has_codes ? l->d - l->tail : 0;
    m.plain_at = l->format == HD_ROW_FP8 ? m.coded : m.coded / 2;
    m.page = l->page;
    m.data_bytes = hd_row_data_bytes(l);
    m.scale_bytes = hd_row_scale_bytes(l);
    m.page_bytes = hd_row_page_bytes(l);
    m.seq_bytes = hd_row_pages(l, cap) * m.page_bytes;
    return m;
}

/* One row: where its data and its scales begin, as bytes from the start of the pool. */
typedef struct hd_row_place {
    int64_t data, scales;
} hd_row_place;

/* Row `row` of page `page` of a sequence. */
static __device__ __forceinline__ hd_row_place hd_place_in_page(const hd_row_map *m, int32_t seq,
                                                                int32_t page, int32_t row)
{
    int64_t const begin = seq * m->seq_bytes + page * m->page_bytes;
    return {begin + (int64_t)row * m->data_bytes,
            begin + (int64_t)m->page * m->data_bytes + (int64_t)row * m->scale_bytes};
}

static __device__ __forceinline__ hd_row_place hd_place_row(const hd_row_map *m, int32_t seq,
                                                            int32_t row)
{
    return hd_place_in_page(m, seq, row / m->page, row % m->page);
}

/* ---- codes, which in a cache may be NaN ---- */

static __device__ __forceinline__ float hd_e4m3_to_f32_cuda(uint32_t code)
{
    return (code & 0x7f) == 0x7f ? __uint_as_float(0x7fc00000) : hd_e4m3_number(code);
}

static __device__ __forceinline__ float hd_e8m0_to_f32_cuda(uint32_t code)
{
    return code == 0xff ? __uint_as_float(0x7fc00000) : hd_e8m0_number(code);
}

/* ---- reading ---- */

/* Little-endian words from any address. */
static __device__ __forceinline__ uint32_t hd_load_u16(const uint8_t *p)
{
    if (((uintptr_t)p & 1) == 0) return *(const uint16_t *)p;
    return p[0] | (uint32_t)p[1] << 8;
}

static __device__ __forceinline__ uint32_t hd_load_u32(const uint8_t *p)
{
    if (((uintptr_t)p & 3) == 0) return *(const uint32_t *)p;
    return hd_load_u16(p) | hd_load_u16(p + 2) << 16;
}

/* Elements c .. c+3 of a row, c a multiple of four: how they are kept and where, from the beginning
 * of the row's data and of its scales.  Four elements never straddle a block or the beginning of
 * the tail. */
typedef struct hd_row_column {
    hd_row_format format; /* F32 or BF16 for plain numbers                       */
    int32_t       n;      /* elements that exist, 1 to 4; 0 or less: none        */
    int32_t       data, scale;
} hd_row_column;

static __device__ __forceinline__ hd_row_column hd_find_column(const hd_row_map *m, int32_t c)
{
    bool const is_f32 = m->format == HD_ROW_F32;
    if (c >= m->coded)
        return {is_f32 ? HD_ROW_F32 : HD_ROW_BF16, m->d - c,
                m->plain_at + (c - m->coded) * (is_f32 ? 4 : 2), 0};
    if (m->format == HD_ROW_FP8) return {HD_ROW_FP8, 4, c, c / HD_ROW_FP8_BLOCK};
    return {m->format, 4, c / 2, c / (m->format == HD_ROW_NVFP4 ? HD_NVFP4_BLOCK : HD_MXFP4_BLOCK)};
}

/* Four elements as they stand in memory: plain numbers, or all codes in x and the code of their
 * scale in y; 0 for those that do not exist. */
typedef uint4 hd_row_bits;

/* Four plain elements, of which n exist. */
static __device__ __forceinline__ uint4 hd_load_plain4(const uint8_t *p, bool is_f32, int32_t n)
{
    const uint32_t *const x = (const uint32_t *)p;
    if (is_f32 && ((uintptr_t)p & 15) == 0 && n > 3) return *(const uint4 *)p;
    if (is_f32) return {x[0], n > 1 ? x[1] : 0, n > 2 ? x[2] : 0, n > 3 ? x[3] : 0};
    return {hd_load_u16(p), n > 1 ? hd_load_u16(p + 2) : 0, n > 2 ? hd_load_u16(p + 4) : 0,
            n > 3 ? hd_load_u16(p + 6) : 0};
}

/* A column of one row, at least one element of which exists. */
static __device__ __forceinline__ hd_row_bits hd_load_column(const hd_row_column &c,
                                                             const uint8_t *pool, hd_row_place at)
{
    const uint8_t *const data = pool + at.data + c.data;
    if (c.format == HD_ROW_F32 || c.format == HD_ROW_BF16)
        return hd_load_plain4(data, c.format == HD_ROW_F32, c.n);
    uint32_t const scale = pool[at.scales + c.scale];
    return {c.format == HD_ROW_FP8 ? hd_load_u32(data) : hd_load_u16(data), scale, 0, 0};
}

/* Four E2M1 codes in 16 bits. */
static __device__ __forceinline__ float4 hd_read_codes4(uint32_t codes, float scale)
{
    return {hd_e2m1_number(codes) * scale, hd_e2m1_number(codes >> 4) * scale,
            hd_e2m1_number(codes >> 8) * scale, hd_e2m1_number(codes >> 12) * scale};
}

static __device__ __forceinline__ float4 hd_read_e4m3x4(uint32_t codes, float scale)
{
    return {hd_e4m3_to_f32_cuda(codes) * scale, hd_e4m3_to_f32_cuda(codes >> 8) * scale,
            hd_e4m3_to_f32_cuda(codes >> 16) * scale, hd_e4m3_to_f32_cuda(codes >> 24) * scale};
}

static __device__ __forceinline__ float4 hd_as_float4(uint4 v)
{
    return {__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)};
}

/* What hd_load_column found. */
static __device__ __forceinline__ float4 hd_decode_column(const hd_row_column &c, hd_row_bits v)
{
    if (c.format == HD_ROW_F32) return hd_as_float4(v);
    if (c.format == HD_ROW_BF16) return hd_as_float4({v.x << 16, v.y << 16, v.z << 16, v.w << 16});
    if (c.format == HD_ROW_FP8) return hd_read_e4m3x4(v.x, hd_e8m0_to_f32_cuda(v.y));
    return hd_read_codes4(v.x, c.format == HD_ROW_NVFP4 ? hd_e4m3_to_f32_cuda(v.y)
                                                        : hd_e8m0_to_f32_cuda(v.y));
}

/* Elements c .. c+3 of a row, c a multiple of four; 0 for those behind its end. */
static __device__ __forceinline__ float4 hd_read_row4(const hd_row_map *m, const uint8_t *pool,
                                                      hd_row_place at, int32_t c)
{
    hd_row_column const column = hd_find_column(m, c);
    return hd_decode_column(column, hd_load_column(column, pool, at));
}

/* ---- writing, by warps: a lane has four elements, so that lanes side by side have a block ---- */

/* Little-endian words to any address. */
static __device__ __forceinline__ void hd_store_u16(uint8_t *p, uint32_t v)
{
    if (((uintptr_t)p & 1) == 0) {
        *(uint16_t *)p = (uint16_t)v;
        return;
    }
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static __device__ __forceinline__ void hd_store_u32(uint8_t *p, uint32_t v)
{
    if (((uintptr_t)p & 3) == 0) {
        *(uint32_t *)p = v;
        return;
    }
    hd_store_u16(p, v);
    hd_store_u16(p + 2, v >> 16);
}

/* Scales of a row, padding apart. */
static __device__ __forceinline__ int32_t hd_row_blocks(const hd_row_map *m)
{
    return m->coded / (m->format == HD_ROW_FP8     ? HD_ROW_FP8_BLOCK
                       : m->format == HD_ROW_NVFP4 ? HD_NVFP4_BLOCK
                                                   : HD_MXFP4_BLOCK);
}

/* The largest magnitude among four elements of each of `lanes` lanes side by side, as bits. */
template <int lanes> static __device__ __forceinline__ uint32_t hd_largest_bits(float4 v)
{
    uint32_t bits = max(max(hd_magnitude_bits(v.x), hd_magnitude_bits(v.y)),
                        max(hd_magnitude_bits(v.z), hd_magnitude_bits(v.w)));
#pragma unroll
    for (int o = 1; o < lanes; o *= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, o));
    return bits;
}

/* 2^(127 - code). */
static __device__ __forceinline__ float hd_inverse_e8m0(uint32_t code)
{
    return __uint_as_float((254 - code) << 23);
}

static __device__ __forceinline__ float4 hd_times4(float4 v, float by)
{
    return {v.x * by, v.y * by, v.z * by, v.w * by};
}

/* The code of a block's scale, and four elements as they are stored. */
typedef struct hd_row_codes {
    uint32_t scale, codes;
} hd_row_codes;

/* The scale is the smallest power of two that is at least amax / 448: amax is m * 2^e, 448 is 1.75
 * * 2^8, so its exponent is e - 8, and one more where m is above 1.75.  Its inverse is a power of
 * two as well, so products with it are exact but for what has code 0 anyhow. */
static __device__ __forceinline__ hd_row_codes hd_encode_fp8(float4 v)
{
    uint32_t const bits = hd_largest_bits<HD_ROW_FP8_BLOCK / 4>(v);
    uint32_t const scale = ((max(bits, __float_as_uint(1e-4f)) + 0x1fffff) >> 23) - 8;
    float4 const   x = hd_times4(v, hd_inverse_e8m0(scale));
    if (bits >= HD_NOT_FINITE) return {0xff, 0x7f7f7f7f};
    return {scale, hd_e4m3_codes(x.y, x.x) | hd_e4m3_codes(x.w, x.z) << 16};
}

/* Likewise, 6 being 1.5 * 2^2; 1 for zeros, 2^-127 at the least. */
static __device__ __forceinline__ hd_row_codes hd_encode_mxfp4(float4 v)
{
    hd_code_borders const borders = {{0.75f, 1.75f, 3.5f}, {0.25f, 1.25f, 2.5f, 5.0f}};
    uint32_t const        bits = hd_largest_bits<HD_MXFP4_BLOCK / 4>(v);
    uint32_t const        above = (bits + 0x3fffff) >> 23;
    uint32_t const        scale = bits == 0 ? 127 : above < 2 ? 0 : above - 2;
    float4 const          x = hd_times4(v, hd_inverse_e8m0(scale));
    if (bits >= HD_NOT_FINITE) return {0xff, 0};
    return {scale, hd_find_code(x.x, borders) | hd_find_code(x.y, borders) << 4 |
                       hd_find_code(x.z, borders) << 8 | hd_find_code(x.w, borders) << 12};
}

static __device__ __forceinline__ hd_row_codes hd_encode_nvfp4(float4 v)
{
    hd_quad const q = hd_round_quad(v, hd_nvfp4_global_of(1));
    return {q.sf, q.codes};
}

/* Four elements of a format with codes; `is_in` is false behind the coded ones. */
static __device__ __forceinline__ void hd_write_codes4(const hd_row_map *m, float4 v, int32_t c,
                                                       bool is_in, uint8_t *data, uint8_t *scales)
{
    bool const         is_fp8 = m->format == HD_ROW_FP8, is_nvfp4 = m->format == HD_ROW_NVFP4;
    hd_row_codes const x = is_fp8     ? hd_encode_fp8(v)
                           : is_nvfp4 ? hd_encode_nvfp4(v)
                                      : hd_encode_mxfp4(v);
    int32_t const block = is_fp8 ? HD_ROW_FP8_BLOCK : is_nvfp4 ? HD_NVFP4_BLOCK : HD_MXFP4_BLOCK;
    if (!is_in) return;
    if (is_fp8)
        hd_store_u32(data + c, x.codes);
    else
        hd_store_u16(data + c / 2, x.codes);
    if (c % block == 0) scales[c / block] = (uint8_t)x.scale;
}

/* Elements c .. c + 3, of which n exist, behind the coded ones. */
static __device__ __forceinline__ void hd_write_plain4(const hd_row_map *m, float4 v, int32_t c,
                                                       int32_t n, uint8_t *data)
{
    int32_t const i = c - m->coded;
    if (m->format == HD_ROW_F32) {
        hd_store4((float *)data + i, v, n, n > 3 && ((uintptr_t)((float *)data + i) & 15) == 0);
        return;
    }
    uint8_t *const to = data + m->plain_at + 2 * i;
    uint32_t const low = hd_f32_to_bf16_cuda(v.x) | (uint32_t)hd_f32_to_bf16_cuda(v.y) << 16;
    uint32_t const high = hd_f32_to_bf16_cuda(v.z) | (uint32_t)hd_f32_to_bf16_cuda(v.w) << 16;
    if (n > 1)
        hd_store_u32(to, low);
    else
        hd_store_u16(to, low);
    if (n > 3)
        hd_store_u32(to + 4, high);
    else if (n > 2)
        hd_store_u16(to + 4, high);
}

/* Elements c .. c + 3 of the row that begins at `at`, zeros behind its end; lanes side by side have
 * runs side by side, and all lanes of the warp call. */
static __device__ __forceinline__ void hd_write_row4(const hd_row_map *m, uint8_t *pool,
                                                     hd_row_place at, float4 v, int32_t c)
{
    uint8_t *const data = pool + at.data;
    bool const     is_coded = c < m->coded;
    if (m->coded > 0)
        hd_write_codes4(m, is_coded ? v : float4{0, 0, 0, 0}, c, is_coded, data, pool + at.scales);
    if (!is_coded && c < m->d) hd_write_plain4(m, v, c, m->d - c, data);
}

/* What fills up a row's scales, by a warp. */
static __device__ __forceinline__ void hd_write_row_pad(const hd_row_map *m, uint8_t *pool,
                                                        hd_row_place at)
{
    int32_t const i = hd_row_blocks(m) + (int32_t)threadIdx.x % 32;
    if (i < m->scale_bytes) pool[at.scales + i] = 0;
}

#endif
