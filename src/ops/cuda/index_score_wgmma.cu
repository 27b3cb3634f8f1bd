#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rows.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/cuda/wgmma_asm.cuh"
#include "ops/index_score.h"
#include "quant/fp4.h"

/* MXFP4 rows of 128 elements and up to 64 heads, on Hopper's tensor cores.
 *
 * Bound by: the tensor cores; where rows are few, by what comes before them.
 * Grid: one token a block, or two where there are many, times parts of their rows.  A warpgroup
 *   takes tiles of 64 rows as operand A, decoded in registers, once for both tokens; their heads
 *   are the columns of operand B, in shared memory (32 KiB a token).  Four warpgroups share a
 *   multiprocessor, so that some decode and weigh while others multiply.
 * Planes: a head, brought to less than 2^15 by a power of two, is the sum of two f16, the second in
 *   units of 2^-11: 23 bits of all that lies at most 2^SPAN below its largest.  A row is its codes
 *   over the largest of its scales, times 2^UPPER for the first plane and 2^(UPPER - 11) for the
 *   second; both are exact if no other scale is more than 2^NEAR below.  So one chain of sums takes
 *   both.  Heads that fit one plane (rounded to bf16 or to MXFP4) take one product.
 * Heads and rows whose numbers lie further apart are summed in f32, a warp a row.
 * Order of k is free: word s of each of the four blocks of codes is steps 2 s and 2 s + 1. */

#define TOKENS    2   /* of a block, at most */
#define THREADS   512 /* of a multiprocessor: a block with one token, or two with two each */
#define WGS(each) (THREADS / (each) / 128)
#define HEADS     64
#define ROWS      64 /* of a tile */
#define D         128
#define STEPS     (D / 16)
#define WORDS     4  /* of a block of codes */
#define BATCH     4  /* heads that a warp loads at once */
#define LOW_UNIT  11 /* the second plane counts in 2^-LOW_UNIT */
#define NEAR      24 /* binades of a row's scales   */
#define SPAN      30 /* binades of a head's numbers */
#define TOP       14 /* a head is less than 2^(this + 1)            */
#define UPPER     12 /* a row is at most 6 times 2^this             */
#define ROW_UNIT  (1.0f / (1 << UPPER))
#define CUT       38            /* products of a head and a row are below 2^38 */
#define LIMIT     60            /* of the exponents of heads and weights */
#define SLAB      (HEADS * 128) /* bytes: half of the elements of a token's heads */
static_assert(D / 2 == 4 * WORDS * 4 && HD_MXFP4_BLOCK == 8 * WORDS, "a block is of one lane");

/* What was found of tokens, a bit each: the second plane is not empty; two planes do not do. */
typedef struct findings {
    uint32_t low, wide;
} findings;

/* What the threads of a block share of its tokens, but for the planes. */
typedef struct tokens {
    float2         weight[TOKENS][HEADS / 2]; /* with what undoes the powers of two */
    const uint8_t *keys[TOKENS];              /* of a token's sequence              */
    int32_t        visible[TOKENS];           /* rows                               */
    findings       found;
} tokens;

/* A tile as it is copied: each thread's part for itself, of rows first_row() and + 8. */
template <int each> struct tile_copy {
    uint4    codes[2][THREADS / each];
    uint32_t scales[2][THREADS / each];
};

/* The dynamic shared memory of a block, the last tiles only if there are so many. */
template <int each> struct block_memory {
    __align__(1024) uint8_t planes[2][2][each * SLAB]; /* halves of the elements of both */
    /* Of a warpgroup, on their way: rows of many tokens come from the second cache. */
    static constexpr int stages = each == 1 ? 3 : 1;
    tile_copy<each>      tiles[stages];
};

/* The tokens of a block and the part of their rows that it scores. */
typedef struct part {
    hd_row_map map;
    int32_t    t0, n_tokens, page_shift;
    int32_t    first; /* tile of this warpgroup */
} part;

