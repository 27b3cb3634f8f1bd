#include "ops/add_streams.h"
#include "ops/cuda/launch.cuh"

/* Bound by bytes: (2m + 1) * d for each token.
 * Grid: a block for each token and run of THREADS channels; a thread adds to its channel of all
 * streams. */

#define THREADS 256

static __global__ void add_to_streams(hd_add_streams_args const a)
{
    int64_t const t = blockIdx.x;
    int32_t const c = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    if (c >= a.d) return;
    hd_take_turn();
    float const  x = a.x[t * a.d + c];
    float *const s = a.s + t * a.m * a.d + c;
    for (int32_t i = 0; i < a.m; i++) s[(int64_t)i * a.d] += x;
}

bool hd_add_streams_cuda_supports(const void *args)
{
    return hd_fits_grid_y(((const hd_add_streams_args *)args)->d, THREADS);
}

hd_status hd_add_streams_cuda(const void *args, hd_stream *stream)
{
    const hd_add_streams_args *const a = (const hd_add_streams_args *)args;
    if (a->t == 0 || a->d == 0) return HD_OK;
    dim3 const grid((unsigned)a->t, hd_blocks(a->d, THREADS));
    return hd_launch(add_to_streams, grid, THREADS, 0, hd_cuda_stream(stream), *a);
}
