#include <cooperative_groups.h>

#include "ops/cuda/attn_keys.cuh"
#include "ops/cuda/attn_tile_sm90.cuh"
#include "ops/cuda/turn.cuh"
#include "ops/cuda/vectors.cuh"

/* Rows of 512, on the tensor cores: mma.sync with heads as rows, for one key serves all heads.
 * Grid: a cluster of BLOCKS blocks for each token and 16 or 32 heads.  Each block takes a run of
 *   the keys, a whole number of tiles; at the end the blocks join their sums, in block order.  Runs
 *   follow from the token's number of keys alone, and a head's sums from its own row of mma, so
 *   neither the batch nor the heads of a block change a bit.
 * Operands: f16 planes (key_planes.cuh), two of queries, of weights and of f32 keys, one of other
 *   keys, which fit it.  The product of two low planes is left out.
 * Tile: 32 keys, 16 of f32.  It goes through four steps:
 *   planes  each warp its keys, in the place where they were copied to
 *   logits  each warp 16 heads and a quarter of the width; a thread adds four quarters
 *   weights eight threads a head: largest logit so far, exponentials; a key's unit goes into its
 *           weight, relative to the largest unit so far
 *   sums    each warp all heads, an eighth of the width, in registers
 * Loads: bulk copies.  With 16 heads one to three tiles come to other buffers meanwhile; with 32
 *   another block of the multiprocessor computes while one waits, and keys come to the second cache
 *   beforehand.
 * Error, as shares of the sum of the terms' magnitudes: planes give each product 3 * 2^-23; the
 *   tensor cores cut off what they add, at most 2^-23 of the sum in each of the 24 steps of a
 *   quarter, whose sums are half of it on average: 2^-19 together, where the op allows a logit
 *   (512 / 8 + 16) * 2^-23 = 2^-16.7.  The sums over n keys take at most 3 n / 16 / BLOCKS steps a
 *   block, less than n * 2^-28 in all, where n * 2^-27 is allowed.
 * An infinite query or key gives NaN. */

#define BLOCKS 8

/* Tiles that are on their way before the loop; of several buffers one is worked on. */
template <int buffers> constexpr int tiles_ahead = buffers > 1 ? buffers - 1 : 1;

/* A token and the first of `heads` heads. */
typedef struct head_range {
    int64_t t;
    int32_t h0;
} head_range;

template <int heads>
static __device__ __forceinline__ head_range find_heads(const hd_attn_sparse_args *a)
{
    unsigned const groups = (unsigned)(a->h + heads - 1) / heads, at = blockIdx.x / BLOCKS;
    return {at / groups, (int32_t)(at % groups) * heads};
}

/* Brings the token's list nearer while its position is read. */
template <int heads> static __device__ __forceinline__ void fetch_ids(const hd_attn_sparse_args *a)
{
    int32_t const at = hd_thread() * 32;
    if (a->group > 0 && at < a->k) hd_fetch_line(a->ids + find_heads<heads>(a).t * a->k + at);
}

template <hd_row_format format, int heads>
static __device__ hd_attn_task find_task(const hd_attn_job *j)
{
    constexpr int                    keys = hd_attn_tile<format>::keys;
    const hd_attn_sparse_args *const a = &j->a;
    head_range const                 range = find_heads<heads>(a);
    int32_t const                    rank = (int32_t)blockIdx.x % BLOCKS;
    hd_attn_task                     k;
    k.t = range.t;
    k.h0 = range.h0;
    k.p = a->pos[k.t];
    k.seq = a->seq[k.t];
    k.n_win = min(k.p + 1, a->window);
    int32_t const n_rows = a->group <= 0 ? 0 : a->k > 0 ? a->k : (k.p + 1) / a->group;
    int32_t const n = k.n_win + n_rows;
    int32_t const run = ((n + BLOCKS - 1) / BLOCKS + keys - 1) / keys * keys;
    k.first = (int32_t)min((int64_t)n, (int64_t)rank * run);
    k.end = (int32_t)min((int64_t)n, (int64_t)k.first + run);
    k.used = (n + run - 1) / run;
    return k;
}

