#include <cooperative_groups.h>

#include "ops/cuda/launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/quant_nvfp4.h"
#include "quant/fp4.h"

/* Bound by bytes for many slots; for one, by what a launch costs.
 * Grid: a cluster for each slot, up to CLUSTER blocks, one thread for each block of 16 elements at
 * a time, so that nothing but a slot's own scale and its count of saturations crosses threads. */

#define THREADS 256
#define CLUSTER 8
#define WIDTH   HD_NVFP4_BLOCK
static_assert(WIDTH == 16,
              "a thread reads and writes four vectors, and codes as one of eight bytes");

/* What blocks of a cluster tell each other. */
struct told {
    float   amax[CLUSTER];
    int32_t saturated[CLUSTER];
};

/* The part of a slot that a block makes. */
struct part {
    int64_t slot;
    int     rank, ranks; /* of the cluster */
    int32_t first, step, blocks;
    bool    is_wide; /* rows may be read and written as vectors */
};

static __device__ part find_part(const hd_quant_nvfp4_args &a, int ranks)
{
    part p;
    p.slot = blockIdx.x / (unsigned)ranks;
    p.rank = (int)(blockIdx.x % (unsigned)ranks);
    p.ranks = ranks;
    p.first = p.rank * THREADS + (int32_t)threadIdx.x;
    p.step = ranks * THREADS;
    p.blocks = a.k / WIDTH;
    p.is_wide = hd_is_wide(a.x, a.k) && hd_is_wide(a.y, a.k);
    return p;
}

static __device__ void load_block(const float *x, bool is_wide, float out[WIDTH])
{
#pragma unroll
    for (int i = 0; i < WIDTH; i += 4) {
        float4 const v = hd_load4(x + i, 4, is_wide);
        out[i] = v.x;
        out[i + 1] = v.y;
        out[i + 2] = v.z;
        out[i + 3] = v.w;
    }
}

/* The scale that lets the row's largest finite magnitude just fit, rounded up; 1 for zeros. */
static __device__ float find_dynamic_scale(const float *x, const part &p, told *t, float *scratch)
{
    float amax = 0, v[WIDTH];
    for (int32_t b = p.first; b < p.blocks; b += p.step) {
        load_block(x + (int64_t)b * WIDTH, p.is_wide, v);
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            if (hd_magnitude_bits(v[i]) < HD_NOT_FINITE) amax = fmaxf(amax, fabsf(v[i]));
    }
    amax = hd_block_max(amax, scratch);
    if (p.ranks > 1) {
        cooperative_groups::cluster_group const all = cooperative_groups::this_cluster();
        if ((int)threadIdx.x < p.ranks) all.map_shared_rank(t, threadIdx.x)->amax[p.rank] = amax;
        all.sync();
        for (int i = 0; i < p.ranks; i++) amax = fmaxf(amax, t->amax[i]);
    }
    float const scale = __double2float_ru((double)amax / (6.0 * 448.0));
    return scale > 0 ? scale : 1.0f;
}

/* The E2M1 code of |x| / s.  x and the midpoints times s are exact in double and differ by 2^-31
 * of themselves or not at all, so comparing them says what a rounded quotient would. */
static __device__ uint32_t find_code(float x, double s)
{
    double const a = fabs((double)x);
    return (uint32_t)((a > 0.25 * s) + (a >= 0.75 * s) + (a > 1.25 * s) + (a >= 1.75 * s) +
                      (a > 2.5 * s) + (a >= 3.5 * s) + (a > 5.0 * s)) |
           (__float_as_uint(x) >> 28 & 8);
}

/* One block after rounding, in place, and as codes, the low nibble first. */
struct rounded {
    uint64_t codes;
    uint8_t  sf;
    bool     is_saturated;
};

