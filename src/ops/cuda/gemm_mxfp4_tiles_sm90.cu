#include "tiles_gemm_sm90.cuh"

/* gemm_mxfp4_tiles for few tokens on Hopper: see tiles_gemm_sm90.cuh. */

bool hd_gemm_mxfp4_tiles_sm90_supports(const void *args)
{
    return hd_tiles_gemm_supports<HD_FMT_MXFP4_TILES, 2>(args);
}

hd_status hd_gemm_mxfp4_tiles_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tiles_gemm<HD_FMT_MXFP4_TILES, 2>(args, stream);
}
