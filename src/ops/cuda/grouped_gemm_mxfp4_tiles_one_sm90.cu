#include "tiles_grouped_gemm_sm90.cuh"

/* grouped_gemm_mxfp4_tiles for one token on Hopper: half a processor a block, scales on sums of
 * blocks (hd_td_one, hd_td_tiles_one); see tiles_grouped_gemm_sm90.cuh. */

bool hd_grouped_gemm_mxfp4_tiles_one_sm90_supports(const void *args)
{
    return hd_tiles_grouped_gemm_one_supports<HD_FMT_MXFP4_TILES, 2>(args);
}

hd_status hd_grouped_gemm_mxfp4_tiles_one_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tiles_grouped_gemm_one<HD_FMT_MXFP4_TILES, 2>(args, stream);
}
