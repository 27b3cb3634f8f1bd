#ifndef HD_OPS_CUDA_WGMMA_DOT_CUH
#define HD_OPS_CUDA_WGMMA_DOT_CUH

#include <cooperative_groups.h>

#include "launch.cuh"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "quant/matrix.h"
#include "quant/tiles.h"
#include "vectors.cuh"
#include "wgmma_asm.cuh"

/* The common core of products of coded weights with many tokens, for Hopper's tensor cores.
 *
 * Bound by: the tensor cores, once there are some hundred tokens.
 * Tile: 256 rows of weights (FP8: 128) x 64 tokens, 64 columns at a time; a warpgroup has
 *   64 rows.  Where tiles are few, a cluster of blocks shares one: each takes a run of the
 *   columns, and their sums are added in its order.
 * Product: wgmma with bf16 operands and f32 sums.  The weights are operand A, decoded in
 *   registers: e2m1 x e4m3, e2m1 x 2^e and e4m3 fit bf16.  The activations are operand B, in
 *   shared memory: an f32 is the sum of three bf16 (24 bits, cut off, so nothing overflows), each
 *   a plane of its own.  Activations that were rounded to bf16 or less have only the first: a
 *   chunk whose others are all 0 leaves them out.
 * Order of k inside a chunk is free, so codes stay where a word or a tile (quant/tiles.h) has them
 *   and the columns of the activations are laid out alike.
 * Sums: the tensor cores cut off what they add, so a chunk starts from 0, with its smallest plane,
 *   and its sums are added to the rest as f32 are.
 * FP8: the scale of 128 x 128 weights is one for the tile's rows, so it goes to the activations.
 * Loads: while a chunk is multiplied, the next one's activations are split, those of the one
 *   after come to registers, and codes come to shared memory by cp.async. */

#define HD_WG_TOKENS  64
#define HD_WG_SUMS    (HD_WG_TOKENS / 2) /* of a thread */
#define HD_WG_K       64
#define HD_WG_STEPS   (HD_WG_K / 16)
#define HD_WG_PLANES  3
#define HD_WG_LINE    128 /* bytes of a token's columns in a plane */
#define HD_WG_CLUSTER 8   /* most blocks that share a tile         */

/* Codes of a tile: units of 16 bytes, placed so that ldmatrix meets no bank twice. */
template <int format> struct hd_wg_tile {
    static constexpr bool is_nvfp4 = format == HD_FMT_NVFP4_TILES;
    static constexpr bool is_four_bit = is_nvfp4 || format == HD_FMT_MXFP4_TILES;
    static constexpr int  rows = format == HD_FMT_FP8 ? HD_FP8_BLOCK : 256;
    static constexpr int  threads = rows / 64 * 128, warps = threads / 32;
    static constexpr int  row_bytes = is_four_bit            ? HD_WG_K / 2
                                      : format == HD_FMT_FP8 ? HD_WG_K
                                                             : HD_WG_K * 2;
    static constexpr int  units = row_bytes / 16;
    static constexpr int  row_tiles = rows / HD_TILES_ROWS;  /* of four bits */
    static constexpr int  tile_scales = is_nvfp4 ? 128 : 64; /* bytes of one */
    static constexpr int  scales_at = rows * row_bytes;      /* behind the codes */
    static constexpr int  bytes = scales_at + (is_four_bit ? row_tiles * tile_scales : 16);
    static constexpr int  stages = format == HD_FMT_BF16 ? 3 : 4; /* that fit shared memory */
    static constexpr int  columns = HD_WG_K; /* a matrix has a whole number of these */
    static_assert(HD_WG_K == HD_TILES_COLS && rows % HD_TILES_ROWS == 0, "whole tiles");

    static __device__ __forceinline__ int at(int row, int unit)
    {
        return row * row_bytes + (unit ^ row / (8 / units) % units) * 16;
    }
};

