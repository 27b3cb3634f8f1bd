#include <cooperative_groups.h>

#include "ops/attn_sparse.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rows.cuh"
#include "ops/cuda/turn.cuh"
#include "ops/cuda/vectors.cuh"

/* Bound by FLOPs for many heads: 4 * h * d for each key; a key is read once for HEADS heads.
 * Grid: a cluster of BLOCKS blocks for each token and HEADS heads.  Each block takes a run of the
 * keys in tiles of KEYS, decoded once; at the end the blocks join their sums, in block order.
 * Loads: a tile is on its way, in registers, while the one before it is worked on, and the list
 * of keys is read a tile further ahead.
 * A tile goes through three steps:
 *   logits  each warp an eighth of the width, a lane four heads with two keys; then the eight
 *           partial dot products are added up
 *   weights half a warp a head: largest logit so far, exponentials
 *   sums    a thread four columns (eight above 512) of half the heads, in registers
 * Shared: queries and keys of the width, 75 KiB at 512, so that two blocks fit a
 * multiprocessor. */

#define BLOCKS  8
#define HEADS   16
#define KEYS    16
#define THREADS 256
#define WARPS   (THREADS / 32)
#define HALF    (HEADS / 2)
#define BATCH   (KEYS / 2)        /* vectors of a tile that a thread has on their way */
#define COLUMNS (THREADS / 2 * 4) /* that the threads of half the heads cover at once */
static_assert(HEADS * KEYS == THREADS, "a thread adds up one logit");
static_assert(HD_ROW_MAX <= 2 * COLUMNS, "a thread has at most eight columns");

/* Sums of the heads over a run of keys, relative to the largest logit. */
typedef struct heads_state {
    float largest[HEADS], sum[HEADS];
} heads_state;

/* What stands in shared memory in front of the two arrays of rows. */
typedef struct shared_part {
    float        part[WARPS][HEADS][KEYS]; /* of the dot products                  */
    float        weight[KEYS][HEADS];
    float        shrink[HEADS]; /* what sums so far are multiplied by             */
    heads_state  state;
    hd_row_place place[2][KEYS]; /* of this tile and of the next, by turns            */
    int32_t      pool[2][KEYS];  /* 0 window, 1 rows, -1 no key                        */
} shared_part;

static_assert(sizeof(shared_part) % 16 == 0, "rows behind it are read as vectors");

typedef struct job {
    hd_attn_sparse_args a;
    hd_row_map          win, rows;
    int32_t             width; /* d rounded up to what the warps share evenly */
} job;

/* The part of a block: keys [first, end) of a token's list, HEADS heads from h0 on. */
typedef struct task {
    int64_t      t;
    int32_t      h0, first, end;
    int32_t      p, seq, n_win; /* position; window keys, which come first */
    shared_part *s;
    float       *q, *key; /* [HEADS][stride], [KEYS][stride] shared */
    int32_t      stride;
} task;

static __host__ __device__ __forceinline__ int32_t row_stride(int32_t width) { return width + 4; }

static __device__ task find_task(const job *j, char *memory)
{
    const hd_attn_sparse_args *const a = &j->a;
    int32_t const groups = (a->h + HEADS - 1) / HEADS, rank = (int32_t)blockIdx.x % BLOCKS;
    int64_t const at = blockIdx.x / BLOCKS;
    task          k;
    k.t = at / groups;
    k.h0 = (int32_t)(at % groups) * HEADS;
    k.p = a->pos[k.t];
    k.seq = a->seq[k.t];
    k.n_win = min(k.p + 1, a->window);
    int32_t const n_rows = a->group <= 0 ? 0 : a->k > 0 ? a->k : (k.p + 1) / a->group;
    int32_t const n = k.n_win + n_rows;
    int32_t const run = ((n + BLOCKS - 1) / BLOCKS + KEYS - 1) / KEYS * KEYS;
    k.first = (int32_t)min((int64_t)n, (int64_t)rank * run);
    k.end = (int32_t)min((int64_t)n, (int64_t)k.first + run);
    k.stride = row_stride(j->width);
    k.s = (shared_part *)memory;
    k.q = (float *)(k.s + 1);
    k.key = k.q + HEADS * k.stride;
    return k;
}

/* Queries, 0 for heads and columns that do not exist. */
static __device__ void load_queries(const job *j, const task *k)
{
    const hd_attn_sparse_args *const a = &j->a;
    bool const                       is_wide = hd_is_wide(a->q, a->d);
    int32_t const                    vectors = j->width / 4;
    for (int32_t i = (int32_t)threadIdx.x; i < HEADS * vectors; i += THREADS) {
        int32_t const row = i / vectors, c = i % vectors * 4, h = k->h0 + row;
        float4        v = {0, 0, 0, 0};
        if (h < a->h && c < a->d)
            v = hd_load4(a->q + (k->t * a->h + h) * a->d + c, a->d - c, is_wide);
        *(float4 *)(k->q + row * k->stride + c) = v;
    }
}

