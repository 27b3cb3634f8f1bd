#include "async_copy.cuh"
#include "f16_planes.cuh"
#include "fp8_codes.cuh"
#include "launch.cuh"
#include "ops/gemm.h"
#include "quant/fp8.h"

/* gemm with FP8 weights for few tokens on Hopper.
 *
 * Bound by: bytes, where there are some tens of megabytes; by latency where there are fewer.
 * Grid: a block takes the row tiles, 16 rows each, that follow its x at the grid's step, for a run
 *   of tokens (y) and a group (z).  Its warps share k: warp w has every slices-th block of 128
 *   columns from w on; where these are fewer than warps, the others have row tiles of their own.
 * Loads: straight to registers, `held` blocks of 16 x 128 codes a warp ahead: 4 of two blocks of
 *   threads that fit a processor, or 2 of three where a row tile is one such block for each warp,
 * so that sums are joined after each.  Those of the next kernel begin to load while others end.
 * Product: mma.m16n8k16 with f16 operands and f32 sums.  E4M3 fits f16, and an activation is split
 *   into two f16 (f16_planes.cuh), counted in a unit of its token's 128 columns.  The two planes of
 *   token q are columns 2 q and 2 q + 1, so a thread holds both sums of its token.
 * Order of k: free inside a product, so codes stay where 16 bytes have them: word j of a lane's
 *   makes operand A of step j, bytes i and i + 2 a register, and activations are laid out alike.
 * Sums: of a block of columns, scaled, by rising k in a warp, then over warps.  The split follows
 *   from k alone, so a row does not depend on the batch.
 * Shared memory: the activations, 4 bytes x tokens x columns, and two rounds' sums. */

#define ROWS  16
#define COLS  HD_FP8_BLOCK
#define WARPS 8

/* ---- where a warp works ---- */

/* Tokens of a block of threads, and how they make the columns of operand B. */
template <int n> struct batch_of {
    static constexpr int tokens = n;
    static constexpr int blocks = (n + 3) / 4;       /* of eight columns                     */
    static constexpr int lanes = n < 4 ? 8 * n : 32; /* that hold columns which are not 0    */
    static constexpr int units = 4 * lanes;          /* of 16 bytes: 128 of k, of one of these */
};

struct walk {
    int     slices, slice, group; /* of k; the warp's; which row tile of a round */
    int32_t blocks, own;          /* of columns; those of the warp               */
    int32_t row_step, rounds;     /* rows of a round of the grid; rounds of this block of threads */
};

static __host__ __device__ __forceinline__ int32_t count_blocks(int32_t k)
{
    return (k + COLS - 1) / COLS;
}

static __host__ __device__ __forceinline__ int count_slices(int32_t k)
{
    int n = 1;
    while (n < WARPS && 2 * n <= count_blocks(k)) n *= 2;
    return n;
}

/* Rows of a round of one block of threads. */
static __host__ __device__ __forceinline__ int32_t count_rows(int32_t k)
{
    return ROWS * (WARPS / count_slices(k));
}

static __device__ __forceinline__ walk start_walk(int32_t n, int32_t k)
{
    int const     warp = (int)threadIdx.x / 32;
    int32_t const rows = count_rows(k), all = (n + rows - 1) / rows;
    walk          v;
    v.slices = count_slices(k);
    v.slice = warp % v.slices;
    v.group = warp / v.slices;
    v.blocks = count_blocks(k);
    v.own = (v.blocks - v.slice + v.slices - 1) / v.slices;
    v.row_step = (int32_t)gridDim.x * rows;
    v.rounds = (all - (int32_t)blockIdx.x + (int32_t)gridDim.x - 1) / (int32_t)gridDim.x;
    return v;
}

static __device__ __forceinline__ int32_t first_row(const walk &v)
{
    return ((int32_t)blockIdx.x * (WARPS / v.slices) + v.group) * ROWS;
}

/* ---- loading ---- */

/* Loads that begin where they stand: weights are used once.  A lane has both halves of a line, so
 * the second cache is to fetch it whole. */
