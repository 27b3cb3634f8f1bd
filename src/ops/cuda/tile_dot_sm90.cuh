#ifndef HD_OPS_CUDA_TILE_DOT_SM90_CUH
#define HD_OPS_CUDA_TILE_DOT_SM90_CUH

#include <cuda_fp16.h>

#include "async_copy.cuh"
#include "launch.cuh"
#include "quant/fp8.h"
#include "quant/matrix.h"
#include "rounding.cuh"

/* The common core of the small-batch products with coded weights on Hopper: NVFP4, MXFP4, FP8.
 *
 * Bound by: bytes.  A weight is read once from memory and used for at most four tokens.
 * Tile: 16 rows x 128 bytes of codes (256 columns of four bits, 128 of eight) and their scales,
 *   one a warp at a time; cp.async keeps n_stages - 1 more in flight for each of the 16 warps.
 * Product: mma.m16n8k16 with f16 operands and f32 sums.  Both factors are exact enough to give
 *   an f32 product: e2m1 x e4m3 and e4m3 fit f16, and an activation is split into two f16 (high,
 *   and low times 2^11) after its row was scaled by a power of two, 22 bits together.  The two
 *   halves of token q are columns 2q and 2q + 1, so a thread holds both sums of its token.
 * Order of k inside a product is free, so codes stay where a 32-bit word has them: of eight
 *   nibbles i and i + 4 make a register, of four bytes i and i + 2, and the activations are laid
 *   out alike.
 * Work: rounds.  In a round a block makes the rows of 16 / per_row row tiles of one unit (a
 *   matrix and its tokens); blocks take equal runs of rounds, so the weights of the next unit
 *   are on their way while the last one is finished.
 * Sums: a warp adds its tiles by rising k, warps that share rows are added in order.  The
 *   split follows from k alone, so a row does not depend on the batch. */

#define HD_TILE_ROWS   16
#define HD_TILE_WIDTH  128 /* bytes of codes of a row */
#define HD_TILE_STEPS  4   /* of two 16-byte units of each row: what one ldmatrix reads */
#define HD_TILE_WARPS  16
#define HD_TILE_TOKENS 4

#define HD_CODE_BYTES (HD_TILE_ROWS * HD_TILE_WIDTH)

/* What differs between the formats. */
template <int format> struct hd_tile {
    static constexpr bool is_fp8 = format == HD_FMT_FP8;
    static constexpr int  k = is_fp8 ? HD_TILE_WIDTH : 2 * HD_TILE_WIDTH; /* columns */
    static constexpr int  step = k / HD_TILE_STEPS;
    static constexpr int  block = is_fp8 ? HD_FP8_BLOCK : format == HD_FMT_NVFP4 ? 16 : 32;
    /* Of a row of the tile; an FP8 tile lies in one block, and has one scale. */
    static constexpr int scale_bytes = is_fp8 ? 0 : k / block;
    static constexpr int bytes = HD_CODE_BYTES + (is_fp8 ? 16 : HD_TILE_ROWS * scale_bytes);
    /* A matrix has a whole number of these: scales are copied four bytes at a time. */
    static constexpr int columns = is_fp8 ? step : 4 * block;

    static __host__ __device__ __forceinline__ int64_t row_bytes(int32_t cols)
    {
        return is_fp8 ? cols : cols / 2;
    }

    /* Bytes of the scales before those of `row`. */
    static __device__ __forceinline__ int64_t scales_before(int64_t row, int32_t cols)
    {
        int64_t const blocks = (cols + block - 1) / block;
        return is_fp8 ? row / block * blocks * (int64_t)sizeof(float) : row * blocks;
    }
};

/* One matrix: rows of codes and scales as in ops/gemm.h. */
struct hd_tile_matrix {
    const uint8_t *w, *sf; /* sf of the first row, which begins a block */
    int32_t        n, k;
    float          scale;
};

/* A matrix and the tokens it multiplies. */
struct hd_tile_unit {
    hd_tile_matrix m;
    const float   *x[HD_TILE_TOKENS];
    float         *y[HD_TILE_TOKENS];
    int            n; /* tokens */
};

/* ---- loading ---- */

