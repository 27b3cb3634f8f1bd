#include "ops/cuda/launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/gemm.h"

/* gemm_bf16 on any GPU, for few tokens.
 *
 * Bound by: latency where rows are few, by bytes otherwise.  Any k, any alignment.
 * Grid: a block takes `rows` rows at a time, and up to TILES times `tokens` tokens (y); z is the
 *   group.  Its warps share k: warp w takes chunks w, w + WARPS, ... of CHUNK columns, a lane
 *   eight columns of each.
 * What is not aligned to vectors takes the same sums by single elements, a row and a token at once.
 * Weights: HELD chunks of all rows are in flight at once, the first before the kernel in front
 *   has ended, others while the sums of those before are joined.
 * Sums: f32, of a lane by rising k, then over lanes, then over warps, whatever `rows`, `tokens`
 *   and the batch are. */

#define WARPS 8
#define CHUNK 256
#define HELD  2
#define TILES 8

/* Where the columns of a thread begin in chunk i of its warp. */
static __device__ __forceinline__ int32_t column_of(int32_t i)
{
    return (i * WARPS + (int32_t)threadIdx.x / 32) * CHUNK + (int32_t)threadIdx.x % 32 * 8;
}

/* Eight weights from column c of a row on, zero behind its end. */
template <bool is_wide>
static __device__ __forceinline__ uint4 load_weights(const uint16_t *row, int32_t c, int32_t k)
{
    if constexpr (is_wide) {
        return c < k ? *(const uint4 *)(row + c) : uint4{0, 0, 0, 0};
    } else {
        uint32_t pair[4] = {};
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (c + i < k) pair[i / 2] |= (uint32_t)row[c + i] << i % 2 * 16;
        return {pair[0], pair[1], pair[2], pair[3]};
    }
}

template <bool is_wide>
static __device__ __forceinline__ void load_activations(const float *row, int32_t c, int32_t k,
                                                        float4 x[2])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int32_t const left = k - c - 4 * i;
        x[i] = left > 0 ? hd_load4(row + c + 4 * i, left, is_wide) : float4{0, 0, 0, 0};
    }
}

/* sum + w . x, by rising k. */
static __device__ __forceinline__ float dot_eight(uint4 w, const float4 x[2], float sum)
{
    float4 const low = {__uint_as_float(w.x << 16), __uint_as_float(w.x & 0xffff0000u),
                        __uint_as_float(w.y << 16), __uint_as_float(w.y & 0xffff0000u)};
    float4 const high = {__uint_as_float(w.z << 16), __uint_as_float(w.z & 0xffff0000u),
                         __uint_as_float(w.w << 16), __uint_as_float(w.w & 0xffff0000u)};
    return hd_dot4(high, x[1], hd_dot4(low, x[0], sum));
}

/* The matrix of one group and the run of tokens of a block. */
struct few_job {
    const uint16_t *w;
    const float    *x;
    float          *y;
    int32_t         n, k, t; /* of the run */
    int64_t         x_step, y_step;
    int32_t         batches; /* of HELD chunks for each warp */
};

static __device__ __forceinline__ few_job find_job(const hd_gemm_args &a, int tokens)
{
    int64_t const q = blockIdx.z, t0 = (int64_t)blockIdx.y * TILES * tokens;
    few_job       j;
    j.w = (const uint16_t *)a.w + q * a.n * a.k;
    j.x = a.x + (t0 * a.g + q) * a.k;
    j.y = a.y + (t0 * a.g + q) * a.n;
    j.n = a.n;
    j.k = a.k;
    j.t = (int32_t)min((int64_t)TILES * tokens, a.t - t0);
    j.x_step = (int64_t)a.g * a.k;
    j.y_step = (int64_t)a.g * a.n;
    j.batches = (a.k + HELD * WARPS * CHUNK - 1) / (HELD * WARPS * CHUNK);
    return j;
}

template <bool is_wide, int rows>
static __device__ __forceinline__ void load_batch(const few_job &j, int32_t row, int32_t batch,
                                                  uint4 w[HELD][rows])
{
#pragma unroll
    for (int h = 0; h < HELD; h++)
#pragma unroll
        for (int r = 0; r < rows; r++)
            w[h][r] = load_weights<is_wide>(j.w + (int64_t)min(row + r, j.n - 1) * j.k,
                                            column_of(batch * HELD + h), j.k);
}

