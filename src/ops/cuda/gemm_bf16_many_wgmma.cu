#include "wgmma_rows.cuh"

/* gemm_bf16 for many tokens on Hopper, where they make enough tiles: see wgmma_rows.cuh. */

template <int cols, int across> using shape = hd_wr_shape<HD_FMT_BF16, 1, cols, across>;
using small = shape<32, 2>;

bool hd_gemm_bf16_many_wgmma_supports(const void *args)
{
    return hd_wr_supports<small>((const hd_gemm_args *)args);
}

hd_status hd_gemm_bf16_many_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wr<shape<256, 1>, shape<128, 1>, shape<64, 2>, small>(
        (const hd_gemm_args *)args, stream);
}