/* Bytes of the scales of `rows` rows; for FP8 whole blocks of them. */
template <int format>
static __device__ __forceinline__ int64_t hd_wg_scales_before(int64_t rows, int32_t k)
{
    if (format == HD_FMT_FP8)
        return rows / HD_FP8_BLOCK * ((k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK) *
               (int64_t)sizeof(float);
    if (format == HD_FMT_NVFP4_TILES) return rows * (k / HD_NVFP4_BLOCK);
    return format == HD_FMT_MXFP4_TILES ? rows * (k / HD_MXFP4_BLOCK) : 0;
}

/* A matrix, one tile of its rows, and up to HD_WG_TOKENS vectors. */
struct hd_wg_job {
    const uint8_t *w, *sf; /* of row 0; for FP8 row 0 begins a block of scales */
    int32_t        n, k;
    float          scale;
    int32_t        row0;
    const float   *x[HD_WG_TOKENS]; /* of those behind n_tokens the first's, which is not used */
    float         *y[HD_WG_TOKENS];
    int32_t        n_tokens;
    bool           is_wide; /* whether all of x is aligned for vectors of four */
};

/* A chunk's activations, swizzled by 128 bytes. */
struct hd_wg_planes {
    __align__(1024) uint8_t plane[HD_WG_PLANES][HD_WG_TOKENS * HD_WG_LINE];
};

template <int format> struct hd_wg_shared {
    union {
        struct {
            hd_wg_planes x[2];
            __align__(128) uint8_t stages[hd_wg_tile<format>::stages][hd_wg_tile<format>::bytes];
        } in;
        float sums[HD_WG_SUMS][hd_wg_tile<format>::threads]; /* for the cluster, at the end */
    } u;
    hd_wg_job job;
};

/* ---- decoding ---- */

static __device__ __forceinline__ uint32_t hd_wg_multiply_pair(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

#define HD_WG_2_120 0x7B807B80u /* 2^120 twice */

/* Four E4M3 codes to pairs of bf16: codes 0 and 2, 1 and 3. */
static __device__ __forceinline__ void hd_wg_e4m3(uint32_t w, uint32_t out[2])
{
    constexpr uint32_t magnitude = 0x07F007F0u, sign = 0x80008000u;
    out[0] = hd_wg_multiply_pair(((w << 4) & magnitude) | ((w << 8) & sign), HD_WG_2_120);
    out[1] = hd_wg_multiply_pair(((w >> 4) & magnitude) | (w & sign), HD_WG_2_120);
}

/* A word of eight codes of a tile to four pairs of bf16, 2^-126 times their value: the code's
 * exponent and mantissa become the low bits of bf16's exponent and the top of its mantissa. */
static __device__ __forceinline__ void hd_wg_codes(uint32_t w, uint32_t out[4])
{
    constexpr uint32_t magnitude = 0x01C001C0u, sign = 0x80008000u;
    out[0] = ((w >> 3) & magnitude) | (w & sign);
    out[1] = (w & magnitude) | ((w << 3) & sign);
    out[2] = ((w << 3) & magnitude) | ((w << 1) & sign);
    out[3] = ((w << 6) & magnitude) | ((w << 2) & sign);
}

#define HD_WG_2_126 0x7E807E80u /* 2^126 twice */

/* The scales of rows r and r + 8 of half h of a tile for the lane's word `second` of a row, each
 * twice. */
template <int format>
static __device__ __forceinline__ void hd_wg_scales(const uint8_t *scales, int h, int second,
                                                    uint32_t out[2])
{
    int const lane = (int)threadIdx.x % 32;
    if (hd_wg_tile<format>::is_nvfp4) {
        uint32_t const word = ((const uint32_t *)scales)[lane];
        uint32_t const codes = __byte_perm(word, 0, h ? 0x4342 : 0x4140) << 4;
        uint32_t const pair = hd_wg_multiply_pair(codes, HD_WG_2_120);
        out[0] = __byte_perm(pair, 0, 0x1010);
        out[1] = __byte_perm(pair, 0, 0x3232);
    } else {
        uint32_t const word = ((const uint32_t *)scales)[lane / 4 * 2 + second] >> (16 * h);
        uint32_t const codes[2] = {word & 255, word >> 8 & 255}; /* 2^(code - 127) */
#pragma unroll
        for (int i = 0; i < 2; i++) out[i] = (codes[i] ? codes[i] << 7 : 0x40) * 0x10001u;
    }
}

/* Operand A of all steps of a chunk of a matrix in tiles, for the warp's 16 rows. */
template <int format>
static __device__ __forceinline__ void hd_wg_decode_tiles(const uint8_t *stage,
                                                          uint32_t       a[HD_WG_STEPS][4])
{
    using tile = hd_wg_tile<format>;
    int const            lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const uint8_t *const scales = stage + tile::scales_at + warp / 2 * tile::tile_scales;
    uint4 const          words = ((const uint4 *)stage)[warp * 32 + lane];
    uint32_t const       w[2][2] = {{words.x, words.y}, {words.z, words.w}}; /* rows r, r + 8 */
#pragma unroll
    for (int second = 0; second < 2; second++) {
        uint32_t scale[2];
        hd_wg_scales<format>(scales, warp % 2, second, scale);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            uint32_t v[4];
            hd_wg_codes(w[r][second], v);
#pragma unroll
            for (int p = 0; p < 4; p++)
                a[2 * second + p / 2][p % 2 * 2 + r] =
                    hd_wg_multiply_pair(hd_wg_multiply_pair(v[p], HD_WG_2_126), scale[r]);
        }
    }
}

/* The same of a matrix in rows. */
template <int format>
static __device__ __forceinline__ void hd_wg_decode_rows(const uint8_t *stage,
                                                         uint32_t       a[HD_WG_STEPS][4])
{
    using tile = hd_wg_tile<format>;
    int const lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * 16;
#pragma unroll
    for (int u = 0; u < tile::units; u += 2) {
        uint32_t w[4]; /* rows lane / 4 and + 8 of unit u, then of u + 1 */
        hd_load_matrices(hd_shared_address(stage + tile::at(row + lane % 16, u + lane / 16)), w);
        if (format == HD_FMT_FP8) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint32_t v[2];
                hd_wg_e4m3(w[i], v);
                a[u + i / 2][i % 2] = v[0];
                a[u + i / 2][2 + i % 2] = v[1];
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) a[u / 2][i] = w[i];
        }
    }
}

