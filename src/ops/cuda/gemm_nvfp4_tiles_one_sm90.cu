#include "tiles_gemm_sm90.cuh"

/* gemm_nvfp4_tiles for one token on Hopper: half a processor a block, scales on sums of blocks
 * (hd_td_one, hd_td_tiles_one); see tiles_gemm_sm90.cuh. */

bool hd_gemm_nvfp4_tiles_one_sm90_supports(const void *args)
{
    return hd_tiles_gemm_one_supports<HD_FMT_NVFP4_TILES, 2>(args);
}

hd_status hd_gemm_nvfp4_tiles_one_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tiles_gemm_one<HD_FMT_NVFP4_TILES, 2>(args, stream);
}
