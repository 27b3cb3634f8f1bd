#include "wgmma_tiles_grouped_gemm.cuh"

/* grouped_gemm_nvfp4_tiles for very many tokens on Hopper: see wgmma_tiles_dot.cuh. */

bool hd_grouped_gemm_nvfp4_tiles_many_wgmma_supports(const void *args)
{
    return hd_wt_grouped_gemm_supports<HD_FMT_NVFP4_TILES>(args);
}

hd_status hd_grouped_gemm_nvfp4_tiles_many_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wt_grouped<HD_FMT_NVFP4_TILES>(args, stream);
}
