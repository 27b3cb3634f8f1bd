#include "tiles_grouped_gemm_sm90.cuh"

/* grouped_gemm_nvfp4_tiles for few tokens on Hopper: see tiles_grouped_gemm_sm90.cuh. */

bool hd_grouped_gemm_nvfp4_tiles_sm90_supports(const void *args)
{
    return hd_tiles_grouped_gemm_supports<HD_FMT_NVFP4_TILES, 2>(args);
}

hd_status hd_grouped_gemm_nvfp4_tiles_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tiles_grouped_gemm<HD_FMT_NVFP4_TILES, 2>(args, stream);
}
