#include "ops/cache_write.h"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rows.cuh"

/* Bound by bytes, few of them.
 * Grid: a warp for each token and run of HD_ROW_RUN elements, WARPS of them in a block. */

#define WARPS 4

static __global__ void write_rows(hd_cache_write_args const a, hd_row_map const m)
{
    int32_t const runs = (a.d + HD_ROW_RUN - 1) / HD_ROW_RUN;
    int64_t const at = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int64_t const t = at / runs;
    hd_take_turn();
    if (t >= a.t || (a.pos[t] + 1) % a.group != 0) return;
    hd_row_place const place = hd_place_row(&m, a.seq[t], a.pos[t] / a.group % a.cap);
    hd_write_row_run(&m, a.pool, place, a.x + t * a.d, (int32_t)(at % runs));
}

bool hd_cache_write_cuda_supports(const void *args)
{
    const hd_cache_write_args *const a = (const hd_cache_write_args *)args;
    return hd_row_is_valid(&a->layout) && a->layout.d == a->d;
}

hd_status hd_cache_write_cuda(const void *args, hd_stream *stream)
{
    const hd_cache_write_args *const a = (const hd_cache_write_args *)args;
    int64_t const                    n = (int64_t)a->t * ((a->d + HD_ROW_RUN - 1) / HD_ROW_RUN);
    hd_row_map const                 m = hd_row_map_of(&a->layout, a->cap);
    if (n == 0) return HD_OK;
    return hd_launch(write_rows, hd_blocks(n, WARPS), WARPS * 32, 0, hd_cuda_stream(stream), *a, m);
}
