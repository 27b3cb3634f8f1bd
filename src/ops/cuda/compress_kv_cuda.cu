#include "ops/compress_kv.h"
#include "ops/cuda/divisor.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/vectors.cuh"

/* Bound by latency where one token completes a group, by bytes for many.
 * Grid: runs of tokens, runs of channels.  A block stores the rows of its tokens and pools the
 * groups that they complete: a thread has four channels of a slot and is a softmax of that slot
 * alone; such parts meet in the warp, then in shared memory, always in the same order.
 * Other blocks store the rows of other tokens at the same time, so a slot that is a token of this
 * call is read where that token's row comes from. */

/* How a block's threads share slots and channels. */
template <int lanes_, int vectors_, int run_, bool overlap_> struct pool_shape {
    static constexpr bool overlap = overlap_;
    static constexpr int  lanes = lanes_;     /* slots at once */
    static constexpr int  vectors = vectors_; /* of four channels */
    static constexpr int  channels = 4 * vectors;
    static constexpr int  threads = lanes * vectors, warps = threads / 32;
    static constexpr int  run = run_; /* tokens of a block, a lane for each */
};
template <bool overlap> using few_slots = pool_shape<8, 32, 4, overlap>;
template <bool overlap> using many_slots = pool_shape<128, 4, 32, overlap>;

/* The args, and what the host has made of them. */
struct pool_args {
    hd_compress_kv_args a;
    hd_divisor          r, cap;
    int32_t             w; /* width of a ring row */
};

/* Softmax over some slots of four channels: the sums of exp(score - largest), alone and times the
 * values. */
typedef struct pool_part {
    float largest[4], sum[4], value[4];
} pool_part;

/* A token that completes a group, and what this thread has of it. */
struct pool_group {
    int64_t ring;     /* first row of the sequence's part */
    int32_t t, seq;   /* the token, its sequence */
    int32_t first, n; /* of its slots: first position, number */
    int32_t c, left;  /* first channel; how many there are from it on */
    bool    is_wide;
};

static __device__ __forceinline__ bool is_all_wide(const hd_compress_kv_args &a)
{
    return hd_is_wide(a.x_kv, a.d) && hd_is_wide(a.x_gate, a.d) && hd_is_wide(a.ape, a.d) &&
           hd_is_wide(a.kv, a.d) && hd_is_wide(a.gate, a.d);
}

/* ---- storing ---- */

/* Four elements on their way to a ring. */
struct stored_vector {
    float4  v;
    float  *to;
    int32_t n; /* that exist; 0: none */
};

/* Vector i of those that the rows of n tokens from t on have of the block's channels. */
template <typename shape>
static __device__ __forceinline__ stored_vector load_vector(const pool_args &p, int32_t t,
                                                            int32_t n, int32_t channel,
                                                            bool is_wide, int32_t i)
{
    constexpr int32_t          halves = shape::overlap ? 2 : 1, row = 2 * halves * shape::vectors;
    const hd_compress_kv_args &a = p.a;
    int32_t const at = i % row, token = t + i / row, half = at / shape::vectors % halves;
    int32_t const c = channel + at % shape::vectors * 4;
    bool const    is_gate = at >= row / 2;
    if (i >= n * row || c >= a.d) return {{0, 0, 0, 0}, NULL, 0};
    int64_t const      column = (int64_t)half * a.d + c, own = (int64_t)token * p.w + column;
    int64_t const      ring = (int64_t)a.seq[token] * a.cap + hd_remainder(a.pos[token], p.cap);
    const float *const from = (is_gate ? a.x_gate : a.x_kv) + own;
    return {hd_load4(from, a.d - c, is_wide), (is_gate ? a.gate : a.kv) + ring * p.w + column,
            a.d - c};
}

static __device__ __forceinline__ void store_vector(const stored_vector &x, bool is_wide)
{
    if (x.n > 0) hd_store4(x.to, x.v, x.n, is_wide);
}

/* All such vectors but the first of each thread. */
template <typename shape>
static __device__ __forceinline__ void store_others(const pool_args &p, int32_t t, int32_t n,
                                                    int32_t channel, bool is_wide)
{
    int32_t const all = n * (shape::overlap ? 4 : 2) * shape::vectors;
    for (int32_t i = (int32_t)threadIdx.x + shape::threads; i < all; i += shape::threads)
        store_vector(load_vector<shape>(p, t, n, channel, is_wide, i), is_wide);
}

/* ---- pooling ---- */

