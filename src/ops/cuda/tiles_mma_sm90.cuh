#ifndef HD_OPS_CUDA_TILES_MMA_SM90_CUH
#define HD_OPS_CUDA_TILES_MMA_SM90_CUH

#include "f16_planes.cuh"
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
 * magnitudes: a product moves both, because what else it makes carries into no bit of a pair. */
static __device__ __forceinline__ void hd_td_codes(uint32_t w, uint32_t out[4])
{
    constexpr uint32_t pair = 0x8E008E00u; /* signs and magnitudes of two f16 */
    out[0] = w & pair;
    out[1] = (w << 3) & pair;
    out[2] = (w & 0x40384038u) * (1u << 6 | 1u << 1) & pair;
    out[3] = (w & 0x20072007u) * (1u << 9 | 1u << 2) & pair;
}

/* Two E4M3 scales to two registers that hold each twice.  The product with a code is a multiple of
 * 2^-24 and has 6 bits: exact. */
static __device__ __forceinline__ void hd_td_scales(uint32_t pair, uint32_t out[2])
{
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((unsigned short)pair));
    out[0] = __byte_perm(halves, 0, 0x1010);
    out[1] = __byte_perm(halves, 0, 0x3232);
}

/* 2^(byte - 127); code 0 gives 0, which is near enough (ops/gemm.h). */
static __device__ __forceinline__ float hd_td_power(uint32_t word, int byte)
{
    return __uint_as_float((word << (24 - 8 * byte) & 0xff000000u) >> 1);
}

/* What a finished sum must be multiplied by; where activations were decoded likewise. */
#define HD_TD_FACTOR       0x1p14f
#define HD_TD_CODED_FACTOR 0x1p28f

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

/* Adds a tile's products: c[h] is rows 16 h + lane / 4 and + 8 of it. */
template <int format, int blocks>
static __device__ __forceinline__ void hd_td_tile_dot(const uint8_t *codes, const uint8_t *scales,
                                                      const hd_td_x<blocks> &x,
                                                      float                  c[2][blocks][4])
{
    int const   lane = (int)threadIdx.x % 32;
    uint4 const words[2] = {((const uint4 *)codes)[lane],
                            ((const uint4 *)(codes + HD_TD_CODE_HALF))[lane]};
    if (hd_td_tile<format>::is_nvfp4) {
        uint32_t const word = ((const uint32_t *)scales)[lane];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint32_t scale[2];
            hd_td_scales(h ? word >> 16 : word, scale);
            hd_td_nvfp4_rows<blocks>(words[h], scale, x, c[h]);
        }
    } else {
        uint2 const pair = ((const uint2 *)scales)[lane / 4];
#pragma unroll
        for (int h = 0; h < 2; h++) hd_td_mxfp4_rows<blocks>(words[h], pair, 2 * h, x, c[h]);
    }
}

#endif
