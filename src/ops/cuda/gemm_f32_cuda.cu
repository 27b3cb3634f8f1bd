#include "rows_dot.cuh"

/* gemm_f32 on any GPU: see rows_dot.cuh. */

bool hd_gemm_f32_cuda_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_gemm_f32_cuda(const void *args, hd_stream *stream)
{
    return hd_launch_gemm<HD_FMT_F32>(args, stream);
}