/* What a lane copies of each tile of its row tile: four rows' units of 16 bytes, four rows
 * apart, and one or two words of scales.  Units are placed so that ldmatrix meets no bank twice:
 * unit u of row r lies at u ^ (r & 7). */
template <int format> struct hd_tile_lane {
    using tile = hd_tile<format>;
    static constexpr int words = tile::is_fp8 ? 1 : tile::scale_bytes / 4; /* of a row: 4 or 2 */
    static constexpr int scale_rows = 32 / words; /* rows of scales at once */
    const uint8_t       *w, *sf;          /* of the lane's first row, column 0 of the row tile   */
    int64_t              w_step, sf_step; /* four rows of codes; scale_rows of scales            */
    int32_t              rows, k;         /* rows of the tile that exist; columns of the matrix  */
    uint32_t             to;              /* the lane's first unit in a stage                    */

    __device__ __forceinline__ void start(const hd_tile_matrix &m, int32_t row, int lane)
    {
        int64_t const w_stride = tile::row_bytes(m.k), s_stride = m.k / tile::block;
        w = m.w + (row + lane / 8) * w_stride + lane % 8 * 16;
        sf = tile::is_fp8 ? m.sf + tile::scales_before(row, m.k)
                          : m.sf + (row + lane / words) * s_stride + lane % words * 4;
        w_step = 4 * w_stride;
        sf_step = scale_rows * s_stride;
        rows = m.n - row;
        k = m.k;
        to = lane / 8 * HD_TILE_WIDTH + ((lane % 8) ^ (lane / 8)) * 16;
    }

    /* Starts copying the tile of columns k0 on; rows 4 apart turn bit 2 of their units. */
    __device__ __forceinline__ void load(int32_t k0, uint8_t *stage, int lane) const
    {
        bool const is_whole = rows >= HD_TILE_ROWS && k0 + tile::k <= k;
        load_codes(k0, stage, lane, is_whole);
        if (tile::is_fp8) {
            if (lane == 0) hd_copy_4(stage + HD_CODE_BYTES, sf + k0 / HD_FP8_BLOCK * sizeof(float));
        } else {
            load_scales(k0, stage + HD_CODE_BYTES + lane * 4, lane, is_whole);
        }
    }

    __device__ __forceinline__ void load_codes(int32_t k0, uint8_t *stage, int lane,
                                               bool is_whole) const
    {
        const uint8_t *const from = w + tile::row_bytes(k0);
        if (is_whole) {
#pragma unroll
            for (int i = 0; i < HD_TILE_ROWS / 4; i++)
                hd_copy_16(stage + (to ^ (i & 1 ? 64 : 0)) + i * 4 * HD_TILE_WIDTH,
                           from + i * w_step);
            return;
        }
#pragma unroll 1
        for (int i = 0; i < HD_TILE_ROWS / 4; i++)
            if (4 * i + lane / 8 < rows && k0 + lane % 8 * (tile::k / 8) < k)
                hd_copy_16(stage + (to ^ (i & 1 ? 64 : 0)) + i * 4 * HD_TILE_WIDTH,
                           from + i * w_step);
    }

    __device__ __forceinline__ void load_scales(int32_t k0, uint8_t *out, int lane,
                                                bool is_whole) const
    {
        const uint8_t *const from = sf + k0 / tile::block;
        if (is_whole) {
#pragma unroll
            for (int i = 0; i < HD_TILE_ROWS / scale_rows; i++)
                hd_copy_4(out + i * 128, from + i * sf_step);
            return;
        }
#pragma unroll 1
        for (int i = 0; i < HD_TILE_ROWS / scale_rows; i++)
            if (scale_rows * i + lane / words < rows && k0 + lane % words * (tile::k / words) < k)
                hd_copy_4(out + i * 128, from + i * sf_step);
    }
};

/* ---- decoding ---- */

/* Eight codes to four registers of two f16 each, 2^-14 times their value: the code's exponent
 * and mantissa become the low bits of f16's exponent and the top of its mantissa, so that the
 * format's own denormals are f16's. */
