#include "ops/cuda/launch.cuh"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"

/* Bound by bytes: (2m + 1) * d for each token.
 * Grid: a block for each token and run of THREADS channels.  A thread holds its channel of all
 * streams, so it can write them in place; the mixing weights stand in shared memory.  All loads
 * are made before any is waited for. */

#define THREADS 256
#define MAX_M   HD_HC_MAX_STREAMS
static_assert(MAX_M * MAX_M + MAX_M <= THREADS, "a thread loads one weight");

static __device__ void load_weights(const hd_hc_post_args *a, int64_t t, float *comb, float *post)
{
    int32_t const i = (int32_t)threadIdx.x, mm = a->m * a->m;
    if (i < mm) comb[i] = a->comb[t * mm + i];
    if (i >= mm && i < mm + a->m) post[i - mm] = a->post[t * a->m + i - mm];
}

static __global__ void mix_back(hd_hc_post_args const a)
{
    __shared__ float comb[MAX_M * MAX_M], post[MAX_M];
    int64_t const    t = blockIdx.x;
    int32_t const    c = (int32_t)(blockIdx.y * THREADS + threadIdx.x);
    float *const     s = a.s + t * a.m * a.d + c;
    float            old[MAX_M], y = 0;
    hd_take_turn();
#pragma unroll
    for (int32_t i = 0; i < MAX_M; i++) old[i] = i < a.m && c < a.d ? s[(int64_t)i * a.d] : 0;
    if (c < a.d) y = a.y[t * a.d + c];
    load_weights(&a, t, comb, post);
    __syncthreads();
    if (c >= a.d) return;
    for (int32_t j = 0; j < a.m; j++) {
        float next = post[j] * y;
#pragma unroll
        for (int32_t i = 0; i < MAX_M; i++)
            if (i < a.m) next = fmaf(comb[i * a.m + j], old[i], next);
        s[(int64_t)j * a.d] = next;
    }
}

bool hd_hc_post_cuda_supports(const void *args)
{
    const hd_hc_post_args *const a = (const hd_hc_post_args *)args;
    return a->m <= MAX_M && hd_fits_grid_y(a->d, THREADS);
}

hd_status hd_hc_post_cuda(const void *args, hd_stream *stream)
{
    const hd_hc_post_args *const a = (const hd_hc_post_args *)args;
    if (a->t == 0 || a->d == 0) return HD_OK;
    dim3 const grid((unsigned)a->t, hd_blocks(a->d, THREADS));
    return hd_launch(mix_back, grid, THREADS, 0, hd_cuda_stream(stream), *a);
}