template <int format>
static __device__ __forceinline__ void hd_wg_decode(const uint8_t *stage,
                                                    uint32_t       a[HD_WG_STEPS][4])
{
    if constexpr (hd_wg_tile<format>::is_four_bit)
        hd_wg_decode_tiles<format>(stage, a);
    else
        hd_wg_decode_rows<format>(stage, a);
}

/* ---- activations ----
 * A thread has eight columns of a few tokens: in turn i warp w has block j % 2 of 32 columns of
 * the eight tokens from j / 2 * 8 on, j = i * warps + w; a lane token lane / 4 and octet
 * lane % 4. */

template <int format> struct hd_wg_x {
    static constexpr int turns = HD_WG_TOKENS / 4 / hd_wg_tile<format>::warps;
    __align__(16) float v[turns][8];
};

template <int format> static __device__ __forceinline__ int hd_wg_token(int turn)
{
    return (turn * hd_wg_tile<format>::warps + (int)threadIdx.x / 32) / 2 * 8 +
           (int)threadIdx.x % 32 / 4;
}

static __device__ __forceinline__ int hd_wg_block(void) { return (int)threadIdx.x / 32 % 2; }

/* Starts loading; no branch stands between the loads and the registers, which would wait for them.
 * is_wide: all rows are aligned for vectors */
template <bool is_wide, int format>
static __device__ __forceinline__ void hd_wg_load_x(const hd_wg_job &j, int32_t k0,
                                                    hd_wg_x<format> &x)
{
    int32_t const c = k0 + hd_wg_block() * 32 + (int)threadIdx.x % 4 * 8;
#pragma unroll
    for (int i = 0; i < hd_wg_x<format>::turns; i++) {
        const float *const from = j.x[hd_wg_token<format>(i)] + c;
        *(float4 *)x.v[i] = hd_load4(from, 4, is_wide);
        *(float4 *)(x.v[i] + 4) = hd_load4(from + 4, 4, is_wide);
    }
}