/* From a tile of a warpgroup to its next. */
template <int each> static __device__ __forceinline__ int32_t tile_step(void)
{
    return (int32_t)gridDim.y * WGS(each);
}

/* A row in memory: its codes, and its scales. */
typedef struct row_place {
    const uint8_t *codes, *scales;
} row_place;

static __device__ __forceinline__ row_place find_row(const part &p, const uint8_t *keys,
                                                     int32_t row)
{
    int32_t const        in_page = row & ((1 << p.page_shift) - 1);
    const uint8_t *const page = keys + (int64_t)(row >> p.page_shift) * p.map.page_bytes;
    return {page + in_page * (D / 2), page + ((D / 2) << p.page_shift) + in_page * 4};
}

static __device__ __forceinline__ int32_t visible_rows(const hd_index_score_args &a, int32_t t)
{
    return min((a.pos[t] + 1) / a.group, a.cap);
}

/* The most rows that one of n tokens from t on sees. */
static __device__ __forceinline__ int32_t most_visible(const hd_index_score_args &a, int32_t t,
                                                       int32_t n)
{
    int32_t most = 0;
    for (int32_t i = 0; i < n; i++) most = max(most, visible_rows(a, t + i));
    return __shfl_sync(0xffffffffu, most, 0); /* the compiler then knows that it is uniform */
}

/* ---- heads ---- */

/* A lane's elements of a head: 8 (lane / 2) + 2 (lane % 2), the next, and those four behind. */
typedef struct head_part {
    float2 x[2];
    float  weight;
} head_part;

static __device__ __forceinline__ head_part load_head(const hd_index_score_args &a, int64_t t,
                                                      int32_t h, bool is_even)
{
    int const    lane = (int)threadIdx.x % 32;
    head_part    head = {{{0, 0}, {0, 0}}, 0};
    const float *q = a.q + (t * a.h + h) * D + lane / 2 * 8 + lane % 2 * 2;
    if (h >= a.h) return head;
    head.weight = a.wgt[t * a.h + h] * a.scale;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (is_even)
            head.x[i] = *(const float2 *)(q + 4 * i);
        else
            head.x[i] = {q[4 * i], q[4 * i + 1]};
    }
    return head;
}

static __device__ __forceinline__ uint32_t pack_f16(float low, float high)
{
    uint32_t out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

static __device__ __forceinline__ float2 unpack_f16(uint32_t w)
{
    float2 v;
    asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
        : "=f"(v.x), "=f"(v.y)
        : "r"(w));
    return v;
}

/* Puts a lane's elements of head h, times `unit`, where hd_wgmma_operand() wants them in both
 * planes.  Whether the second got any. */
template <int each>
static __device__ __forceinline__ bool store_head(uint8_t *planes, int h, const head_part &head,
                                                  float unit)
{
    int const   lane = (int)threadIdx.x % 32, block = lane / 8, word = lane % 8 / 2;
    float const x[2][2] = {{head.x[0].x * unit, head.x[1].x * unit},
                           {head.x[0].y * unit, head.x[1].y * unit}};
    uint32_t    all = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int const      u = word * 4 + lane % 2 * 2 + i;
        uint8_t *const to =
            planes + u / 8 * (each * SLAB) + h * 128 + (u % 8 ^ h % 8) * 16 + block * 4;
        uint32_t const high = pack_f16(x[i][0], x[i][1]);
        float2 const   taken = unpack_f16(high);
        uint32_t const low =
            pack_f16((x[i][0] - taken.x) * (1 << LOW_UNIT), (x[i][1] - taken.y) * (1 << LOW_UNIT));
        *(uint32_t *)to = high;
        *(uint32_t *)(to + 2 * each * SLAB) = low;
        all |= low;
    }
    return (all & 0x7fff7fffu) != 0;
}