static __device__ __forceinline__ void hd_decode_codes(uint32_t w, uint32_t out[4])
{
    constexpr uint32_t magnitude = 0x0E000E00u, sign = 0x80008000u;
    out[0] = ((w << 9) & magnitude) | ((w << 12) & sign);
    out[1] = ((w << 5) & magnitude) | ((w << 8) & sign);
    out[2] = ((w << 1) & magnitude) | ((w << 4) & sign);
    out[3] = ((w >> 3) & magnitude) | (w & sign);
}

/* Four E4M3 codes likewise to two registers, 2^-8 times their value: codes 0 and 2, 1 and 3. */
static __device__ __forceinline__ void hd_decode_bytes(uint32_t w, uint32_t out[2])
{
    constexpr uint32_t magnitude = 0x3F803F80u, sign = 0x80008000u;
    out[0] = ((w << 7) & magnitude) | ((w << 8) & sign);
    out[1] = ((w >> 1) & magnitude) | (w & sign);
}

static __device__ __forceinline__ uint32_t hd_multiply_pair(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* Two E4M3 scales, bytes `a` and `b` of a word, to two registers that hold each twice and 2^6
 * times; the product with a code is then 2^-8 times the weight and exact. */
static __device__ __forceinline__ void hd_decode_scales(uint32_t word, int half, uint32_t out[2])
{
    uint32_t const pair = __byte_perm(word, 0, half ? 0x4431 : 0x4420);
    uint32_t       halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((unsigned short)pair));
    halves = hd_multiply_pair(halves, 0x54005400u); /* 64, 64 */
    out[0] = __byte_perm(halves, 0, 0x1010);
    out[1] = __byte_perm(halves, 0, 0x3232);
}

static __device__ __forceinline__ void hd_mma(float c[4], const uint32_t a[4], uint32_t b0,
                                              uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Where a lane reads words of codes of step s: units 2 s and 2 s + 1 of rows g and g + 8; it gets
 * the codes of word lane % 4 of each. */
static __device__ __forceinline__ uint32_t hd_word_offset(int s, int lane)
{
    int const r = lane % 16, unit = 2 * s + lane / 16;
    return (uint32_t)(r * HD_TILE_WIDTH + (unit ^ (r & 7)) * 16);
}

/* ---- one tile ---- */

/* One block of 32 columns: the words of rows g and g + 8, the activations of the block.
 * scales   of the two rows, each twice in a register; only when is_scaled */
template <bool is_scaled>
static __device__ __forceinline__ void hd_block_dot(uint32_t low, uint32_t high, uint4 x,
                                                    float c[4], uint2 scales)
{
    uint32_t a[4], b[4];
    hd_decode_codes(low, a);
    hd_decode_codes(high, b);
    if (is_scaled) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[i] = hd_multiply_pair(a[i], scales.x);
            b[i] = hd_multiply_pair(b[i], scales.y);
        }
    }
    uint32_t const first[4] = {a[0], b[0], a[1], b[1]}, second[4] = {a[2], b[2], a[3], b[3]};
    hd_mma(c, first, x.x, x.y);
    hd_mma(c, second, x.z, x.w);
}

/* Two blocks of MXFP4: their scales are powers of two beyond f16, so they act on the sums. */
static __device__ __forceinline__ void hd_blocks_mxfp4(const uint32_t w[4], uint4 x0, uint4 x1,
                                                       uint32_t low, uint32_t high, float sum[4])
{
    float c0[4] = {0, 0, 0, 0}, c1[4] = {0, 0, 0, 0};
    hd_block_dot<false>(w[0], w[1], x0, c0, make_uint2(0, 0));
    hd_block_dot<false>(w[2], w[3], x1, c1, make_uint2(0, 0));
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t const s = i < 2 ? low : high;
        sum[i] += c0[i] * hd_e8m0_number(s & 255) + c1[i] * hd_e8m0_number(s >> 8);
    }
}

/* Two units of FP8, 32 columns, without their scale. */
static __device__ __forceinline__ void hd_units_fp8(const uint32_t w[4], uint4 x, float c[4])
{
    uint32_t a[4][2];
#pragma unroll
    for (int i = 0; i < 4; i++) hd_decode_bytes(w[i], a[i]);
    uint32_t const first[4] = {a[0][0], a[1][0], a[0][1], a[1][1]};
    uint32_t const second[4] = {a[2][0], a[3][0], a[2][1], a[3][1]};
    hd_mma(c, first, x.x, x.y);
    hd_mma(c, second, x.z, x.w);
}

