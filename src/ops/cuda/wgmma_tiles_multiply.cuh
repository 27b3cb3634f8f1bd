#ifndef HD_OPS_CUDA_WGMMA_TILES_MULTIPLY_CUH
#define HD_OPS_CUDA_WGMMA_TILES_MULTIPLY_CUH

#include "wgmma_tiles_ring.cuh"

/* Decoding and multiplying: what two warpgroups of a block of wgmma_tiles_dot.cuh do. */

/* ---- decoding ---- */

static __device__ __forceinline__ uint32_t hd_wt_multiply_pair(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* Powers of two, twice. */
#define HD_WT_2_119 0x7B007B00u
#define HD_WT_2_120 0x7B807B80u
#define HD_WT_2_126 0x7E807E80u

/* A word of eight codes to four pairs of bf16, 2^-126 times their value: the code's exponent and
 * mantissa become the low bits of bf16's exponent and the top of its mantissa. */
static __device__ __forceinline__ void hd_wt_codes(uint32_t w, uint32_t out[4])
{
    constexpr uint32_t magnitude = 0x01C001C0u, sign = 0x80008000u;
    out[0] = ((w >> 3) & magnitude) | (w & sign);
    out[1] = (w & magnitude) | ((w << 3) & sign);
    out[2] = ((w << 3) & magnitude) | ((w << 1) & sign);
    out[3] = ((w << 6) & magnitude) | ((w << 2) & sign);
}

/* Decodes one word each of rows r and r + 8 by scales, which are there twice: two steps. */
template <bool is_nvfp4>
static __device__ __forceinline__ void hd_wt_decode_words(const uint32_t w[2],
                                                          const uint32_t scale[2], uint32_t a[2][4])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        uint32_t v[4];
        hd_wt_codes(w[r], v);
#pragma unroll
        for (int p = 0; p < 4; p++) {
            if (!is_nvfp4) v[p] = hd_wt_multiply_pair(v[p], HD_WT_2_126);
            a[p / 2][p % 2 * 2 + r] = hd_wt_multiply_pair(v[p], scale[r]);
        }
    }
}

/* What a finished sum must be multiplied by: NVFP4's scales are decoded to 2^119 times their value,
 * which leaves one multiplication for a pair of codes. */
template <bool is_nvfp4> static constexpr float hd_wt_factor = is_nvfp4 ? 128.0f : 1.0f;

/* What a lane needs of a chunk, for 16 rows of the warp: words and scales of rows r and r + 8 for
 * each half of the steps. */
struct hd_wt_coded {
    uint32_t w[2][2], scale[2][2];
};

template <int format>
static __device__ __forceinline__ hd_wt_coded hd_wt_read(const hd_wt_shared<format> *s, int stage,
                                                         int part)
{
    unsigned const at = (unsigned)part * HD_WT_MULTIPLIES + threadIdx.x;
    uint4 const    words = s->codes[stage][at];
    bool const     is_lower = threadIdx.x / 32 % 2 != 0; /* half of the tile's rows */
    hd_wt_coded    c = {{{words.x, words.z}, {words.y, words.w}}};
    if (hd_wt_tile<format>::is_nvfp4) {
        uint32_t const word = ((const uint32_t *)s->scales[stage])[at];
        uint32_t const codes = __byte_perm(word, 0, is_lower ? 0x4342 : 0x4140) << 4;
        uint32_t const pair =
            hd_wt_multiply_pair(hd_wt_multiply_pair(codes, HD_WT_2_120), HD_WT_2_119);
        c.scale[0][0] = c.scale[1][0] = __byte_perm(pair, 0, 0x1010);
        c.scale[0][1] = c.scale[1][1] = __byte_perm(pair, 0, 0x3232);
    } else {
        uint2 const both = ((const uint2 *)s->scales[stage])[at];
#pragma unroll
        for (int i = 0; i < 4; i++) { /* 2^(code - 127) */
            uint32_t const word = i / 2 ? both.y : both.x;
            uint32_t const code = word >> (is_lower ? 16 : 0) >> (8 * (i % 2)) & 255;
            c.scale[i / 2][i % 2] = (code ? code << 7 : 0x40) * 0x10001u;
        }
    }
    return c;
}