static __device__ __forceinline__ uint4 load_codes(const uint8_t *from, bool is_in)
{
    uint4 v;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0;\n"
                 "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;\n"
                 "@p ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4]; }"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(from), "r"((int)is_in));
    return v;
}

static __device__ __forceinline__ float load_scale(const float *from)
{
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(from));
    return v;
}

/* A lane's share of 16 rows x 128 columns: 16 codes of each half of rows lane / 4 and + 8. */
struct tile {
    uint4 w[2][2]; /* row, half */
    float scale;
};

/* The loads of one warp, in order. */
struct feed {
    const uint8_t *w;       /* of the group */
    const float   *sf;      /* likewise     */
    const uint8_t *rows[2]; /* the lane's   */
    const float   *scales;
    int32_t        n, k, row, rounds, block; /* row tile, rounds left, the next block of columns */

    /* Rows behind the matrix are the last one, which is not used twice. */
    __device__ __forceinline__ void start_round(const walk &v)
    {
        int const lane = (int)threadIdx.x % 32;
        block = v.slice;
        scales = sf + (int64_t)(min(row, n - 1) / HD_FP8_BLOCK) * v.blocks;
#pragma unroll
        for (int r = 0; r < 2; r++)
            rows[r] = w + (int64_t)min(row + lane / 4 + 8 * r, n - 1) * k + lane % 4 * 16;
    }

    __device__ __forceinline__ feed(const hd_gemm_args &a, const walk &v)
        : n(a.n), k(a.k), row(first_row(v)), rounds(v.rounds)
    {
        int64_t const first = (int64_t)blockIdx.z * a.n;
        w = (const uint8_t *)a.w + first * a.k;
        sf = (const float *)a.sf + first / HD_FP8_BLOCK * v.blocks;
        start_round(v);
    }

    __device__ __forceinline__ void load(const walk &v, tile &to)
    {
        if (rounds <= 0) return;
        int32_t const at = block * COLS, left = k - at - (int32_t)threadIdx.x % 4 * 16;
#pragma unroll
        for (int i = 0; i < 4; i++)
            to.w[i / 2][i % 2] = load_codes(rows[i / 2] + at + i % 2 * 64, left > i % 2 * 64);
        to.scale = load_scale(scales + block);
        block += v.slices;
        if (block < v.blocks) return;
        rounds--;
        row += v.row_step;
        start_round(v);
    }
};

/* ---- activations ---- */

struct room {
    uint4 *x;     /* [blocks of columns, batch::blocks, 4 pairs of steps, column, quarter] */
    float *units; /* [blocks of columns, tokens]                                           */
    float *sums;  /* [2, WARPS, tokens, ROWS]                                              */
};

static __host__ __device__ __forceinline__ size_t room_bytes(int32_t k, int tokens)
{
    size_t const blocks = (size_t)count_blocks(k);
    return (blocks * (COLS * 4 + sizeof(float)) + 2 * WARPS * ROWS * sizeof(float)) *
           (size_t)tokens;
}

static __device__ __forceinline__ room share_room(uint8_t *base, int32_t k, int tokens)
{
    int32_t const blocks = count_blocks(k);
    room          s;
    s.x = (uint4 *)base;
    s.sums = (float *)(base + (size_t)blocks * COLS * 4 * tokens);
    s.units = s.sums + 2 * WARPS * ROWS * tokens;
    return s;
}

/* Exponent of the unit of 128 columns, from the bits of their largest magnitude: it comes to [1,
 * 2), or up to 4.  Infinities stay what they are; so do the others beside them, which no sum shows.
 */
static __device__ __forceinline__ uint32_t find_exponent(uint32_t amax)
{
    uint32_t const exponent = amax >> 23;
    return exponent == 255 ? 127 : min(max(exponent, 1u), 253u);
}