/* The lane's 16 bytes of activations of a block of 32 columns; threads beyond the 2 n_tokens
 * columns multiply zeros. */
template <int n_tokens>
static __device__ __forceinline__ uint4 hd_block_of(const uint4 *x, int b, int lane)
{
    constexpr int wide = 8 * n_tokens; /* of 16 bytes: a block's activations */
    return wide == 32 || lane < wide ? x[b * wide + lane] : make_uint4(0, 0, 0, 0);
}

/* Adds the products of step s of a tile to sum[4] (rows g, g and g + 8, g + 8; columns 2q and
 * 2q + 1).
 * x  activations of the tile: [block of 32][column][quarter] of 16 bytes */
template <int format, int n_tokens>
static __device__ __forceinline__ void hd_step_dot(const uint8_t *stage, uint32_t words,
                                                   const uint4 *x, int s, int lane, float sum[4])
{
    uint32_t w[4];
    hd_load_matrices(words, w);
    if (format == HD_FMT_FP8) {
        hd_units_fp8(w, hd_block_of<n_tokens>(x, s, lane), sum);
        return;
    }
    constexpr int        scale_bytes = hd_tile<format>::scale_bytes;
    const uint8_t *const low_scales = stage + HD_CODE_BYTES + lane / 4 * scale_bytes;
    const uint8_t *const high_scales = low_scales + 8 * scale_bytes;
    int const            b = 2 * s;
    uint4 const          x0 = hd_block_of<n_tokens>(x, b, lane);
    uint4 const          x1 = hd_block_of<n_tokens>(x, b + 1, lane);
    if (format == HD_FMT_NVFP4) {
        uint32_t  low[2], high[2];
        int const half = lane % 4 / 2;
        hd_decode_scales(*(const uint32_t *)(low_scales + b * 2), half, low);
        hd_decode_scales(*(const uint32_t *)(high_scales + b * 2), half, high);
        hd_block_dot<true>(w[0], w[1], x0, sum, make_uint2(low[0], high[0]));
        hd_block_dot<true>(w[2], w[3], x1, sum, make_uint2(low[1], high[1]));
    } else {
        hd_blocks_mxfp4(w, x0, x1, *(const uint16_t *)(low_scales + b),
                        *(const uint16_t *)(high_scales + b), sum);
    }
}

/* n steps of a tile; offset[s] is hd_word_offset(s). */
template <int format, int n_tokens>
static __device__ __forceinline__ void hd_steps_dot(const uint8_t *stage, const uint32_t *offset,
                                                    const uint4 *x, int n, int lane, float sum[4])
{
    uint32_t const base = hd_shared_address(stage);
    if (n >= HD_TILE_STEPS) {
#pragma unroll
        for (int s = 0; s < HD_TILE_STEPS; s++)
            hd_step_dot<format, n_tokens>(stage, base + offset[s], x, s, lane, sum);
        return;
    }
    for (int s = 0; s < n; s++)
        hd_step_dot<format, n_tokens>(stage, base + hd_word_offset(s, lane), x, s, lane, sum);
}

/* Adds a tile's products to sum[4]. */
template <int format, int n_tokens>
static __device__ __forceinline__ void hd_tile_dot(const uint8_t *stage, const uint32_t *offset,
                                                   const uint4 *x, int n, int lane, float sum[4])
{
    if (format != HD_FMT_FP8) {
        hd_steps_dot<format, n_tokens>(stage, offset, x, n, lane, sum);
        return;
    }
    float const scale = *(const float *)(stage + HD_CODE_BYTES);
    float       c[4] = {0, 0, 0, 0};
    hd_steps_dot<format, n_tokens>(stage, offset, x, n, lane, c);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = fmaf(c[i], scale, sum[i]);
}

/* What a finished sum must be multiplied by: the factors left out of codes and scales. */
template <int format> static __device__ __forceinline__ float hd_tile_factor(void)
{
    return format == HD_FMT_MXFP4 ? 16384.0f : 256.0f;
}

