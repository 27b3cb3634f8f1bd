#ifndef HD_OPS_CUDA_TILES_MMA_SM90_CUH
#define HD_OPS_CUDA_TILES_MMA_SM90_CUH

#include "f16_planes.cuh"
#include "fp8_codes.cuh"
#include "quant/matrix.h"
#include "quant/tiles.h"

/* One tile (quant/tiles.h) of four-bit weights times a few tokens, by one warp.
 *
 * Decoding costs 9 instructions for 8 codes: the places of the bits in a word are chosen so that
 * two pairs need one mask each.  e2m1 x e4m3 is exact in f16, whose denormals the tensor cores
 * keep, and mma.m16n8k16 adds in f32.  Token q is columns 2 q (high plane) and 2 q + 1 (low;
 * f16_planes.cuh), or column q of activations that are codes. */

#define HD_TD_CODE_HALF (HD_TILES_CODE_BYTES / 2) /* of 16 rows of a tile */

template <int format> struct hd_td_tile {
    static constexpr bool is_nvfp4 = format == HD_FMT_NVFP4_TILES;
    static constexpr int  scale_bytes = HD_TILES_ROWS * HD_TILES_COLS / (is_nvfp4 ? 16 : 32);
    static constexpr int  bytes = HD_TILES_CODE_BYTES + scale_bytes;
    static_assert(HD_TILES_ROWS == 32 && HD_TILES_COLS == 64,
                  "two operands of 16 rows, four steps");
    static_assert(scale_bytes % 16 == 0, "what a bulk copy can do");
};

/* ---- decoding ---- */

/* A word of eight codes to four registers of two f16 each, 2^-14 times their value: the code's
 * exponent and mantissa become the low bits of f16's exponent and the top of its mantissa, so that
 * the format's own denormals are f16's.  The last two pairs have their signs elsewhere than their
 * magnitudes: a product moves both, because what else it makes carries into no bit of a pair.
 * half  0: the first two pairs, 1: the last two */
static __device__ __forceinline__ void hd_td_codes(uint32_t w, int half, uint32_t out[2])
{
    constexpr uint32_t pair = 0x8E008E00u; /* signs and magnitudes of two f16 */
    if (half == 0) {
        out[0] = w & pair;
        out[1] = (w << 3) & pair;
    } else {
        out[0] = (w & 0x40384038u) * (1u << 6 | 1u << 1) & pair;
        out[1] = (w & 0x20072007u) * (1u << 9 | 1u << 2) & pair;
    }
}

static __device__ __forceinline__ void hd_td_codes(uint32_t w, uint32_t out[4])
{
    hd_td_codes(w, 0, out);
    hd_td_codes(w, 1, out + 2);
}

/* 2^(byte - 127); code 0 gives 0, which is near enough (ops/gemm.h). */
static __device__ __forceinline__ float hd_td_power(uint32_t word, int byte)
{
    return __uint_as_float((word << (24 - 8 * byte) & 0xff000000u) >> 1);
}

/* What a finished sum must be multiplied by. */
#define HD_TD_FACTOR 0x1p14f

/* ---- a tile ---- */

/* The activations that a lane needs for a tile: of each eight columns two times eight f16. */
template <int blocks> struct hd_td_x {
    uint4 v[blocks][2];
};

/* Eight products for the operand of 16 rows whose words these are.
 * scale  of rows r and r + 8, each twice in a register */
template <int blocks>
static __device__ __forceinline__ void
hd_td_nvfp4_rows(uint4 words, const uint32_t scale[2], const hd_td_x<blocks> &x, float c[blocks][4])
{
    uint32_t a[4][4]; /* row r first and second word, row r + 8 likewise */
    hd_td_codes(words.x, a[0]);
    hd_td_codes(words.y, a[1]);
    hd_td_codes(words.z, a[2]);
    hd_td_codes(words.w, a[3]);
#pragma unroll
    for (int i = 0; i < 16; i++) a[i / 4][i % 4] = hd_multiply_pair(a[i / 4][i % 4], scale[i / 8]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t const first[4] = {a[h][0], a[2 + h][0], a[h][1], a[2 + h][1]};
        uint32_t const second[4] = {a[h][2], a[2 + h][2], a[h][3], a[2 + h][3]};
#pragma unroll
        for (int b = 0; b < blocks; b++) {
            hd_mma(c[b], first, x.v[b][h].x, x.v[b][h].y);
            hd_mma(c[b], second, x.v[b][h].z, x.v[b][h].w);
        }
    }
}

/* The same for MXFP4, whose scales are powers of two beyond f16 and act on the sums.
 * scales  of the two blocks: bytes `at` and `at` + 1 are rows r and r + 8 */
