#ifndef HD_OPS_CUDA_WGMMA_TILES_GROUPED_GEMM_CUH
#define HD_OPS_CUDA_WGMMA_TILES_GROUPED_GEMM_CUH

#include "ops/grouped_gemm.h"
#include "vectors.cuh"
#include "wgmma_dot.cuh"
#include "wgmma_tiles_dot.cuh"

/* grouped_gemm with four-bit weights in tiles for many tokens on Hopper: a
 * block for each tile of rows (x) and unit (y).  A unit is up to a tile's
 * tokens of slots that go to one expert; experts have theirs one after the
 * other.  A block counts all experts' slots to find what its unit is: the
 * launcher only knows how many there can be. */

#define HD_WT_WARPS (HD_WT_THREADS / 32)

/* What finding a unit needs of shared memory, before the ring is used. */
struct hd_wt_search {
    int32_t expert, first;     /* of the unit: its first slot among the expert's;
                                  expert < 0: none */
    int32_t  own[HD_WT_WARPS]; /* of the expert's slots, in a warp's run */
    uint32_t counts[];         /* [e], then all ids as uint16_t where they fit */
};

struct hd_wt_ids {
    const int32_t  *ids;
    const uint16_t *copy; /* or NULL */

    __device__ __forceinline__ int32_t operator[](int32_t i) const
    {
        return copy ? copy[i] : ids[i];
    }
};

/* Counts the slots of all experts, and copies the ids if they fit `bytes`
 * behind the counts. */
static __device__ __forceinline__ hd_wt_ids hd_wt_count_slots(const hd_grouped_gemm_args &a,
                                                              hd_wt_search *search, int32_t bytes)
{
    int32_t const   n = a.t * a.s;
    uint16_t *const copy = n <= bytes / 2 ? (uint16_t *)(search->counts + a.e) : NULL;
    for (int32_t i = (int32_t)threadIdx.x; i < a.e; i += HD_WT_THREADS) search->counts[i] = 0;
    __syncthreads();
#pragma unroll 8
    for (int32_t i = (int32_t)threadIdx.x; i < n; i += HD_WT_THREADS) {
        int32_t const id = a.ids[i];
        atomicAdd(&search->counts[id], 1u); /* of whole numbers: the order is of no matter */
        if (copy) copy[i] = (uint16_t)id;
    }
    __syncthreads();
    return {a.ids, copy};
}

/* Finds the expert of a unit; the first warp does. */
static __device__ __forceinline__ void hd_wt_find_expert(hd_wt_search *search, int32_t experts,
                                                         int32_t unit)
{
    int32_t const lane = (int32_t)threadIdx.x;
    if (lane == 0) search->expert = -1;
    __syncwarp();
    for (int32_t e = 0; e < experts; e += 32) {
        int32_t const slots = e + lane < experts ? (int32_t)search->counts[e + lane] : 0;
        int32_t const own = (slots + HD_WT_TOKENS - 1) / HD_WT_TOKENS;
        int32_t       end = own; /* units of the lanes up to this one */
        for (int o = 1; o < 32; o *= 2) {
            int32_t const left = __shfl_up_sync(0xffffffffu, end, o);
            if (lane >= o) end += left;
        }
        if (unit >= end - own && unit < end) {
            search->expert = e + lane;
            search->first = (unit - (end - own)) * HD_WT_TOKENS;
        }
        unit -= __shfl_sync(0xffffffffu, end, 31);
        if (unit < 0) break;
    }
}

/* Notes slot i as token `to` of the job. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_take_slot(const hd_grouped_gemm_args &a, int32_t i,
                                                       int32_t to, hd_wt_job *j)
{
    int64_t const row = a.xs == 1 ? i / a.s : i;
    if (shape::is_coded) {
        j->codes[to] = a.x_codes + row * (a.k / 2);
        j->x_scale[to] = a.x_scale[row];
    } else {
        j->x[to] = a.x + row * a.k;
    }
    j->y[to] = a.y + (int64_t)i * a.n;
}

/* Notes the unit's slots in the job, by rising slot: a warp has a run of all.
 */
