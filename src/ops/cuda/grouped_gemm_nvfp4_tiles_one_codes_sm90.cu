#include "tiles_grouped_gemm_sm90.cuh"

/* grouped_gemm_nvfp4_tiles for one token on Hopper whose activations are codes too: half a
 * processor a block, scales on sums of blocks (hd_td_one, hd_td_tiles_one); see
 * tiles_grouped_gemm_sm90.cuh. */

bool hd_grouped_gemm_nvfp4_tiles_one_codes_sm90_supports(const void *args)
{
    return ((const hd_grouped_gemm_args *)args)->has_codes &&
           hd_tiles_grouped_gemm_one_supports<HD_FMT_NVFP4_TILES, 1>(args);
}

hd_status hd_grouped_gemm_nvfp4_tiles_one_codes_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tiles_grouped_gemm_one<HD_FMT_NVFP4_TILES, 1>(args, stream);
}
