#ifndef HD_OPS_CUDA_ROWS_CUH
#define HD_OPS_CUDA_ROWS_CUH

#include <stdint.h>

#include "kv/row.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rounding.cuh"
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

static __device__ __forceinline__ hd_row_place hd_place_row(const hd_row_map *m, int32_t seq,
                                                            int32_t row)
{
    int64_t const page = seq * m->seq_bytes + row / m->page * m->page_bytes;
    int32_t const in_page = row % m->page;
    return {page + (int64_t)in_page * m->data_bytes,
            page + (int64_t)m->page * m->data_bytes + (int64_t)in_page * m->scale_bytes};
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

static __device__ __forceinline__ uint32_t hd_e4m3_encode_cuda(double x)
{
    uint32_t const u = __float_as_uint((float)hd_round_e4m3(x) * 0x1p-120f);
    return (u & 0x7fffffff) >> 20 | (u >> 24 & 0x80);
}

static __device__ __forceinline__ uint32_t hd_e2m1_encode_cuda(double x)
{
    uint32_t const u = __float_as_uint((float)hd_round_e2m1(x) * 0x1p-126f);
    return (u & 0x7fffffff) >> 22 | (u >> 28 & 8);
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

/* ---- writing, by warps: each takes HD_ROW_RUN elements, which are whole blocks ---- */

#define HD_ROW_RUN 64

/* Scales of a row, padding apart. */
static __device__ __forceinline__ int32_t hd_row_blocks(const hd_row_map *m)
{
    return m->coded / (m->format == HD_ROW_FP8     ? HD_ROW_FP8_BLOCK
                       : m->format == HD_ROW_NVFP4 ? HD_NVFP4_BLOCK
                                                   : HD_MXFP4_BLOCK);
}

static __device__ __forceinline__ void hd_store_u16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

/* The code of a lane's element joined with its neighbour's: even lanes store the byte. */
static __device__ __forceinline__ void hd_store_codes(uint8_t *codes, int32_t c, uint32_t code,
                                                      bool is_in)
{
    uint32_t const high = __shfl_down_sync(0xffffffffu, code, 1);
    if (is_in && (c & 1) == 0) codes[c / 2] = (uint8_t)(code | high << 4);
}

/* E4M3 codes of elements c and c + 32, which share a scale with the rest of the run. */
static __device__ __forceinline__ void hd_write_fp8(const float *x, int32_t c, uint8_t *data,
                                                    uint8_t *scales)
{
    uint32_t const bits =
        hd_warp_max_bits(max(hd_magnitude_bits(x[c]), hd_magnitude_bits(x[c + 32])));
    bool const   is_finite = bits < HD_NOT_FINITE;
    double const amax = fmax((double)__uint_as_float(bits), 1e-4);
    double const s = is_finite ? hd_pow2_ceil_cuda(amax / 448.0) : 1.0, inverse = 1.0 / s;
    data[c] = is_finite ? (uint8_t)hd_e4m3_encode_cuda(x[c] * inverse) : 0x7f;
    data[c + 32] = is_finite ? (uint8_t)hd_e4m3_encode_cuda(x[c + 32] * inverse) : 0x7f;
    if (c % HD_ROW_FP8_BLOCK == 0)
        scales[c / HD_ROW_FP8_BLOCK] =
            is_finite ? (uint8_t)(hd_exponent_of(s) + 127) : (uint8_t)0xff;
}

/* One element of 32, in blocks of 16; lanes that are not `is_in` only take part. */
static __device__ __forceinline__ void hd_write_nvfp4(float x, int32_t c, bool is_in, uint8_t *data,
                                                      uint8_t *scales)
{
    uint32_t bits = hd_magnitude_bits(x);
    for (int o = 8; o > 0; o >>= 1) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, o));
    bool const     is_finite = bits < HD_NOT_FINITE;
    uint32_t const scale =
        is_finite ? hd_e4m3_encode_cuda((double)__uint_as_float(bits) / 6.0) : 0x7f;
    double const s = (double)hd_e4m3_to_f32_cuda(scale);
    hd_store_codes(data, c, s > 0 ? hd_e2m1_encode_cuda(x / s) : 0, is_in);
    if (is_in && c % HD_NVFP4_BLOCK == 0) scales[c / HD_NVFP4_BLOCK] = (uint8_t)scale;
}

/* One element of a block of 32. */
static __device__ __forceinline__ void hd_write_mxfp4(float x, int32_t c, uint8_t *data,
                                                      uint8_t *scales)
{
    uint32_t const bits = hd_warp_max_bits(hd_magnitude_bits(x));
    bool const     is_finite = bits < HD_NOT_FINITE;
    double const   wanted = bits ? hd_pow2_ceil_cuda((double)__uint_as_float(bits) / 6.0) : 1.0;
    double const   s = fmax(wanted, 0x1p-127);
    hd_store_codes(data, c, is_finite ? hd_e2m1_encode_cuda(x / s) : 0, true);
    if (c % HD_MXFP4_BLOCK == 0)
        scales[c / HD_MXFP4_BLOCK] = is_finite ? (uint8_t)(hd_exponent_of(s) + 127) : (uint8_t)0xff;
}

/* Element c behind the coded ones. */
static __device__ __forceinline__ void hd_write_plain(const hd_row_map *m, float x, int32_t c,
                                                      uint8_t *data)
{
    int64_t const i = c - m->coded;
    if (m->format == HD_ROW_F32)
        *(float *)(data + 4 * i) = x;
    else
        hd_store_u16(data + m->plain_at + 2 * i, hd_f32_to_bf16_cuda(x));
}

/* Run `run` of the row x, by a warp; the first also clears the padding of the scales. */
static __device__ __forceinline__ void
hd_write_row_run(const hd_row_map *m, uint8_t *pool, hd_row_place at, const float *x, int32_t run)
{
    uint8_t *const data = pool + at.data, *const scales = pool + at.scales;
    int32_t const lane = (int32_t)threadIdx.x % 32, first = run * HD_ROW_RUN;
    if (run == 0)
        for (int32_t i = lane; i < m->scale_bytes; i += 32)
            if (i >= hd_row_blocks(m)) scales[i] = 0;
    if (m->format == HD_ROW_FP8 && first < m->coded) {
        hd_write_fp8(x, first + lane, data, scales);
        return;
    }
    for (int32_t base = first; base < first + HD_ROW_RUN && base < m->d; base += 32) {
        int32_t const c = base + lane;
        float const   v = c < m->d ? x[c] : 0;
        if (base < m->coded && m->format == HD_ROW_NVFP4)
            hd_write_nvfp4(c < m->coded ? v : 0, c, c < m->coded, data, scales);
        else if (base < m->coded)
            hd_write_mxfp4(v, c, data, scales);
        if (c >= m->coded && c < m->d) hd_write_plain(m, v, c, data);
    }
}

#endif