static __device__ rounded round_block(float v[WIDTH], float scale)
{
    uint32_t bits = 0;
    rounded  r = {0, HD_E4M3_NAN, false};
#pragma unroll
    for (int i = 0; i < WIDTH; i++) bits = max(bits, hd_magnitude_bits(v[i]));
    if (bits >= HD_NOT_FINITE) return r;
    double const wanted = (double)__uint_as_float(bits) / 6.0 / (double)scale;
    double const sb = hd_round_e4m3(wanted), s = sb * (double)scale;
    r.sf = hd_e4m3_code(sb);
    r.is_saturated = wanted > 448.0;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        uint32_t const code = s > 0 ? find_code(v[i], s) : 0;
        v[i] = (float)((double)hd_e2m1_number(code) * s);
        r.codes |= (uint64_t)code << (4 * i);
    }
    return r;
}

static __device__ void store_codes(const hd_quant_nvfp4_args &a, int64_t block, const rounded &r)
{
    uint8_t *const at = a.codes + block * (WIDTH / 2);
    a.sf[block] = r.sf;
    if (((uintptr_t)a.codes & 7) == 0)
        *(uint64_t *)at = r.codes;
    else
        for (int i = 0; i < WIDTH / 2; i++) at[i] = (uint8_t)(r.codes >> (8 * i));
}

/* The cluster's count, by its first block. */
static __device__ void store_count(const hd_quant_nvfp4_args &a, const part &p, int32_t n, told *t,
                                   float *scratch)
{
    int32_t sum = (int32_t)hd_block_sum((float)n, scratch); /* exact: far below 2^24 */
    if (p.ranks > 1) {
        cooperative_groups::cluster_group const all = cooperative_groups::this_cluster();
        if (threadIdx.x == 0) all.map_shared_rank(t, 0)->saturated[p.rank] = sum;
        all.sync();
        sum = 0;
        for (int i = 0; i < p.ranks; i++) sum += t->saturated[i];
    }
    if (p.rank == 0 && threadIdx.x == 0) a.saturated[p.slot] = sum;
}

static __global__ void __launch_bounds__(THREADS)
    round_slots(hd_quant_nvfp4_args const a, int const ranks)
{
    __shared__ float   scratch[32];
    __shared__ told    t;
    part const         p = find_part(a, ranks);
    const float *const x = a.x + p.slot / a.s * a.k;
    int32_t            n = 0;
    if (ranks > 1) cooperative_groups::this_cluster().sync(); /* all are there to be told */
    hd_take_turn();
    float const fixed = a.scale[a.has_ids ? a.ids[p.slot] : 0];
    float const scale = fixed > 0 ? fixed : find_dynamic_scale(x, p, &t, scratch);
    for (int32_t b = p.first; b < p.blocks; b += p.step) {
        int64_t const at = p.slot * p.blocks + b;
        float         v[WIDTH];
        load_block(x + (int64_t)b * WIDTH, p.is_wide, v);
        rounded const r = round_block(v, scale);
#pragma unroll
        for (int i = 0; i < WIDTH; i += 4)
            hd_store4(a.y + at * WIDTH + i, {v[i], v[i + 1], v[i + 2], v[i + 3]}, 4, p.is_wide);
        if (a.has_codes) store_codes(a, at, r);
        n += r.is_saturated;
    }
    if (a.has_codes && p.rank == 0 && threadIdx.x == 0) a.g[p.slot] = scale;
    store_count(a, p, n, &t, scratch);
}

/* Blocks of a slot: each thread has one block of elements, unless there are too many. */
static int32_t count_ranks(const hd_quant_nvfp4_args *a)
{
    int32_t ranks = 1;
    while (ranks < CLUSTER && a->k / WIDTH > ranks * THREADS) ranks *= 2;
    return ranks;
}

bool hd_quant_nvfp4_cuda_supports(const void *args)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    return (int64_t)a->t * a->s * CLUSTER <= INT32_MAX;
}

hd_status hd_quant_nvfp4_cuda(const void *args, hd_stream *stream)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    int64_t const                    slots = (int64_t)a->t * a->s;
    int32_t const                    ranks = count_ranks(a);
    if (slots == 0) return HD_OK;
    return hd_launch_clusters(round_slots, (unsigned)(slots * ranks), (unsigned)ranks, THREADS, 0,
                              hd_cuda_stream(stream), *a, ranks);
}
