#include "ops/cuda/launch.cuh"
#include "ops/router.h"

/* Bound by latency: a few hundred scores and s rounds of finding the largest.
 * Grid: a block of THREADS for each token.  All threads compute scores, the first warp does the
 * rest: a lane knows the best of its own experts (lane, lane + 32, ...), in each round the lanes
 * compare and the winner looks for its next.  Scores are in double, because experts follow from
 * them and there are so few. */

#define THREADS 256
#define NO_ID   0x7fffffff
static_assert(HD_ROUTER_MAX_EXPERTS == 32 * 32, "a lane notes its taken experts in 32 bits");
static_assert(HD_ROUTER_MAX_SLOTS == 2 * 32, "a lane places two slots");

/* An expert, and score + bias as an integer that orders alike. */
typedef struct choice {
    uint64_t key;
    int32_t  id; /* NO_ID: none, with key 0 */
} choice;

static __device__ double score_expert(const hd_router_args *a, double x)
{
    if (a->scoring == HD_ROUTER_SOFTMAX) return x;
    if (a->scoring == HD_ROUTER_SIGMOID) return 1.0 / (1.0 + exp(-x));
    return sqrt(log1p(exp(-fabs(x))) + fmax(x, 0.0));
}

static __device__ double sum_warp(double x)
{
    for (int o = 16; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

/* Turns logits into shares, by the first warp. */
static __device__ void apply_softmax(double *score, int32_t n, int32_t lane)
{
    double largest = score[0], sum = 0;
    for (int32_t e = lane; e < n; e += 32) largest = fmax(largest, score[e]);
    for (int o = 16; o > 0; o >>= 1)
        largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, o));
    for (int32_t e = lane; e < n; e += 32) sum += score[e] = exp(score[e] - largest);
    sum = sum_warp(sum);
    for (int32_t e = lane; e < n; e += 32) score[e] /= sum;
    __syncwarp();
}

static __device__ uint64_t value_key(double value)
{
    uint64_t const bits = (uint64_t)__double_as_longlong(value), sign = 1ull << 63;
    return bits & sign ? ~bits : bits | sign;
}

/* The best of a lane's experts that are not taken, of equals the lowest. */
static __device__ choice best_of_lane(const double *value, int32_t n, uint32_t taken, int32_t lane)
{
    choice best = {0, NO_ID};
    for (int32_t e = lane; e < n; e += 32) {
        uint64_t const key = value_key(value[e]);
        if (!(taken >> (e / 32) & 1) && (best.id == NO_ID || key > best.key)) best = {key, e};
    }
    return best;
}

/* The best of all lanes, of equals the lowest id. */
static __device__ int32_t best_of_warp(choice c)
{
    uint32_t const high = (uint32_t)(c.key >> 32);
    uint32_t const top = hd_warp_max_bits(high);
    uint32_t const low = high == top ? (uint32_t)c.key : 0;
    uint32_t const top_low = hd_warp_max_bits(low);
    bool const     is_best = high == top && low == top_low;
    return (int32_t)__reduce_min_sync(0xffffffffu, is_best ? (uint32_t)c.id : NO_ID);
}

/* The s largest values, by the first warp. */
static __device__ void pick_experts(const hd_router_args *a, const double *value, int32_t *ids,
                                    int32_t lane)
{
    uint32_t taken = 0;
    choice   best = best_of_lane(value, a->e, taken, lane);
    for (int32_t s = 0; s < a->s; s++) {
        int32_t const id = best_of_warp(best);
        if (lane == 0) ids[s] = id;
        if (best.id != id) continue;
        taken |= 1u << (id / 32);
        best = best_of_lane(value, a->e, taken, lane);
    }
    __syncwarp();
}

static __device__ void look_up_experts(const hd_router_args *a, int64_t t, int32_t *ids,
                                       int32_t lane)
{
    const int32_t *const line = a->table + (int64_t)a->token[t] * a->s;
    for (int32_t s = lane; s < a->s; s += 32) ids[s] = line[s];
    __syncwarp();
}

/* Scores are not negative, so their bits order as they do; NaN has a place too. */
static __device__ long long order_key(double score) { return __double_as_longlong(fabs(score)); }

/* Place of slot s by falling score, ties by rising id, equal ids (of a table) as they come. */
static __device__ int32_t place_slot(const double *score, const int32_t *ids, int32_t n, int32_t s)
{
    long long const own = order_key(score[ids[s]]);
    int32_t         place = 0;
    for (int32_t i = 0; i < n; i++) {
        long long const key = order_key(score[ids[i]]);
        bool const      is_before_tie = ids[i] != ids[s] ? ids[i] < ids[s] : i < s;
        place += key > own || (key == own && is_before_tie);
    }
    return place;
}

static __device__ void write_weights(const hd_router_args *a, int64_t t, const double *score,
                                     const int32_t *ids, int32_t lane)
{
    double sum = 0;
    for (int32_t s = lane; s < a->s; s += 32) sum += score[ids[s]];
    sum = a->scoring == HD_ROUTER_SOFTMAX ? 1.0 : sum_warp(sum);
    for (int32_t s = lane; s < a->s; s += 32) {
        int64_t const at = t * a->s + place_slot(score, ids, a->s, s);
        a->ids[at] = ids[s];
        a->w[at] = (float)(score[ids[s]] / sum * (double)a->scale);
    }
}

static __global__ void route_tokens(hd_router_args const a)
{
    __shared__ double  score[HD_ROUTER_MAX_EXPERTS], value[HD_ROUTER_MAX_EXPERTS];
    __shared__ int32_t ids[HD_ROUTER_MAX_SLOTS];
    int64_t const      t = blockIdx.x;
    int32_t const      lane = (int32_t)threadIdx.x;
    const float *const logits = a.logits + t * a.e;
    hd_take_turn();
    for (int32_t e = lane; e < a.e; e += THREADS) score[e] = score_expert(&a, (double)logits[e]);
    __syncthreads();
    if (lane >= 32) return;
    if (a.scoring == HD_ROUTER_SOFTMAX) apply_softmax(score, a.e, lane);
    if (a.is_hash) {
        look_up_experts(&a, t, ids, lane);
    } else {
        for (int32_t e = lane; e < a.e; e += 32) value[e] = score[e] + a.bias[e];
        pick_experts(&a, value, ids, lane);
    }
    write_weights(&a, t, score, ids, lane);
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
    return hd_launch(route_tokens, (unsigned)a->t, THREADS, 0, hd_cuda_stream(stream), *a);
}
