#ifndef HD_OPS_CUDA_STREAMS_CUH
#define HD_OPS_CUDA_STREAMS_CUH

#include <cooperative_groups.h>

#include "ops/cuda/launch.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/hc_pre.h"

/* What hc_pre and hc_head share: z[i] = (fn[i] . flatten(s)) / sqrt(mean(s^2) + eps).
 *
 * A cluster of HD_MIX_BLOCKS blocks works on TOKENS tokens (1, or 4 where there are many, so that
 * fn is read once for them).  Each block takes a slice of the flattened width, each warp
 * one row of fn or a few; the partial sums meet through the cluster's shared memory, always in
 * block order, and every block then knows all of z.  No sum depends on TOKENS. */

#define HD_MIX_BLOCKS 8
#define HD_MIX_MAX_N  ((2 + HD_HC_MAX_STREAMS) * HD_HC_MAX_STREAMS)
#define HD_MIX_MANY   32 /* tokens from which on a cluster takes four */

/* 24 rows of m = 4 for 24 warps, or for 8 of them that use what they read of several tokens. */
template <int TOKENS> struct hd_mix_shape {
    static constexpr int rows = TOKENS == 1 ? 1 : 3; /* of fn that a warp reads at once */
    static constexpr int threads = TOKENS == 1 ? 768 : 256, warps = threads / 32;
    static constexpr int all = HD_MIX_BLOCKS * threads;
};

typedef struct hd_mix {
    const float *s;  /* [t, m, d] */
    const float *fn; /* [n, m*d]  */
    int32_t      t, m, d, n;
    float        eps;
} hd_mix;

/* Sums of one block's slice: n dot products, then the squares. */
template <int TOKENS> struct hd_mix_part {
    float sum[TOKENS][HD_MIX_MAX_N + 1];
};

static inline unsigned hd_mix_grid(int32_t t, int32_t tokens)
{
    return hd_blocks(t, tokens) * HD_MIX_BLOCKS;
}

/* The slice of block `rank`, [first, end): whole vectors of four but for the last. */
static __device__ __forceinline__ void hd_mix_slice(int64_t width, unsigned rank, int64_t *first,
                                                    int64_t *end)
{
    int64_t const slice = ((width + 3) / 4 + HD_MIX_BLOCKS - 1) / HD_MIX_BLOCKS * 4;
    *first = min(width, slice * rank);
    *end = min(width, *first + slice);
}

/* Dot products of a warp's rows from `row` on with TOKENS tokens from `token` on. */
template <int TOKENS>
static __device__ void hd_mix_rows(const hd_mix *x, int32_t token, int32_t row, unsigned rank,
                                   hd_mix_part<TOKENS> *out)
{
    constexpr int rows = hd_mix_shape<TOKENS>::rows;
    int64_t const width = (int64_t)x->m * x->d;
    int32_t const lane = (int32_t)threadIdx.x % 32;
    bool const    is_wide = hd_is_wide(x->s, width) && hd_is_wide(x->fn, width);
    float         dot[rows][TOKENS] = {}, square[TOKENS] = {};
    int64_t       first, end;
    hd_mix_slice(width, rank, &first, &end);
#pragma unroll(rows == 1 ? 8 : 4)
    for (int64_t c = first + 4 * lane; c < end; c += 128) {
        float4 v[TOKENS];
#pragma unroll
        for (int i = 0; i < TOKENS; i++) {
            int64_t const at = min(token + i, x->t - 1);
            v[i] = hd_load4(x->s + at * width + c, end - c, is_wide);
            square[i] = hd_dot4(v[i], v[i], square[i]);
        }
#pragma unroll
        for (int r = 0; r < rows; r++) {
            int64_t const at = min(row + r, x->n - 1);
            float4 const  w = hd_load4(x->fn + at * width + c, end - c, is_wide);
#pragma unroll
            for (int i = 0; i < TOKENS; i++) dot[r][i] = hd_dot4(w, v[i], dot[r][i]);
        }
    }
#pragma unroll
    for (int i = 0; i < TOKENS; i++) {
        float const squares = hd_warp_sum(square[i]);
        if (row == 0 && lane == 0) out->sum[i][x->n] = squares;
#pragma unroll
        for (int r = 0; r < rows; r++) {
            float const sum = hd_warp_sum(dot[r][i]);
            if (row + r < x->n && lane == 0) out->sum[i][row + r] = sum;
        }
    }
}

/* Fills z[TOKENS][HD_MIX_MAX_N] in shared memory, the same in all blocks of the cluster.
 * `part` is shared too.  Called by all threads of the cluster; after it nobody reads another
 * block's memory. */
template <int TOKENS>
static __device__ void hd_mix_streams(const hd_mix *x, int32_t token, hd_mix_part<TOKENS> *part,
                                      float z[TOKENS][HD_MIX_MAX_N])
{
    using shape = hd_mix_shape<TOKENS>;
    cooperative_groups::cluster_group const cluster = cooperative_groups::this_cluster();
    unsigned const                          rank = cluster.block_rank();
    int32_t const                           n = x->n, warp = (int32_t)threadIdx.x / 32;
    float const                             width = (float)x->m * (float)x->d;
    for (int32_t row = warp * shape::rows; row < n; row += shape::warps * shape::rows)
        hd_mix_rows<TOKENS>(x, token, row, rank, part);
    cluster.sync();
    for (int32_t at = (int32_t)threadIdx.x; at < TOKENS * n; at += shape::threads) {
        int32_t const i = at / n, row = at % n;
        float         dot = 0, square = 0;
        for (unsigned b = 0; b < HD_MIX_BLOCKS; b++) {
            const hd_mix_part<TOKENS> *const other = cluster.map_shared_rank(part, b);
            dot += other->sum[i][row];
            square += other->sum[i][n];
        }
        z[i][row] = dot / sqrtf(square / width + x->eps);
    }
    cluster.sync();
}

/* x[c] = sum_i weight[i] * s[i,c], shared by `workers` threads, of which this one is `worker`. */
static __device__ __forceinline__ void hd_weigh_streams(const hd_mix *x, int64_t token,
                                                        const float *weight, int32_t worker,
                                                        int32_t workers, float *out)
{
    const float *const s = x->s + token * x->m * x->d;
    for (int32_t c = worker; c < x->d; c += workers) {
        float sum = 0;
        for (int32_t i = 0; i < x->m; i++) sum = fmaf(weight[i], s[(int64_t)i * x->d + c], sum);
        out[token * x->d + c] = sum;
    }
}

static __device__ __forceinline__ float hd_sigmoid_cuda(float x) { return 1 / (1 + expf(-x)); }

#endif
