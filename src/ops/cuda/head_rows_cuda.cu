#include "ops/cuda/divisor.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rows.cuh"
#include "ops/cuda/turn.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/head_rows.h"

/* Bound by latency for a few rows, by bytes for many.
 * Grid: of few rows a block for each, in which a thread has four neighbours; of many a warp for
 * each or for a run of a token's heads, in which lane l has elements 128 j + 4 l .. + 3, so that
 * nothing waits for another warp.  A sum is made in the same order either way.
 * Shared memory, of each warp: the turns of its pairs, whose sines are made while the rows are on
 * their way, and a row for pairs that do not begin at an even element of a lane. */

#define FEW     4096      /* rows below which a block has one of them */
#define RUNS    (1 << 14) /* rows from which on a warp makes RUN of a token, one behind the other */
#define RUN     8
#define WARPS   8
#define OF_WARP 128 /* elements */
static_assert(HD_ROW_MAX <= WARPS * OF_WARP, "a block holds a row");

/* Vectors of a row that a lane has, rows that it has at once, whether warps share a row. */
template <int vectors_, int rows_, bool is_shared_> struct row_shape {
    static constexpr int  vectors = vectors_, rows = rows_;
    static constexpr bool is_shared = is_shared_;
    static constexpr int  blocks = vectors > 4 ? 1 : vectors > 1 ? 3 : 4; /* of a multiprocessor */
};
typedef row_shape<1, 1, true> shared_row;

/* Where rows are stored, if they are. */
struct row_pool {
    hd_row_map map;
    hd_divisor group, cap, page;
};

/* What a warp works with beside its rows. */
struct warp_room {
    float   share; /* 1 / d */
    float  *sums;  /* [WARPS] of the block, only where warps share a row */
    float2 *turns; /* [dr/2] */
    float4 *row;   /* [ceil(d/4)], only without is_even */
    bool    is_even;
};

static __host__ __device__ __forceinline__ bool has_even_pairs(const hd_head_rows_args &a)
{
    return (a.d - a.dr) % 4 == 0 || a.dr == 0;
}

/* In vectors of four floats. */
static __host__ __device__ __forceinline__ int32_t room_of_warp(const hd_head_rows_args &a)
{
    return (a.dr + 3) / 4 + (has_even_pairs(a) ? 0 : (a.d + 3) / 4);
}

static __device__ __forceinline__ warp_room find_room(const hd_head_rows_args &a, float4 *shared)
{
    float4 *const own = shared + WARPS / 4 + threadIdx.x / 32 * room_of_warp(a);
    return {1.0f / (float)a.d, (float *)shared, (float2 *)own, own + (a.dr + 3) / 4,
            has_even_pairs(a)};
}

static __device__ __forceinline__ int32_t lane_of(void) { return (int32_t)threadIdx.x % 32; }

/* The first element of a lane's vector j. */
template <typename shape> static __device__ __forceinline__ int32_t column_of(int j)
{
    return shape::is_shared ? 4 * (int32_t)threadIdx.x : OF_WARP * j + 4 * lane_of();
}

/* ---- norm ---- */

/* The sum over the row of what each run of OF_WARP elements has. */
template <typename shape>
static __device__ __forceinline__ float add_runs(const float own[shape::vectors], float *sums)
{
    int const n = shape::is_shared ? (int)blockDim.x / 32 : shape::vectors;
    float     sum[WARPS];
    if (shape::is_shared) {
        if (lane_of() == 0) sums[threadIdx.x / 32] = own[0];
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < WARPS; j++)
        sum[j] = j >= n ? 0 : shape::is_shared ? sums[j] : own[j % shape::vectors];
#pragma unroll
    for (int half = WARPS / 2; half > 0; half /= 2)
#pragma unroll
        for (int j = 0; j < half; j++) sum[j] += sum[j + half];
    return sum[0];
}

template <typename shape>
static __device__ __forceinline__ void normalise(const hd_head_rows_args &a, const float4 *w,
                                                 const warp_room &room, float4 *v)
{
    float sum[shape::vectors];
#pragma unroll
    for (int j = 0; j < shape::vectors; j++) sum[j] = hd_warp_sum(hd_dot4(v[j], v[j], 0));
    float const r = rsqrtf(fmaf(add_runs<shape>(sum, room.sums), room.share, a.eps));
#pragma unroll
    for (int j = 0; j < shape::vectors; j++)
        v[j] = {v[j].x * r * w[j].x, v[j].y * r * w[j].y, v[j].z * r * w[j].z, v[j].w * r * w[j].w};
}

