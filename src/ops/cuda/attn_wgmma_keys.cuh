#ifndef HD_OPS_CUDA_ATTN_WGMMA_KEYS_CUH
#define HD_OPS_CUDA_ATTN_WGMMA_KEYS_CUH

#include "attn_keys.cuh"
#include "wgmma_asm.cuh"

/* Keys for attn_sparse_wgmma.cu: its shared memory, and how warps fill it.
 * The two blocks of a cluster have the same keys: each makes half of a tile, for both.  A warp has
 * eight of these keys, a lane 16 elements of each that are codes and twice eight of tails; of BF16
 * rows twice eight elements. */

#define HD_AW_PEERS     2          /* blocks of a cluster */
#define HD_AW_HEADS     32         /* of a block          */
#define HD_AW_KEYS      64         /* of a tile           */
#define HD_AW_SLOTS     2          /* of tiles            */
#define HD_AW_TAIL      64         /* elements of a row with codes that are bf16 */
#define HD_AW_TURNS     64         /* pairs that are turned, at most             */
#define HD_AW_TOKENS    3          /* whose turns are kept: results may be two tokens behind */
#define HD_AW_CHUNK     (64 * 128) /* bytes of 64 columns of 64 lines */
#define HD_AW_TILE      (HD_KEY_WIDTH / 64 * HD_AW_CHUNK)
#define HD_AW_ATTENDS   256 /* threads */
#define HD_AW_LOADS     128 /* threads */
#define HD_AW_THREADS   (HD_AW_ATTENDS + HD_AW_LOADS)
#define HD_AW_WARP_KEYS (HD_AW_KEYS / HD_AW_PEERS / (HD_AW_LOADS / 32))
static_assert(HD_AW_WARP_KEYS == 8, "lines of a warp have all turns");

/* Planes: chunks of 64 columns, as wgmma reads them; a chunk is 64 lines of 128 bytes, whose units
 * of 16 bytes are turned by line % 8. */
typedef struct hd_aw_shared {
    __align__(1024) uint8_t q[HD_AW_TILE]; /* line 16 w + i: head 8 w + i high, + 8: low */
    __align__(1024) uint8_t keys[HD_AW_SLOTS][HD_AW_TILE];
    float4   part[2][2][4][HD_AW_ATTENDS / 2]; /* logits over half the columns, by turns     */
    float2   key[HD_AW_SLOTS][HD_AW_KEYS];     /* unit; 0, or -infinity for what is no key   */
    float    q_unit[HD_AW_HEADS];              /* with the scale of logits, to the base of 2 */
    float2   turn[HD_AW_TOKENS][HD_AW_TURNS];  /* cosine and sine, backwards */
    uint64_t full[HD_AW_SLOTS], empty[HD_AW_SLOTS];
} hd_aw_shared;
static_assert(sizeof(hd_aw_shared) <= 227 * 1024, "fits a block's memory");

/* Where unit u of a line stands. */
static __device__ __forceinline__ int32_t hd_aw_at(int32_t line, int32_t u)
{
    return u / 8 * HD_AW_CHUNK + line * 128 + ((u ^ line) & 7) * 16;
}

/* ---- loading ---- */

/* A key in memory.  What is no key has the place of one, so that nothing has to ask. */
typedef struct hd_aw_key {
    const uint8_t *data;
    int32_t        scales; /* bytes from data on */
    bool           is_key;
} hd_aw_key;

/* A lane's part of a few keys as they stand in memory. */
template <hd_row_format format> struct hd_aw_bits {
    static constexpr bool has_codes = format != HD_ROW_BF16;
    static constexpr int  keys = has_codes ? 8 : 4;
    uint4                 v[keys][has_codes ? 1 : 2]; /* of NVFP4 the first half */
    uint32_t              scale[keys];
    uint4                 tail[keys / 4]; /* of keys lane / 8 and + 4 */
};

/* Of the first 28 lanes; the others load what they do not use. */
static __device__ __forceinline__ bool hd_aw_has_codes(int32_t lane)
{
    return lane < (HD_KEY_WIDTH - HD_AW_TAIL) / 16;
}

/* A pointer to global memory that lane `lane` has. */
static __device__ __forceinline__ const uint8_t *hd_aw_given(const uint8_t *p, int32_t lane)
{
    const uint8_t *const out =
        (const uint8_t *)__shfl_sync(0xffffffffu, (unsigned long long)p, lane);
    __builtin_assume(__isGlobal(out));
    return out;
}

static __device__ __forceinline__ uint2 hd_aw_load_8(const uint8_t *p, bool is_wide)
{
    if (is_wide) return *(const uint2 *)p;
    const uint32_t *const w = (const uint32_t *)p;
    return {w[0], w[1]};
}

