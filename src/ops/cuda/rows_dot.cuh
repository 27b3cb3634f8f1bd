#ifndef HD_OPS_CUDA_ROWS_DOT_CUH
#define HD_OPS_CUDA_ROWS_DOT_CUH

#include "launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "quant/matrix.h"

/* Portable products for all weight formats: right on any GPU, any k and any alignment.
 *
 * Bound by: bytes, without special care for them.  One warp makes one row of the matrix for
 *   eight tokens; lane l takes columns 8 l .. 8 l + 7 of every 256.  Where rows are few, several
 *   warps share one, each every parts-th 256 columns.
 * Sums: f32, per lane by rising k, then over lanes, then over warps; a token's sum does not
 *   depend on the others. */

#define HD_ROW_TOKENS 8
#define HD_ROW_WARPS  8 /* of a block */

struct hd_dot_matrix {
    const void *w, *sf;
    int32_t     n, k;
    float       scale;
};

/* One row of a matrix and the vectors it multiplies: y[i][y_row] = W[row] x[i]. */
struct hd_row_job {
    int64_t      row, y_row;
    bool         is_in; /* whether the row exists */
    int          n;     /* vectors; pointers of the others repeat one of theirs */
    const float *x[HD_ROW_TOKENS];
    float       *y[HD_ROW_TOKENS];
};

/* The scale of weights [k, k + 8) of a row. */
template <int format>
static __device__ __forceinline__ float hd_scale_of(const hd_dot_matrix &m, int64_t row, int32_t k)
{
    const uint8_t *const codes = (const uint8_t *)m.sf;
    if (format == HD_FMT_MXFP4)
        return hd_e8m0_number(codes[row * (m.k / HD_MXFP4_BLOCK) + k / HD_MXFP4_BLOCK]);
    if (format == HD_FMT_NVFP4)
        return hd_e4m3_number(codes[row * (m.k / HD_NVFP4_BLOCK) + k / HD_NVFP4_BLOCK]);
    int64_t const blocks = (m.k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    return ((const float *)m.sf)[row / HD_FP8_BLOCK * blocks + k / HD_FP8_BLOCK];
}

/* Whether eight weights may be read as vectors. */
static __device__ __forceinline__ bool hd_is_wide_matrix(const hd_dot_matrix &m)
{
    return m.k % 8 == 0 && ((uintptr_t)m.w & 15) == 0;
}

/* Weights [k, k + 8) of a row of a wide matrix. */
template <int format>
static __device__ __forceinline__ void hd_decode_wide(const hd_dot_matrix &m, int64_t row,
                                                      int32_t k, float w[8])
{
    int64_t const i = row * m.k + k;
    if (format == HD_FMT_F32) {
        *(float4 *)w = ((const float4 *)m.w)[i / 4];
        *(float4 *)(w + 4) = ((const float4 *)m.w)[i / 4 + 1];
    } else if (format == HD_FMT_BF16) {
        uint4 const    v = ((const uint4 *)m.w)[i / 8];
        uint32_t const pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int c = 0; c < 8; c++)
            w[c] = __uint_as_float(c & 1 ? pairs[c / 2] & 0xffff0000u : pairs[c / 2] << 16);
    } else if (format == HD_FMT_FP8) {
        uint2 const v = ((const uint2 *)m.w)[i / 8];
        float const scale = hd_scale_of<format>(m, row, k);
#pragma unroll
        for (int c = 0; c < 8; c++) w[c] = hd_e4m3_number((c < 4 ? v.x : v.y) >> c % 4 * 8) * scale;
    } else {
        uint32_t const v = ((const uint32_t *)m.w)[i / 8];
        float const    scale = hd_scale_of<format>(m, row, k);
#pragma unroll
        for (int c = 0; c < 8; c++) w[c] = hd_e2m1_number(v >> c * 4) * scale;
    }
}

