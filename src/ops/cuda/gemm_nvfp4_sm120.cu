#include "ops/gemm.h"
#include "w4a4_sm120.cuh"

/* gemm_nvfp4 from codes of activations: see w4a4_sm120.cuh.  Grid: rows in tiles of 16, groups,
 * and columns 64 at a time. */

template <int tiles>
static __global__ void __launch_bounds__(HD_W4A4_WARPS * 32) multiply_codes(hd_gemm_args const a)
{
    __shared__ float   sums[HD_W4A4_WARPS * HD_W4A4_ROWS * 8 * tiles];
    __shared__ int32_t column[8 * tiles];
    int32_t const      row = (int32_t)blockIdx.x * HD_W4A4_ROWS, group = (int32_t)blockIdx.y;
    int32_t const      first = (int32_t)blockIdx.z * 8 * tiles;
    int64_t const      offset = (int64_t)group * a.k;
    hd_fp4_rows const  w = {(const uint8_t *)a.w + (int64_t)group * a.n * (a.k / 2),
                            (const uint8_t *)a.sf + (int64_t)group * a.n * (a.k / 16), a.k};
    /* Row t of a group is row t * g of rows as wide as one group. */
    hd_fp4_rows const x = {a.x_codes + offset / 2, a.x_sf + offset / 16, a.k};
    if (threadIdx.x < 8 * tiles) {
        int32_t const t = first + (int32_t)threadIdx.x;
        column[threadIdx.x] = t < a.t ? t * a.g : -1;
    }
    __syncthreads();
    hd_w4a4_part<tiles>(w, row, a.n, x, column, sums);
    __syncthreads();
    for (int i = threadIdx.x; i < HD_W4A4_ROWS * 8 * tiles; i += HD_W4A4_WARPS * 32) {
        int32_t const r = row + i / (8 * tiles), t = first + i % (8 * tiles);
        if (r >= a.n || t >= a.t) continue;
        double const scale = (double)a.x_scale[t] * (double)a.w_scale;
        a.y[((int64_t)t * a.g + group) * a.n + r] = (float)(hd_w4a4_sum<tiles>(sums, i) * scale);
    }
}

bool hd_gemm_nvfp4_sm120_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    return a->has_codes && a->g <= 65535 && hd_fits_grid_y(a->t, HD_W4A4_COLUMNS) &&
           (int64_t)a->t * a->g <= INT32_MAX;
}

hd_status hd_gemm_nvfp4_sm120(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t == 0 || a->n == 0) return HD_OK;
    int32_t const tiles = a->t <= 8 ? 1 : a->t <= 16 ? 2 : a->t <= 32 ? 4 : HD_W4A4_TILES;
    dim3 const    grid(hd_blocks(a->n, HD_W4A4_ROWS), (unsigned)a->g, hd_blocks(a->t, 8 * tiles));
    dim3 const    block(HD_W4A4_WARPS * 32);
    switch (tiles) {
    case 1: multiply_codes<1><<<grid, block, 0, hd_cuda_stream(stream)>>>(*a); break;
    case 2: multiply_codes<2><<<grid, block, 0, hd_cuda_stream(stream)>>>(*a); break;
    case 4: multiply_codes<4><<<grid, block, 0, hd_cuda_stream(stream)>>>(*a); break;
    default: multiply_codes<8><<<grid, block, 0, hd_cuda_stream(stream)>>>(*a); break;
    }
    return hd_launched();
}