/* Prepares a head of token i and adds to what was found. */
template <int each>
static __device__ __forceinline__ void prepare_head(uint8_t *planes, int i, int h, head_part head,
                                                    tokens *s, findings *found)
{
    float const v[4] = {head.x[0].x, head.x[0].y, head.x[1].x, head.x[1].y};
    uint32_t    most = 0, least = 0xffffffffu;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t const bits = __float_as_uint(v[j]) & 0x7fffffffu;
        most = max(most, bits);
        least = min(least, bits - 1); /* 0 is none */
    }
    most = __reduce_max_sync(0xffffffffu, most);
    least = __reduce_min_sync(0xffffffffu, least);
    int const   e = most ? (int)(most >> 23) - 127 - TOP : 0;
    bool        is_plain = abs(e) <= LIMIT && (most >> 23) - ((least + 1) >> 23) <= SPAN;
    float const w = fabsf(head.weight);
    is_plain &= w == 0 || (w >= 0x1p-60f && w <= 0x1p20f);
    if (most == 0) is_plain = w <= 0x1p20f;
    float const unit = is_plain ? __uint_as_float((uint32_t)(127 - e) << 23) : 0.0f;
    found->low |= (uint32_t)store_head<each>(planes + i * SLAB, h, head, unit) << i;
    found->wide |= (uint32_t)!is_plain << i;
    if ((int)threadIdx.x % 32 == 0)
        ((float *)s->weight[i])[h] =
            is_plain ? head.weight * __uint_as_float((uint32_t)(127 + e + CUT) << 23) : 0.0f;
}

/* Prepares the heads of a block's tokens. */
template <int each>
static __device__ __forceinline__ void prepare_tokens(const hd_index_score_args &a, const part &p,
                                                      tokens *s, uint8_t *planes)
{
    constexpr int warps = THREADS / each / 32;
    bool const    is_even = ((uintptr_t)a.q & 7) == 0;
    findings      own = {0, 0}, all = {0, 0};
    for (int i = 0; i < p.n_tokens; i++) {
#pragma unroll 1
        for (int h0 = (int)threadIdx.x / 32; h0 < HEADS; h0 += BATCH * warps) {
            head_part head[BATCH];
#pragma unroll
            for (int j = 0; j < BATCH; j++)
                head[j] = load_head(a, p.t0 + i, h0 + j * warps, is_even);
#pragma unroll
            for (int j = 0; j < BATCH; j++)
                prepare_head<each>(planes, i, h0 + j * warps, head[j], s, &own);
        }
    }
    hd_wgmma_publish();
#pragma unroll
    for (uint32_t bit = 1; bit < 1u << each; bit *= 2) {
        if (__syncthreads_or((int)(own.low & bit))) all.low |= bit;
        if (__syncthreads_or((int)(own.wide & bit))) all.wide |= bit;
    }
    if (threadIdx.x == 0) s->found = all;
    __syncthreads();
}
static_assert(HEADS % (BATCH * THREADS / 32) == 0, "whole batches");

/* ---- rows ---- */

/* The first row of this warp and lane in a tile. */
static __device__ __forceinline__ int32_t first_row(int32_t tile)
{
    return tile * ROWS + (int)threadIdx.x % 128 / 32 * 16 + (int)threadIdx.x % 32 / 4;
}

/* Starts to copy a lane's part of a tile: block lane % 4 of two rows of a page, and all their
 * scales.  Reads no row from `visible` on: they need not be there. */
template <int each>
static __device__ __forceinline__ void copy_tile(const part &p, const uint8_t *keys, int32_t tile,
                                                 int32_t visible, tile_copy<each> *s)
{
    int32_t const        row = first_row(tile);
    row_place const      at = find_row(p, keys, row);
    const uint8_t *const codes = at.codes + threadIdx.x % 4 * 16;
    bool const           is_wide = ((uintptr_t)keys & 15) == 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (row + 8 * i >= visible) continue;
        uint4 *const to = &s->codes[i][threadIdx.x];
        hd_copy_4(&s->scales[i][threadIdx.x], at.scales + 8 * i * 4);
        if (is_wide) {
            hd_copy_16(to, codes + 8 * i * (D / 2));
            continue;
        }
#pragma unroll 1
        for (int j = 0; j < 4; j++) hd_copy_4((uint32_t *)to + j, codes + 8 * i * (D / 2) + j * 4);
    }
    hd_copy_commit();
}

