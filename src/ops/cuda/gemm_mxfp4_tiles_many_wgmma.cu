#include "wgmma_tiles_gemm.cuh"

/* gemm_mxfp4_tiles for many tokens on Hopper: see wgmma_tiles_dot.cuh. */

bool hd_gemm_mxfp4_tiles_many_wgmma_supports(const void *args)
{
    return hd_wt_gemm_supports<false>(args);
}

hd_status hd_gemm_mxfp4_tiles_many_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wt_gemm<HD_FMT_MXFP4_TILES, false>(args, stream);
}
