#include "wgmma_tiles_gemm.cuh"

/* gemm_nvfp4_tiles for many tokens on Hopper whose activations are codes too: one plane of f16
 * instead of up to three of bf16; see wgmma_tiles_dot.cuh. */

bool hd_gemm_nvfp4_tiles_codes_many_wgmma_supports(const void *args)
{
    return ((const hd_gemm_args *)args)->has_codes && hd_wt_gemm_supports<true>(args);
}

hd_status hd_gemm_nvfp4_tiles_codes_many_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wt_gemm<HD_FMT_NVFP4_TILES, true>(args, stream);
}
