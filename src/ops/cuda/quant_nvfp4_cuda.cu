#include "ops/cuda/launch.cuh"
#include "ops/cuda/nvfp4_quads.cuh"

/* Bound by bytes for many slots; for one, by what a launch costs.
 * Grid: a block for each part of a slot whose saturations are counted together, four elements a
 * thread, so that nothing crosses blocks: for a dynamic scale each reads the whole row.  Where rows
 * are many and go to several slots each, a block makes all slots of a part, which it reads once. */

#define THREADS (HD_NVFP4_PART / 4)
#define WARPS   (THREADS / 32)
#define SLOTS   32  /* that a block makes at most: a lane has the scale and the count of each */
#define MANY    512 /* parts of rows: from then on blocks make all slots of one */

/* Vectors that a thread reads at a time of a whole row. */
#define AHEAD 8

static __device__ float find_dynamic_scale(const float *x, int32_t k, bool is_wide, float *scratch)
{
    int32_t const step = (int32_t)blockDim.x * 4;
    float         amax = 0;
    for (int32_t c = (int32_t)threadIdx.x * 4; c < k; c += AHEAD * step) {
        float4 v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) v[i] = hd_load4_in(x, c + i * step, k, is_wide);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) amax = fmaxf(amax, hd_finite_magnitude4(v[i]));
    }
    return hd_nvfp4_dynamic_scale(hd_block_max(amax, scratch));
}

/* What the threads of a block share: where they are in a row. */
struct quant_place {
    int32_t      first; /* of four elements */
    bool         is_in;
    hd_quad_rows to;
};

static __device__ __forceinline__ quant_place find_place(const hd_quant_nvfp4_args &a)
{
    int32_t const first = (int32_t)(blockIdx.y * HD_NVFP4_PART + threadIdx.x * 4);
    bool const    is_wide = hd_is_wide(a.x, a.k) && hd_is_wide(a.y, a.k);
    return {first, first < a.k, {a.y, a.has_codes ? a.codes : NULL, a.sf, is_wide}};
}

/* Stores a slot's rounded elements; whether they were saturated, on one lane of a block. */
static __device__ __forceinline__ bool store_slot(const hd_quant_nvfp4_args &a,
                                                  const quant_place &p, int64_t slot, float g,
                                                  const hd_quad &q)
{
    if (p.is_in) hd_store_quad(p.to, slot * a.k + p.first, q);
    if (a.has_codes && p.first == 0) a.g[slot] = g;
    return p.is_in && q.is_saturated && threadIdx.x % 4 == 0;
}

static __global__ void __launch_bounds__(THREADS) round_parts(hd_quant_nvfp4_args const a)
{
    __shared__ float   scratch[32];
    int64_t const      slot = blockIdx.x;
    const float *const x = a.x + (int64_t)(blockIdx.x / (unsigned)a.s) * a.k;
    quant_place const  p = find_place(a);
    hd_release_next();
    float g = a.has_ids ? 0 : a.scale[0];
    hd_await_previous();
    int32_t const expert = a.has_ids ? a.ids[slot] : 0;
    float4 const  v = hd_load4_in(x, p.first, a.k, p.to.is_wide);
    if (a.has_ids) g = a.scale[expert];
    if (!(g > 0)) g = find_dynamic_scale(x, a.k, p.to.is_wide, scratch);
    hd_quad const q = hd_round_quad(v, hd_nvfp4_global_of(g));
    int const     n = __syncthreads_count(store_slot(a, p, slot, g, q));
    if (threadIdx.x == 0) a.saturated[slot * gridDim.y + blockIdx.y] = n;
}

/* ---- all slots of a part ---- */

/* Lane i's scale, of slot i; 1 behind the last of n. */
static __device__ __forceinline__ float find_scales(const hd_quant_nvfp4_args &a, const float *x,
                                                    int64_t slot, int32_t n, bool is_wide,
                                                    float *scratch)
{
    int32_t const lane = (int32_t)threadIdx.x % 32;
    float const   g = lane < n ? a.scale[a.ids[slot + lane]] : 1;
    if (!__any_sync(0xffffffffu, !(g > 0))) return g;
    float const dynamic = find_dynamic_scale(x, a.k, is_wide, scratch);
    return g > 0 ? g : dynamic;
}

/* Sums up what lane i of each warp has counted for slot i, of n. */
static __device__ __forceinline__ void store_counts(const hd_quant_nvfp4_args &a, int64_t slot,
                                                    int32_t n, int32_t count,
                                                    int32_t counts[WARPS][SLOTS])
{
    int32_t const i = (int32_t)threadIdx.x, warps = (int32_t)blockDim.x / 32;
    counts[i / 32][i % 32] = count;
    __syncthreads();
    if (i >= n) return;
    int32_t sum = counts[0][i];
    for (int32_t w = 1; w < warps; w++) sum += counts[w][i];
    a.saturated[(slot + i) * gridDim.y + blockIdx.y] = sum;
}

static __global__ void __launch_bounds__(THREADS) round_slots(hd_quant_nvfp4_args const a)
{
    __shared__ float   scratch[32];
    __shared__ int32_t counts[WARPS][SLOTS];
    int64_t const      slot = (int64_t)blockIdx.x * a.s;
    const float *const x = a.x + (int64_t)blockIdx.x * a.k;
    quant_place const  p = find_place(a);
    int32_t            count = 0;
    hd_take_turn();
    float4 const   v = hd_load4_in(x, p.first, a.k, p.to.is_wide);
    float const    scales = find_scales(a, x, slot, a.s, p.to.is_wide, scratch);
    uint32_t const bits = hd_block_magnitude(v);
    for (int32_t i = 0; i < a.s; i++) {
        float const    g = __shfl_sync(0xffffffffu, scales, i);
        hd_quad const  q = hd_round_quad_of(v, bits, hd_nvfp4_global_of(g));
        uint32_t const found = __ballot_sync(0xffffffffu, store_slot(a, p, slot + i, g, q));
        if ((int32_t)threadIdx.x % 32 == i) count = __popc(found);
    }
    store_counts(a, slot, a.s, count, counts);
}

bool hd_quant_nvfp4_cuda_supports(const void *args)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    return (int64_t)a->t * a->s <= INT32_MAX && hd_fits_grid_y(a->k, HD_NVFP4_PART);
}

hd_status hd_quant_nvfp4_cuda(const void *args, hd_stream *stream)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    int64_t const                    parts = HD_NVFP4_PARTS(a->k);
    bool const                       is_all = a->has_ids && a->s <= SLOTS && a->t * parts >= MANY;
    dim3 const grid(is_all ? (unsigned)a->t : (unsigned)((int64_t)a->t * a->s), (unsigned)parts);
    if (a->t == 0 || a->s == 0 || parts == 0) return HD_OK;
    return hd_launch(is_all ? round_slots : round_parts, grid, hd_threads(a->k / 4, THREADS), 0,
                     hd_cuda_stream(stream), *a);
}