/* ---- activations ---- */

/* The power of two that brings a row's largest magnitude to [1, 2), denormals as near as it gets;
 * 1 for a row with infinities, which stay what they are. */
static __device__ __forceinline__ float hd_row_unit(float amax)
{
    uint32_t const exponent = __float_as_uint(amax) >> 23;
    if (exponent == 255) return 1.0f;
    return __uint_as_float((exponent ? exponent : 1) << 23);
}

/* Elements [8 o, 8 o + 8) of a row; whole vectors where the row is aligned for them. */
static __device__ __forceinline__ void hd_read_eight(const float *x, int32_t o, bool aligned,
                                                     float v[8])
{
    if (aligned) {
        *(float4 *)v = *(const float4 *)(x + o * 8);
        *(float4 *)(v + 4) = *(const float4 *)(x + o * 8 + 4);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = x[o * 8 + i];
}

static __device__ __forceinline__ bool hd_is_aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

/* Largest magnitudes of the unit's rows to units[q], as powers of two. */
template <int n_tokens>
static __device__ __forceinline__ void hd_find_units(const hd_tile_unit &u, float *units,
                                                     float *scratch)
{
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int q = 0; q < n_tokens; q++) {
        bool const aligned = hd_is_aligned(u.x[q]);
        float      amax = 0;
        for (int32_t o = threadIdx.x; q < u.n && o < u.m.k / 8; o += HD_TILE_WARPS * 32) {
            float v[8];
            hd_read_eight(u.x[q], o, aligned, v);
#pragma unroll
            for (int i = 0; i < 8; i++) amax = fmaxf(amax, fabsf(v[i]));
        }
        amax = hd_warp_max(amax);
        if (lane == 0) scratch[q * HD_TILE_WARPS + warp] = amax;
    }
    __syncthreads();
    if (threadIdx.x < n_tokens) {
        float amax = 0;
        for (int w = 0; w < HD_TILE_WARPS; w++)
            amax = fmaxf(amax, scratch[threadIdx.x * HD_TILE_WARPS + w]);
        units[threadIdx.x] = hd_row_unit(amax);
    }
    __syncthreads();
}

/* Splits eight elements of a row into the two columns of token q, in the order in which codes
 * are decoded. */
template <int format, int n_tokens>
static __device__ __forceinline__ void hd_split_eight(const float v[8], float inverse, int32_t o,
                                                      int q, uint4 *out)
{
    __align__(16) __half high[8], low[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int const   to = format == HD_FMT_FP8 ? i / 4 * 4 + i % 2 * 2 + i % 4 / 2 /* (j, j + 2) */
                         : i < 4              ? 2 * i
                                              : 2 * (i - 4) + 1; /* (j, j + 4) */
        float const x = v[i] * inverse;
        high[to] = __float2half_rn(x);
        /* Infinity is all in the high half: what is left of it would be NaN. */
        float const rest = isinf(x) ? 0.0f : (x - __half2float(high[to])) * 2048.0f;
        low[to] = __float2half_rn(rest);
    }
    uint4 *const at = out + (o / 4) * (8 * n_tokens);
    if (format != HD_FMT_FP8) {
        at[(2 * q) * 4 + o % 4] = *(const uint4 *)high;
        at[(2 * q + 1) * 4 + o % 4] = *(const uint4 *)low;
        return;
    }
    /* Two words of unit o / 2 % 2. */
    int const word = o % 2 * 2, unit = o / 2 % 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ((uint2 *)(at + (2 * q) * 4 + word + i))[unit] = ((const uint2 *)high)[i];
        ((uint2 *)(at + (2 * q + 1) * 4 + word + i))[unit] = ((const uint2 *)low)[i];
    }
}

/* The unit's activations to shared memory; units[q] is what their sums count in. */
template <int format, int n_tokens>
static __device__ __forceinline__ void hd_split_rows(const hd_tile_unit &u, uint4 *out,
                                                     float *units, float *scratch)
{
    hd_find_units<n_tokens>(u, units, scratch);
#pragma unroll
    for (int q = 0; q < n_tokens; q++) {
        bool const  aligned = hd_is_aligned(u.x[q]);
        float const inverse = 1.0f / units[q];
        for (int32_t o = threadIdx.x; o < u.m.k / 8; o += HD_TILE_WARPS * 32) {
            float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (q < u.n) hd_read_eight(u.x[q], o, aligned, v);
            hd_split_eight<format, n_tokens>(v, inverse, o, q, out);
        }
    }
    __syncthreads();
}

