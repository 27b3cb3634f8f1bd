#include "ops/cuda/streams.cuh"

/* Bound by bytes: (2 + m) * m rows of fn, 1.5 MB for the one token of a wide model, so a cluster
 * of blocks shares them.  Grid, tile and shared memory: streams.cuh.  Then the last warps of the
 * cluster balance comb, one for each token, while all others write x. */

#define M HD_HC_MAX_STREAMS
static_assert(M == 8, "a lane holds two elements of an 8 x 8 matrix");

/* Elements [lane / 8][lane % 8] and [lane / 8 + 4][lane % 8]; those beyond m are 0. */
typedef struct comb_pair {
    float low, high;
} comb_pair;

/* Over j: the eight lanes of a row. */
static __device__ __forceinline__ comb_pair sum_over_j(comb_pair c)
{
    for (int o = 4; o > 0; o >>= 1) {
        c.low += __shfl_xor_sync(0xffffffffu, c.low, o);
        c.high += __shfl_xor_sync(0xffffffffu, c.high, o);
    }
    return c;
}

/* Over i: four lanes and both elements of each. */
static __device__ __forceinline__ float sum_over_i(comb_pair c)
{
    float sum = c.low + c.high;
    for (int o = 16; o > 4; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    return sum;
}

/* 1 / x to an ulp, for normal x whose reciprocal is normal: shorter than a division, of which
 * forty wait for each other. */
static __device__ __forceinline__ float reciprocal(float x)
{
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return fmaf(fmaf(-x, r, 1.0f), r, r);
}

/* x * r, but 0 where x, beyond m, is 0 and r no number. */
static __device__ __forceinline__ float times(float x, float r) { return x == 0 ? 0 : x * r; }

static __device__ __forceinline__ comb_pair divide_by_rows(comb_pair c, float eps)
{
    comb_pair const sum = sum_over_j(c);
    return {times(c.low, reciprocal(sum.low + eps)), times(c.high, reciprocal(sum.high + eps))};
}

static __device__ __forceinline__ comb_pair divide_by_columns(comb_pair c, float eps)
{
    float const r = reciprocal(sum_over_i(c) + eps);
    return {times(c.low, r), times(c.high, r)};
}

/* exp(z - largest of its row); 0 beyond m. */
static __device__ __forceinline__ float exp_in_row(float z, bool is_in)
{
    float largest = is_in ? z : -INFINITY;
    for (int o = 4; o > 0; o >>= 1)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, o));
    return is_in ? expf(z - largest) : 0.0f;
}

/* The whole of comb for one token, by one warp; z points at its m * m values. */
static __device__ void balance(const hd_hc_pre_args *a, int64_t t, const float *z)
{
    int32_t const      lane = (int32_t)threadIdx.x % 32, m = a->m;
    int32_t const      i = lane / 8, j = lane % 8, low = i * m + j, high = (i + 4) * m + j;
    bool const         is_low = i < m && j < m, is_high = i + 4 < m && j < m;
    const float *const base = a->base + 2 * m;
    comb_pair          c = {0, 0};
    if (is_low) c.low = fmaf(z[low], a->scale[2], base[low]);
    if (is_high) c.high = fmaf(z[high], a->scale[2], base[high]);
    c = {exp_in_row(c.low, is_low), exp_in_row(c.high, is_high)};
    c = divide_by_rows(c, 0);
    if (is_low) c.low += a->hc_eps;
    if (is_high) c.high += a->hc_eps;
    c = divide_by_columns(c, a->hc_eps);
    for (int32_t k = 1; k < a->iters; k++)
        c = divide_by_columns(divide_by_rows(c, a->hc_eps), a->hc_eps);
    if (is_low) a->comb[t * m * m + low] = c.low;
    if (is_high) a->comb[t * m * m + high] = c.high;
}

/* Turns z[i] into pre[i] for i < m; the last block writes post. */
static __device__ void make_weights(const hd_hc_pre_args *a, int64_t t, bool is_last, float *z)
{
    int32_t const i = (int32_t)threadIdx.x % 32, m = a->m;
    if (i < m) z[i] = hd_sigmoid_cuda(fmaf(z[i], a->scale[0], a->base[i])) + a->hc_eps;
    if (is_last && i < m)
        a->post[t * m + i] = 2 * hd_sigmoid_cuda(fmaf(z[m + i], a->scale[1], a->base[m + i]));
}

template <int TOKENS>
static __global__ void __cluster_dims__(HD_MIX_BLOCKS)
    __launch_bounds__(hd_mix_shape<TOKENS>::threads) mix_for_block(hd_hc_pre_args const a)
{
    __shared__ hd_mix_part<TOKENS> part;
    __shared__ float               z[TOKENS][HD_MIX_MAX_N];
    hd_mix const                   mix = {a.s, a.fn, a.t, a.m, a.d, (2 + a.m) * a.m, a.eps};
    unsigned const                 rank = blockIdx.x % HD_MIX_BLOCKS;
    bool const                     is_last = rank == HD_MIX_BLOCKS - 1;
    int32_t const                  token = (int32_t)(blockIdx.x / HD_MIX_BLOCKS) * TOKENS;
    int32_t const                  warp = (int32_t)threadIdx.x / 32;
    hd_take_turn();
    hd_mix_streams<TOKENS>(&mix, token, &part, z);
    if (warp < TOKENS && token + warp < a.t) make_weights(&a, token + warp, is_last, z[warp]);
    __syncthreads();
    int32_t const workers = hd_mix_shape<TOKENS>::all - 32 * TOKENS;
    int32_t const worker = (int32_t)(rank * hd_mix_shape<TOKENS>::threads + threadIdx.x);
    int32_t const own = (worker - workers) / 32; /* the token whose comb is this warp's */
    if (worker < workers) {
        for (int32_t i = 0; i < TOKENS && token + i < a.t; i++)
            hd_weigh_streams(&mix, token + i, z[i], worker, workers, a.x);
    } else if (token + own < a.t) {
        balance(&a, token + own, z[own] + 2 * a.m);
    }
}

bool hd_hc_pre_cuda_supports(const void *args)
{
    return ((const hd_hc_pre_args *)args)->m <= HD_HC_MAX_STREAMS;
}

hd_status hd_hc_pre_cuda(const void *args, hd_stream *stream)
{
    const hd_hc_pre_args *const a = (const hd_hc_pre_args *)args;
    cudaStream_t const          on = hd_cuda_stream(stream);
    if (a->t == 0) return HD_OK;
    if (a->t < HD_MIX_MANY)
        return hd_launch(mix_for_block<1>, hd_mix_grid(a->t, 1), hd_mix_shape<1>::threads, 0, on,
                         *a);
    return hd_launch(mix_for_block<4>, hd_mix_grid(a->t, 4), hd_mix_shape<4>::threads, 0, on, *a);
}
