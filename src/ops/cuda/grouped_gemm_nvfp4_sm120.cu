#include "expert_units.cuh"
#include "w4a4_sm120.cuh"

/* grouped_gemm_nvfp4 from codes of activations: see w4a4_sm120.cuh.  Grid: rows in tiles of 16, and
 * experts; or, when there are fewer slots than experts, slots, of which the first that goes to an
 * expert does the work for all that go there.  A block takes the slots of its expert as columns,
 * 8 tiles of them at a time: the weights are read once for so many.  Up to eight tokens one tile is
 * enough, because a token goes to an expert once. */

/* The expert of this block, or -1 when a block before it has the same. */
static __device__ int32_t find_expert(const hd_grouped_gemm_args &a, bool is_by_slot)
{
    int32_t const y = (int32_t)blockIdx.y;
    if (!is_by_slot) return y;
    int32_t const e = a.ids[y];
    for (int32_t base = 0; base < y; base += 32) {
        int32_t const at = base + threadIdx.x % 32;
        if (__any_sync(~0u, at < y && a.ids[at] == e)) return -1;
    }
    return e;
}

template <int tiles>
static __global__ void __launch_bounds__(HD_W4A4_WARPS * 32)
    multiply_slots(hd_grouped_gemm_args const a, bool is_by_slot)
{
    int32_t const      columns = 8 * tiles;
    __shared__ float   sums[HD_W4A4_WARPS * HD_W4A4_ROWS * columns];
    __shared__ int32_t slots[columns], column[columns], n, at;
    int32_t const      row = (int32_t)blockIdx.x * HD_W4A4_ROWS, e = find_expert(a, is_by_slot);
    if (e < 0) return;
    hd_fp4_rows const w = {(const uint8_t *)a.w[e], (const uint8_t *)a.sf[e], a.k};
    hd_fp4_rows const x = {a.x_codes, a.x_sf, a.k};
    if (threadIdx.x == 0) at = 0;
    for (;;) {
        __syncthreads();
        if (threadIdx.x < 32) {
            int32_t       from = at;
            int32_t const found = hd_list_slots(a, e, columns, &from, slots);
            if (threadIdx.x == 0) n = found;
            if (threadIdx.x == 0) at = from;
        }
        __syncthreads();
        if (n == 0) return;
        for (int i = threadIdx.x; i < columns; i += HD_W4A4_WARPS * 32)
            column[i] = slots[i] < 0 || a.xs > 1 ? slots[i] : slots[i] / a.s;
        __syncthreads();
        hd_w4a4_part<tiles>(w, row, a.n, x, column, sums);
        __syncthreads();
        for (int i = threadIdx.x; i < HD_W4A4_ROWS * columns; i += HD_W4A4_WARPS * 32) {
            int32_t const r = row + i / columns, c = i % columns;
            if (r >= a.n || slots[c] < 0) continue;
            double const scale = (double)a.x_scale[column[c]] * (double)a.w_scale[e];
            a.y[(int64_t)slots[c] * a.n + r] = (float)(hd_w4a4_sum<tiles>(sums, i) * scale);
        }
    }
}

bool hd_grouped_gemm_nvfp4_sm120_supports(const void *args)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    return a->has_codes && a->e <= 65535 && (int64_t)a->t * a->s <= INT32_MAX - 32;
}

hd_status hd_grouped_gemm_nvfp4_sm120(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    int32_t const                     all = a->t * a->s;
    if (all == 0 || a->n == 0) return HD_OK;
    bool const is_by_slot = all < a->e;
    dim3 const grid(hd_blocks(a->n, HD_W4A4_ROWS), (unsigned)(is_by_slot ? all : a->e));
    dim3 const block(HD_W4A4_WARPS * 32);
    if (a->t <= 8)
        multiply_slots<1><<<grid, block, 0, hd_cuda_stream(stream)>>>(*a, is_by_slot);
    else
        multiply_slots<4><<<grid, block, 0, hd_cuda_stream(stream)>>>(*a, is_by_slot);
    return hd_launched();
}