/* ---- rounds ---- */

/* Warps that share a row tile, a power of two: few, because each tile of rows ends with a
 * barrier among them, but enough to occupy the GPU with `row_tiles` of them. */
template <int format>
static __host__ __forceinline__ int hd_warps_per_row(int64_t row_tiles, int32_t k)
{
    int const tiles = (k + hd_tile<format>::k - 1) / hd_tile<format>::k,
              warps = hd_sm_count() * HD_TILE_WARPS;
    int share = 1;
    while (share < HD_TILE_WARPS && share * 2 <= tiles && row_tiles * share < warps) share *= 2;
    return share;
}

static __host__ __device__ __forceinline__ int32_t hd_row_tiles(int32_t n)
{
    return (n + HD_TILE_ROWS - 1) / HD_TILE_ROWS;
}

/* Rounds that one matrix of n rows takes. */
static __host__ __device__ __forceinline__ int32_t hd_rounds(int32_t n, int per_row)
{
    int32_t const groups = HD_TILE_WARPS / per_row;
    return (hd_row_tiles(n) + groups - 1) / groups;
}

/* A run of rounds of one block, and where the calling warp works in each. */
struct hd_tile_walk {
    int     per_row, group, part; /* warps that share rows; which row tile; which share of k */
    int     tiles;                /* of this warp along k, in a round */
    int32_t rounds;               /* of one unit */
    int32_t first, end;           /* rounds of this block, over all units */
};

template <int format>
static __device__ __forceinline__ hd_tile_walk hd_walk(int32_t n, int32_t k, int per_row,
                                                       int32_t units)
{
    hd_tile_walk v;
    int const    warp = threadIdx.x / 32, all = (k + hd_tile<format>::k - 1) / hd_tile<format>::k;
    v.per_row = per_row;
    v.group = warp / v.per_row;
    v.part = warp % v.per_row;
    v.tiles = (all - v.part + v.per_row - 1) / v.per_row;
    v.rounds = hd_rounds(n, per_row);
    int64_t const total = (int64_t)v.rounds * units;
    v.first = (int32_t)(total * blockIdx.x / gridDim.x);
    v.end = (int32_t)(total * (blockIdx.x + 1) / gridDim.x);
    return v;
}

static __device__ __forceinline__ int32_t hd_row_of(const hd_tile_walk &v, int32_t round)
{
    int const groups = HD_TILE_WARPS / v.per_row;
    return (round % v.rounds * groups + v.group) * HD_TILE_ROWS;
}

struct hd_tile_shared {
    uint8_t *stages;  /* [warps, stages, tile bytes]    */
    uint4   *x;       /* [k / 32, 2 n_tokens, 4]        */
    float   *sums;    /* [2, warps, 16, 4]              */
    float   *units;   /* [4]                            */
    float   *scratch; /* [4, warps]                     */
};

template <int format>
static __host__ __device__ __forceinline__ size_t hd_tile_shared_bytes(int32_t k, int n_tokens,
                                                                       int n_stages)
{
    return (size_t)HD_TILE_WARPS * n_stages * hd_tile<format>::bytes + (size_t)k * 4 * n_tokens +
           2 * HD_TILE_WARPS * HD_TILE_ROWS * 4 * sizeof(float) +
           (HD_TILE_TOKENS + HD_TILE_TOKENS * HD_TILE_WARPS) * sizeof(float);
}

template <int format, int n_tokens, int n_stages>
static __device__ __forceinline__ hd_tile_shared hd_tile_share(uint8_t *base, int32_t k)
{
    hd_tile_shared s;
    s.stages = base;
    s.x = (uint4 *)(base + (size_t)HD_TILE_WARPS * n_stages * hd_tile<format>::bytes);
    s.sums = (float *)((uint8_t *)s.x + (size_t)k * 4 * n_tokens);
    s.units = s.sums + 2 * HD_TILE_WARPS * HD_TILE_ROWS * 4;
    s.scratch = s.units + HD_TILE_TOKENS;
    return s;
}

