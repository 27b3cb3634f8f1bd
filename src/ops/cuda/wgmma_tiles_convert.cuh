#ifndef HD_OPS_CUDA_WGMMA_TILES_CONVERT_CUH
#define HD_OPS_CUDA_WGMMA_TILES_CONVERT_CUH

#include "wgmma_tiles_ring.cuh"

/* Splitting activations into planes: what the third warpgroup of a block of
 * wgmma_tiles_dot.cuh does. */

static __device__ __forceinline__ int hd_wt_converter(void)
{
    return (int)threadIdx.x % HD_WT_CONVERTS;
}

/* ---- floats ----
 * A thread has four columns of each octet of a block of columns, of a few
 * tokens: two units of 16 bytes of a line. */

/* Element e of f. */
static __device__ __forceinline__ float &hd_wt_element(float4 &f, int e)
{
    return e == 0 ? f.x : e == 1 ? f.y : e == 2 ? f.z : f.w;
}

/* Line of this block's own ones that the thread has in a turn. */
static __device__ __forceinline__ int hd_wt_line(int turn)
{
    return turn * (HD_WT_CONVERTS / 4) + hd_wt_converter() / 4;
}

/* Sixteen bytes, which may be aligned to four only; zeros unless is_in. */
template <bool is_wide>
static __device__ __forceinline__ void hd_wt_copy_four(float4 *to, const float *from, bool is_in)
{
    if (is_wide) {
        hd_copy_16_or_zero(to, from, is_in);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) hd_copy_4_or_zero((float *)to + i, from + i, is_in);
    }
}

/* Starts copying a turn's columns of chunk c to a place of the thread's own. */
template <bool is_wide, typename shape>
static __device__ __forceinline__ void hd_wt_load_x(hd_wt_shared<shape> *s, int first_line, int i,
                                                    int32_t c, int stage)
{
    constexpr bool     is_nvfp4 = shape::is_nvfp4;
    int const          v = hd_wt_converter() % 4, line = first_line + hd_wt_line(i);
    bool const         is_in = line < s->job.n_tokens;
    const float *const from =
        s->job.x[line] + c * HD_TILES_COLS + v / 2 * (is_nvfp4 ? 8 : 32) + v % 2 * 4;
#pragma unroll(is_wide ? 4 : 1)
    for (int j = 0; j < 4; j++)
        hd_wt_copy_four<is_wide>((float4 *)&s->x[stage][i * 4 + j][hd_wt_converter()],
                                 from + j * (is_nvfp4 ? 16 : 8), is_in);
}

/* Stores the upper halves of a turn's floats as a plane's. */
static __device__ __forceinline__ void hd_wt_store(uint8_t *slot, int line, float4 (&x)[4])
{
    int const v = hd_wt_converter() % 4;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        uint32_t word[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            word[j] = __byte_perm(__float_as_uint(hd_wt_element(x[j], 2 * e)),
                                  __float_as_uint(hd_wt_element(x[j], 2 * e + 1)), 0x7632);
        *(uint4 *)(slot + line * HD_WT_LINE + ((v * 2 + e) ^ line % 8) * 16) =
            make_uint4(word[0], word[1], word[2], word[3]);
    }
}

/* x less its upper 16 bits: what the plane of these lacks.  Infinity and NaN
 * lack nothing, so that their other planes add 0 and not infinities of the
 * other sign. */
static __device__ __forceinline__ float hd_wt_rest(float x)
{
    float const rest = x - __uint_as_float(__float_as_uint(x) & 0xffff0000u);
    return rest == rest ? rest : 0.0f;
}

/* Replaces a turn's floats by their rests. */
static __device__ __forceinline__ void hd_wt_take_rest(float4 (&x)[4])
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        x[j] = {hd_wt_rest(x[j].x), hd_wt_rest(x[j].y), hd_wt_rest(x[j].z), hd_wt_rest(x[j].w)};
}