/* Starts loading key i; lane `from` of the warp knows its place. */
template <hd_row_format format, bool is_wide>
static __device__ __forceinline__ void hd_aw_load_key(const hd_aw_key &own, int32_t from, int i,
                                                      hd_aw_bits<format> &bits)
{
    int32_t const        lane = hd_thread() % 32;
    const uint8_t *const data = hd_aw_given(own.data, from);
    if constexpr (format == HD_ROW_BF16) {
        bits.v[i][0] = hd_load_16(data + lane * 16, is_wide);
        bits.v[i][1] = hd_load_16(data + (lane + 32) * 16, is_wide);
        return;
    }
    int32_t const scales = __shfl_sync(0xffffffffu, own.scales, from);
    if constexpr (format == HD_ROW_FP8) {
        bits.v[i][0] = hd_load_16(data + lane * 16, is_wide);
        bits.scale[i] = data[scales + lane * 16 / HD_ROW_FP8_BLOCK];
    } else if constexpr (format == HD_ROW_NVFP4) {
        uint2 const codes = hd_aw_load_8(data + lane * 8, is_wide);
        bits.v[i][0] = {codes.x, codes.y, 0, 0};
        bits.scale[i] = data[scales + lane];
    }
}

/* The same of tails. */
template <hd_row_format format, bool is_wide>
static __device__ __forceinline__ void hd_aw_load_tails(const hd_attn_job *j, const hd_aw_key &own,
                                                        int32_t first, hd_aw_bits<format> &bits)
{
    using shape = hd_aw_bits<format>;
    int32_t const lane = hd_thread() % 32, at = j->win.plain_at + lane % 8 * 16;
#pragma unroll
    for (int i = 0; shape::has_codes && i < shape::keys / 4; i++)
        bits.tail[i] = hd_load_16(hd_aw_given(own.data, first + i * 4 + lane / 8) + at, is_wide);
}

/* Starts loading; lane first + i knows the place of key i. */
template <hd_row_format format, bool is_wide>
static __device__ __forceinline__ void hd_aw_load(const hd_attn_job *j, const hd_aw_key &own,
                                                  int32_t first, hd_aw_bits<format> &bits)
{
#pragma unroll
    for (int i = 0; i < hd_aw_bits<format>::keys; i++)
        hd_aw_load_key<format, is_wide>(own, first + i, i, bits);
    hd_aw_load_tails<format, is_wide>(j, own, first, bits);
}

/* ---- planes ---- */

/* The exponents of the keys' units. */
template <hd_row_format format>
static __device__ __forceinline__ void hd_aw_find_units(const hd_aw_bits<format> &bits,
                                                        int32_t unit[hd_aw_bits<format>::keys])
{
    using shape = hd_aw_bits<format>;
    int32_t const lane = hd_thread() % 32;
    int32_t       tail[shape::keys / 4];
#pragma unroll
    for (int i = 0; shape::has_codes && i < shape::keys / 4; i++)
        tail[i] = hd_unit_of_bits(hd_largest_bf16(bits.tail[i]));
#pragma unroll
    for (int i = 0; i < shape::keys; i++) {
        uint4 const v = bits.v[i][0];
        int32_t     own;
        if constexpr (format == HD_ROW_BF16) {
            own = hd_unit_of_bits(max(hd_largest_bf16(v), hd_largest_bf16(bits.v[i][1])));
        } else {
            uint32_t const low = format == HD_ROW_FP8 ? v.x | v.z : v.x | v.y;
            uint32_t const high = format == HD_ROW_FP8 ? v.y | v.w : 0;
            int32_t const  coded = hd_unit_of_codes<format>({low, high, bits.scale[i], 0});
            own = hd_aw_has_codes(lane) ? coded : HD_KEY_LEAST;
            own = max(own, lane / 8 == i % 4 ? tail[i / 4] : HD_KEY_LEAST);
        }
        unit[i] = __reduce_max_sync(0xffffffffu, own);
    }
}

