#include "wgmma_gemm.cuh"

/* gemm_bf16 for many tokens on Hopper: see wgmma_dot.cuh. */

/* Tiles of so few rows would leave most of the GPU idle. */
#define FEW_ROWS   1024
#define FEW_TOKENS 64

bool hd_gemm_bf16_wgmma_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t <= FEW_TOKENS && (int64_t)a->n * a->g <= FEW_ROWS) return false;
    return hd_wgmma_gemm_supports<HD_FMT_BF16>(args);
}

hd_status hd_gemm_bf16_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wgmma_gemm<HD_FMT_BF16>(args, stream);
}
