#include "wgmma_gemm.cuh"

/* gemm_nvfp4_tiles for many tokens on Hopper: see wgmma_dot.cuh. */

bool hd_gemm_nvfp4_tiles_wgmma_supports(const void *args)
{
    return hd_wgmma_gemm_supports<HD_FMT_NVFP4_TILES>(args);
}

hd_status hd_gemm_nvfp4_tiles_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wgmma_gemm<HD_FMT_NVFP4_TILES>(args, stream);
}