/* Operand A as the second plane needs it, and what else is of the rows. */
typedef struct tile_rows {
    uint32_t a[STEPS][4];
    uint32_t most; /* the largest scale of row first_row() + 8 (lane % 2) */
    uint32_t far;  /* rows of the warp whose scales lie too far apart, a bit each */
} tile_rows;

static __device__ __forceinline__ uint32_t multiply_pair(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* Eight codes to pairs of f16, codes i and i + 4, 2^-14 times their value: exponent and mantissa of
 * a code become the low bits of f16's exponent and the top of its mantissa. */
static __device__ __forceinline__ void decode_word(uint32_t w, uint32_t out[4])
{
    constexpr uint32_t magnitude = 0x0E000E00u, sign = 0x80008000u;
    out[0] = (w << 9 & magnitude) | (w << 12 & sign);
    out[1] = (w << 5 & magnitude) | (w << 8 & sign);
    out[2] = (w << 1 & magnitude) | (w << 4 & sign);
    out[3] = (w >> 3 & magnitude) | (w & sign);
}

/* The largest of a row's four scales. */
static __device__ __forceinline__ uint32_t largest_scale(uint32_t scales)
{
    uint32_t const pairs = __vmaxu2(scales & 0x00ff00ffu, scales >> 8 & 0x00ff00ffu);
    return max(pairs & 0xffff, pairs >> 16);
}

/* Row i of a lane; whether its block's scale lies too far below the others. */
template <int each>
static __device__ __forceinline__ bool decode_row(const tile_copy<each> *s, int i, tile_rows *x)
{
    constexpr int  least = 15 + 14 + UPPER - LOW_UNIT - NEAR;
    uint4 const    c = s->codes[i][threadIdx.x];
    uint32_t const w[WORDS] = {c.x, c.y, c.z, c.w}, scales = s->scales[i][threadIdx.x];
    int const      most = (int)largest_scale(scales);
    int const      over = (int)(scales >> threadIdx.x % 4 * 8 & 255) + NEAR - most;
    uint32_t const power = (uint32_t)(max(over, 0) + least) * (1u << 10 | 1u << 26);
    if (i == 0 || threadIdx.x % 2) x->most = (uint32_t)most;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        uint32_t v[4];
        decode_word(w[k], v);
#pragma unroll
        for (int j = 0; j < 4; j++) x->a[2 * k + j / 2][j % 2 * 2 + i] = multiply_pair(v[j], power);
    }
    return over < 0 && most < 255 && ((c.x | c.y | c.z | c.w) & 0x77777777u) != 0;
}

/* Decodes the tile that was copied. */
template <int each>
static __device__ __forceinline__ void decode_tile(const tile_copy<each> *s, tile_rows *x)
{
    bool const is_far[2] = {decode_row(s, 0, x), decode_row(s, 1, x)};
    x->far = 0;
    if (!__any_sync(0xffffffffu, is_far[0] || is_far[1])) return;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t const lanes = __ballot_sync(0xffffffffu, is_far[i]);
        for (int row = 0; row < 8; row++)
            if (lanes >> 4 * row & 15) x->far |= 1u << (row + 8 * i);
    }
}

/* ---- products ---- */