static __device__ __forceinline__ uint32_t hd_wt_all_bits(const float4 (&x)[4])
{
    uint32_t bits = 0;
#pragma unroll
    for (int j = 0; j < 4; j++)
        bits |= __float_as_uint(x[j].x) | __float_as_uint(x[j].y) | __float_as_uint(x[j].z) |
                __float_as_uint(x[j].w);
    return bits;
}

/* Whether it is so for any thread that converts. */
static __device__ __forceinline__ bool hd_wt_sync_any(bool is)
{
    int any;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0;\n"
                 "bar.red.or.pred q, 1, %2, p;\n"
                 "selp.s32 %0, 1, 0, q; }"
                 : "=r"(any)
                 : "r"((int)is), "n"(HD_WT_CONVERTS)
                 : "memory");
    return any != 0;
}

/* The thread's warp has made its share of a slot. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_note_made(hd_wt_shared<shape> *s, int slot)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0) hd_barrier_arrive(&s->made[slot]);
}

/* Hands the own lines of a slot's planes over, to this block and to its peers: a lane for each. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_hand_over(hd_wt_shared<shape> *s, int32_t c, int own,
                                                       int slot)
{
    uint32_t const bytes = (uint32_t)own * HD_WT_LINE;
    int const      i = (int)threadIdx.x % 32, peer = hd_wt_peer<shape>();
    uint32_t const made = shape::planes > 1 ? s->made_planes[slot] : 1;
    uint32_t const planes = made % 256;
    float const    more = made / 256 ? 1.0f : 0.0f;
    if (i >= shape::peers) return;
    if (i == 0) {
        s->has_more[slot][peer] = more;
        hd_barrier_arrive(&s->full[slot]);
        return;
    }
    uint32_t const to = (uint32_t)((peer + i) % shape::peers);
    uint32_t const full = hd_cluster_address(&s->full[slot], to);
    hd_barrier_expect_at(full, planes * bytes + (shape::planes > 1 ? (uint32_t)sizeof more : 0));
    if (shape::planes > 1)
        hd_store_at(hd_cluster_address(&s->has_more[slot][peer], to), more, full);
    for (uint32_t p = 0; p < planes; p++) {
        uint8_t *const lines = s->plane(c, slot, (int)p) + (uint32_t)peer * bytes;
        hd_bulk_copy_at(hd_cluster_address(lines, to), lines, bytes, full);
    }
}

/* What a warp does that hands over all that is made of a tile: the fence that this needs would make
 * threads that convert wait for what they load.
 * own  tokens that the block converts */
template <typename shape>
static __device__ __forceinline__ void hd_wt_publish(hd_wt_shared<shape> *s, int32_t first, int own,
                                                     hd_ring_place<shape::slots> &turn)
{
    for (int32_t c = first; c < first + s->job.k_tiles; c++) {
        hd_barrier_wait(&s->made[turn.at], turn.parity);
        hd_wgmma_publish();
        hd_wt_hand_over(s, c, own, turn.at);
        __syncwarp();
        turn.next();
    }
}

