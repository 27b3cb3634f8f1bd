#include <cooperative_groups.h>

#include "ops/cuda/launch.cuh"
#include "ops/sample.h"

/* Bound by latency: a row is read by a cluster of blocks, of which each keeps its part in L1.
 * Grid: (blocks of a cluster, rows).  Ids go to blocks in runs, within a block to warps in runs.
 *   1. The best logit and the first one that is no finite number, for all blocks.
 *   2. Sums of shares and of probabilities, of each warp; those of blocks go to all.
 *   3. From the highest id down: the block in which the draw falls, then there the warp, then in
 *      its run the id.  Sums are formed in one order, whatever else is drawn. */

#define THREADS 1024
#define WARPS   (THREADS / 32)
#define CLUSTER 8
#define NONE    0x7fffffff

namespace cg = cooperative_groups;

/* What blocks tell each other. */
typedef struct shared_sums {
    unsigned long long best[CLUSTER]; /* key of a logit, ~id */
    int32_t            bad[CLUSTER];
    double             probability[CLUSTER], share[CLUSTER];
    unsigned long long warp_best[WARPS];
    int32_t            warp_bad[WARPS];
    double             warp_probability[WARPS], warp_share[WARPS];
} shared_sums;

/* A run of ids. */
typedef struct id_run {
    int32_t begin, end;
} id_run;

/* Part i of n ids in parts of `size`. */
static __device__ __forceinline__ id_run run_of(int32_t i, int32_t size, id_run whole)
{
    int64_t const begin = whole.begin + (int64_t)i * size, end = begin + size;
    return {(int32_t)min(begin, (int64_t)whole.end), (int32_t)min(end, (int64_t)whole.end)};
}

/* Orders as logits do, -0 as 0; of equals the lowest id is the largest. */
static __device__ __forceinline__ unsigned long long rank_of(float logit, int32_t id)
{
    uint32_t const u = __float_as_uint(logit + 0.0f);
    uint32_t const key = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (unsigned long long)key << 32 | ~(uint32_t)id;
}

