#include "wgmma_tiles_gemm.cuh"

/* gemm_nvfp4_tiles for many tokens on Hopper: see wgmma_tiles_dot.cuh. */

bool hd_gemm_nvfp4_tiles_many_wgmma_supports(const void *args) { return hd_wt_gemm_supports(args); }

hd_status hd_gemm_nvfp4_tiles_many_wgmma(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    return a->has_codes ? hd_launch_wt_gemm<HD_FMT_NVFP4_TILES, true>(a, stream)
                        : hd_launch_wt_gemm<HD_FMT_NVFP4_TILES, false>(a, stream);
}