/* A key by its pool and its row there. */
typedef struct key_ref {
    int32_t pool, row;
} key_ref;

/* The key at place `at` of the list. */
static __device__ key_ref find_key(const job *j, const task *k, int32_t at)
{
    const hd_attn_sparse_args *const a = &j->a;
    if (threadIdx.x >= KEYS || at >= k->end) return {-1, 0};
    if (at < k->n_win) return {0, (k->p + 1 - k->n_win + at) % a->win_cap};
    int32_t const row = a->k > 0 ? a->ids[k->t * a->k + at - k->n_win] : at - k->n_win;
    return {row < 0 ? -1 : 1, row};
}

/* Notes the keys of a tile, one a thread. */
static __device__ void place_key(const job *j, const task *k, key_ref key, int turn)
{
    int32_t const i = (int32_t)threadIdx.x;
    if (i >= KEYS) return;
    k->s->pool[turn][i] = key.pool;
    if (key.pool >= 0)
        k->s->place[turn][i] = hd_place_row(key.pool == 0 ? &j->win : &j->rows, k->seq, key.row);
}

/* What a thread loads and decodes: one column of every second key of a tile.  Both pools keep
 * their rows alike. */
typedef struct key_loader {
    hd_row_column column;
    int32_t       at;   /* element of the column; from width on there is nothing to do */
    int32_t       half; /* which of two keys                                           */
} key_loader;

static __device__ __forceinline__ key_loader make_loader(const job *j, int n)
{
    int32_t const c = (int32_t)threadIdx.x % (THREADS / 2) * 4 + n * COLUMNS;
    return {hd_find_column(&j->win, c), c, (int32_t)threadIdx.x / (THREADS / 2)};
}

/* Starts loading; what is no key is left out. */
static __device__ __forceinline__ void load_keys(const job *j, const task *k, int turn,
                                                 const key_loader &l, hd_row_bits v[BATCH])
{
    if (l.at >= j->a.d) return;
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        int const     row = 2 * i + l.half;
        int32_t const pool = k->s->pool[turn][row];
        if (pool >= 0)
            v[i] =
                hd_load_column(l.column, pool == 0 ? j->a.win : j->a.rows, k->s->place[turn][row]);
    }
}

/* Decodes what was loaded; what is no key is 0. */
static __device__ __forceinline__ void store_keys(const job *j, const task *k, int turn,
                                                  const key_loader &l, const hd_row_bits v[BATCH])
{
    if (l.at >= j->width) return;
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        int const row = 2 * i + l.half;
        float4    x = {0, 0, 0, 0};
        if (k->s->pool[turn][row] >= 0 && l.at < j->a.d) x = hd_decode_column(l.column, v[i]);
        *(float4 *)(k->key + row * k->stride + l.at) = x;
    }
}