/* Two scaled floats to a pair of f16 each of both planes. */
static __device__ __forceinline__ void split_pair(float a, float b, uint32_t &high, uint32_t &low)
{
    __half2 const h = __floats2half2_rn(a, b);
    float2 const  f = __half22float2(h);
    __half2 const l = __floats2half2_rn(isinf(a) ? 0.0f : (a - f.x) * 2048.0f,
                                        isinf(b) ? 0.0f : (b - f.y) * 2048.0f);
    high = *(const uint32_t *)&h;
    low = *(const uint32_t *)&l;
}

static __device__ __forceinline__ uint32_t magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

/* Splits the warp's 128 columns of a token, four a lane, to where operand B of their steps is. */
template <typename batch>
static __device__ __forceinline__ void split(float4 v, int32_t block, int token, const room &s)
{
    int const      lane = (int)threadIdx.x % 32, octet = lane / 2;
    uint32_t const exponent = find_exponent(hd_warp_max_bits(
        max(max(magnitude(v.x), magnitude(v.y)), max(magnitude(v.z), magnitude(v.w)))));
    float const    inverse = __uint_as_float((254 - exponent) << 23);
    uint2          high, low;
    split_pair(v.x * inverse, v.z * inverse, high.x, low.x);
    split_pair(v.y * inverse, v.w * inverse, high.y, low.y);
    uint2 *const to =
        (uint2 *)(s.x + (block * batch::blocks + token / 4) * batch::units +
                  (octet / 8 * 2 + octet % 2) * batch::lanes + token % 4 * 8 + octet % 8 / 2) +
        lane % 2;
    to[0] = high;
    to[8] = low;
    if (lane == 0) s.units[block * batch::tokens + token] = __uint_as_float(exponent << 23);
}

/* Starts copying a token's 128 columns from c on, four a lane, those behind k as 0. */
static __device__ __forceinline__ void copy_floats(const hd_gemm_args &a, int32_t token, int32_t c,
                                                   bool is_wide, uint4 *to)
{
    bool const         is_in = c < a.k && token < a.t;
    const float *const from = a.x + ((int64_t)token * a.g + blockIdx.z) * a.k + c;
    if (is_wide)
        hd_copy_16_or_zero(to, from, is_in);
    else
        for (int i = 0; i < 4; i++) hd_copy_4_or_zero((float *)to + i, from + i, is_in);
}

/* Splits the block's tokens.  A warp has whole blocks of columns: their floats come, all at once,
 * to where their planes will be, which are as large. */
template <typename batch>
static __device__ __forceinline__ void split_all(const hd_gemm_args &a, const room &s)
{
    constexpr int units = batch::blocks * batch::units;
    int const     lane = (int)threadIdx.x % 32;
    int32_t const t0 = (int32_t)blockIdx.y * batch::tokens, blocks = count_blocks(a.k);
    bool const    is_wide = hd_is_aligned(a.x);
    for (int32_t b = (int32_t)threadIdx.x / 32; b < blocks; b += WARPS)
#pragma unroll
        for (int t = 0; t < batch::tokens; t++)
            copy_floats(a, t0 + t, b * COLS + lane * 4, is_wide, s.x + b * units + t * 32 + lane);
    hd_copy_commit();
    hd_copy_wait<0>();
    for (int32_t b = (int32_t)threadIdx.x / 32; b < blocks; b += WARPS) {
        float4 v[batch::tokens];
#pragma unroll
        for (int t = 0; t < batch::tokens; t++)
            v[t] = *(const float4 *)(s.x + b * units + t * 32 + lane);
        __syncwarp(); /* all have read what planes replace */
#pragma unroll
        for (int t = 0; t < batch::tokens; t++) split<batch>(v[t], b, t, s);
    }
    __syncthreads();
}

/* ---- multiplying ---- */

/* c += two steps: words of rows r and r + 8 by 16 bytes of activations. */
static __device__ __forceinline__ void multiply_pair(float c[4], const uint32_t a[2][4], uint4 x)
{
    hd_mma(c, a[0], x.x, x.y);
    hd_mma(c, a[1], x.z, x.w);
}

