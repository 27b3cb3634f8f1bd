#ifndef HD_OPS_CUDA_WGMMA_GEMM_CUH
#define HD_OPS_CUDA_WGMMA_GEMM_CUH

#include "ops/gemm.h"
#include "wgmma_dot.cuh"

/* gemm for many tokens on Hopper: a cluster for each tile of rows (x), of tokens (y) and group
 * (z). */

template <int format>
static __global__ void __launch_bounds__(hd_wg_tile<format>::threads, 1)
    hd_wgmma_gemm(hd_gemm_args const a)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    auto *const                               s = (hd_wg_shared<format> *)shared;
    unsigned const cluster = cooperative_groups::this_cluster().num_blocks();
    int32_t const  t0 = (int32_t)blockIdx.y * HD_WG_TOKENS, q = (int32_t)blockIdx.z;
    int64_t const  row = (int64_t)q * a.n;
    if (threadIdx.x == 0) {
        s->job.w = (const uint8_t *)a.w + row * a.k * hd_wg_tile<format>::row_bytes / HD_WG_K;
        s->job.sf = (const uint8_t *)a.sf + hd_wg_scales_before<format>(row, a.k);
        s->job.n = a.n;
        s->job.k = a.k;
        s->job.scale = format == HD_FMT_NVFP4_TILES ? a.w_scale : 1.0f;
        s->job.row0 = (int32_t)(blockIdx.x / cluster) * hd_wg_tile<format>::rows;
        s->job.n_tokens = min(HD_WG_TOKENS, a.t - t0);
        s->job.is_wide = hd_is_wide(a.x, a.k);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < HD_WG_TOKENS; i += (int32_t)blockDim.x) {
        int64_t const t = t0 + i < a.t ? t0 + i : t0;
        s->job.x[i] = a.x + (t * a.g + q) * a.k;
        s->job.y[i] = a.y + (t * a.g + q) * a.n;
    }
    __syncthreads();
    hd_wg_make(s);
}

template <int format> static inline bool hd_wgmma_gemm_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    /* For fewer tokens another kernel reads the weights faster; tiles have none for rows so long
     * that a few tokens' activations fit no cluster. */
    if (a->t <= 8 && !hd_wg_tile<format>::is_four_bit) return false;
    /* A group of FP8 rows must begin a block of scales. */
    if (format == HD_FMT_FP8 && a->g > 1 && a->n % HD_FP8_BLOCK) return false;
    return a->k > 0 && a->k % hd_wg_tile<format>::columns == 0 &&
           hd_fits_grid_y(a->t, HD_WG_TOKENS) && a->g <= 65535;
}

template <int format>
static inline hd_status hd_launch_wgmma_gemm(const void *args, hd_stream *stream)
{
    using tile = hd_wg_tile<format>;
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    unsigned const tiles = hd_blocks(a->n, tile::rows);
    unsigned const cluster = hd_wg_share((int64_t)tiles * a->g, a->k);
    dim3 const     grid(tiles * cluster, hd_blocks(a->t, HD_WG_TOKENS), (unsigned)a->g);
    return hd_wg_launch<hd_gemm_args>(hd_wgmma_gemm<format>, *a, grid, cluster, tile::threads,
                                      sizeof(hd_wg_shared<format>), hd_cuda_stream(stream));
}

#endif