/* ---- multiplying ---- */

/* What a thread that multiplies reads for a part: codes and scales of its chunk 0. */
struct hd_wt_source {
    const uint8_t *w, *sf;
    bool           is_in; /* whether the matrix has its rows */
};

template <int format>
static __device__ __forceinline__ hd_wt_source hd_wt_find_source(const hd_wt_job &j, int part)
{
    using tile = hd_wt_tile<format>;
    int const     warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int32_t const row_tile = j.row0 / HD_TILES_ROWS + part * 4 + warp / 2;
    bool const    is_in = row_tile < j.row_tiles;
    int64_t const first = is_in ? (int64_t)row_tile * j.k_tiles : 0;
    return {j.w + first * HD_TILES_CODE_BYTES + warp % 2 * (HD_TILES_CODE_BYTES / 2) + lane * 16,
            j.sf + first * tile::tile_scales + (tile::is_nvfp4 ? lane * 4 : lane / 4 * 8), is_in};
}

/* Starts copying what the thread needs of chunk c. */
template <int format>
static __device__ __forceinline__ void hd_wt_load(hd_wt_shared<format> *s, const hd_wt_source &from,
                                                  int32_t c, int stage, int part)
{
    using tile = hd_wt_tile<format>;
    unsigned const at = (unsigned)part * HD_WT_MULTIPLIES + threadIdx.x;
    hd_copy_16_or_zero(&s->codes[stage][at], from.w + (int64_t)c * HD_TILES_CODE_BYTES, from.is_in);
    const uint8_t *const scales = from.sf + (int64_t)c * tile::tile_scales;
    uint8_t *const       to = &s->scales[stage][at * tile::lane_scales];
    hd_copy_4_or_zero(to, scales, from.is_in);
    if (!tile::is_nvfp4) hd_copy_4_or_zero(to + 4, scales + 4, from.is_in);
}

/* Barriers 2 and 3: a warpgroup's turn has come when the other has arrived. */
static __device__ __forceinline__ void hd_wt_await_turn(void)
{
    asm volatile("bar.sync %0, %1;" ::"r"(2 + threadIdx.x / 128), "n"(HD_WT_MULTIPLIES) : "memory");
}

static __device__ __forceinline__ void hd_wt_pass_turn(void)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(3 - threadIdx.x / 128), "n"(HD_WT_MULTIPLIES)
                 : "memory");
}

/* The first warpgroup begins, and takes back the last turn. */
static __device__ __forceinline__ void hd_wt_start_turns(void)
{
    if (threadIdx.x / 128 == 1) hd_wt_pass_turn();
}

static __device__ __forceinline__ void hd_wt_end_turns(void)
{
    if (threadIdx.x / 128 == 0) hd_wt_await_turn();
}

