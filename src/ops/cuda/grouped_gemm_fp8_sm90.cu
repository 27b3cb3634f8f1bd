#include "fp8_grouped_gemm_sm90.cuh"

/* grouped_gemm_fp8 for few tokens on Hopper: see fp8_grouped_gemm_sm90.cuh. */

bool hd_grouped_gemm_fp8_sm90_supports(const void *args)
{
    return hd_tile_grouped_gemm_supports(args);
}

hd_status hd_grouped_gemm_fp8_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tile_grouped_gemm(args, stream);
}
