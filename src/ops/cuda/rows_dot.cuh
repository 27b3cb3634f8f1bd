#ifndef HD_OPS_CUDA_ROWS_DOT_CUH
#define HD_OPS_CUDA_ROWS_DOT_CUH

#include "launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "quant/matrix.h"

/* Portable products for all weight formats: right on any GPU, any k and any alignment.
 *
 * Bound by: bytes, without special care for them.  One warp makes one row of the matrix for
 *   eight tokens; lane l takes columns 8 l .. 8 l + 7 of every 256.
 * Sums: f32, per lane by rising k, then over lanes; a token's sum does not depend on the
 *   others. */

#define HD_ROW_TOKENS 8

struct hd_dot_matrix {
    const void *w, *sf;
    int32_t     n, k;
    float       scale;
};

/* Weights [k, k + 8) of a row; those behind k are 0. */
template <int format>
static __device__ __forceinline__ void hd_decode_eight(const hd_dot_matrix &m, int64_t row,
                                                       int32_t k, float w[8])
{
    if (format == HD_FMT_MXFP4 || format == HD_FMT_NVFP4) {
        constexpr int  block = format == HD_FMT_MXFP4 ? 32 : 16;
        const uint8_t *codes = (const uint8_t *)m.w + row * (m.k / 2) + k / 2;
        uint32_t const s = ((const uint8_t *)m.sf)[row * (m.k / block) + k / block];
        float const    scale = format == HD_FMT_NVFP4 ? hd_e4m3_number(s) : hd_e8m0_number(s);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[2 * i] = hd_e2m1_number(codes[i]) * scale;
            w[2 * i + 1] = hd_e2m1_number(codes[i] >> 4) * scale;
        }
        return;
    }
    float const scale = format == HD_FMT_FP8
                            ? ((const float *)m.sf)[row / 128 * ((m.k + 127) / 128) + k / 128]
                            : 1.0f;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int64_t const at = row * m.k + k + i;
        if (k + i >= m.k)
            w[i] = 0;
        else if (format == HD_FMT_FP8)
            w[i] = hd_e4m3_number(((const uint8_t *)m.w)[at]) * scale;
        else if (format == HD_FMT_BF16)
            w[i] = hd_bf16_to_f32_cuda(((const uint16_t *)m.w)[at]);
        else
            w[i] = ((const float *)m.w)[at];
    }
}

/* y[i][row] = W[row] x[i] for n <= 8 vectors, by one warp. */
template <int format>
static __device__ __forceinline__ void hd_row_dot(const hd_dot_matrix &m, int64_t row,
                                                  const float *const *x, float *const *y,
                                                  int64_t y_row, int n)
{
    float sum[HD_ROW_TOKENS] = {0};
    int   lane = threadIdx.x % 32;
    for (int32_t k = lane * 8; k < m.k; k += 256) {
        float w[8];
        hd_decode_eight<format>(m, row, k, w);
        int const width = m.k - k < 8 ? m.k - k : 8;
#pragma unroll
        for (int i = 0; i < HD_ROW_TOKENS; i++)
            if (i < n)
                for (int c = 0; c < width; c++) sum[i] = fmaf(w[c], x[i][k + c], sum[i]);
    }
#pragma unroll
    for (int i = 0; i < HD_ROW_TOKENS; i++) {
        float const total = hd_warp_sum(sum[i]);
        if (i < n && lane == 0) y[i][y_row] = total * m.scale;
    }
}

/* ---- gemm: blocks of eight rows x eight tokens; z is the group ---- */

template <int format> __global__ void hd_gemm_rows(hd_gemm_args a)
{
    hd_dot_matrix const m = {a.w, a.sf, a.n, a.k, format == HD_FMT_NVFP4 ? a.w_scale : 1.0f};
    int32_t const       row = blockIdx.x * 8 + threadIdx.x / 32, t0 = blockIdx.y * HD_ROW_TOKENS,
                  q = blockIdx.z;
    if (row >= a.n) return;
    const float *x[HD_ROW_TOKENS];
    float       *y[HD_ROW_TOKENS];
    int const    n = a.t - t0 < HD_ROW_TOKENS ? a.t - t0 : HD_ROW_TOKENS;
    for (int i = 0; i < HD_ROW_TOKENS; i++) {
        int64_t const t = t0 + (i < n ? i : 0);
        x[i] = a.x + (t * a.g + q) * a.k;
        y[i] = a.y + (t * a.g + q) * a.n;
    }
    hd_row_dot<format>(m, (int64_t)q * a.n + row, x, y, row, n);
}

template <int format> static inline hd_status hd_launch_gemm(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    dim3 const grid(hd_blocks(a->n, 8), hd_blocks(a->t, HD_ROW_TOKENS), (unsigned)a->g);
    hd_gemm_rows<format><<<grid, 256, 0, hd_cuda_stream(stream)>>>(*a);
    return hd_launched();
}

/* ---- grouped_gemm: blocks of eight rows; y walks the experts, each collects its slots ---- */

/* The next slots of expert e from *next on, at most eight, by rising slot. */
static __device__ __forceinline__ int hd_collect_slots(const hd_grouped_gemm_args &a, int32_t e,
                                                       int32_t *next, int32_t *slots)
{
    int32_t const all = a.t * a.s;
    int           n = 0;
    while (*next < all && n < HD_ROW_TOKENS) {
        int32_t const at = *next + threadIdx.x % 32;
        unsigned      hit = __ballot_sync(0xffffffffu, at < all && a.ids[at] == e);
        int32_t const base = *next;
        *next = base + 32;
        for (; hit && n < HD_ROW_TOKENS; hit &= hit - 1) slots[n++] = base + __ffs((int)hit) - 1;
        if (hit) *next = slots[n - 1] + 1;
    }
    return n;
}

template <int format> __global__ void hd_grouped_gemm_rows(hd_grouped_gemm_args a)
{
    int32_t const e = blockIdx.y, row = blockIdx.x * 8 + threadIdx.x / 32;
    int32_t       next = 0, slots[HD_ROW_TOKENS] = {0};
    for (int n; (n = hd_collect_slots(a, e, &next, slots)) > 0;) {
        hd_dot_matrix const m = {a.w[e], format >= HD_FMT_FP8 ? a.sf[e] : NULL, a.n, a.k,
                                 format == HD_FMT_NVFP4 ? a.w_scale[e] : 1.0f};
        const float        *x[HD_ROW_TOKENS];
        float              *y[HD_ROW_TOKENS];
        for (int i = 0; i < HD_ROW_TOKENS; i++) {
            int64_t const slot = slots[i < n ? i : 0];
            x[i] = a.x + (a.xs == 1 ? slot / a.s : slot) * a.k;
            y[i] = a.y + slot * a.n;
        }
        if (row < a.n) hd_row_dot<format>(m, row, x, y, row, n);
    }
}

template <int format>
static inline hd_status hd_launch_grouped_gemm(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    if (a->t == 0 || a->s == 0 || a->n == 0) return HD_OK;
    dim3 const grid(hd_blocks(a->n, 8), (unsigned)a->e);
    hd_grouped_gemm_rows<format><<<grid, 256, 0, hd_cuda_stream(stream)>>>(*a);
    return hd_launched();
}

#endif