/* The same of any matrix; weights behind its end are 0. */
template <int format>
static __device__ __forceinline__ void hd_decode_any(const hd_dot_matrix &m, int64_t row, int32_t k,
                                                     float w[8])
{
    bool const  is_plain = format == HD_FMT_F32 || format == HD_FMT_BF16;
    float const scale = is_plain ? 1.0f : hd_scale_of<format>(m, row, k);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int64_t const at = row * m.k + k + i;
        if (k + i >= m.k)
            w[i] = 0;
        else if (format == HD_FMT_F32)
            w[i] = ((const float *)m.w)[at];
        else if (format == HD_FMT_BF16)
            w[i] = hd_bf16_to_f32_cuda(((const uint16_t *)m.w)[at]);
        else if (format == HD_FMT_FP8)
            w[i] = hd_e4m3_number(((const uint8_t *)m.w)[at]) * scale;
        else
            w[i] = hd_e2m1_number(((const uint8_t *)m.w)[at / 2] >> (at & 1) * 4) * scale;
    }
}

/* sum + w . x[k .. k + 8), of which `width` exist. */
static __device__ __forceinline__ float hd_dot_eight(const float w[8], const float *x,
                                                     int32_t width, bool is_wide, float sum)
{
    if (width == 8) {
        float4 const low = hd_load4(x, 4, is_wide), high = hd_load4(x + 4, 4, is_wide);
        return hd_dot4(*(const float4 *)(w + 4), high, hd_dot4(*(const float4 *)w, low, sum));
    }
    for (int c = 0; c < width; c++) sum = fmaf(w[c], x[c], sum);
    return sum;
}

/* sum[i] = the lane's part of the products: every parts-th 256 columns, of which `part` is the
 * first. */
template <int format>
static __device__ __forceinline__ void hd_lane_dot(const hd_dot_matrix &m, const hd_row_job &j,
                                                   int part, int parts, float sum[HD_ROW_TOKENS])
{
    bool const is_wide = hd_is_wide_matrix(m), is_wide_x = hd_is_wide(j.x[0], m.k);
#pragma unroll
    for (int i = 0; i < HD_ROW_TOKENS; i++) sum[i] = 0;
#pragma unroll 2
    for (int32_t k = part * 256 + (int32_t)threadIdx.x % 32 * 8; k < m.k; k += parts * 256) {
        __align__(16) float w[8];
        int const           width = m.k - k < 8 ? m.k - k : 8;
        if (is_wide)
            hd_decode_wide<format>(m, j.row, k, w);
        else
            hd_decode_any<format>(m, j.row, k, w);
#pragma unroll
        for (int i = 0; i < HD_ROW_TOKENS; i++)
            if (i < j.n) sum[i] = hd_dot_eight(w, j.x[i] + k, width, is_wide_x, sum[i]);
    }
}

/* A row by one warp. */
template <int format>
static __device__ __forceinline__ void hd_row_dot(const hd_dot_matrix &m, const hd_row_job &j)
{
    float sum[HD_ROW_TOKENS];
    hd_lane_dot<format>(m, j, 0, 1, sum);
#pragma unroll
    for (int i = 0; i < HD_ROW_TOKENS; i++) {
        float const total = hd_warp_sum(sum[i]);
        if (i < j.n && threadIdx.x % 32 == 0) j.y[i][j.y_row] = total * m.scale;
    }
}

/* A row by `parts` warps; the whole block calls. */
template <int format>
static __device__ __forceinline__ void hd_row_dot_shared(const hd_dot_matrix &m,
                                                         const hd_row_job &j, int parts)
{
    __shared__ float part_sum[HD_ROW_WARPS][HD_ROW_TOKENS];
    int const        warp = (int)threadIdx.x / 32, part = warp % parts;
    float            sum[HD_ROW_TOKENS] = {};
    if (j.is_in) hd_lane_dot<format>(m, j, part, parts, sum);
#pragma unroll
    for (int i = 0; i < HD_ROW_TOKENS; i++) {
        float const total = hd_warp_sum(sum[i]);
        if (threadIdx.x % 32 == 0) part_sum[warp][i] = total;
    }
    __syncthreads();
    if (!j.is_in || part != 0) return;
#pragma unroll
    for (int i = 0; i < HD_ROW_TOKENS; i++) {
        float total = 0;
        for (int p = 0; p < parts; p++) total += part_sum[warp + p][i];
        if (i < j.n && threadIdx.x % 32 == 0) j.y[i][j.y_row] = total * m.scale;
    }
}