/* Waits for the warps that share rows with the calling one. */
static __device__ __forceinline__ void hd_group_sync(const hd_tile_walk &v)
{
    if (v.per_row == 1)
        __syncwarp();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(v.group + 1), "r"(v.per_row * 32) : "memory");
}

/* Adds the parts of the group's row tile and writes its rows; place `at` is row at / 4, token
 * at % 4. */
template <int format>
static __device__ __forceinline__ void hd_finish_rows(const hd_tile_unit &u, const hd_tile_walk &v,
                                                      int32_t row0, const float *sums,
                                                      const float *units)
{
    for (int at = threadIdx.x % 32 + v.part * 32; at < HD_TILE_ROWS * 4; at += v.per_row * 32) {
        int const row = row0 + at / 4, q = at % 4;
        if (row >= u.m.n || q >= u.n) continue;
        float sum = 0;
        for (int p = 0; p < v.per_row; p++)
            sum += sums[(v.group * v.per_row + p) * HD_TILE_ROWS * 4 + at];
        u.y[q][row] = sum * (hd_tile_factor<format>() * u.m.scale) * units[q];
    }
}

/* The loads of one warp, in order, each a tile ahead of its use. */
template <int format, int n_stages, typename source> struct hd_tile_feed {
    const source        &units;
    const hd_tile_walk  &v;
    uint8_t             *stages;
    int32_t              round; /* next to load */
    int                  tile, slot, lane;
    hd_tile_matrix       m;
    hd_tile_lane<format> from;

    __device__ __forceinline__ hd_tile_feed(const source &u, const hd_tile_walk &w, uint8_t *s)
        : units(u), v(w), stages(s), round(w.first), tile(0), slot(0), lane(threadIdx.x % 32)
    {
        if (round < v.end) {
            m = units.matrix(round / v.rounds);
            from.start(m, hd_row_of(v, round), lane);
        }
    }

    __device__ __forceinline__ void next_round(void)
    {
        tile = 0;
        if (++round >= v.end) return;
        if (round % v.rounds == 0) m = units.matrix(round / v.rounds);
        from.start(m, hd_row_of(v, round), lane);
    }

    __device__ __forceinline__ void load(void)
    {
        if (round < v.end) {
            from.load((v.part + tile * v.per_row) * hd_tile<format>::k,
                      stages + slot * hd_tile<format>::bytes, lane);
            if (++tile == v.tiles) next_round();
        }
        hd_copy_commit();
        slot = slot + 1 == n_stages ? 0 : slot + 1;
    }
};

/* Makes the rounds of this block.  `units` has matrix(u) and unit(u) for u < its count. */
template <int format, int n_tokens, int n_stages, typename source>
static __device__ __forceinline__ void hd_tile_run(const source &units, const hd_tile_walk &v,
                                                   uint8_t *shared, int32_t k)
{
    hd_tile_shared const s = hd_tile_share<format, n_tokens, n_stages>(shared, k);
    int const            warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint8_t *const       stages = s.stages + warp * n_stages * hd_tile<format>::bytes;
    hd_tile_feed<format, n_stages, source> feed(units, v, stages);
    for (int i = 0; i < n_stages - 1; i++) feed.load();
    hd_tile_unit u;
    uint32_t     offset[HD_TILE_STEPS];
    int          slot = 0;
    for (int i = 0; i < HD_TILE_STEPS; i++) offset[i] = hd_word_offset(i, lane);
    for (int32_t round = v.first; round < v.end; round++) {
        if (round == v.first || round % v.rounds == 0) {
            __syncthreads(); /* nobody still reads the last unit's activations */
            units.unit(round / v.rounds, &u);
            hd_split_rows<format, n_tokens>(u, s.x, s.units, s.scratch);
        }
        float c[4] = {0, 0, 0, 0};
        for (int t = 0; t < v.tiles; t++) {
            hd_copy_wait<n_stages - 2>();
            __syncwarp();
            int32_t const tile = v.part + t * v.per_row;
            int32_t const left = (k - tile * hd_tile<format>::k) / hd_tile<format>::step;
            hd_tile_dot<format, n_tokens>(stages + slot * hd_tile<format>::bytes, offset,
                                          s.x + tile * (hd_tile<format>::k / 4) * n_tokens, left,
                                          lane, c);
            slot = slot + 1 == n_stages ? 0 : slot + 1;
            __syncwarp();
            feed.load();
        }
        float *const sums = s.sums + (round & 1) * HD_TILE_WARPS * HD_TILE_ROWS * 4;
        float *const mine =
            sums + warp * HD_TILE_ROWS * 4 + lane; /* row lane / 4, token lane % 4 */
        mine[0] = c[0] + c[1] * (1.0f / 2048);
        mine[32] = c[2] + c[3] * (1.0f / 2048);
        hd_group_sync(v);
        hd_finish_rows<format>(u, v, hd_row_of(v, round), sums, s.units);
    }
    hd_copy_wait<0>();
}

