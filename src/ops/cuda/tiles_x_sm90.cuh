#ifndef HD_OPS_CUDA_TILES_X_SM90_CUH
#define HD_OPS_CUDA_TILES_X_SM90_CUH

#include "tiles_plan_sm90.cuh"

/* Activations of products of four-bit weights in tiles: to shared memory, as f16 in the order in
 * which the tensor cores take them. */

/* ---- as f32 ---- */

/* Where octet o of a slice goes, from its first one on: its place in the tile follows the words. */
template <int format> static __device__ __forceinline__ int hd_td_octet(const hd_td_plan &p, int o)
{
    int const octet = o % 8;
    int const q = hd_td_tile<format>::is_nvfp4 ? octet / 2 : octet % 4;
    int const h = hd_td_tile<format>::is_nvfp4 ? octet % 2 : octet / 4;
    return (o / 8 * p.here * 2 + h) * 4 * p.planes * p.tokens + q;
}

/* Eight elements of a row, scaled, to the two columns of a token. */
static __device__ __forceinline__ void hd_td_split_eight(const float e[8], float inverse, uint4 *at)
{
    __align__(16) __half high[8], low[8];
#pragma unroll
    for (int j = 0; j < 8; j++) hd_split_f16(e[j] * inverse, high + j, low + j);
    at[0] = *(const uint4 *)high;
    at[4] = *(const uint4 *)low;
}

static __device__ __forceinline__ float hd_td_largest(const float e[8], float amax)
{
#pragma unroll
    for (int j = 0; j < 8; j++) amax = fmaxf(amax, fabsf(e[j]));
    return amax;
}

/* Octet o of a slice, counted in octets of the row from the slice's first on. */
static __device__ __forceinline__ int32_t hd_td_octet_of(const hd_td_plan &p, int32_t o)
{
    return o / 8 * p.slices * (HD_TILES_COLS / 8) + o % 8;
}

#define HD_TD_OCTETS                                                             \
    2 /* of a slice that a lane keeps: all of them, up to 8,192 columns of a row \
       */

/* Splits the warp's slice of tokens q, q + groups, ..: `at_once` of them, whose loads are under way
 * together; a load takes a microsecond while the weights come.  Columns of tokens that the unit
 * lacks hold anything: no other column sees them. */
template <int format, int at_once, typename source>
static __device__ __forceinline__ void hd_td_split_some(const source &units, const hd_td_walk &v,
                                                        int32_t unit, int q, int n)
{
    int const    lane = (int)threadIdx.x % 32, octets = v.tiles * 8;
    const float *row[at_once];
    float        amax[at_once], kept[at_once][HD_TD_OCTETS][8];
    bool         aligned = true;
#pragma unroll
    for (int i = 0; i < at_once; i++) {
        int const token = q + i * v.p.groups;
        row[i] = units.args().x + units.row(unit, token < n ? token : 0) * units.args().k +
                 v.slice * HD_TILES_COLS;
        aligned &= hd_is_aligned(row[i]);
        amax[i] = 0;
    }
#pragma unroll
    for (int j = 0; j < HD_TD_OCTETS; j++)
#pragma unroll
        for (int i = 0; i < at_once; i++)
            hd_read_eight(row[i], hd_td_octet_of(v.p, min(lane + 32 * j, octets - 1)), aligned,
                          kept[i][j]);
#pragma unroll
    for (int i = 0; i < at_once; i++)
#pragma unroll
        for (int j = 0; j < HD_TD_OCTETS; j++) amax[i] = hd_td_largest(kept[i][j], amax[i]);
#pragma unroll 1
    for (int o = lane + 32 * HD_TD_OCTETS; o < octets; o += 32)
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            float e[8];
            hd_read_eight(row[i], hd_td_octet_of(v.p, o), aligned, e);
            amax[i] = hd_td_largest(e, amax[i]);
        }
#pragma unroll
    for (int i = 0; i < at_once; i++) {
        int const token = q + i * v.p.groups;
        if (token >= n) continue;
        float const  own = hd_row_unit(hd_warp_max(amax[i])), inverse = 1.0f / own;
        uint4 *const to = v.s.x + v.own * 16 * v.p.tokens + token * 8;
        if (lane == 0) v.s.head->units[v.slice][token] = own;
#pragma unroll
        for (int j = 0; j < HD_TD_OCTETS; j++)
            if (lane + 32 * j < octets)
                hd_td_split_eight(kept[i][j], inverse,
                                  to + hd_td_octet<format>(v.p, lane + 32 * j));
#pragma unroll 1
        for (int o = lane + 32 * HD_TD_OCTETS; o < octets; o += 32) {
            float e[8];
            hd_read_eight(row[i], hd_td_octet_of(v.p, o), aligned, e);
            hd_td_split_eight(e, inverse, to + hd_td_octet<format>(v.p, o));
        }
    }
}

