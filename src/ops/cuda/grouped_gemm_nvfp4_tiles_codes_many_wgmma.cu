#include "wgmma_tiles_grouped_gemm.cuh"

/* grouped_gemm_nvfp4_tiles for many tokens on Hopper whose activations are codes too: one plane of
 * f16 instead of up to three of bf16; see wgmma_tiles_grouped_gemm.cuh. */

bool hd_grouped_gemm_nvfp4_tiles_codes_many_wgmma_supports(const void *args)
{
    return ((const hd_grouped_gemm_args *)args)->has_codes && hd_wt_grouped_gemm_supports(args);
}

hd_status hd_grouped_gemm_nvfp4_tiles_codes_many_wgmma(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    return hd_launch_wt_grouped<hd_wt_shape<HD_FMT_NVFP4_TILES, 2, true>>(a, stream);
}