/* ---- queries ---- */

/* A lane's part of a warp's queries, 0 for heads that do not exist. */
template <int heads> struct query_bits {
    hd_key_bits<HD_ROW_F32> row[heads / HD_ATTN_WARPS];
};

template <int heads>
static __device__ __forceinline__ query_bits<heads> load_queries(const hd_attn_job *j)
{
    const hd_attn_sparse_args *const a = &j->a;
    bool const                       is_wide = hd_is_aligned(a->q);
    head_range const                 range = find_heads<heads>(a);
    int32_t const                    warp = hd_thread() / 32;
    query_bits<heads>                q = {};
#pragma unroll
    for (int i = 0; i < heads / HD_ATTN_WARPS; i++) {
        int32_t const h = range.h0 + warp * (heads / HD_ATTN_WARPS) + i;
        if (h >= a->h) continue;
        const float *const x = a->q + (range.t * a->h + h) * HD_KEY_WIDTH;
        q.row[i] = hd_load_row((const uint8_t *)x, HD_KEY_LINE, is_wide);
    }
    return q;
}

template <hd_row_format format, int heads>
static __device__ __forceinline__ void
store_queries(const hd_attn_job *j, hd_attn_shared<format, heads> *s, const query_bits<heads> &q)
{
    int32_t const thread = hd_thread(), warp = thread / 32;
#pragma unroll
    for (int i = 0; i < heads / HD_ATTN_WARPS; i++) {
        int32_t const head = warp * (heads / HD_ATTN_WARPS) + i;
        int32_t const unit =
            hd_store_key<HD_ROW_F32>(&j->win, q.row[i], s->u.q[0], heads * HD_KEY_LINE, head);
        if (thread % 32 == 0) s->q_unit[head] = unit;
    }
}

/* ---- keys ---- */

/* The list place of the key that this lane looks up for its warp, of `tiles` tiles from `first` on:
 * lane i has key i of the warp's keys of all of them; lanes behind have none. */
template <hd_row_format format>
static __device__ __forceinline__ int32_t own_place(const hd_attn_task *k, int32_t first, int tiles)
{
    constexpr int n = hd_attn_tile<format>::warp_keys;
    int32_t const thread = hd_thread(), warp = thread / 32, lane = thread % 32;
    int32_t const at = first + lane / n * hd_attn_tile<format>::keys + warp * n + lane % n;
    return lane < tiles * n ? at : k->end;
}

/* Starts copying the warp's keys of `tiles` tiles to buffers from `buffer` on, a lane its own;
 * which of them exist, a bit each. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ uint32_t copy_tiles(const hd_attn_job             *j,
                                                      hd_attn_shared<format, heads> *s, int buffer,
                                                      int tiles, hd_key_place own)
{
    using shape = hd_attn_tile<format>;
    constexpr int   n = shape::warp_keys;
    int32_t const   thread = hd_thread(), warp = thread / 32, lane = thread % 32;
    uint8_t *const  line = s->keys[buffer + lane / n] + (warp * n + lane % n) * HD_KEY_LINE;
    uint64_t *const barrier = &s->barrier[buffer + lane / n][warp];
    if (own.data)
        hd_copy_key<format>(&j->win, own, j->is_wide, line, shape::plane_bytes, barrier);
    else if (lane < tiles * n)
        hd_barrier_arrive(barrier);
    return __ballot_sync(0xffffffffu, own.data != NULL);
}

/* Makes planes of what was copied, in place, as many keys at once as registers hold; what is no key
 * is 0, and has the least unit. */