/* The n activations of the unit to shared memory: the warps of a slice share its tokens. */
template <int format, typename source>
static __device__ __forceinline__ void hd_td_split(const source &units, const hd_td_walk &v,
                                                   int32_t unit, int n)
{
    if (n <= v.p.groups) {
        if (v.group < n) hd_td_split_some<format, 1>(units, v, unit, v.group, n);
        return;
    }
    for (int q = v.group; q < n; q += 2 * v.p.groups)
        hd_td_split_some<format, 2>(units, v, unit, q, n);
}

/* ---- as codes ---- */

/* Codes 2 p and 2 p + 1 of a word, 2^-14 times their value, as f16. */
static __device__ __forceinline__ uint32_t hd_td_code_pair(uint32_t word, int p)
{
    uint32_t const both = word >> (8 * p), apart = (both & 0xFu) | (both & 0xF0u) << 12;
    return (apart & 0x00070007u) << 9 | (apart & 0x00080008u) << 12;
}

/* Eight codes times their block's scale: multiples of 2^-24, so exact. */
static __device__ __forceinline__ uint4 hd_td_decode_eight(uint32_t word, uint8_t sf)
{
    uint32_t scale[2];
    hd_td_scales(sf, scale);
    return {hd_multiply_pair(hd_td_code_pair(word, 0), scale[0]),
            hd_multiply_pair(hd_td_code_pair(word, 1), scale[0]),
            hd_multiply_pair(hd_td_code_pair(word, 2), scale[0]),
            hd_multiply_pair(hd_td_code_pair(word, 3), scale[0])};
}

/* Word o of codes that need not be aligned. */
static __device__ __forceinline__ uint32_t hd_td_read_word(const uint8_t *codes, int32_t o)
{
    if (((uintptr_t)codes & 3) == 0) return ((const uint32_t *)codes)[o];
    codes += 4 * o;
    return codes[0] | (uint32_t)codes[1] << 8 | (uint32_t)codes[2] << 16 | (uint32_t)codes[3] << 24;
}

/* Decodes the warp's slice of tokens q, q + groups, ..: `at_once` of them, whose loads are under
 * way together. */
template <int format, int at_once, typename source>
static __device__ __forceinline__ void hd_td_decode_some(const source &units, const hd_td_walk &v,
                                                         int32_t unit, int q, int n)
{
    int const      lane = (int)threadIdx.x % 32, octets = v.tiles * 8;
    const uint8_t *codes[at_once], *sf[at_once];
    float          scale[at_once];
#pragma unroll
    for (int i = 0; i < at_once; i++) {
        int const     token = q + i * v.p.groups;
        int64_t const row = units.row(unit, token < n ? token : 0), from = row * units.args().k;
        codes[i] = units.args().x_codes + from / 2;
        sf[i] = units.args().x_sf + from / 16;
        scale[i] = units.args().x_scale[units.x_scale(row)];
    }
    for (int o = lane; o < octets; o += 32) {
        int32_t const at = hd_td_octet_of(v.p, o) + v.slice * (HD_TILES_COLS / 8);
        uint32_t      word[at_once];
        uint8_t       s[at_once];
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            word[i] = hd_td_read_word(codes[i], at);
            s[i] = sf[i][at / 2];
        }
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            int const token = q + i * v.p.groups;
            if (token < n)
                v.s.x[(v.own * 2 * v.p.tokens + token) * 4 + hd_td_octet<format>(v.p, o)] =
                    hd_td_decode_eight(word[i], s[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < at_once; i++)
        if (lane == 0 && q + i * v.p.groups < n)
            v.s.head->units[v.slice][q + i * v.p.groups] = scale[i];
}

template <int format, typename source>
static __device__ __forceinline__ void hd_td_decode(const source &units, const hd_td_walk &v,
                                                    int32_t unit, int n)
{
    if (n <= v.p.groups) {
        if (v.group < n) hd_td_decode_some<format, 1>(units, v, unit, v.group, n);
        return;
    }
    for (int q = v.group; q < n; q += 4 * v.p.groups)
        hd_td_decode_some<format, 4>(units, v, unit, q, n);
}

template <int format, typename shape, typename source>
static __device__ __forceinline__ void hd_td_put_x(const source &units, const hd_td_walk &v,
                                                   int32_t unit, int n)
{
    if constexpr (shape::planes == 1)
        hd_td_decode<format>(units, v, unit, n);
    else
        hd_td_split<format>(units, v, unit, n);
}

#endif
