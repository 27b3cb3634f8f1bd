#ifndef HD_OPS_CUDA_TILES_GROUPED_GEMM_SM90_CUH
#define HD_OPS_CUDA_TILES_GROUPED_GEMM_SM90_CUH

#include "expert_units.cuh"
#include "tiles_dot_sm90.cuh"

/* grouped_gemm with four-bit weights in tiles for few tokens on Hopper.  One token: a unit of
 * tiles_dot_sm90.cuh is one slot.  More: a unit is an expert and as many of its slots as one or two
 * blocks of columns hold. */

template <int format>
static __device__ __forceinline__ float hd_td_expert_scale(const hd_grouped_gemm_args &a, int32_t e)
{
    return hd_td_tile<format>::is_nvfp4 ? a.w_scale[e] : 1.0f;
}

static __device__ __forceinline__ int64_t hd_td_input(const hd_grouped_gemm_args &a, int32_t slot)
{
    return a.xs == 1 ? slot / a.s : slot;
}

static __device__ __forceinline__ float *hd_td_output(const hd_grouped_gemm_args &a, int32_t slot)
{
    return a.y + (int64_t)slot * a.n;
}

/* The experts' pointers, in the shared memory of the warp that copies: no kernel writes them, so
 * they are read while the kernel before ends, when it is not known who is wanted. */
struct hd_td_pointers {
    const void **w, **sf; /* [e] */
};

static __host__ __device__ __forceinline__ size_t hd_td_list_bytes(int32_t experts)
{
    return ((size_t)experts * 2 * sizeof(void *) + 127) / 128 * 128;
}

template <int format> struct hd_td_slot_units {
    const hd_grouped_gemm_args &a;
    hd_td_pointers              list_;

    __device__ __forceinline__ void list(void) const
    {
#pragma unroll 8
        for (int32_t e = (int32_t)threadIdx.x % 32; e < a.e; e += 32) {
            list_.w[e] = a.w[e];
            list_.sf[e] = a.sf[e];
        }
        __syncwarp();
        hd_await_previous(); /* the ids may be its work */
    }
    __device__ __forceinline__ hd_td_matrix matrix(int32_t slot) const
    {
        int32_t const e = a.ids[slot];
        return {(const uint8_t *)list_.w[e], (const uint8_t *)list_.sf[e]};
    }
    __device__ __forceinline__ float scale(int32_t slot) const
    {
        return hd_td_expert_scale<format>(a, a.ids[slot]);
    }
    __device__ __forceinline__ bool    keeps_x(void) const { return a.xs == 1; }
    __device__ __forceinline__ int     take(int32_t slot, hd_td_team team) const { return 1; }
    __device__ __forceinline__ int64_t row(int32_t slot, int token) const
    {
        return hd_td_input(a, slot);
    }
    __device__ __forceinline__ int64_t x_scale(int32_t unit, int token) const
    {
        return row(unit, token);
    }
    __device__ __forceinline__ const hd_grouped_gemm_args &args() const { return a; }
    __device__ __forceinline__ float                      *y(int32_t slot, int token) const
    {
        return hd_td_output(a, slot);
    }
};

/* What the units of experts have in shared memory besides. */
struct hd_td_table {
    int32_t first[HD_EXPERTS_MAX + 1]; /* of hd_count_units         */
    int32_t slot[2][HD_TD_TOKENS];     /* of a team's unit's tokens */
    int32_t n[2];                      /* how many those are        */
};
#define HD_TD_TABLE_BYTES ((sizeof(hd_td_table) + 127) / 128 * 128)

template <int format, typename shape> struct hd_td_expert_units {
    const hd_grouped_gemm_args &a;
    hd_td_table                *t;

    __device__ __forceinline__ void         list(void) const {}
    __device__ __forceinline__ bool         keeps_x(void) const { return false; }
    __device__ __forceinline__ hd_td_matrix matrix(int32_t unit) const
    {
        int32_t const e = hd_expert_of(t->first, a.e, unit);
        return {(const uint8_t *)a.w[e], (const uint8_t *)a.sf[e]};
    }
    __device__ __forceinline__ float scale(int32_t unit) const
    {
        return hd_td_expert_scale<format>(a, hd_expert_of(t->first, a.e, unit));
    }
    __device__ __forceinline__ int take(int32_t unit, hd_td_team team) const
    {
        int32_t const e = hd_expert_of(t->first, a.e, unit);
        if (hd_td_leads<shape>(team)) {
            int32_t   own = 0;
            int const lane = (int)threadIdx.x % 32;
            int const n = hd_collect<shape::tokens>(a, e, unit - t->first[e], &own);
            if (lane < n) t->slot[team][lane] = own;
            t->n[team] = n;
        }
        hd_td_sync<shape>(team);
        return t->n[team];
    }
    __device__ __forceinline__ int64_t row(int32_t unit, int token) const
    {
        return hd_td_input(a, t->slot[HD_TD_MULTIPLIES][token]);
    }
    __device__ __forceinline__ int64_t x_scale(int32_t unit, int token) const
    {
        return row(unit, token);
    }
    __device__ __forceinline__ const hd_grouped_gemm_args &args() const { return a; }
    __device__ __forceinline__ float                      *y(int32_t unit, int token) const
    {
        return hd_td_output(a, t->slot[HD_TD_ADDS][token]);
    }
};

