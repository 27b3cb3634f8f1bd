#include "ops/cuda/launch.cuh"
#include "ops/cuda/nvfp4_quads.cuh"
#include "ops/cuda/swiglu.cuh"
#include "ops/swiglu_nvfp4.h"

/* Bound by bytes for many rows; for few, by what a launch costs.
 * Grid: a block for each part of a row whose saturations are counted together, four elements a
 * thread, so that nothing crosses blocks: for a dynamic scale each makes the whole row. */

#define THREADS (HD_NVFP4_PART / 4)

/* The block's row. */
struct gated_row {
    const float *gate, *up;
    int32_t      n;
    float        limit;
    bool         is_wide;

    __device__ __forceinline__ float4 make(int32_t c) const
    {
        float4 const g = hd_load4_in(gate, c, n, is_wide), u = hd_load4_in(up, c, n, is_wide);
        return {hd_gate_by(g.x, u.x, limit), hd_gate_by(g.y, u.y, limit),
                hd_gate_by(g.z, u.z, limit), hd_gate_by(g.w, u.w, limit)};
    }
};

static __device__ __forceinline__ gated_row find_row(const hd_swiglu_nvfp4_args &a)
{
    int64_t const      row = (int64_t)blockIdx.x * a.n;
    const float *const gate = a.is_paired ? a.gate_up : a.gate, *const up =
                                                                    a.is_paired ? gate : a.up;
    bool const is_wide = hd_is_wide(gate, a.n) && hd_is_wide(up, a.n);
    if (a.is_paired) return {gate + 2 * row, gate + 2 * row + a.n, a.n, a.limit, is_wide};
    return {gate + row, up + row, a.n, a.limit, is_wide};
}

static __device__ float find_dynamic_scale(const gated_row &row, float *scratch)
{
    float amax = 0;
    for (int32_t c = (int32_t)threadIdx.x * 4; c < row.n; c += (int32_t)blockDim.x * 4)
        amax = fmaxf(amax, hd_finite_magnitude4(row.make(c)));
    return hd_nvfp4_dynamic_scale(hd_block_max(amax, scratch));
}

static __global__ void __launch_bounds__(THREADS) gate_and_round(hd_swiglu_nvfp4_args const a)
{
    __shared__ float scratch[32];
    gated_row const  row = find_row(a);
    int32_t const    first = (int32_t)(blockIdx.y * HD_NVFP4_PART + threadIdx.x * 4);
    bool const       is_wide = hd_is_wide(a.y, a.n) && hd_is_wide(a.rounded, a.n);
    bool const       is_in = first < a.n;
    int64_t const    at = (int64_t)blockIdx.x * a.n + first;
    hd_release_next();
    float g = a.has_ids ? 0 : a.scale[0];
    hd_await_previous();
    int32_t const expert = a.has_ids ? a.ids[blockIdx.x] : 0;
    float4 const  y = row.make(first);
    if (a.has_ids) g = a.scale[expert];
    if (!(g > 0)) g = find_dynamic_scale(row, scratch);
    hd_quad const      q = hd_round_quad(y, hd_nvfp4_global_of(g));
    hd_quad_rows const to = {a.rounded, a.has_codes ? a.codes : NULL, a.sf, is_wide};
    if (is_in) hd_store4(a.y + at, y, 4, is_wide);
    if (is_in) hd_store_quad(to, at, q);
    if (a.has_codes && first == 0) a.g[blockIdx.x] = g;
    int const n = __syncthreads_count(is_in && q.is_saturated && threadIdx.x % 4 == 0);
    if (threadIdx.x == 0) a.saturated[(int64_t)blockIdx.x * gridDim.y + blockIdx.y] = n;
}

bool hd_swiglu_nvfp4_cuda_supports(const void *args)
{
    return hd_fits_grid_y(((const hd_swiglu_nvfp4_args *)args)->n, HD_NVFP4_PART);
}

hd_status hd_swiglu_nvfp4_cuda(const void *args, hd_stream *stream)
{
    const hd_swiglu_nvfp4_args *const a = (const hd_swiglu_nvfp4_args *)args;
    dim3 const                        grid((unsigned)a->r, (unsigned)HD_NVFP4_PARTS(a->n));
    if (grid.x == 0 || grid.y == 0) return HD_OK;
    return hd_launch(gate_and_round, grid, hd_threads(a->n / 4, THREADS), 0, hd_cuda_stream(stream),
                     *a);
}