/* Stores pairs of bf16 of an octet, the upper halves of the floats, where decoding puts them. */
template <int format>
static __device__ __forceinline__ void hd_wg_store_octet(uint8_t *plane, int token,
                                                         const float v[8])
{
    int const      block = hd_wg_block(), q = (int)threadIdx.x % 4;
    uint8_t *const line = plane + token * HD_WG_LINE;
    uint32_t       word[4];
#pragma unroll
    for (int p = 0; p < 4; p++) {
        int const first = format == HD_FMT_FP8 ? p / 2 * 4 + p % 2 : 2 * p;
        int const second = format == HD_FMT_FP8 ? first + 2 : first + 1;
        word[p] = __byte_perm(__float_as_uint(v[first]), __float_as_uint(v[second]), 0x7632);
    }
    if (format == HD_FMT_BF16) {
        *(uint4 *)(line + ((block * 4 + q) ^ token % 8) * 16) =
            make_uint4(word[0], word[1], word[2], word[3]);
    } else {
#pragma unroll
        for (int p = 0; p < 4; p++) {
            int const chunk = format == HD_FMT_FP8           ? block * 4 + q / 2 * 2 + p % 2
                              : hd_wg_tile<format>::is_nvfp4 ? q % 2 * 4 + p
                                                             : block * 4 + p;
            int const at = format == HD_FMT_FP8           ? q % 2 * 2 + p / 2
                           : hd_wg_tile<format>::is_nvfp4 ? block * 2 + q / 2
                                                          : q;
            *(uint32_t *)(line + (chunk ^ token % 8) * 16 + at * 4) = word[p];
        }
    }
}

template <int format>
static __device__ __forceinline__ void hd_wg_store_plane(uint8_t *plane, const hd_wg_x<format> &x)
{
#pragma unroll
    for (int i = 0; i < hd_wg_x<format>::turns; i++)
        hd_wg_store_octet<format>(plane, hd_wg_token<format>(i), x.v[i]);
}

/* x less its upper 16 bits: what the plane of these lacks. */
static __device__ __forceinline__ float hd_wg_rest(float x)
{
    return x - __uint_as_float(__float_as_uint(x) & 0xffff0000u);
}

/* Leaves in x what the first plane lacks; whether that is anything.  Infinity and NaN lack nothing,
 * so that their other planes add 0 and not infinities of the other sign. */
template <int format> static __device__ __forceinline__ bool hd_wg_take_rest(hd_wg_x<format> &x)
{
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < hd_wg_x<format>::turns * 8; i++) {
        float const rest = hd_wg_rest(x.v[i / 8][i % 8]);
        x.v[i / 8][i % 8] = rest == rest ? rest : 0.0f;
        any |= __float_as_uint(x.v[i / 8][i % 8]);
    }
    return (any & 0x7fffffffu) != 0;
}

/* Splits x, scaled, into planes; how many are needed, the same for the whole block. */
template <int format>
static __device__ __forceinline__ int hd_wg_split(hd_wg_planes *out, float scale,
                                                  hd_wg_x<format> &x)
{
    constexpr int n = hd_wg_x<format>::turns * 8;
#pragma unroll
    for (int i = 0; format == HD_FMT_FP8 && i < n; i++) x.v[i / 8][i % 8] *= scale;
    hd_wg_store_plane(out->plane[0], x);
    if (!__syncthreads_or(hd_wg_take_rest(x))) return 1;
    hd_wg_store_plane(out->plane[1], x);
#pragma unroll
    for (int i = 0; i < n; i++) x.v[i / 8][i % 8] = hd_wg_rest(x.v[i / 8][i % 8]);
    hd_wg_store_plane(out->plane[2], x);
    return HD_WG_PLANES;
}

/* ---- the loop over k ---- */