/* Asks for the experts' pointers while the kernel before ends: the lines of all, because who is
 * wanted is not known yet. */
static __device__ __forceinline__ void hd_td_fetch_lists(const hd_grouped_gemm_args &a)
{
    constexpr int line = 128 / (int)sizeof(void *);
    for (int32_t i = (int32_t)threadIdx.x * line; i < a.e; i += (int32_t)blockDim.x * line) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(a.w + i));
        asm volatile("prefetch.global.L2 [%0];" ::"l"(a.sf + i));
    }
}

template <int format, typename shape>
static __global__ void __launch_bounds__(shape::threads, shape::resident)
    hd_tiles_by_slot(hd_grouped_gemm_args const a, hd_td_plan const p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    hd_td_pointers const list = {(const void **)shared, (const void **)shared + a.e};
    hd_td_run<format, shape>(hd_td_slot_units<format>{a, list}, p,
                             hd_td_share(shared + hd_td_list_bytes(a.e), p), a.s);
}

template <int format, typename shape>
static __global__ void __launch_bounds__(shape::threads, shape::resident)
    hd_tiles_by_expert(hd_grouped_gemm_args const a, hd_td_plan const p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    hd_td_table *const                       t = (hd_td_table *)shared;
    hd_td_fetch_lists(a);
    hd_await_previous();
    hd_count_units(a, shape::tokens, t->first);
    hd_td_run<format, shape>(hd_td_expert_units<format, shape>{a, t}, p,
                             hd_td_share(shared + HD_TD_TABLE_BYTES, p), t->first[a.e]);
}

/* Whether experts get so many of the t * s slots that units of two blocks of columns, with room
 * for `tokens` slots each, read the weights less often. */
static inline bool hd_td_is_crowded(const hd_grouped_gemm_args *a, int tokens)
{
    return (int64_t)a->t * a->s > tokens / 4 * (int64_t)a->e;
}

template <int format, int planes>
static inline bool hd_tiles_grouped_gemm_supports(const void *args)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    hd_td_plan                        p = hd_td_plan_for(8 / planes, planes);
    return a->k > 0 && a->e <= HD_EXPERTS_MAX && (int64_t)a->t * a->s <= 16 * (int64_t)a->e &&
           (int64_t)a->t * a->s * a->n <= INT32_MAX &&
           hd_td_choose<format, hd_td_shape<1, planes>>(a->n, a->k, 1, HD_TD_TABLE_BYTES, &p);
}

template <int format, typename shape>
static inline bool hd_td_choose_units(const hd_grouped_gemm_args *a, hd_td_plan *p)
{
    *p = hd_td_plan_for(shape::tokens, shape::planes);
    return hd_td_choose<format, shape>(a->n, a->k, 1, HD_TD_TABLE_BYTES, p);
}

template <int format, int planes>
static inline hd_status hd_launch_tiles_grouped_gemm(const void *args, hd_stream *stream)
{
    using one = hd_td_shape<1, planes>;
    using two = hd_td_shape<2, planes>;
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    cudaStream_t const                q = hd_cuda_stream(stream);
    int64_t const                     slots = (int64_t)a->t * a->s; /* as many units at most */
    hd_td_plan                        p;
    if (slots == 0 || a->n == 0) return HD_OK;
    if (hd_td_is_crowded(a, two::tokens) && hd_td_choose_units<format, two>(a, &p))
        return hd_td_launch<two, hd_grouped_gemm_args>(hd_tiles_by_expert<format, two>, *a, p,
                                                       slots, false, q);
    if (!hd_td_choose_units<format, one>(a, &p)) return HD_ERR_UNSUPPORTED;
    return hd_td_launch<one, hd_grouped_gemm_args>(hd_tiles_by_expert<format, one>, *a, p, slots,
                                                   false, q);
}

/* ---- one token ---- */

template <int format, int planes>
static inline bool hd_tiles_grouped_gemm_one_supports(const void *args)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    hd_td_plan                        p = hd_td_plan_for(1, planes);
    return a->t == 1 && a->k > 0 && (int64_t)a->s * a->n <= INT32_MAX &&
           hd_td_choose<format, hd_td_one<planes>>(a->n, a->k, 1, hd_td_list_bytes(a->e), &p);
}

template <int format, int planes>
static inline hd_status hd_launch_tiles_grouped_gemm_one(const void *args, hd_stream *stream)
{
    using one = hd_td_one<planes>;
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    hd_td_plan                        p = hd_td_plan_for(1, planes);
    if (a->s == 0 || a->n == 0) return HD_OK;
    if (!hd_td_choose<format, one>(a->n, a->k, 1, hd_td_list_bytes(a->e), &p))
        return HD_ERR_UNSUPPORTED;
    return hd_td_launch<one, hd_grouped_gemm_args>(hd_tiles_by_slot<format, one>, *a, p, a->s, true,
                                                   hd_cuda_stream(stream));
}

#endif
