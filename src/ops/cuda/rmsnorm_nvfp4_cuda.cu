#include "ops/cuda/launch.cuh"
#include "ops/cuda/nvfp4_quads.cuh"
#include "ops/rmsnorm_nvfp4.h"

/* Bound by latency for few tokens, by bytes for many.
 * Grid: rows, parts of a row, copies; of many rows a block makes all parts and copies.  Each block
 * sums the squares of its whole row, in one order, then rounds what is its own: nothing crosses
 * blocks, few rows occupy many multiprocessors, and the bits do not depend on how many share a
 * row. */

#define THREADS  (HD_NVFP4_PART / 4)
#define FEW_ROWS 128
#define AHEAD    4 /* vectors that a thread reads at a time: 4096 elements of a row */
static_assert(AHEAD == 4, "sums that are added in pairs");

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

/* The sum over the block; `scratch` is [THREADS / 32] shared, zeros where there are no warps. */
static __device__ __forceinline__ float add_warps(float x, float *scratch)
{
    float const own = hd_warp_sum(x);
    float       sum = 0;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = own;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < THREADS / 32; i += 4) {
        float4 const four = *(const float4 *)(scratch + i);
        sum += (four.x + four.y) + (four.z + four.w);
    }
    return sum;
}

/* 1 / sqrt(mean(x^2) + eps); `share` is 1 / d. */
static __device__ __forceinline__ float find_factor(const norm_row &row, float share, float eps,
                                                    float *scratch)
{
    int32_t const step = (int32_t)blockDim.x * 4;
    float         sum[AHEAD] = {};
    for (int32_t c = (int32_t)threadIdx.x * 4; c < row.d; c += AHEAD * step) {
        float4 v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) v[i] = row.load(c + i * step);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) sum[i] = hd_dot4(v[i], v[i], sum[i]);
    }
    float const all = add_warps((sum[0] + sum[1]) + (sum[2] + sum[3]), scratch);
    return rsqrtf(fmaf(all, share, eps));
}

/* The scale that lets the normalised row just fit. */
static __device__ float find_dynamic_scale(const norm_row &row, float r, float *scratch)
{
    float amax = 0;
    for (int32_t c = (int32_t)threadIdx.x * 4; c < row.d; c += (int32_t)blockDim.x * 4)
        amax = fmaxf(amax, hd_finite_magnitude4(normalise(row.load(c), r, row.weight(c))));
    return hd_nvfp4_dynamic_scale(hd_block_max(amax, scratch));
}

/* What copy `copy` has of the part that begins at element `begin`. */
static __device__ __forceinline__ void round_part(const hd_rmsnorm_nvfp4_args &a, int32_t copy,
                                                  int32_t begin, bool is_wide, float4 y, float g)
{
    int64_t const      slot = (int64_t)copy * a.t + blockIdx.x;
    int32_t const      first = begin + (int32_t)threadIdx.x * 4;
    hd_quad const      q = hd_round_quad(y, hd_nvfp4_global_of(g));
    hd_quad_rows const to = {a.rounded, a.has_codes ? a.codes : NULL, a.sf, is_wide};
    if (first < a.d) hd_store_quad(to, slot * a.d + first, q);
    if (a.has_codes && first == 0) a.g[slot] = g;
    int const n = __syncthreads_count(first < a.d && q.is_saturated && threadIdx.x % 4 == 0);
    if (threadIdx.x == 0) a.saturated[slot * HD_NVFP4_PARTS(a.d) + begin / HD_NVFP4_PART] = n;
}

/* The part that begins at element `begin`, in all of this block's copies, of which the first has
 * the scale `own`; `dynamic` is for those that ask for one. */
static __device__ __forceinline__ void store_part(const hd_rmsnorm_nvfp4_args &a, int32_t begin,
                                                  bool is_wide, float4 y, float own, float dynamic)
{
    int32_t const first = begin + (int32_t)threadIdx.x * 4, own_copy = (int32_t)blockIdx.z;
    if (first < a.d && own_copy == 0)
        hd_store4(a.y + (int64_t)blockIdx.x * a.d + first, y, 4, is_wide);
    for (int32_t copy = own_copy; copy < a.c; copy += (int32_t)gridDim.z) {
        float const g = copy == own_copy ? own : a.scale[copy][0];
        round_part(a, copy, begin, is_wide, y, g > 0 ? g : dynamic);
    }
}

/* Whether one of this block's copies asks for a dynamic scale; `own` is that of the first. */
static __device__ __forceinline__ bool needs_dynamic(const hd_rmsnorm_nvfp4_args &a, float own)
{
    bool is = !(own > 0);
    for (int32_t copy = (int32_t)(blockIdx.z + gridDim.z); copy < a.c; copy += (int32_t)gridDim.z)
        is = is || !(a.scale[copy][0] > 0);
    return is;
}

static __global__ void __launch_bounds__(THREADS)
    normalise_and_round(__grid_constant__ hd_rmsnorm_nvfp4_args const a)
{
    __shared__ __align__(16) float sums[THREADS / 32];
    __shared__ float               scratch[32];
    norm_row const                 row = find_row(a);
    int32_t const own = (int32_t)threadIdx.x * 4, step = (int32_t)gridDim.y * HD_NVFP4_PART;
    int32_t       begin = (int32_t)blockIdx.y * HD_NVFP4_PART;
    float const   share = 1.0f / (float)a.d;
    hd_release_next();
    if (threadIdx.x < THREADS / 32) sums[threadIdx.x] = 0;
    __syncthreads();
    float4      w = row.weight(begin + own);
    float const g = a.scale[blockIdx.z][0];
    bool const  is_dynamic = needs_dynamic(a, g);
    hd_await_previous();
    float4      x = row.load(begin + own);
    float const r = find_factor(row, share, a.eps, sums);
    float const dynamic = is_dynamic ? find_dynamic_scale(row, r, scratch) : 1;
    for (;;) {
        store_part(a, begin, row.is_wide, normalise(x, r, w), g, dynamic);
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
    bool const                         is_few = a->t <= FEW_ROWS;
    dim3 const grid((unsigned)a->t, is_few ? (unsigned)HD_NVFP4_PARTS(a->d) : 1,
                    is_few ? (unsigned)a->c : 1);
    if (a->t == 0 || a->d == 0) return HD_OK;
    return hd_launch(normalise_and_round, grid, hd_threads(a->d / 4, THREADS), 0,
                     hd_cuda_stream(stream), *a);
}
