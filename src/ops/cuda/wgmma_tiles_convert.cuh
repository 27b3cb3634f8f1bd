#ifndef HD_OPS_CUDA_WGMMA_TILES_CONVERT_CUH
#define HD_OPS_CUDA_WGMMA_TILES_CONVERT_CUH

#include "wgmma_tiles_ring.cuh"

/* Splitting activations into planes: what the third warpgroup of a block of wgmma_tiles_dot.cuh
 * does. */

/* ---- converting ----
 * A thread has four columns of each octet of a block of columns, of a few tokens: two units of 16
 * bytes of a line. */

/* Element e of f. */
static __device__ __forceinline__ float &hd_wt_element(float4 &f, int e)
{
    return e == 0 ? f.x : e == 1 ? f.y : e == 2 ? f.z : f.w;
}

static __device__ __forceinline__ int hd_wt_converter(void)
{
    return (int)threadIdx.x % HD_WT_CONVERTS;
}

/* Line of this block's own ones that the thread has in a turn. */
static __device__ __forceinline__ int hd_wt_line(int turn)
{
    return turn * (HD_WT_CONVERTS / 4) + hd_wt_converter() / 4;
}

/* Sixteen bytes, which may be aligned to four only. */
template <bool is_wide>
static __device__ __forceinline__ void hd_wt_copy_four(float4 *to, const float *from)
{
    if (is_wide) {
        hd_copy_16(to, from);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) hd_copy_4((float *)to + i, from + i);
    }
}

/* Starts copying a turn's columns of chunk c to a place of the thread's own. */
template <bool is_wide, int format>
static __device__ __forceinline__ void hd_wt_load_x(hd_wt_shared<format> *s, int first_line, int i,
                                                    int32_t c, int stage)
{
    constexpr bool     is_nvfp4 = hd_wt_tile<format>::is_nvfp4;
    int const          v = hd_wt_converter() % 4;
    const float *const from = s->job.x[first_line + hd_wt_line(i)] + c * HD_TILES_COLS +
                              v / 2 * (is_nvfp4 ? 8 : 32) + v % 2 * 4;
#pragma unroll
    for (int j = 0; j < 4; j++)
        hd_wt_copy_four<is_wide>(&s->x[stage][i * 4 + j][hd_wt_converter()],
                                 from + j * (is_nvfp4 ? 16 : 8));
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

/* x less its upper 16 bits: what the plane of these lacks.  Infinity and NaN lack nothing, so that
 * their other planes add 0 and not infinities of the other sign. */
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

static __device__ __forceinline__ void hd_wt_sync_converters(void)
{
    asm volatile("bar.sync 1, %0;" ::"n"(HD_WT_CONVERTS) : "memory");
}

/* The same; whether it is so for any of them. */
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

/* Hands the own half of a slot's first planes over, to this block and to its peers. */
template <int format>
static __device__ __forceinline__ void hd_wt_hand_over(hd_wt_shared<format> *s, int peer, int slot,
                                                       int planes, bool has_more)
{
    constexpr int bytes = HD_WT_OWN * HD_WT_LINE;
    int const     i = hd_wt_converter() / 32;
    float const   more = has_more ? 1.0f : 0.0f;
    if (hd_wt_converter() % 32 != 0 || i >= HD_WT_PEERS) return;
    if (i == 0) {
        s->has_more[slot][peer] = more;
        hd_barrier_arrive(&s->full[slot]);
        return;
    }
    uint32_t const to = (uint32_t)((peer + i) % HD_WT_PEERS);
    uint32_t const full = hd_cluster_address(&s->full[slot], to);
    hd_barrier_expect_at(full, (uint32_t)(planes * bytes + (int)sizeof more));
    hd_store_at(hd_cluster_address(&s->has_more[slot][peer], to), more, full);
    for (int p = 0; p < planes; p++) {
        uint8_t *const half = s->slots[slot][p] + peer * bytes;
        hd_bulk_copy_at(hd_cluster_address(half, to), half, bytes, full);
    }
}

/* What a thread that converts does. */
template <bool is_wide, int format> struct hd_wt_conversion {
    using tile = hd_wt_tile<format>;
    hd_wt_shared<format> *s;
    int                   peer;
    int32_t               first, end;
    int                   stage; /* of activations */

    /* Starts copying chunk c, unless it is behind the last. */
    __device__ __forceinline__ void load(int32_t c, int to)
    {
#pragma unroll
        for (int i = 0; i < HD_WT_TURNS; i++)
            if (c < end) hd_wt_load_x<is_wide>(s, peer * HD_WT_OWN, i, c, to);
        hd_copy_commit();
    }

    __device__ __forceinline__ void read(int i, float4 (&x)[4])
    {
#pragma unroll
        for (int j = 0; j < 4; j++) x[j] = s->x[stage][i * 4 + j][hd_wt_converter()];
    }

    __device__ __forceinline__ void store(int slot, int plane, int i, float4 (&x)[4])
    {
        hd_wt_store(s->slots[slot][plane], peer * HD_WT_OWN + hd_wt_line(i), x);
    }

    /* The first plane; whether some element has more. */
    __device__ __forceinline__ bool convert_first(int slot)
    {
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < HD_WT_TURNS; i++) {
            float4 x[4];
            read(i, x);
            store(slot, 0, i, x);
            bits |= hd_wt_all_bits(x);
        }
        return (bits & 0xffff) != 0;
    }

    __device__ __forceinline__ void convert_others(int slot)
    {
#pragma unroll
        for (int i = 0; i < HD_WT_TURNS; i++) {
            float4 x[4];
            read(i, x);
#pragma unroll
            for (int p = 1; p < HD_WT_PLANES; p++) {
                hd_wt_take_rest(x);
                store(slot, p, i, x);
            }
        }
    }

    /* Converts chunk c.
     * zeros  slots whose other planes are 0 in this half, in both blocks: a bit each */
    __device__ __forceinline__ void step(int32_t c, hd_wt_turn &turn, uint32_t &zeros)
    {
        int const slot = turn.at;
        hd_copy_wait<HD_WT_X_STAGES - 1>();
        hd_barrier_wait(&s->empty[slot], turn.parity);
        bool const any = convert_first(slot);
        hd_wgmma_publish();
        bool const has_more = hd_wt_sync_any(any), has_all = has_more || !(zeros >> slot & 1);
        if (has_all) {
            convert_others(slot);
            hd_wgmma_publish();
            hd_wt_sync_converters();
        }
        zeros = has_more ? zeros & ~(1u << slot) : zeros | 1u << slot;
        hd_wt_hand_over(s, peer, slot, has_all ? HD_WT_PLANES : 1, has_more);
        load(c + HD_WT_X_STAGES, stage);
        stage = stage + 1 == HD_WT_X_STAGES ? 0 : stage + 1;
        turn.next();
    }

    __device__ __forceinline__ void run(hd_wt_turn &turn, uint32_t &zeros)
    {
        for (int i = 0; i < HD_WT_X_STAGES; i++) load(first + i, i);
        for (int32_t c = first; c < end; c++) step(c, turn, zeros);
        hd_copy_wait<0>();
    }
};

#endif