/* c = A B, or c += A B, with a plane of all tokens; complete when it returns. */
template <int each, bool is_sum>
static __device__ __forceinline__ void multiply_plane(const tile_rows *x, const uint8_t *plane,
                                                      float (&c)[each * HEADS / 2])
{
    uint64_t const b = hd_wgmma_operand(plane);
    hd_wgmma_fence();
    hd_wgmma_f16<is_sum>(c, x->a[0], b);
#pragma unroll
    for (int i = 1; i < STEPS; i++)
        hd_wgmma_f16<true>(c, x->a[i], b + (i / 4 * (each * SLAB) + i % 4 * 32) / 16);
    hd_wgmma_commit();
    hd_wgmma_wait(c);
}

/* Dot products of a tile and the heads of all tokens, times powers of two: 2^LOW_UNIT less of them
 * where there is no second plane. */
template <int each>
static __device__ __forceinline__ void multiply_tile(tile_rows *x, const uint8_t *planes,
                                                     bool has_low, float (&c)[each * HEADS / 2])
{
    constexpr uint32_t lift = (15 + LOW_UNIT) * (1u << 10 | 1u << 26);
    if (!has_low) {
        multiply_plane<each, false>(x, planes, c);
        return;
    }
    multiply_plane<each, false>(x, planes + 2 * each * SLAB, c);
#pragma unroll
    for (int i = 0; i < STEPS * 4; i++) {
        asm volatile("" : "+r"(x->a[i / 4][i % 4])); /* not before the products are done */
        x->a[i / 4][i % 4] = multiply_pair(x->a[i / 4][i % 4], lift);
    }
    multiply_plane<each, true>(x, planes, c);
}

/* max(x 2^-CUT, 0): no product is larger than 2^CUT. */
static __device__ __forceinline__ float cut_negative(float x)
{
    float out;
    asm("mul.sat.f32 %0, %1, %2;" : "=f"(out) : "f"(x), "f"(1.0f / ((uint64_t)1 << CUT)));
    return out;
}

/* Weighs the heads and adds them up; a lane gets the sum of row first_row() + 8 (lane % 2). */
static __device__ __forceinline__ float weigh_heads(const float c[HEADS / 2], const float2 *weight)
{
    int const lane = (int)threadIdx.x % 32;
    float     sum[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < HEADS / 8; j++) {
        float2 const w = weight[j * 4 + lane % 4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            sum[i] = fmaf(w.x, cut_negative(c[j * 4 + i * 2]), sum[i]);
            sum[i] = fmaf(w.y, cut_negative(c[j * 4 + i * 2 + 1]), sum[i]);
        }
    }
    bool const  is_odd = lane & 1;
    float const sent = is_odd ? sum[0] : sum[1];
    float const both = (is_odd ? sum[1] : sum[0]) + __shfl_xor_sync(0xffffffffu, sent, 1);
    return both + __shfl_xor_sync(0xffffffffu, both, 2);
}

/* The score of one row in f32, by a warp. */
static __device__ __forceinline__ float score_apart(const hd_index_score_args &a, int64_t t,
                                                    row_place at)
{
    int const    lane = (int)threadIdx.x % 32;
    bool const   is_wide = hd_is_wide(a.q, D);
    float4 const key = hd_read_codes4(*(const uint16_t *)(at.codes + lane * 2),
                                      hd_e8m0_to_f32_cuda(at.scales[lane / 8]));
    float        sum = 0;
#pragma unroll 1
    for (int32_t h = 0; h < a.h; h++) {
        float4 const q = hd_load4(a.q + (t * a.h + h) * D + lane * 4, 4, is_wide);
        float const  dot = hd_warp_sum(hd_dot4(q, key, 0.0f));
        if (dot > 0 || dot != dot) sum = fmaf(a.wgt[t * a.h + h] * a.scale, dot, sum);
    }
    return sum;
}

/* Writes a lane's score of a tile. */
static __device__ __forceinline__ void write_score(float *score, int32_t tile, int32_t cap,
                                                   int32_t visible, float value)
{
    int const     lane = (int)threadIdx.x % 32;
    int32_t const row = first_row(tile) + lane % 2 * 8;
    if ((lane & 2) == 0 && row < cap) score[row] = row < visible ? value : 0.0f;
}