/* A warp's eighth of all dot products: lane = 8 * (head group) + (key group). */
static __device__ void multiply_part(const job *j, const task *k)
{
    int32_t const warp = (int32_t)threadIdx.x / 32, lane = (int32_t)threadIdx.x % 32;
    int32_t const head = lane / 8, key = lane % 8, depth = j->width / WARPS;
    const float  *q = k->q + head * k->stride + warp * depth;
    const float  *x = k->key + key * k->stride + warp * depth;
    float         dot[4][2] = {};
#pragma unroll 2
    for (int32_t c = 0; c < depth; c += 4) {
        float4 const low = *(const float4 *)(x + c);
        float4 const high = *(const float4 *)(x + 8 * k->stride + c);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float4 const v = *(const float4 *)(q + 4 * i * k->stride + c);
            dot[i][0] = hd_dot4(v, low, dot[i][0]);
            dot[i][1] = hd_dot4(v, high, dot[i][1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        k->s->part[warp][head + 4 * (i / 2)][key + 8 * (i % 2)] = dot[i / 2][i % 2];
}

static __device__ __forceinline__ float max_of_half_warp(float x)
{
    for (int o = KEYS / 2; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

static __device__ __forceinline__ float sum_of_half_warp(float x)
{
    for (int o = KEYS / 2; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

/* Turns logits into weights; half a warp has the keys of a head. */
static __device__ void weigh_keys(const job *j, const task *k, int turn)
{
    shared_part *const s = k->s;
    int32_t const      head = (int32_t)threadIdx.x / KEYS, key = (int32_t)threadIdx.x % KEYS;
    float              dot = 0;
    for (int w = 0; w < WARPS; w++) dot += s->part[w][head][key];
    float const z = s->pool[turn][key] >= 0 ? dot * j->a.scale : -INFINITY;
    float const before = s->state.largest[head], largest = fmaxf(before, max_of_half_warp(z));
    bool const  is_empty = largest == -INFINITY; /* no key so far, or NaN only */
    float const e = z == -INFINITY ? 0 : expf(z - (is_empty ? 0 : largest));
    float const sum = sum_of_half_warp(e);
    s->weight[key][head] = e;
    __syncwarp();
    if (key != 0) return;
    s->shrink[head] = is_empty ? 1 : expf(before - largest);
    s->state.largest[head] = largest;
    s->state.sum[head] = fmaf(s->state.sum[head], s->shrink[head], sum);
}

/* Columns 4 * (threadIdx.x % 128) + COLUMNS * n of HALF heads. */
template <int N> struct sums {
    float4 v[N][HALF];
};

static __device__ __forceinline__ float4 scaled(float4 v, float f)
{
    return {v.x * f, v.y * f, v.z * f, v.w * f};
}

static __device__ __forceinline__ float4 add_scaled(float4 sum, float4 v, float f)
{
    return {fmaf(v.x, f, sum.x), fmaf(v.y, f, sum.y), fmaf(v.z, f, sum.z), fmaf(v.w, f, sum.w)};
}

template <int N> static __device__ void add_tile(const job *j, const task *k, sums<N> *sum)
{
    int32_t const half = (int32_t)threadIdx.x / (THREADS / 2);
    int32_t const column = (int32_t)threadIdx.x % (THREADS / 2) * 4;
#pragma unroll
    for (int i = 0; i < N * HALF; i++)
        sum->v[i / HALF][i % HALF] =
            scaled(sum->v[i / HALF][i % HALF], k->s->shrink[half * HALF + i % HALF]);
#pragma unroll
    for (int n = 0; n < N; n++) {
        int32_t const c = column + n * COLUMNS;
        if (c >= j->width) continue;
        for (int32_t key = 0; key < KEYS; key++) {
            float4 const       v = *(const float4 *)(k->key + key * k->stride + c);
            const float *const weight = &k->s->weight[key][half * HALF];
#pragma unroll
            for (int i = 0; i < HALF; i++) sum->v[n][i] = add_scaled(sum->v[n][i], v, weight[i]);
        }
    }
}

/* All keys of the block, tile by tile. */
template <int N> static __device__ void attend(const job *j, const task *k, sums<N> *sum)
{
    int32_t const    own = k->first + (int32_t)threadIdx.x;
    key_loader const loader = make_loader(j, 0);
    hd_row_bits      v[BATCH];
    int              turn = 0;
    place_key(j, k, find_key(j, k, own), turn);
    key_ref next = find_key(j, k, own + KEYS);
    __syncthreads();
    load_keys(j, k, turn, loader, v);
    for (int32_t first = k->first; first < k->end; first += KEYS, turn ^= 1) {
        store_keys(j, k, turn, loader, v);
        for (int n = 1; n < N; n++) {
            key_loader const more = make_loader(j, n);
            load_keys(j, k, turn, more, v);
            store_keys(j, k, turn, more, v);
        }
        place_key(j, k, next, turn ^ 1);
        next = find_key(j, k, own + first - k->first + 2 * KEYS);
        __syncthreads();
        load_keys(j, k, turn ^ 1, loader, v);
        multiply_part(j, k);
        __syncthreads();
        weigh_keys(j, k, turn);
        __syncthreads();
        add_tile<N>(j, k, sum);
        __syncthreads();
    }
}

/* Puts a block's sums where its keys were, for the other blocks to read. */
template <int N> static __device__ void publish(const job *j, const task *k, const sums<N> *sum)
{
    int32_t const half = (int32_t)threadIdx.x / (THREADS / 2);
    int32_t const column = (int32_t)threadIdx.x % (THREADS / 2) * 4;
#pragma unroll
    for (int i = 0; i < N * HALF; i++) {
        int32_t const c = column + i / HALF * COLUMNS;
        float *const  row = k->key + (half * HALF + i % HALF) * k->stride;
        if (c < j->width) *(float4 *)(row + c) = sum->v[i / HALF][i % HALF];
    }
}

/* Column c of a head, of the sums of all blocks. */
static __device__ __forceinline__ float join_column(const task *k, const float factor[BLOCKS],
                                                    int32_t head, int32_t c)
{
    cooperative_groups::cluster_group const cluster = cooperative_groups::this_cluster();
    float                                   sum = 0;
    for (int b = 0; b < BLOCKS; b++)
        sum = fmaf(cluster.map_shared_rank(k->key, b)[head * k->stride + c], factor[b], sum);
    return sum;
}

/* Joins the sums of all blocks for one head and writes its output, turned back. */
static __device__ void join_head(const job *j, const task *k, int32_t head)
{
    cooperative_groups::cluster_group const cluster = cooperative_groups::this_cluster();
    const hd_attn_sparse_args *const        a = &j->a;
    float const                             sink = a->sink[k->h0 + head];
    float                                   factor[BLOCKS], largest = sink;
    for (int b = 0; b < BLOCKS; b++) {
        factor[b] = cluster.map_shared_rank(k->s, b)->state.largest[head];
        largest = fmaxf(largest, factor[b]);
    }
    float total = expf(sink - largest);
    for (int b = 0; b < BLOCKS; b++) {
        factor[b] = expf(factor[b] - largest);
        total = fmaf(cluster.map_shared_rank(k->s, b)->state.sum[head], factor[b], total);
    }
    float *const y = a->y + (k->t * a->h + k->h0 + head) * a->d;
    for (int32_t c = (int32_t)threadIdx.x; c < a->d; c += THREADS) {
        int32_t const place = c - (a->d - a->dr); /* in the tail */
        float const   v = join_column(k, factor, head, c) / total;
        if (place < 0) {
            y[c] = v;
            continue;
        }
        bool const    is_odd = place & 1;
        float const   other = join_column(k, factor, head, is_odd ? c - 1 : c + 1) / total;
        hd_turn const back = hd_turn_back(hd_turn_of(k->p, a->freq[place / 2]));
        y[c] = is_odd ? hd_turned(other, v, back).y : hd_turned(v, other, back).x;
    }
}

template <int N>
static __global__ void __cluster_dims__(BLOCKS) __launch_bounds__(THREADS, N == 1 ? 2 : 1)
    attend_tokens(job const j)
{
    extern __shared__ __align__(16) char    memory[];
    cooperative_groups::cluster_group const cluster = cooperative_groups::this_cluster();
    hd_take_turn();
    task const k = find_task(&j, memory);
    sums<N>    sum = {};
    if (threadIdx.x < HEADS) {
        k.s->state.largest[threadIdx.x] = -INFINITY;
        k.s->state.sum[threadIdx.x] = 0;
    }
    load_queries(&j, &k);
    attend<N>(&j, &k, &sum);
    publish<N>(&j, &k, &sum);
    cluster.sync();
    for (int32_t head = (int32_t)blockIdx.x % BLOCKS; head < HEADS; head += BLOCKS)
        if (k.h0 + head < j.a.h) join_head(&j, &k, head);
    cluster.sync();
}

bool hd_attn_sparse_cuda_supports(const void *args)
{
    const hd_attn_sparse_args *const a = (const hd_attn_sparse_args *)args;
    if (!hd_row_is_valid(&a->win_layout) || a->win_layout.d != a->d || a->d > HD_ROW_MAX)
        return false;
    return a->group <= 0 || (hd_row_is_valid(&a->row_layout) && a->row_layout.d == a->d);
}

template <int N> static hd_status launch(const job *j, unsigned grid, cudaStream_t stream)
{
    size_t const rows = (size_t)(HEADS + KEYS) * (size_t)row_stride(j->width) * sizeof(float);
    size_t const bytes = sizeof(shared_part) + rows;
    if (!hd_allow_shared((const void *)attend_tokens<N>, bytes)) return HD_ERR_DEVICE;
    return hd_launch(attend_tokens<N>, grid, THREADS, bytes, stream, *j);
}

hd_status hd_attn_sparse_cuda(const void *args, hd_stream *stream)
{
    const hd_attn_sparse_args *const a = (const hd_attn_sparse_args *)args;
    job                              j = {};
    j.a = *a;
    j.win = hd_row_map_of(&a->win_layout, a->win_cap);
    if (a->group > 0) j.rows = hd_row_map_of(&a->row_layout, a->row_cap);
    j.width = (a->d + 31) / 32 * 32;
    if (a->t == 0 || a->h == 0) return HD_OK;
    unsigned const grid = hd_blocks(a->h, HEADS) * (unsigned)a->t * BLOCKS;
    return j.width <= COLUMNS ? launch<1>(&j, grid, hd_cuda_stream(stream))
                              : launch<2>(&j, grid, hd_cuda_stream(stream));
}
