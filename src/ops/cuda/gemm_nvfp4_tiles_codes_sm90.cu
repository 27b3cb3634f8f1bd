#include "tiles_gemm_sm90.cuh"

/* gemm_nvfp4_tiles for few tokens on Hopper whose activations are codes too: one plane of f16
 * instead of two, so half the room, the products and the loads; see tiles_gemm_sm90.cuh. */

bool hd_gemm_nvfp4_tiles_codes_sm90_supports(const void *args)
{
    return ((const hd_gemm_args *)args)->has_codes &&
           hd_tiles_gemm_supports<HD_FMT_NVFP4_TILES, 1>(args);
}

hd_status hd_gemm_nvfp4_tiles_codes_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tiles_gemm<HD_FMT_NVFP4_TILES, 1>(args, stream);
}
