#include <cooperative_groups.h>

#include "ops/cuda/launch.cuh"
#include "ops/topk.h"

/* Bound by bytes: the scores are read once.
 * Grid: a cluster of blocks for each token, as many as hold its scores in registers.
 *   1. Of each of GROUPS groups of rows the largest key goes to all blocks.  The k-th largest of
 *      these, or what is a little lower, is a floor: at least k rows stand on it or above, seldom
 *      many more.
 *   2. Rows on the floor or above, the candidates, go to the first block's shared memory, in order.
 *   3. There the key of the k-th best is found; then each warp takes one run of them, counts what
 *      it will write, and, once the warps before it are known, writes it in order.
 * Keys are found by counting how many fall in each of BINS parts of a range, which becomes that
 * part, until it is one key or all that is in it is taken.
 * Where candidates are too many (scores that are equal, a large k), or rows, the first block does
 * the last step with all scores, which it then reads some times. */

#define THREADS    1024
#define WARPS      (THREADS / 32)
#define DIGIT      11 /* bits by which a pass narrows a range */
#define BINS       (1 << DIGIT)
#define SLACK      32 /* groups that may stand too low on a floor */
#define GROUPS     (2 * THREADS)
#define CANDIDATES 4096
#define MOST       8 /* blocks of a cluster that every GPU can run */
/* Blocks of few rows that share a multiprocessor, where it holds 2,048 threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define RESIDENT 1
#else
#define RESIDENT 2
#endif
static_assert(BINS == 2 * THREADS, "a thread sums two bins");

namespace cg = cooperative_groups;

/* Rows whose key is above the cut are taken, and the first `ties` of those that stand on it. */
typedef struct cut {
    uint32_t key;
    int32_t  ties;
} cut;

/* Rows above the cut and rows on it. */
typedef struct tally {
    int32_t above, equal;
} tally;

/* Keys from `low` on, 2^bits of them, or all where bits is 32; `ties` of those in it are to be
 * taken, and `in` stand there. */
typedef struct range {
    uint32_t low;
    int32_t  bits, ties, in;
} range;

typedef struct shared_rows {
    union {
        uint2 largest[GROUPS / 2]; /* keys of two groups that a thread takes part in */
        struct {
            uint32_t key[CANDIDATES];
            int32_t  row[CANDIDATES];
        } list;
    } u;
    int32_t bins[BINS], scratch[WARPS];
    int32_t found[MOST]; /* candidates of each block */
    uint2   ends[WARPS]; /* lowest and highest key */
    tally   counted[WARPS];
    range   narrowed;
} shared_rows;

/* ---- keys ---- */

