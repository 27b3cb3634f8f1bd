#include "wgmma_grouped_gemm.cuh"

/* grouped_gemm_mxfp4 for many tokens on Hopper: see wgmma_dot.cuh. */

bool hd_grouped_gemm_mxfp4_wgmma_supports(const void *args)
{
    return hd_wgmma_grouped_gemm_supports<HD_FMT_MXFP4>(args);
}

hd_status hd_grouped_gemm_mxfp4_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wgmma_grouped_gemm<HD_FMT_MXFP4>(args, stream);
}