/* What a thread that multiplies does. */
template <int format> struct hd_wt_pass {
    using tile = hd_wt_tile<format>;
    using sums = float[HD_WT_PARTS][HD_WT_SUMS];
    hd_wt_shared<format> *s;
    uint32_t              empty; /* the first such barrier of the block that it tells */
    int32_t               first, end;
    hd_wt_source          from[HD_WT_PARTS];
    int                   stage;    /* of weights                */
    int                   slot;     /* of the chunk              */
    int                   before;   /* that of the one before it */
    bool                  has_more; /* whether the chunk has more planes than the first */

    /* Starts copying chunk c, unless it is behind the last. */
    __device__ __forceinline__ void load(int32_t c, int to)
    {
#pragma unroll
        for (int part = 0; part < HD_WT_PARTS; part++)
            if (c < end) hd_wt_load<format>(s, from[part], c, to, part);
        hd_copy_commit();
    }

    /* The slot of the chunk before is free, as far as this block's warpgroup is concerned. */
    __device__ __forceinline__ void release(void)
    {
        if (threadIdx.x % 128 < HD_WT_PEERS) hd_barrier_arrive_at(empty + before * 8);
    }

    /* Starts multiplying by the first planes, the last of them first. */
    template <int planes>
    __device__ __forceinline__ void multiply(bool is_sum, const uint32_t (&a)[HD_WT_STEPS][4],
                                             float (&sum)[HD_WT_SUMS])
    {
        hd_wgmma_fence();
#pragma unroll
        for (int p = planes - 1; p >= 0; p--) {
            uint64_t const b = hd_wgmma_operand(s->slots[slot][p]);
#pragma unroll
            for (int i = 0; i < HD_WT_STEPS; i++)
                hd_wgmma_128(sum, a[i], b + 2 * i, is_sum || i > 0 || p < planes - 1);
        }
        hd_wgmma_commit();
    }

    /* Decodes a part of chunk c, and multiplies it; the part before is done when it returns.  The
     * warpgroups take turns: if both multiplied at once, both would be done, and decode, at
     * once. */
    __device__ __forceinline__ void make_part(int32_t c, int part, hd_wt_turn &turn,
                                              uint32_t (&a)[HD_WT_STEPS][4],
                                              float (&sum)[HD_WT_SUMS])
    {
        hd_wt_coded const coded = hd_wt_read<format>(s, stage, part);
        hd_wt_decode_words<tile::is_nvfp4>(coded.w[0], coded.scale[0], a);
        hd_wt_decode_words<tile::is_nvfp4>(coded.w[1], coded.scale[1], a + 2);
        if (part == 0) wait_for_slot(turn);
        hd_wt_await_turn();
        if (has_more)
            multiply<HD_WT_PLANES>(c > first, a, sum);
        else
            multiply<1>(c > first, a, sum);
        hd_wt_pass_turn();
        if (part == 0) load(c + HD_WT_STAGES - 1, (stage == 0 ? HD_WT_STAGES : stage) - 1);
        hd_wgmma_wait_for<1>();
        if (part == 0 && c > first) release();
    }

    __device__ __forceinline__ void wait_for_slot(hd_wt_turn &turn)
    {
        float more = 0;
        slot = turn.at;
        hd_barrier_wait(&s->full[slot], turn.parity);
#pragma unroll
        for (int i = 0; i < HD_WT_PEERS; i++) more += s->has_more[slot][i];
        has_more = __any_sync(0xffffffffu, more != 0);
        turn.next();
    }

    /* Multiplies chunk c.  Of what is decoded there are two places: one for what is multiplied, one
     * for what comes next. */
    __device__ __forceinline__ void step(int32_t c, hd_wt_turn                            &turn,
                                         uint32_t (&a)[HD_WT_PARTS][HD_WT_STEPS][4], sums &sum)
    {
        hd_copy_wait<HD_WT_STAGES - 2>();
#pragma unroll
        for (int part = 0; part < HD_WT_PARTS; part++) make_part(c, part, turn, a[part], sum[part]);
        before = slot;
        stage = stage + 1 == HD_WT_STAGES ? 0 : stage + 1;
    }

    __device__ __forceinline__ void run(hd_wt_turn &turn, sums &sum)
    {
        uint32_t a[HD_WT_PARTS][HD_WT_STEPS][4];
#pragma unroll
        for (int part = 0; part < HD_WT_PARTS; part++)
            from[part] = hd_wt_find_source<format>(s->job, part);
        for (int i = 0; i < HD_WT_STAGES - 1; i++) load(first + i, i);
        stage = 0;
        hd_wt_start_turns();
        for (int32_t c = first; c < end; c++) step(c, turn, a, sum);
        hd_wt_end_turns();
#pragma unroll
        for (int part = 0; part < HD_WT_PARTS; part++) hd_wgmma_wait(sum[part]);
        release();
        hd_copy_wait<0>();
    }
};

#endif
