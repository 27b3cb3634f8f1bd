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

/* What the elements of a slice are divided by.  Weights of NVFP4 leave room to bring the largest to
 * 2^14, so that an element 2^29 times smaller still has all its bits, which is what counts where
 * the large ones meet zeros; those of MXFP4 do not, because their scales reach the end of f32. */
template <int format> static __device__ __forceinline__ float hd_td_unit(float amax)
{
    float const unit = hd_row_unit(amax);
    if (!hd_td_tile<format>::is_nvfp4 || isinf(amax)) return unit;
    return fmaxf(unit * 0x1p-14f, 0x1p-126f);
}

/* Octets of a slice that a lane keeps: all of them, up to 8,192 columns of a row. */
template <typename shape> static __device__ constexpr int hd_td_octets(void)
{
    return 32 / shape::warps;
}

/* Splits the warp's slice of tokens q, q + groups, ..: `at_once` of them, whose loads are under way
 * together; a load takes a microsecond while the weights come.  Columns of tokens that the unit
 * lacks hold anything: no other column sees them. */
template <int format, typename shape, int at_once, typename source>
static __device__ __forceinline__ void hd_td_split_some(const source &units, const hd_td_walk &v,
                                                        int32_t unit, int q, int n)
{
    constexpr int own_octets = hd_td_octets<shape>();
    int const     lane = (int)threadIdx.x % 32, octets = v.tiles * 8;
    const float  *row[at_once];
    float         amax[at_once], kept[at_once][own_octets][8];
    bool          aligned = true;
#pragma unroll
    for (int i = 0; i < at_once; i++) {
        int const token = q + i * v.p.groups;
        row[i] = units.args().x + units.row(unit, token < n ? token : 0) * units.args().k +
                 v.slice * HD_TILES_COLS;
        aligned &= hd_is_aligned(row[i]);
        amax[i] = 0;
    }
#pragma unroll
    for (int j = 0; j < own_octets; j++)
#pragma unroll
        for (int i = 0; i < at_once; i++)
            hd_read_eight(row[i], hd_td_octet_of(v.p, min(lane + 32 * j, octets - 1)), aligned,
                          kept[i][j]);
#pragma unroll
    for (int i = 0; i < at_once; i++)
#pragma unroll
        for (int j = 0; j < own_octets; j++) amax[i] = hd_td_largest(kept[i][j], amax[i]);
#pragma unroll 1
    for (int o = lane + 32 * own_octets; o < octets; o += 32)
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
        float const  own = hd_td_unit<format>(hd_warp_max(amax[i])), inverse = 1.0f / own;
        uint4 *const to = v.s.x + v.own * 16 * v.p.tokens + token * 8;
        if (lane == 0) v.s.head->units[v.own][token] = own;
#pragma unroll
        for (int j = 0; j < own_octets; j++)
            if (lane + 32 * j < octets)
                hd_td_split_eight(kept[i][j], inverse,
                                  to + hd_td_octet<format>(v.p, lane + 32 * j));
#pragma unroll 1
        for (int o = lane + 32 * own_octets; o < octets; o += 32) {
            float e[8];
            hd_read_eight(row[i], hd_td_octet_of(v.p, o), aligned, e);
            hd_td_split_eight(e, inverse, to + hd_td_octet<format>(v.p, o));
        }
    }
}

/* The n activations of the unit to shared memory: the warps of a slice share its tokens. */
template <int format, typename shape, typename source>
static __device__ __forceinline__ void hd_td_split(const source &units, const hd_td_walk &v,
                                                   int32_t unit, int n)
{
    if (n <= v.p.groups) {
        if (v.group < n) hd_td_split_some<format, shape, 1>(units, v, unit, v.group, n);
        return;
    }
    if constexpr (!shape::is_one)
        for (int q = v.group; q < n; q += 2 * v.p.groups)
            hd_td_split_some<format, shape, 2>(units, v, unit, q, n);
}

/* ---- as codes ---- */

/* Bytes of a and b, each named by four bits, whose highest asks for eight times the byte's sign. */
static __device__ __forceinline__ uint32_t hd_td_look_up(uint32_t a, uint32_t b, uint32_t which)
{
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(which));
    return out;
}

/* The upper bytes of four codes as f16, whose lower ones are zero: a table of magnitudes with the
 * sign set, which is taken away where a code has none.
 * magnitudes  the codes without their signs */
static __device__ __forceinline__ uint32_t hd_td_upper_bytes(uint32_t codes, uint32_t magnitudes)
{
    uint32_t const negative = hd_td_look_up(0xBEBCB880u, 0xC6C4C2C0u, magnitudes);
    return negative - 2 * hd_td_look_up(0x40404040u, 0x40404040u, codes);
}

/* Eight codes times their block's scale, twice in a register: exact. */
static __device__ __forceinline__ uint4 hd_td_decode_eight(uint32_t word, uint32_t scale)
{
    uint32_t const magnitudes = word & 0x77777777u;
    uint32_t const first = hd_td_upper_bytes(word, magnitudes);
    uint32_t const second = hd_td_upper_bytes(word >> 16, magnitudes >> 16);
    return {hd_multiply_pair(__byte_perm(first, 0, 0x1404), scale),
            hd_multiply_pair(__byte_perm(first, 0, 0x3424), scale),
            hd_multiply_pair(__byte_perm(second, 0, 0x1404), scale),
            hd_multiply_pair(__byte_perm(second, 0, 0x3424), scale)};
}

/* Half a tile's codes of a row, 32 of them, and the scales of their two blocks. */
struct hd_td_coded {
    uint4    words;
    uint32_t scales;
};