template <typename shape>
static __device__ __forceinline__ void hd_wt_take_slots(const hd_grouped_gemm_args &a,
                                                        const hd_wt_ids &ids, hd_wt_search *search,
                                                        hd_wt_job *j)
{
    int const     warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int32_t const n = a.t * a.s, run = (n + HD_WT_THREADS - 1) / HD_WT_THREADS * 32;
    int32_t const first = min(n, warp * run), end = min(n, first + run), e = search->expert;
    int32_t       at = -search->first, own = 0;
#pragma unroll 4
    for (int32_t i = first + lane; i < end; i += 32) own += ids[i] == e;
    own = __reduce_add_sync(0xffffffffu, own);
    if (lane == 0) search->own[warp] = own;
    __syncthreads();
    for (int i = 0; i < warp; i++) at += search->own[i];
    for (int32_t i = first + lane; i - lane < end && at < HD_WT_TOKENS && at + own > 0; i += 32) {
        bool const     is_own = i < end && ids[i] == e;
        uint32_t const all = __ballot_sync(0xffffffffu, is_own);
        int32_t const  to = at + __popc(all & ((1u << lane) - 1));
        if (is_own && to >= 0 && to < HD_WT_TOKENS) hd_wt_take_slot<shape>(a, i, to, j);
        at += __popc(all);
        own -= __popc(all);
    }
}

/* Notes the rest of the job; false where there is none, nor for the rest of the
 * cluster. */
template <typename shape>
static __device__ __forceinline__ bool hd_wt_grouped_job(const hd_grouped_gemm_args &a,
                                                         hd_wt_shared<shape>        *s)
{
    hd_wt_job *const j = &s->job;
    auto *const      search = (hd_wt_search *)s->planes;
    int32_t const    room = (int32_t)(sizeof s->planes - sizeof *search) - a.e * 4;
    hd_wt_ids const  ids = hd_wt_count_slots(a, search, room);
    if (threadIdx.x < 32) hd_wt_find_expert(search, a.e, (int32_t)blockIdx.y);
    __syncthreads();
    int32_t const e = search->expert;
    if (e < 0) return false;
    int32_t const n = min(HD_WT_TOKENS, (int32_t)search->counts[e] - search->first);
    if (threadIdx.x == 0) {
        j->w = (const uint8_t *)a.w[e];
        j->sf = (const uint8_t *)a.sf[e];
        j->scale = hd_wt_factor<shape> * (shape::is_nvfp4 ? a.w_scale[e] : 1.0f);
        j->row_tiles = a.n / HD_TILES_ROWS;
        j->k_tiles = a.k / HD_TILES_COLS;
        j->row0 = (int32_t)blockIdx.x * shape::rows;
        j->n_tokens = n;
        hd_wt_note_x<shape>(a, j);
    }
    for (int32_t i = n + (int32_t)threadIdx.x; i < HD_WT_TOKENS; i += HD_WT_THREADS)
        hd_wt_take_slot<shape>(a, 0, i, j);
    hd_wt_take_slots<shape>(a, ids, search, j);
    return true;
}

template <typename shape>
static __global__ void __launch_bounds__(HD_WT_THREADS, 1)
    hd_wt_grouped_gemm(hd_grouped_gemm_args const a)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    auto *const                               s = (hd_wt_shared<shape> *)shared;
    if (hd_wt_grouped_job(a, s)) hd_wt_make(s);
}

/* Units of a launch, at most: experts' last ones may be smaller. */
static inline int64_t hd_wt_units(const hd_grouped_gemm_args *a)
{
    int64_t const slots = (int64_t)a->t * a->s;
    return slots / HD_WT_TOKENS + (slots < a->e ? slots : a->e);
}

/* Another kernel has smaller tiles, for experts with few slots. */
static inline bool hd_wt_grouped_gemm_supports(const void *args)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    int64_t const                     slots = (int64_t)a->t * a->s;
    return slots > (int64_t)a->e * 96 && slots <= INT32_MAX - 2048 && a->k > 0 && a->e <= 16384 &&
           hd_wt_units(a) <= 65535;
}

template <typename shape>
static inline hd_status hd_launch_wt_grouped(const hd_grouped_gemm_args *a, hd_stream *stream)
{
    if (a->t == 0 || a->s == 0 || a->n == 0) return HD_OK;
    dim3 const grid(hd_blocks(a->n, shape::rows * shape::peers) * shape::peers,
                    (unsigned)hd_wt_units(a));
    return hd_wg_launch<hd_grouped_gemm_args>(hd_wt_grouped_gemm<shape>, *a, grid, shape::peers,
                                              HD_WT_THREADS, sizeof(hd_wt_shared<shape>),
                                              hd_cuda_stream(stream));
}

#endif