/* ---- RoPE ---- */

/* The pairs [first, end) that begin among the warp's elements. */
struct pair_range {
    int32_t first, end;
};

template <typename shape>
static __device__ __forceinline__ pair_range find_pairs(const hd_head_rows_args &a)
{
    int32_t const warp = (int32_t)threadIdx.x / 32, pairs = a.dr / 2;
    int32_t const first = (warp * OF_WARP - (a.d - a.dr)) / 2;
    if (!shape::is_shared) return {0, pairs};
    return {max(first, 0), min(first + OF_WARP / 2, pairs)};
}

/* The turns of the warp's pairs, which its lanes may read behind the next __syncwarp; `freq` is
 * that of a lane's first pair. */
static __device__ __forceinline__ void make_turns(const hd_head_rows_args &a, int32_t pos,
                                                  pair_range pairs, float freq,
                                                  const warp_room &room)
{
    int32_t const p = a.group > 1 ? pos - pos % a.group : pos;
    for (int32_t i = pairs.first + lane_of(); i < pairs.end; i += 32) {
        hd_turn const by = hd_turn_of(p, freq);
        room.turns[i] = {by.cosine, by.sine};
        if (i + 32 < pairs.end) freq = a.freq[i + 32];
    }
}

static __device__ __forceinline__ float2 turned(float even, float odd, float2 by)
{
    return hd_turned(even, odd, {by.x, by.y});
}

/* Pairs that begin anywhere, through shared memory. */
template <typename shape>
static __device__ __forceinline__ void turn_through_row(const hd_head_rows_args &a,
                                                        const warp_room &room, float4 *v)
{
    float *const tail = (float *)room.row + (a.d - a.dr);
#pragma unroll
    for (int j = 0; j < shape::vectors; j++)
        if (column_of<shape>(j) < a.d) room.row[column_of<shape>(j) / 4] = v[j];
    __syncwarp();
    for (int32_t i = lane_of(); 2 * i < a.dr; i += 32) {
        float2 const pair = turned(tail[2 * i], tail[2 * i + 1], room.turns[i]);
        tail[2 * i] = pair.x;
        tail[2 * i + 1] = pair.y;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < shape::vectors; j++)
        if (column_of<shape>(j) < a.d) v[j] = room.row[column_of<shape>(j) / 4];
    __syncwarp();
}

template <typename shape>
static __device__ __forceinline__ void turn_tail(const hd_head_rows_args &a, const warp_room &room,
                                                 float4 *v)
{
    if (!shape::is_shared && !room.is_even) {
        turn_through_row<shape>(a, room, v);
        return;
    }
#pragma unroll
    for (int j = 0; j < shape::vectors; j++) {
        int32_t const at = column_of<shape>(j) - (a.d - a.dr);
        if (at < 0 || at >= a.dr) continue;
        float4 const by = *(const float4 *)(room.turns + at / 2);
        float2 const low = turned(v[j].x, v[j].y, {by.x, by.y});
        float2 const high = turned(v[j].z, v[j].w, {by.z, by.w});
        v[j] = {low.x, low.y, high.x, high.y};
    }
}

/* ---- Hadamard ---- */

static __device__ __forceinline__ float4 transform_four(float4 v, int32_t d)
{
    if (d > 1) v = {v.x + v.y, v.x - v.y, v.z + v.w, v.z - v.w};
    if (d > 2) v = {v.x + v.z, v.y + v.w, v.x - v.z, v.y - v.w};
    return v;
}

/* A round between lanes `o` apart. */
static __device__ __forceinline__ float exchange(float x, int o)
{
    float const other = __shfl_xor_sync(0xffffffffu, x, o);
    return lane_of() & o ? other - x : x + other;
}

static __device__ __forceinline__ float4 add4(float4 a, float4 b, float sign)
{
    return {fmaf(sign, b.x, a.x), fmaf(sign, b.y, a.y), fmaf(sign, b.z, a.z), fmaf(sign, b.w, a.w)};
}

