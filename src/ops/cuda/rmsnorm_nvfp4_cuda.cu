#include "ops/cuda/launch.cuh"
#include "ops/cuda/nvfp4_quads.cuh"
#include "ops/rmsnorm_nvfp4.h"

/* Bound by latency for few tokens, by bytes for many.
 * Grid: rows, parts of a row, copies; of many rows a block makes all parts.  Each block sums the
 * squares of its whole row, in one order, then rounds what is its own: nothing crosses blocks, few
 * rows occupy many multiprocessors, and the bits do not depend on how many share a row. */

#define THREADS  (HD_NVFP4_PART / 4)
#define FEW_ROWS 128
#define AHEAD    4 /* vectors that a thread reads at a time: 4096 elements of a row */

/* What the blocks of a row know of it. */
struct norm_row {
    const float *x, *w;
    int32_t      d;
    bool         is_wide, is_w_wide;

    __device__ __forceinline__ float4 load(int32_t c) const
    {
        return hd_load4_in(x, c, d, is_wide);
    }
    __device__ __forceinline__ float4 weight(int32_t c) const
    {
        return w && c < d ? hd_load4(w + c, 4, is_w_wide) : float4{1, 1, 1, 1};
    }
};

static __device__ __forceinline__ norm_row find_row(const hd_rmsnorm_nvfp4_args &a)
{
    bool const is_wide = hd_is_wide(a.x, a.d) && hd_is_wide(a.y, a.d) && hd_is_wide(a.rounded, a.d);
    return {a.x + (int64_t)blockIdx.x * a.d, a.has_w ? a.w : NULL, a.d, is_wide,
            hd_is_wide(a.w, a.d)};
}

static __device__ __forceinline__ float4 normalise(float4 x, float r, float4 w)
{
    return {x.x * r * w.x, x.y * r * w.y, x.z * r * w.z, x.w * r * w.w};
}

/* 1 / sqrt(mean(x^2) + eps). */
static __device__ __forceinline__ float find_factor(const norm_row &row, float eps, float *scratch)
{
    int32_t const step = (int32_t)blockDim.x * 4;
    float         sum = 0;
    for (int32_t c = (int32_t)threadIdx.x * 4; c < row.d; c += AHEAD * step) {
        float4 v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) v[i] = row.load(c + i * step);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) sum = hd_dot4(v[i], v[i], sum);
    }
    return 1.0f / sqrtf(hd_block_sum(sum, scratch) / (float)row.d + eps);
}

/* The scale that lets the normalised row just fit. */
static __device__ float find_dynamic_scale(const norm_row &row, float r, float *scratch)
{
    float amax = 0;
    for (int32_t c = (int32_t)threadIdx.x * 4; c < row.d; c += (int32_t)blockDim.x * 4)
        amax = fmaxf(amax, hd_finite_magnitude4(normalise(row.load(c), r, row.weight(c))));
    return hd_nvfp4_dynamic_scale(hd_block_max(amax, scratch));
}

/* The part of this block's copy that begins at element `begin`. */
static __device__ __forceinline__ void store_part(const hd_rmsnorm_nvfp4_args &a, int32_t begin,
                                                  bool is_wide, float4 y, float g)
{
    int64_t const      slot = (int64_t)blockIdx.z * a.t + blockIdx.x;
    int32_t const      first = begin + (int32_t)threadIdx.x * 4;
    hd_quad const      q = hd_round_quad(y, hd_nvfp4_global_of(g));
    hd_quad_rows const to = {a.rounded, a.has_codes ? a.codes : NULL, a.sf, is_wide};
    if (first < a.d) {
        if (blockIdx.z == 0) hd_store4(a.y + (int64_t)blockIdx.x * a.d + first, y, 4, is_wide);
        hd_store_quad(to, slot * a.d + first, q);
    }
    if (a.has_codes && first == 0) a.g[slot] = g;
    int const n = __syncthreads_count(first < a.d && q.is_saturated && threadIdx.x % 4 == 0);
    if (threadIdx.x == 0) a.saturated[slot * HD_NVFP4_PARTS(a.d) + begin / HD_NVFP4_PART] = n;
}

static __global__ void __launch_bounds__(THREADS)
    normalise_and_round(__grid_constant__ hd_rmsnorm_nvfp4_args const a)
{
    __shared__ float scratch[32];
    norm_row const   row = find_row(a);
    int32_t const    own = (int32_t)threadIdx.x * 4, step = (int32_t)gridDim.y * HD_NVFP4_PART;
    int32_t          begin = (int32_t)blockIdx.y * HD_NVFP4_PART;
    hd_release_next();
    float4 w = row.weight(begin + own);
    float  g = a.scale[blockIdx.z][0];
    hd_await_previous();
    float4      x = row.load(begin + own);
    float const r = find_factor(row, a.eps, scratch);
    if (!(g > 0)) g = find_dynamic_scale(row, r, scratch);
    for (;;) {
        store_part(a, begin, row.is_wide, normalise(x, r, w), g);
        begin += step;
        if (begin >= a.d) return;
        x = row.load(begin + own);
        w = row.weight(begin + own);
    }
}

bool hd_rmsnorm_nvfp4_cuda_supports(const void *args)
{
    const hd_rmsnorm_nvfp4_args *const a = (const hd_rmsnorm_nvfp4_args *)args;
    return hd_fits_grid_y(a->d, HD_NVFP4_PART);
}

hd_status hd_rmsnorm_nvfp4_cuda(const void *args, hd_stream *stream)
{
    const hd_rmsnorm_nvfp4_args *const a = (const hd_rmsnorm_nvfp4_args *)args;
    unsigned const parts = a->t <= FEW_ROWS ? (unsigned)HD_NVFP4_PARTS(a->d) : 1;
    dim3 const     grid((unsigned)a->t, parts, (unsigned)a->c);
    if (a->t == 0 || a->d == 0) return HD_OK;
    return hd_launch(normalise_and_round, grid, hd_threads(a->d / 4, THREADS), 0,
                     hd_cuda_stream(stream), *a);
}