/* Writes the scores of token i and rows `left` of a warp's part of a tile anew. */
static __device__ __forceinline__ void write_apart(const hd_index_score_args &a, const part &p,
                                                   const tokens *s, int i, int32_t tile,
                                                   uint32_t left)
{
    int const lane = (int)threadIdx.x % 32;
    __syncwarp(); /* behind what was written before */
#pragma unroll 1
    for (; left; left &= left - 1) {
        int32_t const row = first_row(tile) - lane / 4 + __ffs((int)left) - 1;
        if (row >= s->visible[i]) return;
        float const sum = score_apart(a, p.t0 + i, find_row(p, s->keys[i], row));
        if (lane == 0) a.score[(int64_t)(p.t0 + i) * a.cap + row] = sum;
    }
}

/* Scores tokens i0 to i1 of a block, which are of one sequence; the first tiles are on their way.
 */
template <int each>
static __device__ __forceinline__ void score_run(const hd_index_score_args &a, const part &p,
                                                 block_memory<each> *m, const tokens *s, int i0,
                                                 int i1)
{
    int32_t const most = most_visible(a, p.t0 + i0, i1 - i0);
    constexpr int stages = block_memory<each>::stages;
    bool const    has_low = __shfl_sync(0xffffffffu, s->found.low != 0, 0);
    int           at = 0;
#pragma unroll 1
    for (int32_t tile = p.first; tile * ROWS < most; tile += tile_step<each>()) {
        tile_rows x;
        float     c[each * HEADS / 2];
        hd_copy_wait<stages - 1>();
        decode_tile(&m->tiles[at], &x);
        copy_tile(p, s->keys[i0], tile + stages * tile_step<each>(), most, &m->tiles[at]);
        at = at + 1 == stages ? 0 : at + 1;
        multiply_tile<each>(&x, m->planes[0][0], has_low, c);
        float const unit =
            hd_e8m0_to_f32_cuda(x.most) * (has_low ? ROW_UNIT : ROW_UNIT * (1 << LOW_UNIT));
#pragma unroll
        for (int i = 0; i < each; i++) {
            if (i < i0 || i >= i1) continue;
            float const value = weigh_heads(c + i * (HEADS / 2), s->weight[i]) * unit;
            write_score(a.score + (int64_t)(p.t0 + i) * a.cap, tile, a.cap, s->visible[i], value);
        }
        if ((x.far | s->found.wide) == 0) continue;
#pragma unroll 1
        for (int i = i0; i < i1; i++)
            write_apart(a, p, s, i, tile, s->found.wide >> i & 1 ? 0xffff : x.far);
    }
}

/* Writes 0 behind the tiles that hold a row which token t sees. */
static __device__ __forceinline__ void write_rest(const hd_index_score_args &a, int64_t t,
                                                  int32_t visible)
{
    int32_t const first = (visible + ROWS - 1) / ROWS * ROWS;
    int32_t const step = (int32_t)(gridDim.y * blockDim.x);
    for (int64_t r = first + (int32_t)(blockIdx.y * blockDim.x + threadIdx.x); r < a.cap; r += step)
        a.score[t * a.cap + r] = 0;
}

/* ---- the kernel ---- */

