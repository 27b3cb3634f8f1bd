#include "wgmma_rows.cuh"

/* gemm_fp8 for many tokens on Hopper, where they make enough tiles: see wgmma_rows.cuh. */

/* Each part of a tile's rows lies in one block of scales. */
template <int parts, int cols, int across>
using shape = hd_wr_shape<HD_FMT_FP8, parts, cols, across>;
using small = shape<1, 32, 2>;

bool hd_gemm_fp8_many_wgmma_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    /* A group of rows must begin a block of scales. */
    if (a->g > 1 && a->n % HD_FP8_BLOCK) return false;
    return hd_wr_supports<small>(a);
}

hd_status hd_gemm_fp8_many_wgmma(const void *args, hd_stream *stream)
{
    return hd_launch_wr<shape<2, 128, 1>, shape<1, 128, 1>, shape<1, 64, 2>, small>(
        (const hd_gemm_args *)args, stream);
}