/* What a thread that converts does. */
template <bool is_wide, typename shape> struct hd_wt_conversion {
    hd_wt_shared<shape> *s;
    int                  own; /* tokens that the block converts */
    int32_t              first, end;
    int                  stage; /* of activations */

    /* Whether the thread has a line in turn i; whole warps have. */
    __device__ __forceinline__ bool has_line(int i) const { return hd_wt_line(i) < own; }

    /* Starts copying chunk c, unless it is behind the last. */
    __device__ __forceinline__ void load(int32_t c, int to)
    {
#pragma unroll
        for (int i = 0; i < shape::turns; i++)
            if (c < end && has_line(i))
                hd_wt_load_x<is_wide>(s, hd_wt_peer<shape>() * own, i, c - first, to);
        hd_copy_commit();
    }

    __device__ __forceinline__ void read(int i, float4 (&x)[4])
    {
#pragma unroll
        for (int j = 0; j < 4; j++)
            x[j] = *(const float4 *)&s->x[stage][i * 4 + j][hd_wt_converter()];
    }

    __device__ __forceinline__ void store(uint8_t *plane, int i, float4 (&x)[4])
    {
        hd_wt_store(plane, hd_wt_peer<shape>() * own + hd_wt_line(i), x);
    }

    /* The first plane; whether some element has more. */
    __device__ __forceinline__ bool convert_first(int slot)
    {
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < shape::turns; i++) {
            float4 x[4];
            if (!has_line(i)) break;
            read(i, x);
            store(s->planes[slot], i, x);
            bits |= hd_wt_all_bits(x);
        }
        return (bits & 0xffff) != 0;
    }

    __device__ __forceinline__ void convert_others(int32_t c)
    {
#pragma unroll
        for (int i = 0; i < shape::turns; i++) {
            float4 x[4];
            if (!has_line(i)) break;
            read(i, x);
#pragma unroll
            for (int p = 1; p < shape::planes; p++) {
                hd_wt_take_rest(x);
                store(s->plane(c, 0, p), i, x);
            }
        }
    }

    /* Waits until what has the other planes' place before chunk c is multiplied.
     */
    __device__ __forceinline__ void wait_for_others(int32_t c)
    {
        int32_t const before = c - shape::others;
        if (before >= 0)
            hd_barrier_wait(&s->empty[before % shape::slots], before / shape::slots & 1);
    }

    /* Converts chunk c.
     * zeros  places of other planes that are 0 in this half, in both blocks: a
     * bit each */
    __device__ __forceinline__ void step(int32_t c, hd_ring_place<shape::slots> &turn,
                                         uint32_t &zeros)
    {
        int const      slot = turn.at;
        uint32_t const other = 1u << c % shape::others;
        hd_copy_wait<shape::x_stages - 1>();
        hd_barrier_wait(&s->empty[slot], turn.parity);
        bool const has_more = hd_wt_sync_any(convert_first(slot));
        bool const has_all = has_more || !(zeros & other);
        if (has_all) {
            wait_for_others(c);
            convert_others(c);
        }
        zeros = has_more ? zeros & ~other : zeros | other;
        if (hd_wt_converter() == 0)
            s->made_planes[slot] = (has_all ? shape::planes : 1) + (has_more ? 256 : 0);
        hd_wt_note_made(s, slot);
        load(c + shape::x_stages, stage);
        stage = stage + 1 == shape::x_stages ? 0 : stage + 1;
        turn.next();
    }

    __device__ __forceinline__ void run(hd_ring_place<shape::slots> &turn, uint32_t &zeros)
    {
        for (int i = 0; i < shape::x_stages; i++) load(first + i, i);
        for (int32_t c = first; c < end; c++) step(c, turn, zeros);
        hd_copy_wait<0>();
    }
};

/* ---- codes ---- */

/* Codes 2 b and 2 b + 1 of a word, 2^-14 times their value, as f16. */
static __device__ __forceinline__ uint32_t hd_wt_code_pair(uint32_t word, int b)
{
    uint32_t const apart = __byte_perm(word, 0, 0x4440 + (uint32_t)b) * 0x00200200u;
    return (apart & 0x0E000E00u) | ((apart << 3) & 0x80008000u);
}

/* What a thread that decodes does, of a tile: where there are fewer tokens than threads, some of
 * them share a token. units  of 16 bytes of a token's line: eight, or all of one half */
