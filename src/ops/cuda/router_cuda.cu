#include "ops/cuda/launch.cuh"
#include "ops/router.h"

/* Bound by latency: a few hundred scores, of which some are picked.
 * Grid: a block for each token, a thread for each expert.  Nothing is picked in turns: each
 * expert counts those of its warp that come before it, the s first of each warp count those
 * among themselves, and who counts less than s is picked and knows its place. */

#define PER_WARP_MAX 32
#define CANDIDATES   HD_ROUTER_MAX_EXPERTS
static_assert(HD_ROUTER_MAX_EXPERTS <= 1024, "a thread for each expert");

struct router_shared {
    float              score[HD_ROUTER_MAX_EXPERTS];
    uint32_t           key[HD_ROUTER_MAX_EXPERTS];
    unsigned long long best[CANDIDATES]; /* of each warp: key, then the complement of the id */
    int32_t            id[HD_ROUTER_MAX_SLOTS];
    float              picked[HD_ROUTER_MAX_SLOTS]; /* scores of id */
    float              scratch[32];
};

/* The score of this thread's expert; softmax asks all of the block. */
static __device__ float find_score(const hd_router_args &a, float x, bool is_in, float *scratch)
{
    if (a.scoring == HD_ROUTER_SIGMOID) return 1 / (1 + expf(-x));
    if (a.scoring == HD_ROUTER_SQRTSOFTPLUS) return sqrtf(log1pf(expf(-fabsf(x))) + fmaxf(x, 0));
    float const largest = hd_block_max(is_in ? x : -INFINITY, scratch);
    float const e = is_in ? expf(x - largest) : 0;
    return e / hd_block_sum(e, scratch);
}

/* Bits that order as values do. */
static __device__ uint32_t value_key(float value)
{
    uint32_t const bits = __float_as_uint(value), sign = 0x80000000u;
    return bits & sign ? ~bits : bits | sign;
}

/* Experts of this thread's warp that come before its own: by falling key, then by rising id. */
static __device__ int count_in_warp(const uint32_t *key, uint32_t own)
{
    const uint4 *const four = (const uint4 *)(key + threadIdx.x / 32 * 32);
    int const          lane = (int)threadIdx.x % 32;
    int                n = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint4 const    v = four[i];
        uint32_t const keys[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++) n += keys[j] > own || (keys[j] == own && 4 * i + j < lane);
    }
    return n;
}

/* Of n candidates those that come before `own`. */
static __device__ int count_in_block(const unsigned long long *best, int n, unsigned long long own)
{
    int before = 0;
#pragma unroll 8
    for (int i = 0; i < n; i++) before += best[i] > own;
    return before;
}

/* The s largest of score + bias, of which this thread has one, by the whole block. */
static __device__ void pick_experts(const hd_router_args &a, router_shared &s, float value)
{
    int const      e = (int)threadIdx.x, warp = e / 32, each = min(a.s, PER_WARP_MAX);
    int const      n = (int)blockDim.x / 32 * each;
    uint32_t const key = e < a.e ? value_key(value) : 0;
    s.key[e] = key;
    __syncwarp();
    int const before = count_in_warp(s.key, key);
    if (before < each) s.best[warp * each + before] = (unsigned long long)key << 32 | ~(uint32_t)e;
    __syncthreads();
    for (int i = e; i < n; i += (int)blockDim.x) {
        unsigned long long const own = s.best[i];
        int const                place = count_in_block(s.best, n, own);
        if (place >= a.s) continue;
        s.id[place] = (int32_t) ~(uint32_t)own;
        s.picked[place] = s.score[s.id[place]];
    }
}

static __device__ void look_up_experts(const hd_router_args &a, router_shared &s)
{
    int const i = (int)threadIdx.x;
    __syncthreads();
    for (int at = i; at < a.s; at += (int)blockDim.x) {
        s.id[at] = a.table[(int64_t)a.token[blockIdx.x] * a.s + at];
        s.picked[at] = s.score[s.id[at]];
    }
}

/* Scores are not negative, so their bits order as they do; NaN has a place too. */
static __device__ int32_t order_key(float score) { return __float_as_int(fabsf(score)); }

/* Puts slot `own` in its place by falling score, ties by rising id, equal ids (of a table) as they
 * come. */
static __device__ void write_slot(const hd_router_args &a, const router_shared &s, int own)
{
    int32_t const id = s.id[own], key = order_key(s.picked[own]);
    float         sum = 0;
    int           place = 0;
    for (int i = 0; i < a.s; i++) {
        int32_t const other = order_key(s.picked[i]);
        bool const    is_before_tie = s.id[i] != id ? s.id[i] < id : i < own;
        place += other > key || (other == key && is_before_tie);
        sum += s.picked[i];
    }
    if (a.scoring == HD_ROUTER_SOFTMAX) sum = 1;
    int64_t const at = (int64_t)blockIdx.x * a.s + place;
    a.ids[at] = id;
    a.w[at] = s.picked[own] / sum * a.scale;
    if (!a.has_pairs) return;
    a.pairs[2 * at] = id;
    a.pairs[2 * at + 1] = id + a.e;
}

static __global__ void route_tokens(hd_router_args const a)
{
    __shared__ __align__(16) router_shared s;
    int const                              e = (int)threadIdx.x;
    bool const                             is_in = e < a.e;
    hd_release_next();
    float const bias = is_in && !a.is_hash ? a.bias[e] : 0;
    hd_await_previous();
    float const x = is_in ? a.logits[(int64_t)blockIdx.x * a.e + e] : 0;
    float const score = find_score(a, x, is_in, s.scratch);
    s.score[e] = score;
    if (a.is_hash)
        look_up_experts(a, s);
    else
        pick_experts(a, s, score + bias);
    __syncthreads();
    for (int i = e; i < a.s; i += (int)blockDim.x) write_slot(a, s, i);
}

bool hd_router_cuda_supports(const void *args)
{
    const hd_router_args *const a = (const hd_router_args *)args;
    return a->e <= HD_ROUTER_MAX_EXPERTS && a->s <= HD_ROUTER_MAX_SLOTS;
}

hd_status hd_router_cuda(const void *args, hd_stream *stream)
{
    const hd_router_args *const a = (const hd_router_args *)args;
    if (a->t == 0) return HD_OK;
    return hd_launch(route_tokens, (unsigned)a->t, hd_threads(a->e, HD_ROUTER_MAX_EXPERTS), 0,
                     hd_cuda_stream(stream), *a);
}
