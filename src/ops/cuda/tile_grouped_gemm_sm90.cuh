#ifndef HD_OPS_CUDA_TILE_GROUPED_GEMM_SM90_CUH
#define HD_OPS_CUDA_TILE_GROUPED_GEMM_SM90_CUH

#include "ops/grouped_gemm.h"
#include "tile_dot_sm90.cuh"

/* grouped_gemm with coded weights for few tokens on Hopper: the units of tile_dot_sm90.cuh.
 * One token: a unit is one slot.  More: a unit is one expert and up to four of the slots that
 * go to it, so that an expert's weights are read once for them; every block finds the units
 * from the ids alone. */

template <int format> struct hd_slot_units {
    const hd_grouped_gemm_args &a;

    __device__ __forceinline__ hd_tile_matrix matrix(int32_t slot) const
    {
        int32_t const e = a.ids[slot];
        return {(const uint8_t *)a.w[e], (const uint8_t *)a.sf[e], a.n, a.k,
                format == HD_FMT_NVFP4 ? a.w_scale[e] : 1.0f};
    }

    __device__ __forceinline__ void unit(int32_t slot, hd_tile_unit *u) const
    {
        u->m = matrix(slot);
        u->n = 1;
#pragma unroll
        for (int q = 0; q < HD_TILE_TOKENS; q++) {
            u->x[q] = a.x + (int64_t)(a.xs == 1 ? slot / a.s : slot) * a.k;
            u->y[q] = a.y + (int64_t)slot * a.n;
        }
    }
};

#define HD_TILE_EXPERTS 1024

/* first[e] is the number of units before expert e; first[e_count] all of them. */
template <int format> struct hd_expert_units {
    const hd_grouped_gemm_args &a;
    const int32_t              *first;

    __device__ __forceinline__ int32_t expert_of(int32_t u) const
    {
        int32_t low = 0, high = a.e - 1;
        while (low < high) {
            int32_t const middle = (low + high + 1) / 2;
            if (first[middle] <= u)
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    }

    __device__ __forceinline__ hd_tile_matrix matrix(int32_t u) const
    {
        int32_t const e = expert_of(u);
        return {(const uint8_t *)a.w[e], (const uint8_t *)a.sf[e], a.n, a.k,
                format == HD_FMT_NVFP4 ? a.w_scale[e] : 1.0f};
    }

    /* The slots of expert e that come as its number 4 pass .. 4 pass + 3; every warp looks. */
    __device__ __forceinline__ int collect(int32_t e, int32_t pass,
                                           int32_t slots[HD_TILE_TOKENS]) const
    {
        int32_t const all = a.t * a.s;
        int           seen = 0, n = 0;
        for (int32_t base = 0; base < all && n < HD_TILE_TOKENS; base += 32) {
            int32_t const at = base + threadIdx.x % 32;
            unsigned      hit = __ballot_sync(0xffffffffu, at < all && a.ids[at] == e);
            for (; hit && n < HD_TILE_TOKENS; hit &= hit - 1)
                if (seen++ >= pass * HD_TILE_TOKENS) slots[n++] = base + __ffs((int)hit) - 1;
        }
        return n;
    }

    __device__ __forceinline__ void unit(int32_t i, hd_tile_unit *u) const
    {
        int32_t const e = expert_of(i);
        int32_t       slots[HD_TILE_TOKENS] = {0, 0, 0, 0};
        u->m = matrix(i);
        u->n = collect(e, i - first[e], slots);
#pragma unroll
        for (int q = 0; q < HD_TILE_TOKENS; q++) {
            int64_t const slot = slots[q];
            u->x[q] = a.x + (a.xs == 1 ? slot / a.s : slot) * a.k;
            u->y[q] = a.y + slot * a.n;
        }
    }
};

template <int format, int n_tokens, int n_stages>
__global__ void __launch_bounds__(HD_TILE_WARPS * 32, 1)
    hd_tile_by_slot(hd_grouped_gemm_args a, int per_row)
{
    extern __shared__ __align__(128) uint8_t shared[];
    hd_tile_run<format, n_tokens, n_stages>(
        hd_slot_units<format>{a}, hd_walk<format>(a.n, a.k, per_row, a.t * a.s), shared, a.k);
}

/* Counts the slots of each expert and adds up the units before it. */
static __device__ void hd_count_units(const hd_grouped_gemm_args &a, int32_t *first)
{
    int32_t const threads = HD_TILE_WARPS * 32;
    for (int32_t e = threadIdx.x; e <= a.e; e += threads) first[e] = 0;
    __syncthreads();
    for (int32_t i = threadIdx.x; i < a.t * a.s; i += threads) atomicAdd(&first[a.ids[i] + 1], 1);
    __syncthreads();
    if (threadIdx.x < 32) {
        int32_t before = 0;
        for (int32_t base = 1; base <= a.e; base += 32) {
            int32_t const e = base + threadIdx.x;
            int32_t       sum = e <= a.e ? (first[e] + HD_TILE_TOKENS - 1) / HD_TILE_TOKENS : 0;
            for (int o = 1; o < 32; o *= 2) {
                int32_t const left = __shfl_up_sync(0xffffffffu, sum, o);
                if ((int)threadIdx.x >= o) sum += left;
            }
            if (e <= a.e) first[e] = before + sum;
            before += __shfl_sync(0xffffffffu, sum, 31);
        }
    }
    __syncthreads();
}

template <int format, int n_tokens, int n_stages>
__global__ void __launch_bounds__(HD_TILE_WARPS * 32, 1)
    hd_tile_by_expert(hd_grouped_gemm_args a, int per_row)
{
    extern __shared__ __align__(128) uint8_t shared[];
    int32_t *const                           first = (int32_t *)shared;
    uint8_t *const                           rest = shared + HD_TILE_TABLE_BYTES;
    hd_count_units(a, first);
    hd_tile_run<format, n_tokens, n_stages>(hd_expert_units<format>{a, first},
                                            hd_walk<format>(a.n, a.k, per_row, first[a.e]), rest,
                                            a.k);
}

template <int format> static inline bool hd_tile_grouped_gemm_supports(const void *args)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    return a->k % hd_tile<format>::columns == 0 && a->k > 0 && a->k <= 7168 &&
           (int64_t)a->t * a->s <= 16 * (int64_t)a->e && a->e <= HD_TILE_EXPERTS;
}

template <int format>
static inline hd_status hd_launch_tile_grouped_gemm(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    if (a->t == 0 || a->s == 0 || a->n == 0) return HD_OK;
    int const per_row = hd_warps_per_row<format>((int64_t)hd_row_tiles(a->n) * a->s, a->k);
    if (a->t == 1)
        HD_TILE_LAUNCH(hd_tile_by_slot, format, 1, a->k, hd_tile_grid(a->n, per_row, a->s), stream,
                       *a, per_row);
    HD_TILE_LAUNCH(hd_tile_by_expert, format, 4, a->k, (unsigned)hd_sm_count(), stream, *a,
                   per_row);
}

#endif
