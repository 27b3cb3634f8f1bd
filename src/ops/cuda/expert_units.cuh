#ifndef HD_OPS_CUDA_EXPERT_UNITS_CUH
#define HD_OPS_CUDA_EXPERT_UNITS_CUH

#include "launch.cuh"
#include "ops/grouped_gemm.h"

/* Units of grouped_gemm: one expert and up to `per_unit` of the slots that go to it, by rising
 * expert, so that an expert's weights are read once for them.  Every block finds them from the ids
 * alone. */

#define HD_EXPERTS_MAX 1024

/* Groups of 32 that a warp looks at together: it waits for one of them as long as for all. */
#define HD_LOOKS 4

/* Makes first[e], the slots of expert e - 1, the units up to it, for the lanes' e and those at 32
 * steps behind; returns how many units these experts have. */
static __device__ __forceinline__ int32_t hd_add_up_units(int32_t *first, int32_t e, int32_t last,
                                                          int32_t per_unit, int32_t before)
{
    int32_t sum[HD_LOOKS], all = 0;
#pragma unroll
    for (int i = 0; i < HD_LOOKS; i++)
        sum[i] = e + 32 * i <= last ? (first[e + 32 * i] + per_unit - 1) / per_unit : 0;
#pragma unroll
    for (int o = 1; o < 32; o *= 2)
#pragma unroll
        for (int i = 0; i < HD_LOOKS; i++) {
            int32_t const left = __shfl_up_sync(0xffffffffu, sum[i], o);
            if ((int)threadIdx.x >= o) sum[i] += left;
        }
#pragma unroll
    for (int i = 0; i < HD_LOOKS; i++) {
        if (e + 32 * i <= last) first[e + 32 * i] = before + all + sum[i];
        all += __shfl_sync(0xffffffffu, sum[i], 31);
    }
    return all;
}

/* Counts the slots of each expert and adds up: first[e] becomes the number of units before expert
 * e, first[a.e] that of all. */
static __device__ void hd_count_units(const hd_grouped_gemm_args &a, int32_t per_unit,
                                      int32_t *first)
{
    int32_t const threads = (int32_t)blockDim.x;
    for (int32_t e = threadIdx.x; e <= a.e; e += threads) first[e] = 0;
    __syncthreads();
    for (int32_t i = threadIdx.x; i < a.t * a.s; i += threads) atomicAdd(&first[a.ids[i] + 1], 1);
    __syncthreads();
    if (threadIdx.x < 32) {
        int32_t before = 0;
        for (int32_t base = 1; base <= a.e; base += HD_LOOKS * 32)
            before += hd_add_up_units(first, base + (int32_t)threadIdx.x, a.e, per_unit, before);
    }
    __syncthreads();
}

static __device__ __forceinline__ int32_t hd_expert_of(const int32_t *first, int32_t experts,
                                                       int32_t unit)
{
    int32_t low = 0, high = experts - 1;
    while (low < high) {
        int32_t const middle = (low + high + 1) / 2;
        if (first[middle] <= unit)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* The slots of expert e that come as its number most * pass and behind, `most` of them at most and
 * of 32: the lane of their place in that order has each.  Returns how many.  Called by whole warps.
 */
template <int most>
static __device__ __forceinline__ int hd_collect(const hd_grouped_gemm_args &a, int32_t e,
                                                 int32_t pass, int32_t *own)
{
    int32_t const all = a.t * a.s;
    int           at = -pass * most; /* place of the next one */
    for (int32_t base = 0; base < all && at < most; base += HD_LOOKS * 32) {
        int32_t id[HD_LOOKS];
#pragma unroll
        for (int i = 0; i < HD_LOOKS; i++) {
            int32_t const slot = base + 32 * i + (int32_t)threadIdx.x % 32;
            id[i] = slot < all ? a.ids[slot] : -1;
        }
#pragma unroll
        for (int i = 0; i < HD_LOOKS; i++) {
            unsigned hit = __ballot_sync(0xffffffffu, id[i] == e);
            for (; hit && at < most; hit &= hit - 1, at++)
                if (at == (int)threadIdx.x % 32) *own = base + 32 * i + __ffs((int)hit) - 1;
        }
    }
    return max(at, 0);
}

/* Warp 0 lists slots of expert e from *at on, `most` of them, -1 behind the last; returns how many
 * and moves *at behind it. */
static __device__ __forceinline__ int32_t hd_list_slots(const hd_grouped_gemm_args &a, int32_t e,
                                                        int32_t most, int32_t *at, int32_t *slots)
{
    int32_t const all = a.t * a.s, lane = threadIdx.x;
    int32_t       n = 0;
    while (*at < all && n < most) {
        bool const     is_hit = *at + lane < all && a.ids[*at + lane] == e;
        unsigned const hits = __ballot_sync(~0u, is_hit);
        int32_t const  place = n + __popc(hits & ((1u << lane) - 1));
        if (is_hit && place < most) slots[place] = *at + lane;
        /* Those that did not fit are where the next list begins. */
        unsigned const left = __ballot_sync(~0u, is_hit && place >= most);
        n = min(n + __popc(hits), most);
        *at += left ? __ffs((int)left) - 1 : 32;
    }
    for (int32_t i = n + lane; i < most; i += 32) slots[i] = -1;
    return n;
}

#endif
