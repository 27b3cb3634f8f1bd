#include "wgmma_grouped_gemm.cuh"

/* grouped_gemm_nvfp4_tiles for many tokens on Hopper: see wgmma_dot.cuh. */

bool hd_grouped_gemm_nvfp4_tiles_wgmma_supports(const void *args)
{
    return hd_wgmma_grouped_gemm_supports<HD_FMT_NVFP4_TILES>(args);
}

hd_status hd_grouped_gemm_nvfp4_tiles_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wgmma_grouped_gemm<HD_FMT_NVFP4_TILES>(args, stream);
}
