#ifndef HD_OPS_CUDA_FP8_GEMM_SM90_CUH
#define HD_OPS_CUDA_FP8_GEMM_SM90_CUH

#include "fp8_dot_sm90.cuh"
#include "ops/gemm.h"

/* gemm with FP8 weights for few tokens on Hopper: the units of fp8_dot_sm90.cuh. */

/* One group and up to four tokens; more tokens read the weights again, so prompts want
 * another kernel. */
struct hd_gemm_units {
    const hd_gemm_args &a;

    __device__ __forceinline__ hd_tile_matrix matrix(int32_t u) const
    {
        int64_t const row = (int64_t)(u % a.g) * a.n;
        return {(const uint8_t *)a.w + row * a.k,
                (const uint8_t *)a.sf + hd_tile::scales_before(row, a.k), a.n, a.k, 1.0f};
    }

    __device__ __forceinline__ void unit(int32_t i, hd_tile_unit *u) const
    {
        int32_t const group = i % a.g, t0 = i / a.g * HD_TILE_TOKENS;
        u->m = matrix(i);
        u->n = a.t - t0 < HD_TILE_TOKENS ? a.t - t0 : HD_TILE_TOKENS;
#pragma unroll
        for (int q = 0; q < HD_TILE_TOKENS; q++) {
            int64_t const at = (int64_t)(t0 + (q < u->n ? q : 0)) * a.g + group;
            u->x[q] = a.x + at * a.k;
            u->y[q] = a.y + at * a.n;
        }
    }
};

template <int n_tokens, int n_stages>
__global__ void __launch_bounds__(HD_TILE_WARPS * 32, 1) hd_tile_gemm(hd_gemm_args a, int per_row)
{
    extern __shared__ __align__(128) uint8_t shared[];
    hd_release_next();
    int32_t const units = a.g * ((a.t + HD_TILE_TOKENS - 1) / HD_TILE_TOKENS);
    hd_tile_run<n_tokens, n_stages>(hd_gemm_units{a}, hd_walk(a.n, a.k, per_row, units), shared,
                                    a.k);
}

static inline bool hd_tile_gemm_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    /* A group of FP8 rows must begin a block of scales. */
    if (a->g > 1 && a->n % HD_FP8_BLOCK) return false;
    return a->k % hd_tile::columns == 0 && a->k > 0 && a->t <= 16 &&
           hd_tile_stages(a->k, HD_TILE_TOKENS) > 0;
}

static inline hd_status hd_launch_tile_gemm(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    int const      tokens = hd_tile_tokens(a->t);
    int const      per_row = hd_warps_per_row((int64_t)hd_row_tiles(a->n) * a->g, a->k);
    int64_t const  units = (int64_t)a->g * ((a->t + HD_TILE_TOKENS - 1) / HD_TILE_TOKENS);
    unsigned const grid = hd_tile_grid(a->n, per_row, units);
    HD_TILE_LAUNCH(hd_tile_gemm, tokens, a->k, grid, stream, *a, per_row);
}

#endif