/* Without a branch, so that several keys go on at once. */
static __device__ __forceinline__ void hd_aw_store_if(bool is_in, uint8_t *to, uint4 v)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0;\n"
                 "@p st.shared.v4.b32 [%1], {%2,%3,%4,%5}; }" ::"r"((int)is_in),
                 "r"(hd_shared_address(to)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

/* Stores the two units of a key's codes, in an order in which eight lanes meet no bank twice.
 * at  where the first of them stands */
template <hd_row_format format>
static __device__ __forceinline__ void hd_aw_store_codes(uint4 v, uint32_t scale, int32_t unit,
                                                         uint8_t *tile, int32_t at)
{
    int32_t const  lane = hd_thread() % 32;
    bool const     swaps = lane & 4;
    uint32_t const f = hd_code_factor<format>(scale, unit);
    uint2 const    low = {v.x, format == HD_ROW_FP8 ? v.y : 0};
    uint2 const    high = format == HD_ROW_FP8 ? make_uint2(v.z, v.w) : make_uint2(v.y, 0);
    uint4 const    first = hd_scale_codes<format>(swaps ? high : low, f);
    uint4 const    second = hd_scale_codes<format>(swaps ? low : high, f);
    hd_aw_store_if(hd_aw_has_codes(lane), tile + at, first);
    hd_aw_store_if(hd_aw_has_codes(lane), tile + (at ^ 16), second);
}

/* Where a few keys go: lines from `line`, a multiple of four, on of a tile. */
typedef struct hd_aw_lines {
    uint8_t *tile;
    float2  *key;
    int32_t  line;
    uint32_t is_key; /* a bit each */
} hd_aw_lines;

/* Stores keys, and starts loading others in their place, from `first` of `then` on. */
template <hd_row_format format, bool is_wide>
static __device__ __forceinline__ void hd_aw_store(const hd_attn_job *j, hd_aw_bits<format> &bits,
                                                   const hd_aw_lines &to, const hd_aw_key &then,
                                                   int32_t first)
{
    using shape = hd_aw_bits<format>;
    int32_t const lane = hd_thread() % 32, u = shape::has_codes ? 2 * lane + lane / 4 % 2 : lane;
    int32_t const at = hd_aw_at(to.line, u);
    int32_t       unit[shape::keys], own = 0, tail[shape::keys / 4] = {};
    hd_aw_find_units<format>(bits, unit);
#pragma unroll
    for (int i = 0; i < shape::keys; i++) {
        own = lane == i ? unit[i] : own;
        tail[i / 4] = lane / 8 == i % 4 ? unit[i] : tail[i / 4];
    }
#pragma unroll
    for (int i = 0; shape::has_codes && i < shape::keys / 4; i++)
        *(uint4 *)(to.tile + hd_aw_at(to.line + i * 4 + lane / 8,
                                      (HD_KEY_WIDTH - HD_AW_TAIL) / 8 + lane % 8)) =
            hd_decode_bf16(bits.tail[i], hd_pow2(-tail[i]));
    hd_aw_load_tails<format, is_wide>(j, then, first, bits);
#pragma unroll
    for (int i = 0; i < shape::keys; i++) {
        int32_t const place = (at ^ i * 16) + i * 128;
        if constexpr (shape::has_codes) {
            hd_aw_store_codes<format>(bits.v[i][0], bits.scale[i], unit[i], to.tile, place);
        } else {
            float const factor = hd_pow2(-unit[i]);
            *(uint4 *)(to.tile + place) = hd_decode_bf16(bits.v[i][0], factor);
            *(uint4 *)(to.tile + place + 4 * HD_AW_CHUNK) = hd_decode_bf16(bits.v[i][1], factor);
        }
        hd_aw_load_key<format, is_wide>(then, first + i, i, bits);
    }
    if (lane < shape::keys)
        to.key[to.line + lane] =
            to.is_key >> lane & 1 ? make_float2(hd_pow2(own), 0) : make_float2(0, -INFINITY);
}

/* All threads that load. */
static __device__ __forceinline__ void hd_aw_meet_loaders(void)
{
    asm volatile("bar.sync 2, %0;" ::"n"(HD_AW_LOADS) : "memory");
}

/* Gives the other block this block's lines of a tile, which stand together in each chunk; each warp
 * its share of the chunks, by one thread.  The barrier there gets the bytes; this block's own
 * announces those that come from there.
 * peer  from an address in this block to that of the same place in the other */
static __device__ __forceinline__ void hd_aw_give(hd_aw_shared *s, int32_t slot, int32_t warp,
                                                  int32_t line0, uint32_t peer)
{
    constexpr int      chunks = HD_KEY_WIDTH / 64 / (HD_AW_LOADS / 32);
    constexpr uint32_t lines = HD_AW_KEYS / HD_AW_PEERS, key_bytes = lines * sizeof(float2);
    uint32_t const     full = hd_shared_address(&s->full[slot]) + peer;
    hd_barrier_expect(&s->full[slot], chunks * lines * 128 + (warp == 0 ? key_bytes : 0));
#pragma unroll
    for (int i = 0; i < chunks; i++) {
        const uint8_t *const from = s->keys[slot] + (warp * chunks + i) * HD_AW_CHUNK + line0 * 128;
        hd_bulk_copy_at(hd_shared_address(from) + peer, from, lines * 128, full);
    }
    const float2 *const key = &s->key[slot][line0];
    if (warp == 0) hd_bulk_copy_at(hd_shared_address(key) + peer, key, key_bytes, full);
}

#endif