template <hd_row_format format, int heads, int buffers>
static __device__ __forceinline__ void split_tile(const hd_attn_job             *j,
                                                  hd_attn_shared<format, heads> *s, int buffer,
                                                  uint32_t is_key, uint32_t parity)
{
    using shape = hd_attn_tile<format>;
    constexpr int  batch = buffers > 1 ? shape::warp_keys : 1;
    int32_t const  thread = hd_thread(), line = thread / 32 * shape::warp_keys;
    uint8_t *const keys = s->keys[buffer];
    hd_copy_wait<tiles_ahead<buffers> - 1>();
    hd_barrier_wait(&s->barrier[buffer][thread / 32], parity);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < shape::warp_keys; i += batch) {
        hd_key_bits<format> bits[batch] = {};
#pragma unroll
        for (int b = 0; b < batch; b++) {
            if (is_key >> (i + b) & 1)
                bits[b] = hd_load_line<format>(&j->win, keys + (line + i + b) * HD_KEY_LINE,
                                               shape::plane_bytes);
        }
        __syncwarp(); /* all lanes have their parts */
#pragma unroll
        for (int b = 0; b < batch; b++) {
            int32_t const unit =
                hd_store_key<format>(&j->win, bits[b], keys, shape::plane_bytes, line + i + b);
            if (thread % 32 == 0)
                s->key_unit[line + i + b] = is_key >> (i + b) & 1 ? unit : INT32_MIN;
        }
    }
    hd_bulk_fence();
}

/* ---- all keys of a block ---- */

/* Puts a block's sums where its queries were, for the other blocks to read. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ void publish(hd_attn_shared<format, heads> *s,
                                               const hd_attn_state           &state,
                                               const hd_attn_sums<heads>     &sum)
{
    int32_t const warp = hd_thread() / 32, lane = hd_thread() % 32;
#pragma unroll
    for (int i = 0; i < heads; i++) {
        int32_t const head = i / 16 * 16 + i % 2 * 8 + lane / 4;
        int32_t const c = warp * 64 + i / 2 % 8 * 8 + lane % 4 * 2;
        *(float2 *)&s->u.sums[head][(c / 4 ^ head % 8) * 4 + c % 4] = {
            sum.c[i / 16][i / 2 % 8][i % 2 * 2], sum.c[i / 16][i / 2 % 8][i % 2 * 2 + 1]};
    }
    if (threadIdx.x % HD_ATTN_LANES == 0 && threadIdx.x / HD_ATTN_LANES < heads) {
        s->largest[threadIdx.x / HD_ATTN_LANES] = state.largest;
        s->sum[threadIdx.x / HD_ATTN_LANES] = state.sum;
    }
    if (threadIdx.x == 0) s->unit = state.unit;
}

/* The tiles in flight: which of the warp's keys of each exist, its buffer's bits. */
template <hd_row_format format> struct keys_there {
    static constexpr int n = hd_attn_tile<format>::warp_keys;
    uint32_t             bits;

    __device__ __forceinline__ void set(int buffer, uint32_t is_key)
    {
        bits = (bits & ~(((1u << n) - 1) << buffer * n)) | is_key << buffer * n;
    }
    __device__ __forceinline__ uint32_t of(int buffer) const { return bits >> buffer * n; }
};

/* Starts copying the first tiles. */
template <hd_row_format format, int heads, int buffers>
static __device__ __forceinline__ keys_there<format>
copy_first(const hd_attn_job *j, const hd_attn_task *k, hd_attn_shared<format, heads> *s)
{
    constexpr int  tiles = tiles_ahead<buffers>;
    int32_t const  at = own_place<format>(k, k->first, tiles), row = hd_attn_find_row(j, k, at);
    int32_t const  ahead = k->first + tiles * hd_attn_tile<format>::keys + hd_thread();
    int32_t const  ahead_row = hd_attn_find_row(j, k, ahead);
    uint32_t const is_key = copy_tiles<format>(j, s, 0, tiles, hd_attn_place_key(j, k, at, row));
    for (int i = 0; i < tiles; i++) hd_copy_commit(); /* a group for each tile */
    hd_attn_fetch_key<format>(j, k, ahead, ahead_row);
    return {is_key};
}

/* A tile to be copied: where to, and the list place and row of this lane's key. */
struct next_tile {
    int     buffer;
    bool    is_there; /* otherwise the tiles have ended */
    int32_t at, row;
};

