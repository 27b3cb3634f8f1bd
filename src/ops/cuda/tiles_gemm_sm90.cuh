#ifndef HD_OPS_CUDA_TILES_GEMM_SM90_CUH
#define HD_OPS_CUDA_TILES_GEMM_SM90_CUH

#include "ops/gemm.h"
#include "tiles_dot_sm90.cuh"

/* gemm with four-bit weights in tiles for few tokens on Hopper: the units of tiles_dot_sm90.cuh are
 * the groups. */

template <int format> struct hd_td_groups {
    const hd_gemm_args &a;

    __device__ __forceinline__ hd_td_matrix matrix(int32_t group) const
    {
        int64_t const tile = (int64_t)group * (a.n / HD_TILES_ROWS) * (a.k / HD_TILES_COLS);
        return {(const uint8_t *)a.w + tile * HD_TILES_CODE_BYTES,
                (const uint8_t *)a.sf + tile * hd_td_tile<format>::scale_bytes,
                hd_td_tile<format>::is_nvfp4 ? a.w_scale : 1.0f};
    }

    __device__ __forceinline__ int take(int32_t group) const { return a.t; }

    __device__ __forceinline__ const float *x(int32_t group, int token) const
    {
        return a.x + ((int64_t)token * a.g + group) * a.k;
    }

    __device__ __forceinline__ float *y(int32_t group, int token) const
    {
        return a.y + ((int64_t)token * a.g + group) * a.n;
    }
};

template <int format, int blocks>
static __global__ void __launch_bounds__(HD_TD_THREADS, 1)
    hd_tiles_gemm(hd_gemm_args const a, hd_td_plan const p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    hd_td_run<format, blocks>(hd_td_groups<format>{a}, p, hd_td_share<blocks>(shared, p), a.g);
}

template <int format> static inline bool hd_tiles_gemm_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    hd_td_plan                p;
    return a->t <= HD_TD_TOKENS && a->k > 0 && (int64_t)a->n * a->g <= INT32_MAX &&
           hd_td_choose<format>(a->n, a->k, HD_TD_TOKENS, HD_TD_CLUSTER, 0, &p);
}

template <int format>
static inline hd_status hd_launch_tiles_gemm(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    void (*const kernels[])(hd_gemm_args, hd_td_plan) = {
        NULL, hd_tiles_gemm<format, 1>, hd_tiles_gemm<format, 2>, NULL, hd_tiles_gemm<format, 4>};
    hd_td_plan p;
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    if (!hd_td_choose<format>(a->n, a->k, a->t, HD_TD_CLUSTER, 0, &p)) return HD_ERR_UNSUPPORTED;
    return hd_td_launch<hd_gemm_args>(kernels[p.blocks], *a, p, a->g, hd_cuda_stream(stream));
}

#endif
