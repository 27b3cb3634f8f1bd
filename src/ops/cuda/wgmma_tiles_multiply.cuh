#ifndef HD_OPS_CUDA_WGMMA_TILES_MULTIPLY_CUH
#define HD_OPS_CUDA_WGMMA_TILES_MULTIPLY_CUH

#include "wgmma_tiles_ring.cuh"

/* Decoding and multiplying: what two warpgroups of a block of
 * wgmma_tiles_dot.cuh do. */

/* ---- decoding ---- */

static __device__ __forceinline__ uint32_t hd_wt_multiply_pair(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* The last multiplication of what is decoded: volatile, so that it comes before
 * the wait for the activations. */
template <typename shape>
static __device__ __forceinline__ uint32_t hd_wt_apply_scale(uint32_t pair, uint32_t scale)
{
    uint32_t out;
    if constexpr (shape::is_coded)
        asm volatile("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(pair), "r"(scale));
    else
        asm volatile("mul.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(pair), "r"(scale));
    return out;
}

/* Powers of two, twice. */
#define HD_WT_2_119 0x7B007B00u
#define HD_WT_2_120 0x7B807B80u
#define HD_WT_2_126 0x7E807E80u

/* A word of eight codes to four pairs of bf16, 2^-126 times their value: the
 * code's exponent and mantissa become the low bits of bf16's exponent and the
 * top of its mantissa. */
static __device__ __forceinline__ void hd_wt_codes(uint32_t w, uint32_t out[4])
{
    constexpr uint32_t magnitude = 0x01C001C0u, sign = 0x80008000u;
    out[0] = ((w >> 3) & magnitude) | (w & sign);
    out[1] = (w & magnitude) | ((w << 3) & sign);
    out[2] = ((w << 3) & magnitude) | ((w << 1) & sign);
    out[3] = ((w << 6) & magnitude) | ((w << 2) & sign);
}

/* The same as f16, 2^-14 times their value: there the tile's first pairs lie
 * where they belong. */
static __device__ __forceinline__ void hd_wt_codes_f16(uint32_t w, uint32_t out[4])
{
    constexpr uint32_t magnitude = 0x0E000E00u, sign = 0x80008000u;
    out[0] = w & (magnitude | sign);
    out[1] = (w << 3) & (magnitude | sign);
    out[2] = ((w << 6) & magnitude) | ((w << 1) & sign);
    out[3] = ((w << 9) & magnitude) | ((w << 2) & sign);
}

/* Decodes one word each of rows r and r + 8 by scales, which are there twice:
 * two steps. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_decode_words(const uint32_t w[2],
                                                          const uint32_t scale[2], uint32_t a[2][4])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        uint32_t v[4];
        if (shape::is_coded)
            hd_wt_codes_f16(w[r], v);
        else
            hd_wt_codes(w[r], v);
#pragma unroll
        for (int p = 0; p < 4; p++) {
            if (!shape::is_nvfp4) v[p] = hd_wt_multiply_pair(v[p], HD_WT_2_126);
            a[p / 2][p % 2 * 2 + r] = hd_wt_apply_scale<shape>(v[p], scale[r]);
        }
    }
}

/* What a finished sum must be multiplied by: NVFP4's scales are decoded to
 * 2^119 times their value, which leaves one multiplication for a pair of codes;
 * where activations are codes, both are f16, 2^-14 times their value. */
template <typename shape>
static constexpr float hd_wt_factor = shape::is_coded   ? 0x1p28f
                                      : shape::is_nvfp4 ? 128.0f
                                                        : 1.0f;

/* What a lane needs of a chunk, for 16 rows of the warp: words and scales of
 * rows r and r + 8 for each half of the steps. */
struct hd_wt_coded {
    uint32_t w[2][2], scale[2][2];
};

/* The same as it lies in shared memory. */
struct hd_wt_raw {
    uint4    words;
    uint32_t scales[2];
};

template <typename shape>
static __device__ __forceinline__ void hd_wt_read(const hd_wt_shared<shape> *s, int stage, int part,
                                                  hd_wt_raw *raw)
{
    unsigned const at = (unsigned)part * HD_WT_MULTIPLIES + threadIdx.x;
    raw->words = s->codes[stage][at];
    if (shape::is_nvfp4) {
        raw->scales[0] = ((const uint32_t *)s->scales[stage])[at];
    } else {
        uint2 const both = ((const uint2 *)s->scales[stage])[at];
        raw->scales[0] = both.x;
        raw->scales[1] = both.y;
    }
}

template <typename shape>
static __device__ __forceinline__ hd_wt_coded hd_wt_take_apart(const hd_wt_raw &raw)
{
    uint4 const &words = raw.words;
    bool const   is_lower = threadIdx.x / 32 % 2 != 0; /* half of the tile's rows */
    hd_wt_coded  c = {{{words.x, words.z}, {words.y, words.w}}};
    if (shape::is_coded) {
        hd_e4m3_to_f16_pairs(raw.scales[0] >> (is_lower ? 16 : 0), c.scale[0]);
        c.scale[1][0] = c.scale[0][0];
        c.scale[1][1] = c.scale[0][1];
    } else if (shape::is_nvfp4) {
        uint32_t const codes = __byte_perm(raw.scales[0], 0, is_lower ? 0x4342 : 0x4140) << 4;
        uint32_t const pair =
            hd_wt_multiply_pair(hd_wt_multiply_pair(codes, HD_WT_2_120), HD_WT_2_119);
        c.scale[0][0] = c.scale[1][0] = __byte_perm(pair, 0, 0x1010);
        c.scale[0][1] = c.scale[1][1] = __byte_perm(pair, 0, 0x3232);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) { /* 2^(code - 127) */
            uint32_t const code = raw.scales[i / 2] >> (is_lower ? 16 : 0) >> (8 * (i % 2)) & 255;
            c.scale[i / 2][i % 2] = (code ? code << 7 : 0x40) * 0x10001u;
        }
    }
    return c;
}

/* ---- multiplying ---- */

/* What a thread that multiplies reads next for a part: codes and scales of a chunk. */
struct hd_wt_source {
    const uint8_t *w, *sf;
    bool           is_in; /* whether the matrix has its rows */
};

template <typename shape>
static __device__ __forceinline__ hd_wt_source hd_wt_find_source(const hd_wt_job &j, int32_t row0,
                                                                 int part)
{
    int const     warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int32_t const row_tile = row0 / HD_TILES_ROWS + part * 4 + warp / 2;
    bool const    is_in = row_tile < j.row_tiles;
    int64_t const first = is_in ? (int64_t)row_tile * j.k_tiles : 0;
    return {j.w + first * HD_TILES_CODE_BYTES + warp % 2 * (HD_TILES_CODE_BYTES / 2) + lane * 16,
            j.sf + first * shape::tile_scales + (shape::is_nvfp4 ? lane * 4 : lane / 4 * 8), is_in};
}

/* Starts copying what the thread needs of a chunk, and moves on to the next. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_load(hd_wt_shared<shape> *s, hd_wt_source &from,
                                                  int stage, int part)
{
    unsigned const at = (unsigned)part * HD_WT_MULTIPLIES + threadIdx.x;
    uint8_t *const to = &s->scales[stage][at * shape::lane_scales];
    hd_copy_16_or_zero(&s->codes[stage][at], from.w, from.is_in);
    hd_copy_4_or_zero(to, from.sf, from.is_in);
    if (!shape::is_nvfp4) hd_copy_4_or_zero(to + 4, from.sf + 4, from.is_in);
    from.w += HD_TILES_CODE_BYTES;
    from.sf += shape::tile_scales;
}

/* What a thread that multiplies does, for tiles of rows that follow each other: weights are copied
 * ahead, also those of the next tile. */
template <typename shape> struct hd_wt_pass {
    using part_sums = float[shape::sums];
    using sums = part_sums[shape::parts];
    hd_wt_shared<shape> *s;
    uint32_t             empty;    /* the first such barrier of the block that it tells */
    int32_t              n_tokens; /* sums of others need not be made              */
    int32_t              first;    /* chunk of the tile, counted through all tiles */
    int32_t              row0;     /* of the tile that weights are copied of       */
    int32_t              tiles;    /* to copy behind that one                      */
    int32_t              left;     /* chunks to copy of that one                   */
    hd_wt_source         from[shape::parts];
    int                  stage;    /* of weights                */
    int                  slot;     /* of the chunk              */
    hd_wt_raw            raw;      /* what is decoded next      */
    bool                 has_more; /* whether the chunk has more planes than the first */

    __device__ __forceinline__ void find_sources(void)
    {
#pragma unroll
        for (int part = 0; part < shape::parts; part++)
            from[part] = hd_wt_find_source<shape>(s->job, row0, part);
        left = s->job.k_tiles;
    }

    /* Starts copying the next chunk, unless that is behind the last. */
    __device__ __forceinline__ void load(int to)
    {
        if (left == 0 && tiles > 0) {
            row0 += shape::peers * shape::rows;
            tiles--;
            find_sources();
        }
#pragma unroll
        for (int part = 0; part < shape::parts; part++)
            if (left > 0) hd_wt_load<shape>(s, from[part], to, part);
        if (left > 0) left--;
        hd_copy_commit();
    }

    /* Starts copying weights: of the tile at row0 and `tiles` behind it. */
    __device__ __forceinline__ void start(void)
    {
        find_sources();
        for (int i = 0; i < shape::stages - 1; i++) load(i);
        stage = 0;
        hd_copy_wait<shape::stages - 2>();
        hd_wt_read(s, 0, 0, &raw);
    }

    /* The chunk's slot is free, as far as this block's warpgroup is concerned. */
    __device__ __forceinline__ void release(void)
    {
        if (threadIdx.x % 128 < shape::peers) hd_barrier_arrive_at(empty + slot * 8);
    }

    /* Starts multiplying by the first planes, the last of them first. */
    template <int planes, int columns>
    __device__ __forceinline__ void multiply_columns(int32_t c, const uint32_t (&a)[HD_WT_STEPS][4],
                                                     part_sums &sum)
    {
        hd_wgmma_fence();
#pragma unroll
        for (int p = planes - 1; p >= 0; p--) {
            uint64_t const b = hd_wgmma_operand(s->plane(c, slot, p));
#pragma unroll
            for (int i = 0; i < HD_WT_STEPS; i++)
                hd_wgmma_columns<columns, shape::is_coded>(sum, a[i], b + 2 * i,
                                                           c > first || i > 0 || p < planes - 1);
        }
        hd_wgmma_commit();
    }

    /* The same by as many columns as there are tokens. */
    template <int planes>
    __device__ __forceinline__ void multiply(int32_t    c, const uint32_t (&a)[HD_WT_STEPS][4],
                                             part_sums &sum)
    {
        constexpr int most = shape::tokens;
        if (n_tokens > 96)
            multiply_columns<planes, most>(c, a, sum);
        else if (n_tokens > 64)
            multiply_columns < planes, most<96 ? most : 96>(c, a, sum);
        else if (n_tokens > 32)
            multiply_columns<planes, 64>(c, a, sum);
        else
            multiply_columns<planes, 32>(c, a, sum);
    }

    /* Decodes a part of chunk c, and multiplies it, which is done when it returns: meanwhile the
     * other warpgroup decodes.  Decoding the next part beside the products of this one took longer.
     * Commits stand beside the products: behind the branches they would be groups of their own. */
    __device__ __forceinline__ void make_part(int32_t c, int part,
                                              hd_ring_place<shape::slots> &turn, part_sums &sum)
    {
        uint32_t          a[HD_WT_STEPS][4];
        hd_wt_coded const coded = hd_wt_take_apart<shape>(raw);
        hd_wt_decode_words<shape>(coded.w[0], coded.scale[0], a);
        hd_wt_decode_words<shape>(coded.w[1], coded.scale[1], a + 2);
        read_next(part);
        if (part == 0) wait_for_slot(turn);
        if (shape::planes > 1 && has_more)
            multiply<shape::planes>(c, a, sum);
        else
            multiply<1>(c, a, sum);
        if (part == 0) load((stage == 0 ? shape::stages : stage) - 1);
        hd_wgmma_wait_for<0>();
    }

    /* Before the tensor cores are busy: shared memory answers late then.  Behind the last chunk
     * this reads what nobody needs. */
    __device__ __forceinline__ void read_next(int part)
    {
        if (part + 1 < shape::parts) {
            hd_wt_read(s, stage, part + 1, &raw);
            return;
        }
        hd_copy_wait<shape::stages - (shape::parts > 1 ? 2 : 3)>();
        hd_wt_read(s, stage + 1 == shape::stages ? 0 : stage + 1, 0, &raw);
    }

    __device__ __forceinline__ void wait_for_slot(hd_ring_place<shape::slots> &turn)
    {
        slot = turn.at;
        hd_barrier_wait(&s->full[slot], turn.parity);
        if (shape::planes > 1) {
            float more = 0;
#pragma unroll
            for (int i = 0; i < shape::peers; i++) more += s->has_more[slot][i];
            has_more = __any_sync(0xffffffffu, more != 0);
        }
        turn.next();
    }

    /* Multiplies chunk c. */
    __device__ __forceinline__ void step(int32_t c, hd_ring_place<shape::slots> &turn, sums &sum)
    {
#pragma unroll
        for (int part = 0; part < shape::parts; part++) make_part(c, part, turn, sum[part]);
        release();
        stage = stage + 1 == shape::stages ? 0 : stage + 1;
    }

    /* Multiplies the next tile. */
    __device__ __forceinline__ void run(hd_ring_place<shape::slots> &turn, sums &sum)
    {
        int32_t const end = first + s->job.k_tiles;
        for (int32_t c = first; c < end; c++) step(c, turn, sum);
#pragma unroll
        for (int part = 0; part < shape::parts; part++) hd_wgmma_wait(sum[part]);
        first = end;
    }
};

#endif