/* Starts copying one more tile, where there is one; a group of copies all the same. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ void copy_next(const hd_attn_job *j, const hd_attn_task *k,
                                                 hd_attn_shared<format, heads> *s,
                                                 const next_tile &next, keys_there<format> &there)
{
    if (next.is_there)
        there.set(next.buffer, copy_tiles<format>(j, s, next.buffer, 1,
                                                  hd_attn_place_key(j, k, next.at, next.row)));
    hd_copy_commit();
}

template <hd_row_format format, int heads, int buffers>
static __device__ __forceinline__ void attend(const hd_attn_job *j, const hd_attn_task *k,
                                              hd_attn_shared<format, heads> *s,
                                              const query_bits<heads>       &q)
{
    constexpr int       n = hd_attn_tile<format>::keys, tiles = tiles_ahead<buffers>;
    hd_attn_sums<heads> sum = {};
    hd_attn_state       state = {-INFINITY, 0, HD_KEY_LEAST};
    keys_there<format>  there = copy_first<format, heads, buffers>(j, k, s);
    int                 buffer = 0;
    uint32_t            parity = 0;
    store_queries<format, heads>(j, s, q);
    for (int32_t first = k->first; first < k->end; first += n) {
        next_tile next = {(buffer + tiles) % buffers, first + tiles * n < k->end,
                          own_place<format>(k, first + tiles * n, 1), -1};
        if (next.is_there) next.row = hd_attn_find_row(j, k, next.at);
        split_tile<format, heads, buffers>(j, s, buffer, there.of(buffer), parity);
        __syncthreads();
        if (buffers > 1) copy_next<format>(j, k, s, next, there);
        hd_attn_multiply<format, heads>(s, s->keys[buffer]);
        __syncthreads();
        hd_attn_weigh<format, heads>(j->a.scale, s, state);
        __syncthreads();
        hd_attn_add<format, heads>(s, s->keys[buffer], sum);
        if (buffers == 1) {
            __syncthreads();
            copy_next<format>(j, k, s, next, there);
        }
        if ((first - k->first) % HD_ATTN_THREADS == HD_ATTN_THREADS - n) {
            int32_t const ahead = first + (tiles + 1) * n + hd_thread();
            hd_attn_fetch_key<format>(j, k, ahead, hd_attn_find_row(j, k, ahead));
        }
        buffer = buffer + 1 == buffers ? 0 : buffer + 1;
        parity ^= buffer == 0;
    }
    publish<format, heads>(s, state, sum);
}

/* ---- all blocks of a token ---- */

/* What a head's sums of each block count in the whole. */
typedef struct shares {
    float   factor[BLOCKS], total;
    int32_t unit; /* of the whole */
} shares;

template <hd_row_format format, int heads>
static __device__ __forceinline__ shares share_out(const hd_attn_job *j, const hd_attn_task *k,
                                                   hd_attn_shared<format, heads> *s, int32_t head)
{
    cooperative_groups::cluster_group const cluster = cooperative_groups::this_cluster();
    float const                             sink = j->a.sink[k->h0 + head];
    float                                   largest = sink, sum[BLOCKS];
    int32_t                                 unit[BLOCKS];
    shares                                  out = {.unit = HD_KEY_LEAST};
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        const hd_attn_shared<format, heads> *const other = cluster.map_shared_rank(s, b);
        bool const                                 has_keys = b < k->used;
        out.factor[b] = has_keys ? other->largest[head] : -INFINITY;
        sum[b] = has_keys ? other->sum[head] : 0;
        unit[b] = has_keys ? other->unit : HD_KEY_LEAST;
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        largest = fmaxf(largest, out.factor[b]);
        out.unit = max(out.unit, unit[b]);
    }
    out.total = expf(sink - largest);
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        float const f = expf(out.factor[b] - largest);
        out.total = fmaf(sum[b], f, out.total);
        out.factor[b] = f * hd_pow2(unit[b] - out.unit);
    }
    return out;
}

