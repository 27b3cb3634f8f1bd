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
                (const uint8_t *)a.sf + tile * hd_td_tile<format>::scale_bytes};
    }

    __device__ __forceinline__ float scale(int32_t group) const
    {
        return hd_td_tile<format>::is_nvfp4 ? a.w_scale : 1.0f;
    }

    __device__ __forceinline__ void list(void) const {}
    __device__ __forceinline__ bool keeps_x(void) const { return false; }
    __device__ __forceinline__ int  take(int32_t group, hd_td_team team) const { return a.t; }

    __device__ __forceinline__ const hd_gemm_args &args() const { return a; }

    __device__ __forceinline__ int64_t row(int32_t group, int token) const
    {
        return (int64_t)token * a.g + group;
    }

    __device__ __forceinline__ int64_t x_scale(int32_t group, int token) const { return token; }

    __device__ __forceinline__ float *y(int32_t group, int token) const
    {
        return a.y + ((int64_t)token * a.g + group) * a.n;
    }
};

template <int format, typename shape>
static __global__ void __launch_bounds__(shape::threads, shape::resident)
    hd_tiles_gemm(hd_gemm_args const a, hd_td_plan const p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    hd_td_run<format, shape>(hd_td_groups<format>{a}, p, hd_td_share(shared, p), a.g);
}

/* planes  of activations: 2 of floats, 1 of codes */
template <int format, int planes> static inline bool hd_tiles_gemm_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    hd_td_plan                p = hd_td_plan_for(HD_TD_TOKENS, planes);
    return a->t <= HD_TD_TOKENS && a->k > 0 && (int64_t)a->n * a->g <= INT32_MAX &&
           hd_td_choose<format, hd_td_shape<1, planes>>(a->n, a->k, HD_TD_CLUSTER, 0, &p);
}

template <int format, typename shape>
static inline hd_status hd_launch_tiles_shape(const hd_gemm_args *a, hd_td_plan *p,
                                              cudaStream_t stream)
{
    if (!hd_td_choose<format, shape>(a->n, a->k, HD_TD_CLUSTER, 0, p)) return HD_ERR_UNSUPPORTED;
    return hd_td_launch<shape, hd_gemm_args>(hd_tiles_gemm<format, shape>, *a, *p, a->g, true,
                                             stream);
}

template <int format, int planes>
static inline hd_status hd_launch_tiles_gemm(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    cudaStream_t const        q = hd_cuda_stream(stream);
    int const                 each = 8 / planes; /* tokens of a block of columns */
    hd_td_plan                p = hd_td_plan_for(a->t, planes);
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    if (a->t <= each) return hd_launch_tiles_shape<format, hd_td_shape<1, planes>>(a, &p, q);
    if (planes == 1 || a->t <= 2 * each)
        return hd_launch_tiles_shape<format, hd_td_shape<2, planes>>(a, &p, q);
    return hd_launch_tiles_shape<format, hd_td_shape<2 * planes, planes>>(a, &p, q);
}

/* ---- one token ---- */

template <int format, int planes> static inline bool hd_tiles_gemm_one_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    hd_td_plan                p = hd_td_plan_for(1, planes);
    return a->t == 1 && a->k > 0 && (int64_t)a->n * a->g <= INT32_MAX &&
           hd_td_choose<format, hd_td_one<planes>>(a->n, a->k, HD_TD_CLUSTER, 0, &p);
}

template <int format, int planes>
static inline hd_status hd_launch_tiles_gemm_one(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    hd_td_plan                p = hd_td_plan_for(1, planes);
    if (a->n == 0 || a->g == 0) return HD_OK;
    return hd_launch_tiles_shape<format, hd_td_one<planes>>(a, &p, hd_cuda_stream(stream));
}

#endif