static __device__ __forceinline__ void decode_step(uint32_t upper, uint32_t lower, uint32_t a[4])
{
    uint32_t u[2], l[2];
    hd_decode_bytes(upper, u);
    hd_decode_bytes(lower, l);
    a[0] = u[0];
    a[1] = l[0];
    a[2] = u[1];
    a[3] = l[1];
}

/* Adds the products of a tile to sum[block] (rows lane / 4, the same, and + 8 twice; the planes of
 * token lane % 4).  Halves have sums of their own, so that fewer products wait for another. */
template <typename batch>
static __device__ __forceinline__ void multiply(const tile &w, int32_t block, const room &s,
                                                float sum[batch::blocks][4])
{
    int const    lane = (int)threadIdx.x % 32;
    float        c[2][batch::blocks][4] = {};
    const uint4 *x = s.x + block * (batch::blocks * batch::units) + lane;
#pragma unroll
    for (int p = 0; p < 4; p++) { /* pairs of steps */
        uint4 const upper = w.w[0][p / 2], lower = w.w[1][p / 2];
        uint32_t    a[2][4];
        decode_step(p % 2 ? upper.z : upper.x, p % 2 ? lower.z : lower.x, a[0]);
        decode_step(p % 2 ? upper.w : upper.y, p % 2 ? lower.w : lower.y, a[1]);
#pragma unroll
        for (int b = 0; b < batch::blocks; b++) {
            bool const has = batch::lanes == 32 || lane < batch::lanes;
            multiply_pair(c[p / 2][b], a,
                          has ? x[b * batch::units + p * batch::lanes] : make_uint4(0, 0, 0, 0));
        }
    }
#pragma unroll
    for (int b = 0; b < batch::blocks; b++) {
        int const   token = min(b * 4 + lane % 4, batch::tokens - 1);
        float const scale = w.scale * s.units[block * batch::tokens + token];
#pragma unroll
        for (int i = 0; i < 4; i++) sum[b][i] = fmaf(c[0][b][i] + c[1][b][i], scale, sum[b][i]);
    }
}

/* ---- results ---- */

/* Waits for the warps that share row tiles with the calling one. */
static __device__ __forceinline__ void sync_slices(const walk &v)
{
    if (v.slices == 1)
        __syncwarp();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(v.group + 1), "r"(v.slices * 32) : "memory");
}

/* Joins the slices' sums of a row tile and writes them.  `sums` is used in turns of two. */
template <typename batch>
static __device__ __forceinline__ void finish(const hd_gemm_args &a, const walk &v, int32_t row0,
                                              float *sums, float sum[batch::blocks][4])
{
    constexpr int tokens = batch::tokens;
    int const     lane = (int)threadIdx.x % 32, row = lane / 4;
    int32_t const t0 = (int32_t)blockIdx.y * tokens;
    float *const  group = sums + v.group * v.slices * ROWS * tokens;
    float *const  mine = group + v.slice * ROWS * tokens;
#pragma unroll
    for (int b = 0; b < batch::blocks; b++) {
        int const token = b * 4 + lane % 4;
        if (token < tokens) {
            mine[token * ROWS + row] = sum[b][0] + sum[b][1] * HD_LOW_PLANE;
            mine[token * ROWS + row + 8] = sum[b][2] + sum[b][3] * HD_LOW_PLANE;
        }
        sum[b][0] = sum[b][1] = sum[b][2] = sum[b][3] = 0;
    }
    sync_slices(v);
    for (int at = v.slice * 32 + lane; at < ROWS * tokens; at += v.slices * 32) {
        int32_t const t = t0 + at / ROWS, r = row0 + at % ROWS;
        if (t >= a.t || r >= a.n) continue;
        float total = 0;
        for (int i = 0; i < v.slices; i++) total += group[i * ROWS * tokens + at];
        a.y[((int64_t)t * a.g + blockIdx.z) * a.n + r] = total * HD_FP8_F16_FACTOR;
    }
}

/* Blocks of threads on a processor, as far as registers go. */
static constexpr int fit_registers(int tokens, int held) { return (tokens > 4 ? 3 : 4) - held / 2; }