/* Starts copying the scale of chunk c. */
static __device__ __forceinline__ void hd_wg_load_fp8_scale(const hd_wg_job &j, int32_t c,
                                                            uint8_t *to)
{
    int64_t const blocks = (j.k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    if (threadIdx.x == 0)
        hd_copy_4(to, (const float *)j.sf + j.row0 / HD_FP8_BLOCK * blocks +
                          c * HD_WG_K / HD_FP8_BLOCK);
}

/* Starts copying chunk c of `row_tiles` tiles, `bytes` of each; those behind the matrix become 0.
 */
template <int row_tiles, int bytes>
static __device__ __forceinline__ void hd_wg_load_tiles(const hd_wg_job &j, const uint8_t *from,
                                                        int32_t c, uint8_t *to)
{
    constexpr int units = bytes / 16;
    for (int at = (int)threadIdx.x; at < row_tiles * units; at += (int)blockDim.x) {
        int32_t const row_tile = j.row0 / HD_TILES_ROWS + at / units;
        bool const    is_in = row_tile < j.n / HD_TILES_ROWS;
        int64_t const tile = (int64_t)(is_in ? row_tile : 0) * (j.k / HD_TILES_COLS) + c;
        hd_copy_16_or_zero(to + at * 16, from + tile * bytes + at % units * 16, is_in);
    }
}

/* Starts copying the codes of chunk c that lie in rows; those of rows behind the matrix become 0.
 */
template <int format>
static __device__ __forceinline__ void hd_wg_load_rows(const hd_wg_job &j, int32_t c, uint8_t *to)
{
    using tile = hd_wg_tile<format>;
    int64_t const stride = (int64_t)j.k * tile::row_bytes / HD_WG_K;
#pragma unroll
    for (int i = 0; i < tile::rows * tile::units / tile::threads; i++) {
        int const     at = i * tile::threads + (int)threadIdx.x;
        int const     row = at / tile::units, unit = at % tile::units;
        bool const    is_in = j.row0 + row < j.n;
        int64_t const line = is_in ? j.row0 + row : 0;
        hd_copy_16_or_zero(to + tile::at(row, unit),
                           j.w + line * stride + (int64_t)c * tile::row_bytes + unit * 16, is_in);
    }
}

/* Starts copying the codes and scales of chunk c, unless it is behind the last. */
template <int format>
static __device__ __forceinline__ void hd_wg_load_weights(hd_wg_shared<format> *s, int32_t c,
                                                          int32_t end)
{
    using tile = hd_wg_tile<format>;
    const hd_wg_job &j = s->job;
    uint8_t *const   stage = s->u.in.stages[c % hd_wg_tile<format>::stages];
    if (c < end && tile::is_four_bit) {
        hd_wg_load_tiles<tile::row_tiles, HD_TILES_CODE_BYTES>(j, j.w, c, stage);
        hd_wg_load_tiles<tile::row_tiles, tile::tile_scales>(j, j.sf, c, stage + tile::scales_at);
    } else if (c < end) {
        hd_wg_load_rows<format>(j, c, stage);
        if (format == HD_FMT_FP8) hd_wg_load_fp8_scale(j, c, stage + tile::scales_at);
    }
    hd_copy_commit();
}

/* What the activations of a chunk are multiplied by. */
template <int format>
static __device__ __forceinline__ float hd_wg_x_scale(const hd_wg_shared<format> *s, int32_t c)
{
    const uint8_t *const stage = s->u.in.stages[c % hd_wg_tile<format>::stages];
    return format == HD_FMT_FP8 ? *(const float *)(stage + hd_wg_tile<format>::scales_at) : 1.0f;
}

/* Starts sum = the product of a chunk with its first planes, the last of them first. */
template <int planes>
static __device__ __forceinline__ void
hd_wg_multiply(const hd_wg_planes *x, const uint32_t a[HD_WG_STEPS][4], float sum[HD_WG_SUMS])
{
    hd_wgmma_fence();
#pragma unroll
    for (int p = planes - 1; p >= 0; p--) {
        uint64_t const plane = hd_wgmma_operand(x->plane[p]);
#pragma unroll
        for (int i = 0; i < HD_WG_STEPS; i++) {
            if (p == planes - 1 && i == 0)
                hd_wgmma_64<false>(sum, a[i], plane);
            else
                hd_wgmma_64<true>(sum, a[i], plane + 2 * i);
        }
    }
    hd_wgmma_commit();
}

/* Makes the planes of chunk c, whose scale is there, and starts loading the activations behind
 * it; how many planes are needed. */
template <bool is_wide, int format>
static __device__ __forceinline__ int hd_wg_prepare(hd_wg_shared<format> *s, int32_t c, int32_t end,
                                                    hd_wg_x<format> &x)
{
    int const planes = hd_wg_split<format>(&s->u.in.x[c & 1], hd_wg_x_scale(s, c), x);
    hd_wg_load_x<is_wide>(s->job, min(c + 1, end - 1) * HD_WG_K, x);
    return planes;
}

/* Adds chunks [first, end) of k to sum: elements 4 j .. 4 j + 3 of a thread are rows lane / 4, the
 * same, and lane / 4 + 8 twice, of tokens 8 j + 2 (lane % 4) and the next.  s->job is set.
 * Behind each barrier the weights of this chunk and of the next are there. */
template <bool is_wide, int format>
static __device__ __forceinline__ void hd_wg_run(hd_wg_shared<format> *s, int32_t first,
                                                 int32_t end, float sum[HD_WG_SUMS])
{
    constexpr int   stages = hd_wg_tile<format>::stages;
    hd_wg_x<format> x;
    uint32_t        a[HD_WG_STEPS][4];
    float           part[HD_WG_SUMS];
    for (int32_t c = first; c < first + stages - 1; c++) hd_wg_load_weights(s, c, end);
    hd_wg_load_x<is_wide>(s->job, first * HD_WG_K, x);
    hd_copy_wait<stages - 3>();
    __syncthreads();
    int planes = hd_wg_prepare<is_wide>(s, first, end, x);
    hd_wgmma_publish();
    __syncthreads();
    for (int32_t c = first; c < end; c++) {
        hd_wg_decode<format>(s->u.in.stages[c % hd_wg_tile<format>::stages], a);
        if (planes == 1)
            hd_wg_multiply<1>(&s->u.in.x[c & 1], a, part);
        else
            hd_wg_multiply<HD_WG_PLANES>(&s->u.in.x[c & 1], a, part);
        hd_wg_load_weights(s, c + stages - 1, end);
        if (c + 1 < end) planes = hd_wg_prepare<is_wide>(s, c + 1, end, x);
        hd_copy_wait<stages - 3>();
        hd_wgmma_publish();
        hd_wgmma_wait(part);
#pragma unroll
        for (int i = 0; i < HD_WG_SUMS; i++) sum[i] += part[i];
        __syncthreads(); /* the next chunk is there, and nobody still reads this one */
    }
}

/* ---- results ---- */

template <int format>
static __device__ __forceinline__ void hd_wg_write(const hd_wg_job &j, int i, float sum)
{
    int const     lane = (int)threadIdx.x % 32, token = i / 4 * 8 + lane % 4 * 2 + i % 2;
    int32_t const row = j.row0 + (int)threadIdx.x / 32 * 16 + lane / 4 + i % 4 / 2 * 8;
    if (token < j.n_tokens && row < j.n) j.y[token][row] = sum * j.scale;
}

/* Makes the job, shared by the blocks of the cluster. */
template <int format> static __device__ __forceinline__ void hd_wg_make(hd_wg_shared<format> *s)
{
    cooperative_groups::cluster_group const cluster = cooperative_groups::this_cluster();
    int const     n = (int)cluster.num_blocks(), rank = (int)cluster.block_rank();
    int32_t const chunks = s->job.k / HD_WG_K;
    float         sum[HD_WG_SUMS] = {};
    if (s->job.is_wide)
        hd_wg_run<true>(s, chunks * rank / n, chunks * (rank + 1) / n, sum);
    else
        hd_wg_run<false>(s, chunks * rank / n, chunks * (rank + 1) / n, sum);
    if (n == 1) {
#pragma unroll
        for (int i = 0; i < HD_WG_SUMS; i++) hd_wg_write<format>(s->job, i, sum[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < HD_WG_SUMS; i++) s->u.sums[i][threadIdx.x] = sum[i];
    cluster.sync();
    for (int i = rank; i < HD_WG_SUMS; i += n) {
        float total = 0;
        for (int b = 0; b < n; b++)
            total += *cluster.map_shared_rank(&s->u.sums[i][threadIdx.x], b);
        hd_wg_write<format>(s->job, i, total);
    }
    cluster.sync(); /* nobody still reads this block's sums */
}

/* Blocks that share a tile, 1 to 8: enough to occupy the GPU with `tiles` of them, as long as each
 * has some chunks.  It follows from the matrix alone, so that a row of y does not depend on the
 * batch. */
static inline unsigned hd_wg_share(int64_t tiles, int32_t k)
{
    unsigned n = 1;
    while (n < HD_WG_CLUSTER && tiles * n * 4 < hd_sm_count() * 3 && k / HD_WG_K >= 8 * (int)n)
        n *= 2;
    return n;
}

/* Launches a kernel of one argument, `cluster` blocks of the grid's x together. */
template <typename args>
static inline hd_status hd_wg_launch(void (*kernel)(args), const args &a, dim3 grid,
                                     unsigned cluster, unsigned threads, size_t bytes,
                                     cudaStream_t stream)
{
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t  config = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    if (!hd_allow_shared((const void *)kernel, bytes)) return HD_ERR_DEVICE;
    return cudaLaunchKernelEx(&config, kernel, a) == cudaSuccess ? HD_OK : HD_ERR_DEVICE;
}

#endif