/* The last tokens come first: they see the most rows. */
template <int each>
static __global__ void __launch_bounds__(THREADS / each, each)
    score_tokens(const __grid_constant__ hd_index_score_args a,
                 const __grid_constant__ hd_row_map m, int32_t page_shift)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    block_memory<each> *const                 shared = (block_memory<each> *)memory;
    __shared__ tokens                         s;
    int32_t const                             t0 = (int32_t)(gridDim.x - 1 - blockIdx.x) * each;
    int32_t const                             n = min(each, a.t - t0);
    int32_t const wg = __shfl_sync(0xffffffffu, (int32_t)threadIdx.x / 128, 0);
    part const    p = {m, t0, n, page_shift, (int32_t)blockIdx.y + wg * (int32_t)gridDim.y};
    hd_take_turn();
    for (int i = 0; i < n; i++) {
        int32_t const visible = visible_rows(a, t0 + i);
        write_rest(a, t0 + i, visible);
        if (threadIdx.x == 0) {
            s.visible[i] = visible;
            s.keys[i] = a.keys + a.seq[t0 + i] * m.seq_bytes;
        }
    }
    if ((int32_t)blockIdx.y * ROWS >= most_visible(a, t0, n)) return;
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && a.seq[t0 + end] == a.seq[t0 + i];) end++;
        int32_t const        run_most = most_visible(a, t0 + i, end - i);
        const uint8_t *const keys = a.keys + a.seq[t0 + i] * m.seq_bytes;
#pragma unroll 1
        for (int j = 0; j < block_memory<each>::stages; j++)
            copy_tile(p, keys, p.first + j * tile_step<each>(), run_most, &shared->tiles[j]);
        if (i == 0) prepare_tokens<each>(a, p, &s, shared->planes[0][0]);
        score_run<each>(a, p, shared, &s, i, end);
    }
}

/* Parts of the rows of `each` tokens: the fewest rounds of the GPU, each as long as a warpgroup's
 * tiles and as preparing the heads, which is about as long as one of them. */
static int32_t parts_of_rows(int64_t groups, int32_t tiles, int each)
{
    int64_t const slots = (int64_t)each * hd_sm_count();
    int64_t       best = 1;
    double        least = 0;
    for (int64_t n = 1; n <= slots && n <= tiles; n++) {
        int64_t const rounds = (groups * n + slots - 1) / slots;
        double const  cost = (double)rounds * ((double)tiles / (double)(n * WGS(each)) + 1);
        if (n > 1 && cost >= least) continue;
        best = n;
        least = cost;
    }
    return (int32_t)best;
}

bool hd_index_score_wgmma_supports(const void *args)
{
    const hd_index_score_args *const a = (const hd_index_score_args *)args;
    const hd_row_layout *const       l = &a->layout;
    return hd_row_is_valid(l) && l->format == HD_ROW_MXFP4 && l->d == D && a->d == D &&
           l->page >= 16 && (l->page & (l->page - 1)) == 0 && a->h > 0 && a->h <= HEADS &&
           a->cap <= 1 << 30;
}

template <int each> static hd_status launch(const hd_index_score_args *a, hd_stream *stream)
{
    typedef block_memory<each> memory;
    hd_row_map const           m = hd_row_map_of(&a->layout, a->cap);
    int32_t const groups = (a->t + each - 1) / each, tiles = (a->cap + ROWS - 1) / ROWS;
    int32_t const parts = parts_of_rows(groups, tiles, each);
    int32_t const own = (tiles + parts * WGS(each) - 1) / (parts * WGS(each));
    int32_t const unused = own < memory::stages ? memory::stages - own : 0;
    size_t const  bytes = sizeof(memory) - (size_t)unused * sizeof(tile_copy<each>);
    int32_t       shift = 0;
    while (1 << shift < a->layout.page) shift++;
    if (!hd_allow_shared((const void *)score_tokens<each>, sizeof(memory))) return HD_ERR_DEVICE;
    dim3 const grid((unsigned)groups, (unsigned)parts);
    return hd_launch(score_tokens<each>, grid, THREADS / each, bytes, hd_cuda_stream(stream), *a, m,
                     shift);
}

/* Tokens go in twos where there are many, most of them beside one of their sequence. */
hd_status hd_index_score_wgmma(const void *args, hd_stream *stream)
{
    const hd_index_score_args *const a = (const hd_index_score_args *)args;
    if (a->t == 0 || a->cap == 0) return HD_OK;
    bool const is_twos = a->t > 2 * hd_sm_count() && a->n_seq <= a->t / 4;
    return is_twos ? launch<2>(a, stream) : launch<1>(a, stream);
}