static __device__ __forceinline__ float finish(float sum, const shares &w)
{
    return sum / w.total * hd_pow2(-HD_KEY_TOP) * hd_pow2(w.unit);
}

/* How a block's threads share its part of the heads. */
template <int heads> struct join_shape {
    static constexpr int threads = HD_ATTN_THREADS / (heads / BLOCKS); /* of a head   */
    static constexpr int vectors = HD_KEY_WIDTH / 4 / threads;         /* of a thread */
};

/* Whether vector i of this thread is of the tail, which ends within a thread's last vectors. */
template <int heads>
static __device__ __forceinline__ bool is_turned(const hd_attn_sparse_args *a, int i)
{
    using shape = join_shape<heads>;
    return (hd_thread() % shape::threads + i * shape::threads) * 4 >= HD_KEY_WIDTH - a->dr;
}

/* The turns, backwards, of the two pairs of a thread's last vector; the tail has no other. */
typedef struct turns {
    hd_turn low, high;
} turns;

/* Their frequencies, which are weights: nothing precedes their loads. */
template <int heads>
static __device__ __forceinline__ float2 load_frequencies(const hd_attn_sparse_args *a)
{
    using shape = join_shape<heads>;
    constexpr int last = shape::vectors - 1;
    if (!is_turned<heads>(a, last)) return {};
    int32_t const c = (hd_thread() % shape::threads + last * shape::threads) * 4;
    const float  *freq = a->freq + (c - (HD_KEY_WIDTH - a->dr)) / 2;
    return {freq[0], freq[1]};
}

/* Joins the sums of all blocks for this block's share of the heads and writes their output. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ void join(const hd_attn_job *j, const hd_attn_task *k,
                                            const turns &back, hd_attn_shared<format, heads> *s)
{
    cooperative_groups::cluster_group const cluster = cooperative_groups::this_cluster();
    const hd_attn_sparse_args *const        a = &j->a;
    constexpr int threads = join_shape<heads>::threads, vectors = join_shape<heads>::vectors;
    int32_t const rank = (int32_t)blockIdx.x % BLOCKS, lane = hd_thread() % threads;
    int32_t const head = rank * (heads / BLOCKS) + hd_thread() / threads;
    float4        part[vectors][BLOCKS];
    if (k->h0 + head >= a->h) return;
#pragma unroll
    for (int i = 0; i < vectors * BLOCKS; i++) {
        int32_t const c = (lane + i / BLOCKS * threads) ^ head % 8;
        if (i % BLOCKS < k->used)
            part[i / BLOCKS][i % BLOCKS] =
                *(const float4 *)&cluster.map_shared_rank(s, i % BLOCKS)->u.sums[head][c * 4];
    }
    shares const w = share_out<format, heads>(j, k, s, head);
#pragma unroll
    for (int i = 0; i < vectors; i++) {
        float4 sum = {};
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            if (b >= k->used) continue;
            sum.x = fmaf(part[i][b].x, w.factor[b], sum.x);
            sum.y = fmaf(part[i][b].y, w.factor[b], sum.y);
            sum.z = fmaf(part[i][b].z, w.factor[b], sum.z);
            sum.w = fmaf(part[i][b].w, w.factor[b], sum.w);
        }
        float *const y = a->y + (k->t * a->h + k->h0 + head) * HD_KEY_WIDTH;
        sum = {finish(sum.x, w), finish(sum.y, w), finish(sum.z, w), finish(sum.w, w)};
        if (is_turned<heads>(a, i)) {
            float2 const low = hd_turned(sum.x, sum.y, back.low);
            float2 const high = hd_turned(sum.z, sum.w, back.high);
            sum = {low.x, low.y, high.x, high.y};
        }
        hd_store4(y + (lane + i * threads) * 4, sum, 4, hd_is_aligned(a->y));
    }
}

template <hd_row_format format, int heads, int buffers>
static __global__ void __cluster_dims__(BLOCKS)
    __launch_bounds__(HD_ATTN_THREADS, buffers > 2 ? 1 : 2)
        attend_tokens(const __grid_constant__ hd_attn_job j)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    auto *const                               s = (hd_attn_shared<format, heads> *)memory;
    hd_release_next();
    if (threadIdx.x < buffers * HD_ATTN_WARPS) {
        hd_barrier_init(&s->barrier[0][threadIdx.x], hd_attn_tile<format>::warp_keys);
        hd_barrier_publish();
    }
    float2 const freq = load_frequencies<heads>(&j.a);
    hd_await_previous();
    query_bits<heads> const q = load_queries<heads>(&j);
    fetch_ids<heads>(&j.a);
    if (threadIdx.x == 0) s->k = find_task<format, heads>(&j);
    __syncthreads();
    if (s->k.first < s->k.end) attend<format, heads, buffers>(&j, &s->k, s, q);
    hd_cluster_arrive();
    turns const back = {hd_turn_back(hd_turn_of(s->k.p, freq.x)),
                        hd_turn_back(hd_turn_of(s->k.p, freq.y))}; /* while others finish */
    hd_cluster_wait();
    join<format, heads>(&j, &s->k, back, s);
    hd_cluster_arrive_read(); /* nobody still reads this block's sums */
    hd_cluster_wait();
}