/* Elements from d on are 0 and stay by themselves. */
template <int vectors> static __device__ __forceinline__ void transform(int32_t d, float4 *v)
{
    float const norm = 1.0f / sqrtf((float)d);
#pragma unroll
    for (int j = 0; j < vectors; j++) v[j] = transform_four(v[j], d);
#pragma unroll
    for (int o = 1; o < 32; o *= 2)
        if (4 * o < d)
#pragma unroll
            for (int j = 0; j < vectors; j++)
                v[j] = {exchange(v[j].x, o), exchange(v[j].y, o), exchange(v[j].z, o),
                        exchange(v[j].w, o)};
#pragma unroll
    for (int half = 1; half < vectors; half *= 2)
        if (OF_WARP * half < d)
#pragma unroll
            for (int j = 0; j < vectors; j++) {
                if (j & half) continue;
                float4 const low = v[j], high = v[j + half];
                v[j] = add4(low, high, 1);
                v[j + half] = add4(low, high, -1);
            }
#pragma unroll
    for (int j = 0; j < vectors; j++)
        v[j] = {v[j].x * norm, v[j].y * norm, v[j].z * norm, v[j].w * norm};
}

/* ---- rows ---- */

/* Row `row` of x. */
template <typename shape>
static __device__ __forceinline__ void load_row(const hd_head_rows_args &a, int64_t row,
                                                bool is_wide, float4 *v)
{
    const float *const x = a.x + row * a.d;
#pragma unroll
    for (int j = 0; j < shape::vectors; j++) {
        int32_t const c = column_of<shape>(j);
        v[j] = c < a.d ? hd_load4(x + c, a.d - c, is_wide) : float4{0, 0, 0, 0};
    }
}

/* Where the row of a token goes beside x. */
struct row_target {
    bool         is_stored;
    hd_row_place at;
};

static __device__ __forceinline__ row_target find_target(const row_pool &pool, int32_t pos,
                                                         int32_t seq)
{
    int32_t const number = hd_divide(pos, pool.group), turn = hd_divide(number, pool.cap);
    int32_t const row = number - turn * pool.cap.by, page = hd_divide(row, pool.page);
    return {(number + 1) * pool.group.by == pos + 1,
            hd_place_in_page(&pool.map, seq, page, row - page * pool.page.by)};
}

/* The row back to x, and to the pool, if it belongs there. */
template <typename shape>
static __device__ __forceinline__ void store_row(const hd_head_rows_args &a, const hd_row_map &m,
                                                 int64_t row, const row_target &to, bool is_wide,
                                                 const float4 *v)
{
    float *const x = a.x + row * a.d;
#pragma unroll
    for (int j = 0; j < shape::vectors; j++) {
        int32_t const c = column_of<shape>(j);
        if (c < a.d) hd_store4(x + c, v[j], a.d - c, is_wide);
    }
    if (!to.is_stored) return;
#pragma unroll
    for (int j = 0; j < shape::vectors; j++)
        if (OF_WARP * j < a.d) hd_write_row4(&m, a.pool, to.at, v[j], column_of<shape>(j));
    if (!shape::is_shared || threadIdx.x < 32) hd_write_row_pad(&m, a.pool, to.at);
}

/* The steps on rows [row, row + shape::rows) of one token, behind its turns. */
template <typename shape>
static __device__ __forceinline__ void make_rows(const hd_head_rows_args &a, const float4 *w,
                                                 const warp_room &room,
                                                 float4           v[shape::rows][shape::vectors])
{
#pragma unroll
    for (int i = 0; i < shape::rows; i++) {
        if (a.has_norm) normalise<shape>(a, w, room, v[i]);
        if (a.dr > 0) turn_tail<shape>(a, room, v[i]);
        if (a.has_hadamard) transform<shape::vectors>(a.d, v[i]);
    }
}

