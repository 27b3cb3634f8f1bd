#include "tile_grouped_gemm_sm90.cuh"

/* grouped_gemm_nvfp4 for few tokens on Hopper: see tile_grouped_gemm_sm90.cuh. */

bool hd_grouped_gemm_nvfp4_sm90_supports(const void *args)
{
    return hd_tile_grouped_gemm_supports<HD_FMT_NVFP4>(args);
}

hd_status hd_grouped_gemm_nvfp4_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tile_grouped_gemm<HD_FMT_NVFP4>(args, stream);
}