/* ---- on the host ---- */

bool hd_attn_sparse_sm90_supports(const void *args)
{
    const hd_attn_sparse_args *const a = (const hd_attn_sparse_args *)args;
    if (a->d != HD_KEY_WIDTH || !hd_attn_takes(&a->win_layout)) return false;
    if (a->dr % 4 || a->dr > HD_KEY_WIDTH / 2) return false;
    return a->group <= 0 || hd_attn_takes(&a->row_layout);
}

template <hd_row_format format, int heads, int buffers>
static hd_status launch_with(const hd_attn_job *j, cudaStream_t stream)
{
    constexpr size_t bytes = sizeof(hd_attn_shared<format, heads>) + buffers * HD_ATTN_KEY_BYTES;
    static_assert(buffers > 2 || 2 * (bytes + 1024) <= 228 * 1024, "two fit a multiprocessor");
    unsigned const    grid = hd_blocks(j->a.h, heads) * (unsigned)j->a.t * BLOCKS;
    const void *const kernel = (const void *)attend_tokens<format, heads, buffers>;
    if (!hd_allow_shared(kernel, bytes)) return HD_ERR_DEVICE;
    return hd_launch(attend_tokens<format, heads, buffers>, grid, HD_ATTN_THREADS, bytes, stream,
                     *j);
}

/* Few heads a block where the GPU has room for that, and more tiles ahead where a multiprocessor
 * has one block.  A head's sums are the same either way. */
template <hd_row_format format> static hd_status launch(const hd_attn_job *j, cudaStream_t stream)
{
    int64_t const blocks = (int64_t)hd_blocks(j->a.h, 16) * j->a.t * BLOCKS;
    if (blocks > 2 * hd_sm_count()) return launch_with<format, 32, 1>(j, stream);
    if (blocks > hd_sm_count()) return launch_with<format, 16, 2>(j, stream);
    return launch_with<format, 16, HD_ATTN_BUFFERS>(j, stream);
}

hd_status hd_attn_sparse_sm90(const void *args, hd_stream *stream)
{
    const hd_attn_sparse_args *const a = (const hd_attn_sparse_args *)args;
    hd_attn_job const                j = hd_attn_job_of(a);
    if (a->t == 0 || a->h == 0) return HD_OK;
    switch (a->win_layout.format) {
    case HD_ROW_F32: return launch<HD_ROW_F32>(&j, hd_cuda_stream(stream));
    case HD_ROW_BF16: return launch<HD_ROW_BF16>(&j, hd_cuda_stream(stream));
    case HD_ROW_FP8: return launch<HD_ROW_FP8>(&j, hd_cuda_stream(stream));
    default: return launch<HD_ROW_NVFP4>(&j, hd_cuda_stream(stream));
    }
}