template <int blocks>
static __device__ __forceinline__ void
hd_td_mxfp4_rows(uint4 words, uint2 scales, int at, const hd_td_x<blocks> &x, float c[blocks][4])
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t low[4], high[4];
        hd_td_codes(h ? words.y : words.x, low);
        hd_td_codes(h ? words.w : words.z, high);
        uint32_t const first[4] = {low[0], high[0], low[1], high[1]};
        uint32_t const second[4] = {low[2], high[2], low[3], high[3]};
        float const    s[2] = {hd_td_power(h ? scales.y : scales.x, at),
                               hd_td_power(h ? scales.y : scales.x, at + 1)};
#pragma unroll
        for (int b = 0; b < blocks; b++) {
            float part[4] = {0, 0, 0, 0};
            hd_mma(part, first, x.v[b][h].x, x.v[b][h].y);
            hd_mma(part, second, x.v[b][h].z, x.v[b][h].w);
#pragma unroll
            for (int i = 0; i < 4; i++) c[b][i] = fmaf(part[i], s[i / 2], c[b][i]);
        }
    }
}

/* The factors of a lane's rows r and r + 8 of 16, h those of a tile, from its word of scales. */
template <int format>
static __device__ __forceinline__ void hd_td_factors(uint32_t word, int h, float out[2])
{
    if (hd_td_tile<format>::is_nvfp4) {
        uint32_t const halves = hd_e4m3_to_f16(h ? word >> 16 : word);
        float2 const   both = __half22float2(*(const __half2 *)&halves);
        out[0] = both.x;
        out[1] = both.y;
    } else {
        out[0] = hd_td_power(word, 2 * h);
        out[1] = hd_td_power(word, 2 * h + 1);
    }
}

/* What a lane has of a tile: words of rows r and r + 8, then of r + 16 and r + 24; its scales. */
struct hd_td_words {
    uint4    w[2];
    uint32_t scale;
};

/* Adds the products of n tiles with one token: columns 2 b and 2 b + 1 of x are block b's two
 * planes and zero in the other blocks' elements, so one sum of all mma has each block for itself,
 * and its scales are multiplied once for 16 codes.  c[h]: rows as below, both planes of block
 * lane % 4; MXFP4 has two blocks. */
template <int format, int planes, int n>
static __device__ __forceinline__ void hd_td_tiles_one(const hd_td_words words[n],
                                                       const hd_td_x<1> x[n], float c[2][1][4])
{
    float sum[n][2][4] = {};
#pragma unroll
    for (int step = 0; step < 4; step++)
#pragma unroll
        for (int i = 0; i < 2 * n; i++) {
            uint4 const w = words[i / 2].w[i % 2], v = x[i / 2].v[0][step / 2];
            uint32_t    r[2], r8[2];
            hd_td_codes(step / 2 ? w.y : w.x, step % 2, r);
            hd_td_codes(step / 2 ? w.w : w.z, step % 2, r8);
            uint32_t const a[4] = {r[0], r8[0], r[1], r8[1]};
            hd_mma(sum[i / 2][i % 2], a, step % 2 ? v.z : v.x, step % 2 ? v.w : v.y);
        }
#pragma unroll
    for (int i = 0; i < 2 * n; i++) {
        float factor[2];
        hd_td_factors<format>(words[i / 2].scale, i % 2, factor);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (j % 2 < planes)
                c[i % 2][0][j] = fmaf(sum[i / 2][i % 2][j], factor[j / 2], c[i % 2][0][j]);
    }
}

/* The byte of a tile's scales at which a lane's begin. */
template <int format, bool is_one> static __device__ __forceinline__ int hd_td_scale_at(int lane)
{
    if (hd_td_tile<format>::is_nvfp4) return lane * 4;
    return lane / 4 * 8 + (is_one ? lane % 2 * 4 : 0);
}

/* Adds a tile's products: c[h] is rows 16 h + lane / 4 and + 8 of it. */
template <int format, int blocks>
static __device__ __forceinline__ void hd_td_tile_dot(const uint8_t *codes, const uint8_t *scales,
                                                      const hd_td_x<blocks> &x,
                                                      float                  c[2][blocks][4])
{
    uint4 const words[2] = {*(const uint4 *)codes, *(const uint4 *)(codes + HD_TD_CODE_HALF)};
    if (hd_td_tile<format>::is_nvfp4) {
        uint32_t const word = *(const uint32_t *)scales;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t scale[2]; /* times a code a multiple of 2^-24 of 6 bits: exact */
            hd_e4m3_to_f16_pairs(h ? word >> 16 : word, scale);
            hd_td_nvfp4_rows<blocks>(words[h], scale, x, c[h]);
        }
    } else {
        uint2 const pair = *(const uint2 *)scales;
#pragma unroll
        for (int h = 0; h < 2; h++) hd_td_mxfp4_rows<blocks>(words[h], pair, 2 * h, x, c[h]);
    }
}

#endif
