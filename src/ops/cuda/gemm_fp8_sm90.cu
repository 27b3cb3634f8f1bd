#include "fp8_gemm_sm90.cuh"

/* gemm_fp8 for few tokens on Hopper: see fp8_gemm_sm90.cuh. */

bool hd_gemm_fp8_sm90_supports(const void *args) { return hd_tile_gemm_supports(args); }

hd_status hd_gemm_fp8_sm90(const void *args, hd_stream *stream)
{
    return hd_launch_tile_gemm(args, stream);
}