static __device__ __forceinline__ unsigned long long warp_max(unsigned long long x)
{
    for (int o = 16; o > 0; o >>= 1) x = max(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

static __device__ __forceinline__ double warp_sum(double x)
{
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

/* ---- the best ---- */

static __device__ void find_best(const float *logits, id_run own, shared_sums *s)
{
    int const          lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    cg::cluster_group  cluster = cg::this_cluster();
    unsigned long long best = 0;
    int32_t            bad = NONE;
#pragma unroll 4
    for (int32_t i = own.begin + lane; i < own.end; i += 32) {
        float const x = logits[i];
        if (!isfinite(x)) bad = min(bad, i);
        best = max(best, rank_of(x, i));
    }
    best = warp_max(best);
    bad = __reduce_min_sync(0xffffffffu, bad);
    if (lane == 0) {
        s->warp_best[warp] = best;
        s->warp_bad[warp] = bad;
    }
    __syncthreads();
    if (warp == 0) {
        best = warp_max(s->warp_best[lane]);
        bad = __reduce_min_sync(0xffffffffu, s->warp_bad[lane]);
        if (lane < CLUSTER) {
            shared_sums *const there = cluster.map_shared_rank(s, lane);
            there->best[cluster.block_rank()] = best;
            there->bad[cluster.block_rank()] = bad;
        }
    }
    cluster.sync();
}

/* ---- sums ---- */

static __device__ __forceinline__ double share_of(float logit, float largest,
                                                  const hd_sample_ask &ask)
{
    double const w = exp(((double)logit - largest) / ask.temperature);
    return w < ask.min_p ? 0.0 : w;
}

/* At temperature 0 shares are not asked for. */
static __device__ void sum_up(const float *logits, id_run own, float largest,
                              const hd_sample_ask &ask, shared_sums *s)
{
    int const         lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    cg::cluster_group cluster = cg::this_cluster();
    double            probability = 0, share = 0;
#pragma unroll 1
    for (int32_t i = own.begin + lane; i < own.end; i += 32) {
        float const x = logits[i];
        probability += exp((double)x - largest);
        if (ask.temperature > 0) share += share_of(x, largest, ask);
    }
    probability = warp_sum(probability);
    share = warp_sum(share);
    if (lane == 0) {
        s->warp_probability[warp] = probability;
        s->warp_share[warp] = share;
    }
    __syncthreads();
    if (warp == 0) {
        probability = warp_sum(s->warp_probability[lane]);
        share = warp_sum(s->warp_share[lane]);
        if (lane < CLUSTER) {
            shared_sums *const there = cluster.map_shared_rank(s, lane);
            there->probability[cluster.block_rank()] = probability;
            there->share[cluster.block_rank()] = share;
        }
    }
    cluster.sync();
}

/* ---- the draw ---- */

/* The part, from the last one down, in which what is left of the draw falls; where rounding left a
 * crumb, the first that has a share. */
static __device__ int32_t find_part(const double *shares, int32_t n, double *left)
{
    int32_t last = -1;
    for (int32_t i = n - 1; i >= 0; i--) {
        if (!(shares[i] > 0)) continue;
        if (*left < shares[i]) return i;
        *left -= shares[i];
        last = i;
    }
    *left = __longlong_as_double(0x7ff0000000000000ll);
    return last;
}

/* The same in a warp's run; called by the whole warp. */
static __device__ int32_t find_id(const float *logits, id_run own, float largest,
                                  const hd_sample_ask &ask, double left)
{
    int const lane = (int)threadIdx.x % 32;
    int32_t   last = own.begin;
    /* Lane 0 has the highest id of each group. */
    for (int32_t high = own.end - 1; high >= own.begin; high -= 32) {
        int32_t const id = high - lane;
        double const  share = id >= own.begin ? share_of(logits[id], largest, ask) : 0.0;
        double        sum = share;
        for (int o = 1; o < 32; o *= 2) {
            double const before = __shfl_up_sync(0xffffffffu, sum, o);
            if (lane >= o) sum += before;
        }
        unsigned const has = __ballot_sync(0xffffffffu, share > 0);
        unsigned const over = __ballot_sync(0xffffffffu, share > 0 && left < sum);
        if (over) return high - (__ffs((int)over) - 1);
        if (has) last = high - (31 - __clz((int)has));
        left -= __shfl_sync(0xffffffffu, sum, 31);
    }
    return last;
}

/* ---- a row ---- */

static __device__ void answer(const hd_sample_args &a, const float *logits, int32_t row, int32_t id,
                              float largest, const shared_sums *s)
{
    double sum = 0;
    for (int i = 0; i < CLUSTER; i++) sum += s->probability[i];
    a.ids[row] = id;
    a.logprob[row] = (float)(logits[id] - (largest + log(sum)));
}

static __global__ void __launch_bounds__(THREADS, 1) sample_rows(hd_sample_args a)
{
    __shared__ shared_sums s;
    int const              lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int32_t const          row = (int32_t)blockIdx.y, block = (int32_t)blockIdx.x;
    const float *const     logits = a.logits + (int64_t)row * a.n;
    int32_t const          per_warp = (a.n + CLUSTER * THREADS - 1) / (CLUSTER * THREADS) * 32;
    id_run const           part = run_of(block, per_warp * WARPS, {0, a.n});
    id_run const           own = run_of(warp, per_warp, part);
    cg::this_cluster().sync(); /* all are there to be told */
    hd_take_turn();
    hd_sample_ask const ask = ((const hd_sample_ask *)a.asks)[row];
    find_best(logits, own, &s);
    unsigned long long best = 0;
    int32_t            bad = NONE;
    for (int i = 0; i < CLUSTER; i++) {
        best = max(best, s.best[i]);
        bad = min(bad, s.bad[i]);
    }
    bool const is_first = block == 0 && threadIdx.x == 0;
    if (bad != NONE) {
        if (is_first) {
            a.ids[row] = -1 - bad;
            a.logprob[row] = logits[bad];
        }
        return;
    }
    int32_t const best_id = (int32_t) ~(uint32_t)best;
    float const   largest = logits[best_id];
    sum_up(logits, own, largest, ask, &s);
    if (!(ask.temperature > 0)) {
        if (is_first) answer(a, logits, row, best_id, largest, &s);
        return;
    }
    double left = 0;
    for (int i = 0; i < CLUSTER; i++) left += s.share[i];
    left *= ask.uniform;
    if (find_part(s.share, CLUSTER, &left) != block) return;
    if (find_part(s.warp_share, WARPS, &left) != warp) return;
    int32_t const id = find_id(logits, own, largest, ask, left);
    if (lane == 0) answer(a, logits, row, id, largest, &s);
}

bool hd_sample_cuda_supports(const void *args)
{
    const hd_sample_args *const a = (const hd_sample_args *)args;
    return a->t <= 65535 && a->n < (1 << 30);
}

hd_status hd_sample_cuda(const void *args, hd_stream *stream)
{
    const hd_sample_args *const a = (const hd_sample_args *)args;
    if (a->t == 0) return HD_OK;
    return hd_launch_clusters(sample_rows, dim3(CLUSTER, (unsigned)a->t), CLUSTER, dim3(THREADS), 0,
                              hd_cuda_stream(stream), *a);
}