template <typename shape, bool has_pool>
static __global__ void __launch_bounds__(WARPS * 32, shape::blocks)
    prepare_rows(const __grid_constant__ hd_head_rows_args a, const __grid_constant__ row_pool pool,
                 int32_t run)
{
    extern __shared__ float4 shared[];
    unsigned const           warps = blockDim.x / 32, warp = threadIdx.x / 32;
    unsigned row = shape::is_shared ? blockIdx.x : (blockIdx.x * warps + warp) * (unsigned)run;
    unsigned const   end = row + (unsigned)run, t = row / (unsigned)a.h;
    warp_room const  room = find_room(a, shared);
    pair_range const pairs = find_pairs<shape>(a);
    int32_t const    pair = pairs.first + lane_of();
    bool const       is_w_wide = hd_is_wide(a.w, a.d);
    float4           v[shape::rows][shape::vectors], w[shape::vectors];
    hd_release_next();
#pragma unroll
    for (int j = 0; j < shape::vectors; j++) {
        int32_t const c = column_of<shape>(j);
        w[j] = a.has_w && c < a.d ? hd_load4(a.w + c, a.d - c, is_w_wide) : float4{1, 1, 1, 1};
    }
    float const freq = pair < pairs.end ? a.freq[pair] : 0;
    hd_await_previous();
    if (t >= (unsigned)a.t) return;
    bool const    is_wide = hd_is_wide(a.x, a.d);
    int32_t const pos = a.pos[t], seq = has_pool ? a.seq[t] : 0;
    row_target    to = {false, {0, 0}};
    for (bool is_first = true; row < end; row += shape::rows, is_first = false) {
#pragma unroll
        for (int i = 0; i < shape::rows; i++) load_row<shape>(a, row + i, is_wide, v[i]);
        if (shape::is_shared && has_pool) to = find_target(pool, pos, seq);
        if (is_first) make_turns(a, pos, pairs, freq, room);
        __syncwarp();
        make_rows<shape>(a, w, room, v);
        if (!shape::is_shared && has_pool) to = find_target(pool, pos, seq);
#pragma unroll
        for (int i = 0; i < shape::rows; i++)
            store_row<shape>(a, pool.map, row + i, to, is_wide, v[i]);
    }
}

bool hd_head_rows_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

/* `warps` in a block, each with a run of rows or all with one. */
template <typename shape>
static hd_status launch(const hd_head_rows_args *a, int32_t warps, int32_t run, hd_stream *stream)
{
    void (*const kernel)(hd_head_rows_args, row_pool, int32_t) =
        a->has_pool ? prepare_rows<shape, shape::rows == 1> : prepare_rows<shape, false>;
    int64_t const  rows = (int64_t)a->t * a->h;
    unsigned const blocks = shape::is_shared ? (unsigned)rows : hd_blocks(rows / run, warps);
    size_t const   bytes = (size_t)(WARPS / 4 + warps * room_of_warp(*a)) * sizeof(float4);
    row_pool       pool = {};
    if (bytes > 48 * 1024 && !hd_allow_shared((const void *)kernel, bytes)) return HD_ERR_DEVICE;
    if (a->has_pool)
        pool = {hd_row_map_of(&a->layout, a->cap), hd_divisor_of(a->group), hd_divisor_of(a->cap),
                hd_divisor_of(a->layout.page)};
    return hd_launch(kernel, blocks, (unsigned)warps * 32, bytes, hd_cuda_stream(stream), *a, pool,
                     run);
}

hd_status hd_head_rows_cuda(const void *args, hd_stream *stream)
{
    const hd_head_rows_args *const a = (const hd_head_rows_args *)args;
    int64_t const                  rows = (int64_t)a->t * a->h;
    bool const    may_share = has_even_pairs(*a) && (a->d <= OF_WARP || !a->has_hadamard);
    int32_t const run = rows >= RUNS && a->h % RUN == 0 ? RUN : 1, warps = rows < FEW ? 1 : WARPS;
    if (rows == 0) return HD_OK;
    if (rows < FEW && may_share)
        return launch<shared_row>(a, (a->d + OF_WARP - 1) / OF_WARP, 1, stream);
    if (a->d > 4 * OF_WARP) return launch<row_shape<8, 1, false>>(a, warps, run, stream);
    if (a->d > OF_WARP) return launch<row_shape<4, 1, false>>(a, warps, run, stream);
    return run > 1 ? launch<row_shape<1, 4, false>>(a, warps, run, stream)
                   : launch<row_shape<1, 1, false>>(a, warps, run, stream);
}
