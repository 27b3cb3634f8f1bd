#ifndef HD_OPS_CUDA_FP8_GROUPED_GEMM_SM90_CUH
#define HD_OPS_CUDA_FP8_GROUPED_GEMM_SM90_CUH

#include "expert_units.cuh"
#include "fp8_dot_sm90.cuh"

/* grouped_gemm with FP8 weights for few tokens on Hopper: the units of fp8_dot_sm90.cuh.
 * One token: a unit is one slot.  More: a unit is one expert and up to four of the slots that
 * go to it, so that an expert's weights are read once for them; every block finds the units
 * from the ids alone. */

struct hd_slot_units {
    const hd_grouped_gemm_args &a;

    __device__ __forceinline__ hd_tile_matrix matrix(int32_t slot) const
    {
        int32_t const e = a.ids[slot];
        return {(const uint8_t *)a.w[e], (const uint8_t *)a.sf[e], a.n, a.k, 1.0f};
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

/* first: of hd_count_units. */
struct hd_expert_units {
    const hd_grouped_gemm_args &a;
    const int32_t              *first;

    __device__ __forceinline__ hd_tile_matrix matrix(int32_t u) const
    {
        int32_t const e = hd_expert_of(first, a.e, u);
        return {(const uint8_t *)a.w[e], (const uint8_t *)a.sf[e], a.n, a.k, 1.0f};
    }

    __device__ __forceinline__ void unit(int32_t i, hd_tile_unit *u) const
    {
        int32_t const e = hd_expert_of(first, a.e, i);
        int32_t       own = 0;
        u->m = matrix(i);
        u->n = hd_collect<HD_TILE_TOKENS>(a, e, i - first[e], &own);
#pragma unroll
        for (int q = 0; q < HD_TILE_TOKENS; q++) {
            int64_t const slot = __shfl_sync(0xffffffffu, own, q);
            u->x[q] = a.x + (a.xs == 1 ? slot / a.s : slot) * a.k;
            u->y[q] = a.y + slot * a.n;
        }
    }
};

template <int n_tokens, int n_stages>
__global__ void __launch_bounds__(HD_TILE_WARPS * 32, 1)
    hd_tile_by_slot(hd_grouped_gemm_args a, int per_row)
{
    extern __shared__ __align__(128) uint8_t shared[];
    hd_take_turn();
    hd_tile_run<n_tokens, n_stages>(hd_slot_units{a}, hd_walk(a.n, a.k, per_row, a.t * a.s), shared,
                                    a.k);
}

template <int n_tokens, int n_stages>
__global__ void __launch_bounds__(HD_TILE_WARPS * 32, 1)
    hd_tile_by_expert(hd_grouped_gemm_args a, int per_row)
{
    extern __shared__ __align__(128) uint8_t shared[];
    int32_t *const                           first = (int32_t *)shared;
    uint8_t *const                           rest = shared + HD_TILE_TABLE_BYTES;
    hd_take_turn();
    hd_count_units(a, HD_TILE_TOKENS, first);
    hd_tile_run<n_tokens, n_stages>(hd_expert_units{a, first},
                                    hd_walk(a.n, a.k, per_row, first[a.e]), rest, a.k);
}

static inline bool hd_tile_grouped_gemm_supports(const void *args)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    return a->k % hd_tile::columns == 0 && a->k > 0 && a->k <= 7168 &&
           (int64_t)a->t * a->s <= 16 * (int64_t)a->e && a->e <= HD_EXPERTS_MAX;
}

static inline hd_status hd_launch_tile_grouped_gemm(const void *args, hd_stream *stream)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    if (a->t == 0 || a->s == 0 || a->n == 0) return HD_OK;
    int const per_row = hd_warps_per_row((int64_t)hd_row_tiles(a->n) * a->s, a->k);
    if (a->t == 1)
        HD_TILE_LAUNCH(hd_tile_by_slot, 1, a->k, hd_tile_grid(a->n, per_row, a->s), stream, *a,
                       per_row);
    HD_TILE_LAUNCH(hd_tile_by_expert, 4, a->k, (unsigned)hd_sm_count(), stream, *a, per_row);
}

#endif