/* exp(x - largest); 0 where there is no slot at all. */
static __device__ __forceinline__ float weight_of(float x, float largest)
{
    return x == -INFINITY ? 0.0f : expf(x - largest);
}

/* Adds slot `slot` to a part: a row of a token of this call, or of the ring. */
template <typename shape>
static __device__ __forceinline__ void add_slot(const pool_args &p, const pool_group &g,
                                                int32_t slot, pool_part *part)
{
    const hd_compress_kv_args &a = p.a;
    if (slot >= g.n || g.left <= 0) return;
    int32_t const t = g.t - (g.n - 1 - slot), behind = slot - (g.n - a.r); /* in the group */
    int64_t const in_group = slot < a.r ? slot : slot - a.r;
    int64_t const column = shape::overlap && behind >= 0 ? (int64_t)a.d + g.c : g.c;
    bool const    is_own = t >= 0 && a.seq[t] == g.seq;
    int64_t const row = is_own ? t : g.ring + hd_remainder(g.first + slot, p.cap);
    int64_t const at = row * p.w + column;
    float4 const  ape = hd_load4(a.ape + in_group * p.w + column, g.left, g.is_wide);
    float4 const  gate = hd_load4((is_own ? a.x_gate : a.gate) + at, g.left, g.is_wide);
    float4 const  kv = hd_load4((is_own ? a.x_kv : a.kv) + at, g.left, g.is_wide);
    float const   score[4] = {gate.x + ape.x, gate.y + ape.y, gate.z + ape.z, gate.w + ape.w};
    float const   value[4] = {kv.x, kv.y, kv.z, kv.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float const largest = fmaxf(part->largest[k], score[k]);
        float const old = weight_of(part->largest[k], largest), e = weight_of(score[k], largest);
        part->sum[k] = fmaf(part->sum[k], old, e);
        part->value[k] = fmaf(part->value[k], old, e * value[k]);
        part->largest[k] = largest;
    }
}

/* Joins what the lanes of a warp have of the same channels; all of them get it. */
template <typename shape> static __device__ __forceinline__ void join_lanes(pool_part *p)
{
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float const own = p->largest[k];
        for (int o = shape::vectors; o < 32; o *= 2)
            p->largest[k] = fmaxf(p->largest[k], __shfl_xor_sync(0xffffffffu, p->largest[k], o));
        float const w = weight_of(own, p->largest[k]);
        p->sum[k] *= w;
        p->value[k] *= w;
        for (int o = shape::vectors; o < 32; o *= 2) {
            p->sum[k] += __shfl_xor_sync(0xffffffffu, p->sum[k], o);
            p->value[k] += __shfl_xor_sync(0xffffffffu, p->value[k], o);
        }
    }
}

template <typename shape> struct pool_shared {
    float4 largest[shape::warps][shape::vectors], sum[shape::warps][shape::vectors];
    float4 value[shape::warps][shape::vectors];
};

/* The pooled channel `c` of the block's, from the parts of all warps. */
template <typename shape>
static __device__ __forceinline__ float join_warps(const pool_shared<shape> &s, int c)
{
    constexpr int      step = shape::channels;
    const float *const largest = (const float *)s.largest + c;
    const float *const sum = (const float *)s.sum + c, *const value = (const float *)s.value + c;
    float most = largest[0], all = 0, pooled = 0;
#pragma unroll
    for (int i = 1; i < shape::warps; i++) most = fmaxf(most, largest[i * step]);
#pragma unroll
    for (int i = 0; i < shape::warps; i++) {
        float const w = weight_of(largest[i * step], most);
        all = fmaf(w, sum[i * step], all);
        pooled = fmaf(w, value[i * step], pooled);
    }
    return pooled / all;
}

template <typename shape>
static __device__ __forceinline__ pool_group find_group(const pool_args &p, int32_t t, int32_t pos,
                                                        int32_t c, bool is_wide)
{
    const hd_compress_kv_args &a = p.a;
    int32_t const              seq = a.seq[t], group = pos - a.r + 1;
    int32_t const              first = shape::overlap && group >= a.r ? group - a.r : group;
    return {(int64_t)seq * a.cap, t, seq, first, pos + 1 - first, c, a.d - c, is_wide};
}

