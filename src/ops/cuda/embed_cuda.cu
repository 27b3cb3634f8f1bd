#include "ops/cuda/launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/embed.h"

/* Bound by bytes: d read and m * d written for each token, nothing computed.
 * Grid: a block for each token and run of THREADS channels; a thread copies one channel into
 * all streams. */

#define THREADS 256

static __global__ void copy_embeddings(hd_embed_args const a)
{
    int64_t const t = blockIdx.x;
    int32_t const c = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    if (c >= a.d) return;
    hd_take_turn();
    int64_t const from = (int64_t)a.id[t] * a.d + c;
    float const   v = a.is_f32 ? ((const float *)a.table)[from]
                               : hd_bf16_to_f32_cuda(((const uint16_t *)a.table)[from]);
    float *const  y = a.y + t * a.m * a.d + c;
    for (int32_t i = 0; i < a.m; i++) y[(int64_t)i * a.d] = v;
}

bool hd_embed_cuda_supports(const void *args)
{
    return hd_fits_grid_y(((const hd_embed_args *)args)->d, THREADS);
}

hd_status hd_embed_cuda(const void *args, hd_stream *stream)
{
    const hd_embed_args *const a = (const hd_embed_args *)args;
    if (a->t == 0 || a->d == 0) return HD_OK;
    dim3 const grid((unsigned)a->t, hd_blocks(a->d, THREADS));
    return hd_launch(copy_embeddings, grid, THREADS, 0, hd_cuda_stream(stream), *a);
}