/* ---- choosing ---- */

/* Stages that fit beside the activations, 2 to 4; 0 when not even two do. */
#define HD_TILE_TABLE_BYTES (1056 * sizeof(int32_t)) /* what a kernel may keep beside them */
template <int format> static __host__ __forceinline__ int hd_tile_stages(int32_t k, int n_tokens)
{
    for (int n = 4; n >= 2; n--)
        if (hd_tile_shared_bytes<format>(k, n_tokens, n) + HD_TILE_TABLE_BYTES <= 227 * 1024)
            return n;
    return 0;
}

/* Columns are made for one, two or four tokens. */
static __host__ __forceinline__ int hd_tile_tokens(int32_t t) { return t >= 3 ? 4 : t; }

/* Launches `kernel<format, n_tokens, n_stages>` of the widest size that fits. */
#define HD_TILE_CASE(kernel, fmt, tokens, stages, grid, bytes, stream, ...)                       \
    if (!hd_allow_shared((const void *)kernel<fmt, tokens, stages>, bytes)) return HD_ERR_DEVICE; \
    kernel<fmt, tokens, stages>                                                                   \
        <<<grid, HD_TILE_WARPS * 32, bytes, hd_cuda_stream(stream)>>>(__VA_ARGS__);               \
    return hd_launched();
#define HD_TILE_TOKENS_CASE(kernel, fmt, tokens, stages, grid, bytes, stream, ...) \
    if (stages == 4) {                                                             \
        HD_TILE_CASE(kernel, fmt, tokens, 4, grid, bytes, stream, __VA_ARGS__)     \
    } else if (stages == 3) {                                                      \
        HD_TILE_CASE(kernel, fmt, tokens, 3, grid, bytes, stream, __VA_ARGS__)     \
    } else {                                                                       \
        HD_TILE_CASE(kernel, fmt, tokens, 2, grid, bytes, stream, __VA_ARGS__)     \
    }
#define HD_TILE_LAUNCH(kernel, fmt, n_tokens, k, grid, stream, ...)                         \
    do {                                                                                    \
        int const    stages_ = hd_tile_stages<fmt>(k, n_tokens);                            \
        size_t const bytes_ =                                                               \
            hd_tile_shared_bytes<fmt>(k, n_tokens, stages_) + HD_TILE_TABLE_BYTES;          \
        if (n_tokens == 1) {                                                                \
            HD_TILE_TOKENS_CASE(kernel, fmt, 1, stages_, grid, bytes_, stream, __VA_ARGS__) \
        } else if (n_tokens == 2) {                                                         \
            HD_TILE_TOKENS_CASE(kernel, fmt, 2, stages_, grid, bytes_, stream, __VA_ARGS__) \
        } else {                                                                            \
            HD_TILE_TOKENS_CASE(kernel, fmt, 4, stages_, grid, bytes_, stream, __VA_ARGS__) \
        }                                                                                   \
    } while (0)

/* One block an SM, and none without a round. */
static __host__ __forceinline__ unsigned hd_tile_grid(int32_t n, int per_row, int64_t units)
{
    int64_t const rounds = hd_rounds(n, per_row) * units;
    return (unsigned)(rounds < hd_sm_count() ? rounds : hd_sm_count());
}

#endif