/* The block's channels of the row that token t, at `pos`, makes of its group. */
template <typename shape>
static __device__ __forceinline__ void pool_group_of(const pool_args &p, int32_t t, int32_t pos,
                                                     int32_t channel, bool is_wide,
                                                     pool_shared<shape> &s)
{
    int const     v = (int)threadIdx.x % shape::vectors, warp = (int)threadIdx.x / 32;
    int32_t const c = channel + (int32_t)threadIdx.x, own = (int32_t)threadIdx.x / shape::vectors;
    pool_group const g = find_group<shape>(p, t, pos, channel + 4 * v, is_wide);
    pool_part        part;
    for (int k = 0; k < 4; k++) part.largest[k] = -INFINITY, part.sum[k] = part.value[k] = 0;
    for (int32_t begin = 0; begin < g.n; begin += shape::lanes)
        add_slot<shape>(p, g, begin + own, &part);
    join_lanes<shape>(&part);
    __syncthreads(); /* all have read the parts of the token before */
    if (threadIdx.x % 32 < shape::vectors) {
        s.largest[warp][v] = {part.largest[0], part.largest[1], part.largest[2], part.largest[3]};
        s.sum[warp][v] = {part.sum[0], part.sum[1], part.sum[2], part.sum[3]};
        s.value[warp][v] = {part.value[0], part.value[1], part.value[2], part.value[3]};
    }
    __syncthreads();
    if ((int)threadIdx.x < shape::channels && c < p.a.d)
        p.a.y[(int64_t)t * p.a.d + c] = join_warps<shape>(s, (int)threadIdx.x);
}

/* Rows of zeros for those of n tokens from t on that complete no group. */
template <typename shape>
static __device__ __forceinline__ void clear_rows(const hd_compress_kv_args &a, int32_t t,
                                                  int32_t n, int32_t channel, bool is_wide,
                                                  uint32_t complete)
{
    for (int32_t i = (int32_t)threadIdx.x; i < n * shape::vectors; i += shape::threads) {
        int32_t const token = i / shape::vectors, c = channel + i % shape::vectors * 4;
        if (c < a.d && !(complete >> token & 1))
            hd_store4(a.y + (int64_t)(t + token) * a.d + c, {0, 0, 0, 0}, a.d - c, is_wide);
    }
}

template <typename shape>
static __global__ void __launch_bounds__(shape::threads)
    compress_groups(__grid_constant__ pool_args const p)
{
    __shared__ pool_shared<shape> s;
    const hd_compress_kv_args    &a = p.a;
    int32_t const t = (int32_t)blockIdx.x * shape::run, n = min(shape::run, a.t - t);
    int32_t const channel = (int32_t)blockIdx.y * shape::channels;
    int32_t const lane = (int32_t)threadIdx.x % 32;
    bool const    is_wide = is_all_wide(a);
    hd_take_turn();
    int32_t const       pos = lane < n ? a.pos[t + lane] : 0;
    stored_vector const own = load_vector<shape>(p, t, n, channel, is_wide, (int32_t)threadIdx.x);
    uint32_t complete = __ballot_sync(0xffffffffu, lane < n && hd_remainder(pos + 1, p.r) == 0);
    clear_rows<shape>(a, t, n, channel, is_wide && hd_is_wide(a.y, a.d), complete);
    for (; complete; complete &= complete - 1) {
        int32_t const i = __ffs((int)complete) - 1;
        pool_group_of<shape>(p, t + i, __shfl_sync(0xffffffffu, pos, i), channel, is_wide, s);
    }
    store_vector(own, is_wide);
    store_others<shape>(p, t, n, channel, is_wide);
}

bool hd_compress_kv_cuda_supports(const void *args)
{
    return hd_fits_grid_y(((const hd_compress_kv_args *)args)->d, many_slots<false>::channels);
}

template <typename shape> static hd_status launch(const hd_compress_kv_args *a, hd_stream *stream)
{
    pool_args const p = {*a, hd_divisor_of(a->r), hd_divisor_of(a->cap),
                         shape::overlap ? 2 * a->d : a->d};
    dim3 const      grid(hd_blocks(a->t, shape::run), hd_blocks(a->d, shape::channels));
    return hd_launch(compress_groups<shape>, grid, shape::threads, 0, hd_cuda_stream(stream), p);
}

hd_status hd_compress_kv_cuda(const void *args, hd_stream *stream)
{
    const hd_compress_kv_args *const a = (const hd_compress_kv_args *)args;
    if (a->t == 0 || a->d == 0) return HD_OK;
    bool const is_few = (a->overlap ? 2 * (int64_t)a->r : a->r) <= few_slots<false>::lanes;
    if (is_few)
        return a->overlap ? launch<few_slots<true>>(a, stream)
                          : launch<few_slots<false>>(a, stream);
    return a->overlap ? launch<many_slots<true>>(a, stream) : launch<many_slots<false>>(a, stream);
}
