#include "ops/cuda/streams.cuh"
#include "ops/hc_head.h"

/* Bound by bytes: m rows of fn and the streams.  Grid, tile and shared memory: streams.cuh. */

template <int TOKENS>
static __global__ void __cluster_dims__(HD_MIX_BLOCKS)
    __launch_bounds__(hd_mix_shape<TOKENS>::threads) mix_for_head(hd_hc_head_args const a)
{
    __shared__ hd_mix_part<TOKENS> part;
    __shared__ float               z[TOKENS][HD_MIX_MAX_N];
    hd_mix const                   mix = {a.s, a.fn, a.t, a.m, a.d, a.m, a.eps};
    unsigned const                 rank = blockIdx.x % HD_MIX_BLOCKS;
    int32_t const                  token = (int32_t)(blockIdx.x / HD_MIX_BLOCKS) * TOKENS;
    hd_take_turn();
    hd_mix_streams<TOKENS>(&mix, token, &part, z);
    int32_t const worker = (int32_t)(rank * hd_mix_shape<TOKENS>::threads + threadIdx.x);
    for (int32_t at = (int32_t)threadIdx.x; at < TOKENS * a.m;
         at += hd_mix_shape<TOKENS>::threads) {
        float *const w = &z[at / a.m][at % a.m];
        *w = hd_sigmoid_cuda(fmaf(*w, a.scale[0], a.base[at % a.m])) + a.hc_eps;
    }
    __syncthreads();
    for (int32_t i = 0; i < TOKENS && token + i < a.t; i++)
        hd_weigh_streams(&mix, token + i, z[i], worker, hd_mix_shape<TOKENS>::all, a.x);
}

bool hd_hc_head_cuda_supports(const void *args)
{
    return ((const hd_hc_head_args *)args)->m <= HD_HC_MAX_STREAMS;
}

hd_status hd_hc_head_cuda(const void *args, hd_stream *stream)
{
    const hd_hc_head_args *const a = (const hd_hc_head_args *)args;
    cudaStream_t const           on = hd_cuda_stream(stream);
    if (a->t == 0) return HD_OK;
    if (a->t < HD_MIX_MANY)
        return hd_launch(mix_for_head<1>, hd_mix_grid(a->t, 1), hd_mix_shape<1>::threads, 0, on,
                         *a);
    return hd_launch(mix_for_head<4>, hd_mix_grid(a->t, 4), hd_mix_shape<4>::threads, 0, on, *a);
}