/* Orders as scores do, -0 as 0, NaN lowest. */
static __device__ __forceinline__ uint32_t score_key(float score)
{
    if (score != score) return 0;
    uint32_t const u = __float_as_uint(score + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* A score with this key, which is no NaN's. */
static __device__ __forceinline__ float key_score(uint32_t key)
{
    return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

#define LOWEST_KEY 0x007fffffu /* of a number: minus infinity */

/* What keys are taken from: all scores, or a list in shared memory. */
typedef struct all_scores {
    static constexpr int                batch = 4; /* reads that are on their way at once */
    const float                        *score;
    __device__ __forceinline__ uint32_t key(int64_t i) const { return score_key(score[i]); }
    __device__ __forceinline__ int32_t  row(int32_t i) const { return i; }
} all_scores;

typedef struct key_list {
    static constexpr int                batch = 2;
    const uint32_t                     *keys;
    const int32_t                      *rows;
    __device__ __forceinline__ uint32_t key(int64_t i) const { return keys[i]; }
    __device__ __forceinline__ int32_t  row(int32_t i) const { return rows[i]; }
} key_list;

/* Keys first, first + step, ...; what lies at or behind `end` is not read. */
template <typename source>
static __device__ __forceinline__ void load_keys(source from, int32_t first, int32_t step,
                                                 int32_t end, uint32_t key[source::batch])
{
#pragma unroll
    for (int i = 0; i < source::batch; i++) {
        int64_t const at = first + (int64_t)i * step;
        key[i] = at < end ? from.key(at) : 0;
    }
}

/* ---- the cut ---- */

/* Sum of x over the threads above this one, for the whole block. */
static __device__ int32_t sum_above(int32_t x, int32_t scratch[WARPS])
{
    int const lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int32_t   sum = x;
    for (int o = 1; o < 32; o *= 2) {
        int32_t const other = __shfl_down_sync(0xffffffffu, sum, o);
        if (lane + o < 32) sum += other;
    }
    if (lane == 0) scratch[warp] = sum;
    __syncthreads();
    return sum - x + (int32_t)__reduce_add_sync(0xffffffffu, lane > warp ? scratch[lane] : 0);
}

/* The range from the lowest to the highest of n keys, at least one. */
template <typename source>
static __device__ range whole_range(source from, int32_t n, int32_t k, shared_rows *s)
{
    int const lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    uint32_t  low = 0xffffffffu, high = 0;
#pragma unroll 1
    for (int32_t first = (int32_t)threadIdx.x; first < n; first += source::batch * THREADS) {
        uint32_t key[source::batch];
        load_keys(from, first, THREADS, n, key);
#pragma unroll
        for (int i = 0; i < source::batch; i++) {
            if (first + (int64_t)i * THREADS < n) low = min(low, key[i]);
            high = max(high, key[i]);
        }
    }
    low = __reduce_min_sync(0xffffffffu, low);
    high = __reduce_max_sync(0xffffffffu, high);
    if (lane == 0) s->ends[warp] = {low, high};
    __syncthreads();
    low = __reduce_min_sync(0xffffffffu, s->ends[lane].x);
    high = __reduce_max_sync(0xffffffffu, s->ends[lane].y);
    return {low, 32 - __clz((int)(high - low)), k, n};
}

/* The last that whole_range() saw. */
static __device__ __forceinline__ uint32_t highest_key(const shared_rows *s)
{
    return __reduce_max_sync(0xffffffffu, s->ends[threadIdx.x % 32].y);
}

/* Counts the keys in each part of the range. */
template <typename source>
static __device__ void count_parts(source from, int32_t n, range r, int shift, int32_t *bins)
{
    for (int32_t i = (int32_t)threadIdx.x; i < BINS; i += THREADS) bins[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int32_t first = (int32_t)threadIdx.x; first < n; first += source::batch * THREADS) {
        uint32_t key[source::batch];
        load_keys(from, first, THREADS, n, key);
#pragma unroll
        for (int i = 0; i < source::batch; i++) {
            uint32_t const above = key[i] - r.low;
            bool const     is_in = key[i] >= r.low && (r.bits == 32 || above >> r.bits == 0);
            if (is_in && first + (int64_t)i * THREADS < n) atomicAdd(&bins[above >> shift], 1);
        }
    }
    __syncthreads();
}

/* Narrows the range to the part that holds the r.ties-th largest key of it. */
static __device__ range find_part(range r, int shift, shared_rows *s)
{
    int const     low = 2 * (int)threadIdx.x;
    int32_t const count[2] = {s->bins[low], s->bins[low + 1]};
    int32_t const above = sum_above(count[0] + count[1], s->scratch);
    for (int i = 0; i < 2; i++) {
        int32_t const better = i == 0 ? above + count[1] : above;
        if (better >= r.ties || better + count[i] < r.ties) continue;
        s->narrowed = {r.low + ((uint32_t)(low + i) << shift), shift, r.ties - better, count[i]};
    }
    __syncthreads();
    return s->narrowed;
}

/* Narrows a range of n keys until one is left, or all that is in it is to be taken, or all but
 * `slack`. */
template <typename source>
static __device__ __forceinline__ range narrow_range(source from, int32_t n, range r, int32_t slack,
                                                     shared_rows *s)
{
#pragma unroll 1
    while (r.bits > 0 && r.in - r.ties > slack) {
        int const shift = max(r.bits - DIGIT, 0);
        count_parts(from, n, r, shift, s->bins);
        r = find_part(r, shift, s);
    }
    return r;
}

/* ---- writing what is taken ---- */

/* Counts places [first, end), for a warp: every lane gets the whole. */
template <typename source>
static __device__ tally count_run(source from, int32_t first, int32_t end, uint32_t cut_key)
{
    int32_t const lane = (int32_t)threadIdx.x % 32;
    tally         sum = {0, 0};
#pragma unroll 1
    for (int32_t at = first; at < end; at += 32 * source::batch) {
        uint32_t key[source::batch];
        load_keys(from, at + lane, 32, end, key);
#pragma unroll
        for (int i = 0; i < source::batch; i++) {
            bool const is_in = at + 32 * i + lane < end;
            sum.above += is_in && key[i] > cut_key;
            sum.equal += is_in && key[i] == cut_key;
        }
    }
    sum.above = (int32_t)__reduce_add_sync(0xffffffffu, sum.above);
    sum.equal = (int32_t)__reduce_add_sync(0xffffffffu, sum.equal);
    return sum;
}

/* Writes what is taken of 32 rows, one a lane; moves *before behind them. */
static __device__ void write_rows(int32_t row, bool is_above, bool is_equal, cut c, tally *before,
                                  int32_t *ids)
{
    uint32_t const lower = (1u << threadIdx.x % 32) - 1;
    uint32_t const above = __ballot_sync(0xffffffffu, is_above);
    uint32_t const equal = __ballot_sync(0xffffffffu, is_equal);
    int32_t const  rank = before->equal + __popc(equal & lower);
    int32_t const  place = before->above + __popc(above & lower) + min(rank, c.ties);
    if (is_above || (is_equal && rank < c.ties)) ids[place] = row;
    before->above += __popc(above);
    before->equal += __popc(equal);
}

template <typename source>
static __device__ void write_run(source from, int32_t first, int32_t end, cut c, tally before,
                                 int32_t *ids)
{
    int32_t const lane = (int32_t)threadIdx.x % 32;
#pragma unroll 1
    for (int32_t at = first; at < end; at += 32 * source::batch) {
        uint32_t key[source::batch];
        load_keys(from, at + lane, 32, end, key);
#pragma unroll
        for (int i = 0; i < source::batch; i++) {
            int32_t const place = at + 32 * i + lane;
            bool const    is_in = place < end;
            int32_t const row = is_in ? from.row(place) : 0;
            write_rows(row, is_in && key[i] > c.key, is_in && key[i] == c.key, c, &before, ids);
        }
    }
}

/* The token of this cluster of blocks. */
static __device__ __forceinline__ int64_t token_of(void)
{
    return blockIdx.x / cg::this_cluster().num_blocks();
}

/* Lists the r.ties best of n by rising row; all keys are in the range r. */
template <typename source>
static __device__ __forceinline__ void list_best(source from, int32_t n, range r, shared_rows *s,
                                                 const hd_topk_args &a)
{
    int32_t const lane = (int32_t)threadIdx.x % 32, warp = (int32_t)threadIdx.x / 32;
    int32_t const run = (n + WARPS - 1) / WARPS;
    int32_t const first = min(n, warp * run), end = min(n, first + run);
    range const   last = narrow_range(from, n, r, 0, s);
    cut const     c = {last.low, last.bits > 0 ? n : last.ties};
    tally const   own = count_run(from, first, end, c.key);
    if (lane == 0) s->counted[warp] = own;
    __syncthreads();
    tally const of_lane = lane < warp ? s->counted[lane] : tally{0, 0};
    tally const before = {(int32_t)__reduce_add_sync(0xffffffffu, of_lane.above),
                          (int32_t)__reduce_add_sync(0xffffffffu, of_lane.equal)};
    write_run(from, first, end, c, before, a.ids + token_of() * a.k);
}

/* ---- candidates ---- */

/* A thread's first row: warps have runs of rows, lanes four of each 128 of them. */
template <int vectors> static __device__ __forceinline__ int32_t first_row(void)
{
    int32_t const warp = (int32_t)cg::this_cluster().block_rank() * WARPS + (int)threadIdx.x / 32;
    return warp * vectors * 128 + (int32_t)threadIdx.x % 32 * 4;
}

/* A thread's scores, minus infinity for rows that are not seen. */
template <int vectors>
static __device__ __forceinline__ void load_rows(const float *score, int32_t visible,
                                                 float4 v[vectors])
{
    float const   none = key_score(LOWEST_KEY);
    int32_t const first = first_row<vectors>(), left = visible - first;
    score += first;
    if (((uintptr_t)score & 15) == 0 && left >= vectors * 128) {
#pragma unroll
        for (int i = 0; i < vectors; i++) v[i] = ((const float4 *)score)[i * 32];
        return;
    }
#pragma unroll
    for (int i = 0; i < vectors; i++) {
        v[i].x = i * 128 + 0 < left ? score[i * 128 + 0] : none;
        v[i].y = i * 128 + 1 < left ? score[i * 128 + 1] : none;
        v[i].z = i * 128 + 2 < left ? score[i * 128 + 2] : none;
        v[i].w = i * 128 + 3 < left ? score[i * 128 + 3] : none;
    }
}

/* Sends the largest keys of this block's groups to all: a group has a half of the columns of as
 * many threads as there are blocks, each of which sends to one.  A group of NaN counts as minus
 * infinity. */
template <int vectors> static __device__ void send_largest(const float4 v[vectors], shared_rows *s)
{
    cg::cluster_group const cluster = cg::this_cluster();
    int const               n = (int)cluster.num_blocks(), rank = (int)cluster.block_rank();
    float2                  most = {key_score(LOWEST_KEY), key_score(LOWEST_KEY)};
#pragma unroll
    for (int i = 0; i < vectors; i++) {
        most.x = fmaxf(most.x, fmaxf(v[i].x, v[i].y));
        most.y = fmaxf(most.y, fmaxf(v[i].z, v[i].w));
    }
    for (int o = 1; o < n; o *= 2) {
        most.x = fmaxf(most.x, __shfl_xor_sync(0xffffffffu, most.x, o));
        most.y = fmaxf(most.y, __shfl_xor_sync(0xffffffffu, most.y, o));
    }
    int const place = (rank * THREADS + (int)threadIdx.x) / n;
    *cluster.map_shared_rank(&s->u.largest[place], (int)threadIdx.x % n) = {score_key(most.x),
                                                                            score_key(most.y)};
}

/* Which of a thread's rows stand on the floor or above: bit 4 i + j of vector i. */
template <int vectors>
static __device__ __forceinline__ uint32_t find_candidates(const float4 v[vectors], float floor)
{
    uint32_t mask = 0;
#pragma unroll
    for (int i = 0; i < vectors; i++)
        mask |= (v[i].x >= floor ? 1u << 4 * i : 0) | (v[i].y >= floor ? 2u << 4 * i : 0) |
                (v[i].z >= floor ? 4u << 4 * i : 0) | (v[i].w >= floor ? 8u << 4 * i : 0);
    asm("" : "+r"(mask)); /* or its bits were kept one by one, in too many registers */
    return mask;
}

/* Tells all blocks how many candidates this one has, and learns of theirs: returns the place of
 * this warp's first, and how many there are. */
static __device__ int32_t share_counts(uint32_t mask, shared_rows *s, int32_t *total)
{
    cg::cluster_group const cluster = cg::this_cluster();
    int32_t const           n = (int32_t)cluster.num_blocks(), rank = (int32_t)cluster.block_rank();
    int32_t const           lane = (int32_t)threadIdx.x % 32, warp = (int32_t)threadIdx.x / 32;
    int32_t const           own = (int32_t)__reduce_add_sync(0xffffffffu, __popc(mask));
    if (lane == 0) s->scratch[warp] = own;
    __syncthreads();
    int32_t const of_lane = s->scratch[lane];
    int32_t const sum = (int32_t)__reduce_add_sync(0xffffffffu, of_lane);
    int32_t       before = (int32_t)__reduce_add_sync(0xffffffffu, lane < warp ? of_lane : 0);
    if ((int32_t)threadIdx.x < n) *cluster.map_shared_rank(&s->found[rank], (int)threadIdx.x) = sum;
    cluster.sync();
    *total = 0;
#pragma unroll 1
    for (int32_t b = 0; b < n; b++) {
        if (b < rank) before += s->found[b];
        *total += s->found[b];
    }
    return before;
}

/* Puts a warp's candidates in the first block's list from `place` on. */
template <int vectors>
static __device__ void send_candidates(const float4 v[vectors], uint32_t mask, int32_t place,
                                       shared_rows *s)
{
    cg::cluster_group const cluster = cg::this_cluster();
    uint32_t *const         keys = cluster.map_shared_rank(s->u.list.key, 0);
    int32_t *const          rows = cluster.map_shared_rank(s->u.list.row, 0);
    uint32_t const          lower = (1u << threadIdx.x % 32) - 1;
#pragma unroll
    for (int i = 0; i < vectors; i++) {
        uint32_t const own = mask >> (4 * i) & 15;
        float const    score[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
        int32_t        at = place;
        if (!__any_sync(0xffffffffu, own != 0)) continue;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t const all = __ballot_sync(0xffffffffu, own >> j & 1);
            at += __popc(all & lower);
            place += __popc(all);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (!(own >> j & 1)) continue;
            keys[at] = score_key(score[j]);
            rows[at++] = first_row<vectors>() + i * 128 + j;
        }
    }
}

/* Leaves candidates among n rows in the first block's list and says how many there are and in which
 * range; more than the list holds where it did not. */
template <int vectors>
static __device__ range list_candidates(const float *score, int32_t n, int32_t k, shared_rows *s)
{
    float4  v[vectors];
    int32_t total;
    auto    started = cg::this_cluster().barrier_arrive();
    load_rows<vectors>(score, n, v);
    cg::this_cluster().barrier_wait(static_cast<decltype(started) &&>(started));
    send_largest<vectors>(v, s);
    cg::this_cluster().sync();
    key_list const largest = {(const uint32_t *)s->u.largest, NULL};
    range const    groups = whole_range(largest, GROUPS, k, s);
    uint32_t const high = highest_key(s);
    uint32_t const floor = narrow_range(largest, GROUPS, groups, SLACK, s).low;
    uint32_t const mask = find_candidates<vectors>(v, key_score(max(floor, LOWEST_KEY)));
    int32_t const  place = share_counts(mask, s, &total);
    if (floor <= LOWEST_KEY) total = n;
    if (total <= CANDIDATES) send_candidates<vectors>(v, mask, place, s);
    cg::this_cluster().sync();
    return {floor, 32 - __clz((int)(high - floor)), k, total};
}

/* All n rows. */
static __device__ range list_all(const float *score, int32_t n, int32_t k, shared_rows *s)
{
#pragma unroll 1
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += THREADS) {
        s->u.list.key[i] = score_key(score[i]);
        s->u.list.row[i] = i;
    }
    __syncthreads();
    return whole_range(key_list{s->u.list.key, NULL}, n, k, s);
}

/* ---- the kernel ---- */

template <int vectors>
static __global__ void __launch_bounds__(THREADS, vectors == 2 ? RESIDENT : 1)
    list_rows(hd_topk_args const a)
{
    __shared__ shared_rows s;
    int32_t const          blocks = (int32_t)cg::this_cluster().num_blocks();
    int32_t const          rank = (int32_t)cg::this_cluster().block_rank();
    int64_t const          t = token_of();
    int32_t const          visible = min((a.pos[t] + 1) / a.group, a.n);
    const float *const     score = a.score + t * a.n;
    range                  r = {0, 32, a.k, visible};
    if (visible <= a.k) {
        for (int32_t i = rank * THREADS + (int32_t)threadIdx.x; i < a.k; i += blocks * THREADS)
            a.ids[t * a.k + i] = i < visible ? i : -1;
        return;
    }
    if (visible <= CANDIDATES && rank == 0)
        r = list_all(score, visible, a.k, &s);
    else if (visible > CANDIDATES && visible <= blocks * THREADS * vectors * 4 && a.k <= GROUPS)
        r = list_candidates<vectors>(score, visible, a.k, &s);
    if (rank > 0) return;
    if (r.in <= CANDIDATES)
        list_best(key_list{s.u.list.key, s.u.list.row}, r.in, r, &s, a);
    else
        list_best(all_scores{score}, visible, range{0, 32, a.k, visible}, &s, a);
}

/* Launches clusters that hold n rows in vectors of four for a thread, or as many as they can. */
template <int vectors> static hd_status launch(const hd_topk_args *a, hd_stream *stream)
{
    unsigned blocks = 1;
    while (blocks < MOST && (int64_t)blocks * THREADS * vectors * 4 < a->n) blocks *= 2;
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t  config = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = blocks;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.gridDim = dim3(blocks * (unsigned)a->t);
    config.blockDim = dim3(THREADS);
    config.stream = hd_cuda_stream(stream);
    config.attrs = &attribute;
    config.numAttrs = blocks > 1;
    return cudaLaunchKernelEx(&config, list_rows<vectors>, *a) == cudaSuccess ? HD_OK
                                                                              : HD_ERR_DEVICE;
}

/* Row numbers are added up in 32 bits. */
bool hd_topk_cuda_supports(const void *args) { return ((const hd_topk_args *)args)->n <= 1 << 30; }

hd_status hd_topk_cuda(const void *args, hd_stream *stream)
{
    const hd_topk_args *const a = (const hd_topk_args *)args;
    if (a->t == 0 || a->k == 0) return HD_OK;
    if (a->n <= MOST * THREADS * 8) return launch<2>(a, stream);
    return launch<8>(a, stream);
}