static __device__ __forceinline__ uint32_t hd_td_read_word(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* half  counted from the row's first on */
static __device__ __forceinline__ hd_td_coded hd_td_read_coded(const uint8_t *codes,
                                                               const uint8_t *sf, int32_t half,
                                                               bool aligned)
{
    codes += half * 16;
    sf += half * 2;
    if (aligned) return {*(const uint4 *)codes, *(const uint16_t *)sf};
    return {{hd_td_read_word(codes), hd_td_read_word(codes + 4), hd_td_read_word(codes + 8),
             hd_td_read_word(codes + 12)},
            sf[0] | (uint32_t)sf[1] << 8};
}

/* Which half of which tile of a slice, of which of the warp's tokens, a lane decodes. */
struct hd_td_place_of_half {
    int half, tile, token;

    /* Eight lanes that store together meet no bank twice: two halves of two tokens, and some begin
     * with the second block. */
    __device__ __forceinline__ hd_td_place_of_half(const hd_td_walk &v, int i)
        : half(i % 2), tile(i / 4 % v.tiles),
          token(2 * (v.group + i / 4 / v.tiles * v.p.groups) + i / 2 % 2)
    {
    }
};

/* Stores a decoded half of a tile.  Blocks are quads' q, their octets' h what is `apart`. */
static __device__ __forceinline__ void hd_td_store_half(uint4 *to, int apart, hd_td_coded c,
                                                        bool is_second_first)
{
    uint32_t scale[2];
    uint4    w = c.words;
    hd_e4m3_to_f16_pairs(c.scales, scale);
    if (is_second_first) {
        w = make_uint4(w.z, w.w, w.x, w.y);
        uint32_t const first = scale[0];
        scale[0] = scale[1];
        scale[1] = first;
    }
    to += is_second_first;
    to[0] = hd_td_decode_eight(w.x, scale[0]);
    to[apart] = hd_td_decode_eight(w.y, scale[0]);
    to += is_second_first ? -1 : 1;
    to[0] = hd_td_decode_eight(w.z, scale[1]);
    to[apart] = hd_td_decode_eight(w.w, scale[1]);
}

#define HD_TD_HALVES 4 /* of a lane whose loads are under way together */

/* Decodes the warp's slice of its share of the unit's tokens: every `groups`-th pair. */
template <typename source>
static __device__ __forceinline__ void hd_td_decode(const source &units, const hd_td_walk &v,
                                                    int32_t unit, int n)
{
    const auto &a = units.args();
    int const   lane = (int)threadIdx.x % 32, columns = 4 * v.p.tokens;
    int const   pairs = ((n + 1) / 2 - v.group + v.p.groups - 1) / v.p.groups;
    int const   all = max(pairs, 0) * v.tiles * 4;
    bool const  aligned = hd_is_aligned(a.x_codes) && ((uintptr_t)a.x_sf & 1) == 0;
    float       scale = 0;
    if (lane < n && v.group == 0) scale = a.x_scale[units.x_scale(unit, lane)];
    for (int first = lane; first < all; first += 32 * HD_TD_HALVES) {
        hd_td_coded c[HD_TD_HALVES];
#pragma unroll
        for (int j = 0; j < HD_TD_HALVES; j++) {
            hd_td_place_of_half const at(v, min(first + 32 * j, all - 1));
            int64_t const             from = units.row(unit, min(at.token, n - 1)) * a.k;
            c[j] = hd_td_read_coded(a.x_codes + from / 2, a.x_sf + from / 16,
                                    (v.slice + at.tile * v.p.slices) * 2 + at.half, aligned);
        }
#pragma unroll
        for (int j = 0; j < HD_TD_HALVES; j++) {
            hd_td_place_of_half const at(v, min(first + 32 * j, all - 1));
            if (first + 32 * j < all && at.token < n)
                hd_td_store_half(v.s.x + (at.tile * v.p.here + v.own) * 2 * columns + at.token * 4 +
                                     at.half * 2,
                                 columns, c[j], (lane & 4) != 0);
        }
    }
    if (lane < n && v.group == 0) v.s.head->units[v.own][lane] = scale;
}

/* The same for one token: a lane has a half of a tile, of up to 16 at once. */
template <typename source>
static __device__ __forceinline__ void hd_td_decode_one(const source &units, const hd_td_walk &v,
                                                        int32_t unit)
{
    const auto   &a = units.args();
    int const     lane = (int)threadIdx.x % 32;
    int64_t const from = units.row(unit, 0) * a.k;
    bool const    aligned = hd_is_aligned(a.x_codes) && ((uintptr_t)a.x_sf & 1) == 0;
    if (v.group > 0) return;
    float const scale = a.x_scale[units.x_scale(unit, 0)];
    for (int i = lane; i < 2 * v.tiles; i += 32) {
        int const         tile = i / 2, half = i % 2;
        hd_td_coded const c = hd_td_read_coded(a.x_codes + from / 2, a.x_sf + from / 16,
                                               (v.slice + tile * v.p.slices) * 2 + half, aligned);
        hd_td_store_half(v.s.x + (tile * v.p.here + v.own) * 8 + half * 2, 4, c, (lane & 2) != 0);
    }
    if (lane == 0) v.s.head->units[v.own][0] = scale;
}

template <int format, typename shape, typename source>
static __device__ __forceinline__ void hd_td_put_x(const source &units, const hd_td_walk &v,
                                                   int32_t unit, int n)
{
    if constexpr (shape::planes == 1 && shape::is_one)
        hd_td_decode_one(units, v, unit);
    else if constexpr (shape::planes == 1)
        hd_td_decode(units, v, unit, n);
    else
        hd_td_split<format, shape>(units, v, unit, n);
}

#endif