template <int n_tokens, int held>
static __global__ void __launch_bounds__(WARPS * 32, fit_registers(n_tokens, held))
    multiply_few(hd_gemm_args const a)
{
    extern __shared__ __align__(128) uint8_t shared[];
    using batch = batch_of<n_tokens>;
    walk const v = start_walk(a.n, a.k);
    room const s = share_room(shared, a.k, n_tokens);
    feed       from(a, v);
    tile       codes[held];
    float      sum[batch::blocks][4] = {};
    int32_t    row = first_row(v), block = v.slice;
    int        turn = 0;
    hd_release_next();
#pragma unroll
    for (int i = 0; i < held; i++) from.load(v, codes[i]);
    hd_await_previous();
    split_all<batch>(a, s);
    for (int32_t left = v.rounds * v.own; left > 0; left -= held)
#pragma unroll
        for (int i = 0; i < held; i++) {
            if (i >= left) break;
            multiply<batch>(codes[i], block, s, sum);
            from.load(v, codes[i]);
            block += v.slices;
            if (block < v.blocks) continue;
            finish<batch>(a, v, row, s.sums + turn * WARPS * ROWS * n_tokens, sum);
            turn ^= 1;
            block = v.slice;
            row += v.row_step;
        }
}

/* ---- choosing ---- */

#define MOST_SHARED (227 * 1024)

/* Tokens of a block of threads: they read each weight once. */
static int choose_tokens(int32_t t, int32_t k)
{
    if (t == 1) return 1;
    return t > 4 && room_bytes(k, 8) <= MOST_SHARED ? 8 : 4;
}

/* Blocks of columns that a warp works on, of so many rounds on one block of threads a processor. */
static int64_t count_work(int32_t k, int64_t rounds)
{
    return (int64_t)hd_blocks(rounds, hd_sm_count()) * hd_blocks(count_blocks(k), count_slices(k));
}

template <int tokens, int held> static hd_status launch(const hd_gemm_args *a, hd_stream *stream)
{
    size_t const   bytes = room_bytes(a->k, tokens);
    unsigned const runs = hd_blocks(a->t, tokens), rounds = hd_blocks(a->n, count_rows(a->k));
    /* One a processor leaves room for the next kernel's, where all loads are under way at once. */
    bool const     is_short = count_work(a->k, (int64_t)rounds * runs * a->g) <= held;
    unsigned const fit =
        is_short ? 1 : min(fit_registers(tokens, held), (int)(MOST_SHARED / bytes));
    unsigned const most = hd_blocks(fit * hd_sm_count(), (int32_t)(runs * (unsigned)a->g));
    dim3 const     grid(rounds < most ? rounds : most, runs, (unsigned)a->g);
    if (!hd_allow_shared((const void *)multiply_few<tokens, held>, bytes)) return HD_ERR_DEVICE;
    return hd_launch(multiply_few<tokens, held>, grid, WARPS * 32, bytes, hd_cuda_stream(stream),
                     *a);
}

template <int tokens> static hd_status launch_few(const hd_gemm_args *a, hd_stream *stream)
{
    int64_t const rounds = (int64_t)hd_blocks(a->n, count_rows(a->k)) * hd_blocks(a->t, tokens);
    bool const    is_long = count_work(a->k, rounds * a->g) > 4;
    return is_long && count_blocks(a->k) <= WARPS ? launch<tokens, 2>(a, stream)
                                                  : launch<tokens, 4>(a, stream);
}

bool hd_gemm_fp8_sm90_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    /* A group of rows must begin a block of scales. */
    if (a->g > 1 && a->n % HD_FP8_BLOCK) return false;
    return a->k > 0 && a->k % 32 == 0 && a->t <= 16 && a->g <= 65535 &&
           room_bytes(a->k, 4) <= MOST_SHARED;
}

hd_status hd_gemm_fp8_sm90(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    switch (choose_tokens(a->t, a->k)) {
    case 1: return launch_few<1>(a, stream);
    case 4: return launch_few<4>(a, stream);
    default: return launch_few<8>(a, stream);
    }
}
