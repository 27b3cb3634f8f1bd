#include "ops/cuda/launch.cuh"
#include "ops/cuda/nvfp4_quads.cuh"

/* Bound by bytes for many slots; for one, by what a launch costs.
 * Grid: a block for each part of a slot whose saturations are counted together, four elements a
 * thread, so that nothing crosses blocks: for a dynamic scale each reads the whole row. */

#define THREADS (HD_NVFP4_PART / 4)

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

static __global__ void __launch_bounds__(THREADS) round_parts(hd_quant_nvfp4_args const a)
{
    __shared__ float   scratch[32];
    int64_t const      slot = blockIdx.x, row = slot * a.k;
    int32_t const      first = (int32_t)(blockIdx.y * HD_NVFP4_PART + threadIdx.x * 4);
    const float *const x = a.x + (int64_t)(blockIdx.x / (unsigned)a.s) * a.k;
    bool const         is_wide = hd_is_wide(a.x, a.k) && hd_is_wide(a.y, a.k), is_in = first < a.k;
    hd_release_next();
    float g = a.has_ids ? 0 : a.scale[0];
    hd_await_previous();
    int32_t const expert = a.has_ids ? a.ids[slot] : 0;
    float4 const  v = hd_load4_in(x, first, a.k, is_wide);
    if (a.has_ids) g = a.scale[expert];
    if (!(g > 0)) g = find_dynamic_scale(x, a.k, is_wide, scratch);
    hd_quad const      q = hd_round_quad(v, hd_nvfp4_global_of(g));
    hd_quad_rows const to = {a.y, a.has_codes ? a.codes : NULL, a.sf, is_wide};
    if (is_in) hd_store_quad(to, row + first, q);
    if (a.has_codes && first == 0) a.g[slot] = g;
    int const n = __syncthreads_count(is_in && q.is_saturated && threadIdx.x % 4 == 0);
    if (threadIdx.x == 0) a.saturated[slot * gridDim.y + blockIdx.y] = n;
}

bool hd_quant_nvfp4_cuda_supports(const void *args)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    return (int64_t)a->t * a->s <= INT32_MAX && hd_fits_grid_y(a->k, HD_NVFP4_PART);
}

hd_status hd_quant_nvfp4_cuda(const void *args, hd_stream *stream)
{
    const hd_quant_nvfp4_args *const a = (const hd_quant_nvfp4_args *)args;
    dim3 const grid((unsigned)((int64_t)a->t * a->s), (unsigned)HD_NVFP4_PARTS(a->k));
    if (grid.x == 0 || grid.y == 0) return HD_OK;
    return hd_launch(round_parts, grid, hd_threads(a->k / 4, THREADS), 0, hd_cuda_stream(stream),
                     *a);
}