template <typename shape, int units> struct hd_wt_decoding {
    hd_wt_shared<shape> *s;
    const uint8_t       *codes, *sf; /* of the thread's token, in the chunk to be loaded next */
    int32_t              n, left;    /* chunks of the tile, and those not loaded yet          */
    int                  line;       /* the token's in a slot                                 */
    int                  first;      /* unit                                                  */
    bool                 is_in;      /* whether there is the token                            */
    int                  stage;      /* of codes                                              */

    /* Starts copying the next chunk, unless that is behind the last. */
    __device__ __forceinline__ void load(int to)
    {
        int const at = hd_wt_converter();
        if (left > 0 && s->job.is_wide) {
            hd_copy_16_or_zero(&s->x[to][0][at], codes, is_in);
            hd_copy_16_or_zero(&s->x[to][1][at], codes + 16, is_in);
            hd_copy_4_or_zero(&s->x_sf[to][at], sf, is_in);
        } else if (left > 0) {
#pragma unroll 1
            for (int i = 0; i < HD_TILES_COLS / 2; i++)
                ((uint8_t *)&s->x[to][i / 16][at])[i % 16] = codes[i];
#pragma unroll 1
            for (int i = 0; i < 4; i++) ((uint8_t *)&s->x_sf[to][at])[i] = sf[i];
        }
        hd_copy_commit();
        codes += HD_TILES_COLS / 2;
        sf += HD_TILES_COLS / HD_NVFP4_BLOCK;
        left--;
    }

    /* Decodes units of half of a line: the words of four blocks, by their scales, which are there
     * twice. */
    __device__ __forceinline__ void store(uint8_t *to, int unit, const uint32_t (&w)[4],
                                          const uint32_t (&scale)[4])
    {
#pragma unroll
        for (int i = 0; i < (units < 4 ? units : 4); i++) {
            uint32_t v[4];
#pragma unroll
            for (int q = 0; q < 4; q++)
                v[q] = hd_multiply_pair(hd_wt_code_pair(w[q], (unit + i) % 4), scale[q]);
            *(uint4 *)(to + ((unit + i) ^ line % 8) * 16) = make_uint4(v[0], v[1], v[2], v[3]);
        }
    }

    /* Decodes a chunk. */
    __device__ __forceinline__ void step(hd_ring_place<shape::slots> &turn)
    {
        int const      at = hd_wt_converter();
        uint8_t *const to = s->planes[turn.at] + line * HD_WT_LINE;
        hd_copy_wait<shape::x_stages - 1>();
        uint4 const    low = s->x[stage][0][at], high = s->x[stage][1][at];
        uint32_t const sfs = s->x_sf[stage][at];
        uint32_t       scale[4];
        hd_e4m3_to_f16_pairs(sfs, scale);
        hd_e4m3_to_f16_pairs(sfs >> 16, scale + 2);
        hd_barrier_wait(&s->empty[turn.at], turn.parity);
#pragma unroll 1
        for (int unit = first; unit < first + units; unit += 4) {
            bool const half = unit >= 4;
            store(to, unit,
                  {half ? low.y : low.x, half ? low.w : low.z, half ? high.y : high.x,
                   half ? high.w : high.z},
                  scale);
        }
        hd_wt_note_made(s, turn.at);
        load(stage);
        stage = stage + 1 == shape::x_stages ? 0 : stage + 1;
        turn.next();
    }

    __device__ __forceinline__ void run(hd_ring_place<shape::slots> &turn)
    {
#pragma unroll 1
        for (int i = 0; i < shape::x_stages; i++) load(i);
        for (int32_t c = 0; c < n; c++) step(turn);
        hd_copy_wait<0>();
    }
};

/* Decodes a tile.
 * own  tokens that the block decodes: those of its peers lie in front of and behind them */
template <int units, typename shape>
static __device__ __forceinline__ void hd_wt_decode_own(hd_wt_shared<shape> *s, int own,
                                                        hd_ring_place<shape::slots> &turn)
{
    constexpr int apart = HD_WT_CONVERTS / (8 / units); /* threads that share a token */
    int const at = hd_wt_converter(), line = hd_wt_peer<shape>() * own + min(at % apart, own - 1);
    int32_t const                n = s->job.k_tiles;
    const uint8_t *const         codes = s->job.codes[line];
    hd_wt_decoding<shape, units> all = {s,
                                        codes,
                                        s->job.x_sf + (codes - s->job.x_codes) / 8,
                                        n,
                                        n,
                                        line,
                                        at / apart * units,
                                        line < s->job.n_tokens,
                                        0};
    all.run(turn);
}

#endif