/* sum[r * tokens + i] += the lane's part of row r times token t + i. */
template <bool is_wide, int rows, int tokens>
static __device__ __forceinline__ void multiply(const few_job &j, int32_t t, int32_t batch,
                                                const uint4 w[HELD][rows], float *sum)
{
#pragma unroll
    for (int h = 0; h < HELD; h++)
#pragma unroll
        for (int i = 0; i < tokens; i++) {
            float4 x[2];
            load_activations<is_wide>(j.x + min(t + i, j.t - 1) * j.x_step,
                                      column_of(batch * HELD + h), j.k, x);
#pragma unroll
            for (int r = 0; r < rows; r++)
                sum[r * tokens + i] = dot_eight(w[h][r], x, sum[r * tokens + i]);
        }
}

/* Joins the sums of all threads and stores them.  `part` is shared and used in turns of two. */
template <int rows, int tokens>
static __device__ __forceinline__ void finish(const few_job &j, int32_t row, int32_t t, float *sum,
                                              float part[WARPS][rows * tokens])
{
    constexpr int sums = rows * tokens, once = sums < 32 ? sums : 32, each = 32 / once;
    int const     lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < sums; i += once) {
        float const own = hd_warp_join<once>(sum + i);
        if (lane % each == 0) part[warp][i + lane / each] = own;
    }
    __syncthreads();
    int const at = (int)threadIdx.x, r = at / tokens, i = at % tokens;
    if (at >= sums || row + r >= j.n || t + i >= j.t) return;
    float total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) total += part[w][at];
    j.y[(t + i) * j.y_step + row + r] = total;
}

template <bool is_wide, int rows, int tokens>
static __global__ void __launch_bounds__(WARPS * 32, tokens > 1 ? 1 : 2)
    multiply_rows(hd_gemm_args const a)
{
    __shared__ float part[2][WARPS][rows * tokens];
    few_job const    j = find_job(a, tokens);
    int32_t const    step = (int32_t)gridDim.x * rows;
    int32_t          row = (int32_t)blockIdx.x * rows;
    uint4            w[HELD][rows];
    int              turn = 0;
    hd_release_next();
    load_batch<is_wide>(j, row, 0, w);
    hd_await_previous();
    for (; row < j.n; row += step)
        for (int32_t t = 0; t < j.t; t += tokens, turn ^= 1) {
            float sum[rows * tokens] = {};
            for (int32_t batch = 0; batch < j.batches; batch++) {
                bool const is_last = batch + 1 == j.batches, is_done = t + tokens >= j.t;
                multiply<is_wide, rows, tokens>(j, t, batch, w, sum);
                if (!is_last)
                    load_batch<is_wide>(j, row, batch + 1, w);
                else if (is_done && row + step < j.n)
                    load_batch<is_wide>(j, row + step, 0, w);
                else if (!is_done && batch > 0)
                    load_batch<is_wide>(j, row, 0, w);
            }
            finish<rows, tokens>(j, row, t, sum, part[turn]);
        }
}

/* As many rows for a block as give each multiprocessor one, up to `most`. */
template <bool is_wide, int rows, int tokens, int most>
static hd_status launch(const hd_gemm_args *a, hd_stream *stream)
{
    int64_t const sums = (a->n + rows - 1) / rows, fit = (tokens > 1 ? 1 : 2) * hd_sm_count();
    if constexpr (rows < most)
        if (sums * a->g > hd_sm_count()) return launch<is_wide, 2 * rows, tokens, most>(a, stream);
    int64_t const blocks = sums * a->g > fit ? (fit + a->g - 1) / a->g : sums;
    dim3 const    grid((unsigned)blocks, hd_blocks(a->t, TILES * tokens), (unsigned)a->g);
    return hd_launch(multiply_rows<is_wide, rows, tokens>, grid, WARPS * 32, 0,
                     hd_cuda_stream(stream), *a);
}

bool hd_gemm_bf16_cuda_supports(const void *args)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    return hd_fits_grid_y(a->t, TILES) && a->g <= 65535;
}

hd_status hd_gemm_bf16_cuda(const void *args, hd_stream *stream)
{
    const hd_gemm_args *const a = (const hd_gemm_args *)args;
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    if (a->k % 8 || (((uintptr_t)a->w | (uintptr_t)a->x) & 15))
        return launch<false, 1, 1, 1>(a, stream);
    if (a->t == 1) return launch<true, 1, 1, 8>(a, stream);
    if (a->t == 2) return launch<true, 1, 2, 8>(a, stream);
    return a->t <= 4 ? launch<true, 1, 4, 8>(a, stream) : launch<true, 1, 8, 4>(a, stream);
}
