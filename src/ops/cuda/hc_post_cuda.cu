#include "ops/cuda/launch.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"

/* Bound by bytes: (2m + 1) * d for each token.
 * Grid: a block for each token and run of channels, `width` of them a thread: one where there are
 * few tokens, four where there are many.  It holds its channels of all streams, so it can write
 * them in place; the mixing weights stand in shared memory.  All loads are made before any is
 * waited for. */

#define THREADS 128
#define MANY    16 /* tokens */
#define MAX_M   HD_HC_MAX_STREAMS
static_assert(MAX_M * MAX_M + MAX_M <= THREADS, "a thread loads one weight");

static __device__ __forceinline__ void load_weights(const hd_hc_post_args &a, int64_t t,
                                                    float *comb, float *post)
{
    int32_t const i = (int32_t)threadIdx.x, mm = a.m * a.m;
    if (i < mm) comb[i] = a.comb[t * mm + i];
    if (i >= mm && i < mm + a.m) post[i - mm] = a.post[t * a.m + i - mm];
}

/* `width` channels of a row, of which `left` exist. */
template <int width> struct channels {
    float v[width];
};

template <int width>
static __device__ __forceinline__ channels<width> load(const float *p, int32_t left, bool is_wide)
{
    channels<width> x;
    float4 const    four = width == 4 && left > 0 ? hd_load4(p, left, is_wide) : float4{0, 0, 0, 0};
    float const     all[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int k = 0; k < width; k++) x.v[k] = all[k];
    if (width == 1 && left > 0) x.v[0] = *p;
    return x;
}

template <int width>
static __device__ __forceinline__ void store(float *p, channels<width> x, int32_t left,
                                             bool is_wide)
{
    if constexpr (width == 1)
        *p = x.v[0];
    else
        hd_store4(p, {x.v[0], x.v[1], x.v[2], x.v[3]}, left, is_wide);
}

/* For at most `most` streams. */
template <int most, int width>
static __global__ void __launch_bounds__(THREADS)
    mix_back(__grid_constant__ hd_hc_post_args const a)
{
    __shared__ float comb[most * most], post[most];
    int64_t const    t = blockIdx.x;
    int32_t const    c = (int32_t)(blockIdx.y * THREADS + threadIdx.x) * width, left = a.d - c;
    bool const       is_wide = hd_is_wide(a.s, a.d) && hd_is_wide(a.y, a.d);
    float *const     s = a.s + t * a.m * a.d + c;
    channels<width>  old[most], y;
    hd_take_turn();
#pragma unroll
    for (int32_t i = 0; i < most; i++)
        old[i] = load<width>(s + (int64_t)i * a.d, i < a.m ? left : 0, is_wide);
    y = load<width>(a.y + t * a.d + c, left, is_wide);
    load_weights(a, t, comb, post);
    __syncthreads();
    if (left <= 0) return;
    for (int32_t j = 0; j < a.m; j++) {
        channels<width> next;
#pragma unroll
        for (int k = 0; k < width; k++) next.v[k] = post[j] * y.v[k];
#pragma unroll
        for (int32_t i = 0; i < most; i++)
#pragma unroll
            for (int k = 0; k < width; k++)
                if (i < a.m) next.v[k] = fmaf(comb[i * a.m + j], old[i].v[k], next.v[k]);
        store<width>(s + (int64_t)j * a.d, next, left, is_wide);
    }
}

bool hd_hc_post_cuda_supports(const void *args)
{
    const hd_hc_post_args *const a = (const hd_hc_post_args *)args;
    return a->m <= MAX_M && hd_fits_grid_y(a->d, THREADS);
}

template <int width> static hd_status launch(const hd_hc_post_args *a, hd_stream *stream)
{
    dim3 const grid((unsigned)a->t, hd_blocks(a->d, width * THREADS));
    return hd_launch(a->m <= 4 ? mix_back<4, width> : mix_back<MAX_M, width>, grid, THREADS, 0,
                     hd_cuda_stream(stream), *a);
}

hd_status hd_hc_post_cuda(const void *args, hd_stream *stream)
{
    const hd_hc_post_args *const a = (const hd_hc_post_args *)args;
    if (a->t == 0 || a->d == 0) return HD_OK;
    return a->t < MANY ? launch<1>(a, stream) : launch<4>(a, stream);
}