/* ---- gemm: blocks of 8 / parts rows x eight tokens; z is the group ---- */

template <int format> __global__ void hd_gemm_rows(hd_gemm_args a, int parts)
{
    hd_dot_matrix const m = {a.w, a.sf, a.n, a.k, format == HD_FMT_NVFP4 ? a.w_scale : 1.0f};
    int32_t const rows = HD_ROW_WARPS / parts, t0 = blockIdx.y * HD_ROW_TOKENS, q = blockIdx.z;
    int32_t const row = blockIdx.x * rows + threadIdx.x / 32 / parts;
    hd_row_job    j;
    hd_take_turn();
    j.row = (int64_t)q * a.n + row;
    j.y_row = row;
    j.is_in = row < a.n;
    j.n = a.t - t0 < HD_ROW_TOKENS ? a.t - t0 : HD_ROW_TOKENS;
#pragma unroll
    for (int i = 0; i < HD_ROW_TOKENS; i++) {
        int64_t const t = t0 + (i < j.n ? i : 0);
        j.x[i] = a.x + (t * a.g + q) * a.k;
        j.y[i] = a.y + (t * a.g + q) * a.n;
    }
    if (parts > 1)
        hd_row_dot_shared<format>(m, j, parts);
    else if (j.is_in)
        hd_row_dot<format>(m, j);
}

/* Warps that share a row, 1 to 8: enough to occupy the GPU, as long as each has 256 columns.  It
 * follows from the matrix alone, so that a row of y does not depend on the batch. */
static inline int hd_row_parts(const hd_gemm_args *a)
{
    int64_t const rows = (int64_t)a->n * a->g, wanted = 16 * (int64_t)hd_sm_count();
    int           parts = 1;
    while (parts < HD_ROW_WARPS && rows * parts < wanted && parts * 256 < a->k) parts *= 2;
    return parts;
}

template <int format> static inline hd_status hd_launch_gemm(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    int const  parts = hd_row_parts(a);
    dim3 const grid(hd_blocks(a->n, HD_ROW_WARPS / parts), hd_blocks(a->t, HD_ROW_TOKENS),
                    (unsigned)a->g);
    return hd_launch(hd_gemm_rows<format>, grid, HD_ROW_WARPS * 32, 0, hd_cuda_stream(stream), *a,
                     parts);
}

/* ---- grouped_gemm: blocks of eight rows; grid y walks the experts, each collects its slots ----
 */

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
    int32_t const e = blockIdx.y, row = blockIdx.x * HD_ROW_WARPS + threadIdx.x / 32;
    int32_t       next = 0, slots[HD_ROW_TOKENS] = {0};
    hd_take_turn();
    for (int n; (n = hd_collect_slots(a, e, &next, slots)) > 0;) {
        hd_dot_matrix const m = {a.w[e], format >= HD_FMT_FP8 ? a.sf[e] : NULL, a.n, a.k,
                                 format == HD_FMT_NVFP4 ? a.w_scale[e] : 1.0f};
        hd_row_job          j;
        j.row = j.y_row = row;
        j.is_in = row < a.n;
        j.n = n;
#pragma unroll
        for (int i = 0; i < HD_ROW_TOKENS; i++) {
            int64_t const slot = slots[i < n ? i : 0];
            j.x[i] = a.x + (a.xs == 1 ? slot / a.s : slot) * a.k;
            j.y[i] = a.y + slot * a.n;
        }
        if (j.is_in) hd_row_dot<format>(m, j);
    }
}

template <int format>
static inline hd_status hd_launch_grouped_gemm(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    if (a->t == 0 || a->s == 0 || a->n == 0) return HD_OK;
    dim3 const grid(hd_blocks(a->n, 8), (unsigned)a->e);
    return hd_launch(hd_grouped_gemm_rows<format>, grid, 256, 0, hd_cuda_stream(stream), *a);
}

#endif
