#ifndef HD_OPS_CUDA_WGMMA_TILES_GROUPED_GEMM_CUH
#define HD_OPS_CUDA_WGMMA_TILES_GROUPED_GEMM_CUH

#include "launch.cuh"
#include "ops/grouped_gemm.h"
#include "vectors.cuh"
#include "wgmma_dot.cuh"
#include "wgmma_tiles_dot.cuh"

/* grouped_gemm with four-bit weights in tiles for many tokens on Hopper.
 *
 * A unit is up to HD_WT_TOKENS of the slots that go to one expert; experts have theirs one after
 * the other.  All tiles of rows of all units, one behind the other, are cut into as many runs of
 * equal cost as the GPU has room for clusters: a cluster makes a run, so its activations stay in
 * the second cache while it walks the rows of a unit, and tiles follow each other in the ring
 * without a pause.  Units of few slots take tiles of fewer tokens, which changes no bit.
 *
 * Bound by: decoding the weights beside the tensor cores; few tokens by what the weights cost as
 * operand of a product, however many columns that has.
 * Grid: the clusters of two that the GPU holds, which lie beside each other.  Shared memory: that
 * of wgmma_tiles_dot.cuh, and a list of the run's next units.  The launcher does not know the ids:
 * a block counts the slots of all experts to find its run, and looks through the ids again for the
 * slots of each unit. */

#define HD_WT_SEARCHES (HD_WT_CONVERTS + HD_WT_PUBLISHES) /* threads */
#define HD_WT_WARPS    (HD_WT_SEARCHES / 32)
#define HD_WT_LISTED   12 /* units */
#define HD_WT_LOOKS    16 /* ids that a thread waits for at once */

/* What a cluster makes of a unit. */
struct hd_wt_unit {
    int32_t expert, first; /* slot among the expert's */
    int32_t n;             /* slots */
    int16_t begin, end;    /* tiles of rows, those of all blocks of the cluster as one */
};

/* The rest of a cluster's run, in costs before it. */
struct hd_wt_run {
    int32_t    from, to; /* what is not listed yet */
    int32_t    n;
    hd_wt_unit unit[HD_WT_LISTED];
};

/* Threads that search are those that do not multiply, which have no registers for it. */
static __device__ __forceinline__ int32_t hd_wt_searcher(void)
{
    return (int32_t)threadIdx.x - HD_WT_MULTIPLIES;
}

static __device__ __forceinline__ void hd_wt_sync_search(void)
{
    asm volatile("bar.sync 3, %0;" ::"n"(HD_WT_SEARCHES) : "memory");
}

/* What listing and collecting need while the ring is not in use. */
struct hd_wt_search {
    int32_t  own[HD_WT_WARPS];    /* slots of the unit's expert in a warp's part of all */
    int32_t  slots[HD_WT_TOKENS]; /* of the unit */
    uint32_t counts[];            /* [e] slots */
};

template <typename shape> struct hd_wt_grouped_shared {
    hd_wt_shared<shape> core;
    hd_wt_run           run;

    __device__ __forceinline__ hd_wt_search *search(void) { return (hd_wt_search *)core.planes; }
};
static_assert(sizeof(hd_wt_grouped_shared<hd_wt_shape<HD_FMT_MXFP4_TILES, 2, false>>) <= 227 * 1024,
              "fits a block's memory");

/* ---- units ---- */

/* Costs of a tile of rows and so many tokens: decoding the weights, and products. */
static __host__ __device__ __forceinline__ int32_t hd_wt_cost(int32_t tokens)
{
    return tokens > 0 ? 1 + (tokens + 31) / 32 : 0;
}

/* That of all units of an expert. */
static __device__ __forceinline__ int32_t hd_wt_expert_cost(int32_t slots)
{
    return slots / HD_WT_TOKENS * hd_wt_cost(HD_WT_TOKENS) + hd_wt_cost(slots % HD_WT_TOKENS);
}

/* Which expert slot i goes to; -1 behind the last. */
static __device__ __forceinline__ int32_t hd_wt_id(const hd_grouped_gemm_args &a, int32_t i)
{
    return i < a.t * a.s ? a.ids[i] : -1;
}

/* Counts the slots of all experts. */
static __device__ __forceinline__ void hd_wt_count_slots(const hd_grouped_gemm_args &a,
                                                         uint32_t                   *counts)
{
    for (int32_t e = hd_wt_searcher(); e < a.e; e += HD_WT_SEARCHES) counts[e] = 0;
    hd_wt_sync_search();
    for (int32_t i = hd_wt_searcher(); i < a.t * a.s; i += HD_WT_LOOKS * HD_WT_SEARCHES) {
        int32_t id[HD_WT_LOOKS];
#pragma unroll
        for (int q = 0; q < HD_WT_LOOKS; q++) id[q] = hd_wt_id(a, i + q * HD_WT_SEARCHES);
#pragma unroll
        for (int q = 0; q < HD_WT_LOOKS; q++) /* whole numbers: the order is of no matter */
            if (id[q] >= 0) atomicAdd(&counts[id[q]], 1u);
    }
    hd_wt_sync_search();
}

static __device__ __forceinline__ int32_t hd_wt_sum_up_to(int32_t x)
{
    for (int o = 1; o < 32; o *= 2) {
        int32_t const left = __shfl_up_sync(0xffffffffu, x, o);
        if ((int)threadIdx.x % 32 >= o) x += left;
    }
    return x;
}

/* The cluster's run of all. */
static __device__ __forceinline__ void hd_wt_find_run(const uint32_t *counts, int32_t experts,
                                                      int32_t tiles, unsigned peers, hd_wt_run *run)
{
    int64_t const cluster = blockIdx.x / peers, clusters = gridDim.x / peers;
    int32_t       sum = 0;
    for (int32_t e = hd_wt_searcher(); e < experts; e += 32)
        sum += hd_wt_expert_cost((int32_t)counts[e]);
    int64_t const all = (int64_t)__reduce_add_sync(0xffffffffu, sum) * tiles;
    run->from = (int32_t)(all * cluster / clusters);
    run->to = (int32_t)(all * (cluster + 1) / clusters);
}

/* The first tile of rows of a unit that begins at `cost` or behind. */
static __device__ __forceinline__ int32_t hd_wt_tile_at(int32_t cost, int32_t unit, int32_t tile,
                                                        int32_t tiles)
{
    return min(max(cost - unit + tile - 1, 0) / tile, tiles);
}

/* What is listed: units that lie in [from, to) of all costs. */
struct hd_wt_range {
    int32_t from, to, tiles;
};

struct hd_wt_expert {
    int32_t id, slots, before; /* costs */
};

/* Lists units of an expert that lie in the range, behind the first n; how many there are then,
 * though only as many are listed as have room. */
static __device__ __forceinline__ int32_t hd_wt_list_expert(hd_wt_run *run, int32_t n,
                                                            const hd_wt_expert &e,
                                                            const hd_wt_range  &r)
{
    int32_t const lane = hd_wt_searcher(), whole = r.tiles * hd_wt_cost(HD_WT_TOKENS);
    for (int32_t i = lane; (i - lane) * HD_WT_TOKENS < e.slots; i += 32) {
        int32_t const  own = min(max(e.slots - i * HD_WT_TOKENS, 0), HD_WT_TOKENS);
        int32_t const  cost = max(hd_wt_cost(own), 1), at = e.before + i * whole;
        int32_t const  begin = hd_wt_tile_at(r.from, at, cost, r.tiles);
        int32_t const  end = hd_wt_tile_at(r.to, at, cost, r.tiles);
        bool const     is = own > 0 && begin < end;
        unsigned const all = __ballot_sync(0xffffffffu, is);
        int32_t const  place = n + __popc(all & ((1u << lane) - 1));
        if (is && place < HD_WT_LISTED)
            run->unit[place] = {e.id, i * HD_WT_TOKENS, own, (int16_t)begin, (int16_t)end};
        if (is && place == HD_WT_LISTED) run->from = at + begin * cost;
        n += __popc(all);
    }
    return n;
}

/* Lists the run's next units; the first warp does. */
static __device__ __forceinline__ void hd_wt_list_units(const uint32_t *counts, int32_t experts,
                                                        int32_t tiles, hd_wt_run *run)
{
    int32_t const     lane = hd_wt_searcher();
    hd_wt_range const r = {run->from, run->to, tiles};
    int32_t           before = 0, n = 0;
    __syncwarp();
    run->from = r.to;
    __syncwarp();
    for (int32_t e = 0; e < experts && r.from < r.to && n <= HD_WT_LISTED; e += 32) {
        int32_t const slots = e + lane < experts ? (int32_t)counts[e + lane] : 0;
        int32_t const cost = tiles * hd_wt_expert_cost(slots);
        int32_t const end = before + hd_wt_sum_up_to(cost);
        unsigned wanted = __ballot_sync(0xffffffffu, cost > 0 && end > r.from && end - cost < r.to);
        for (; wanted && n <= HD_WT_LISTED; wanted &= wanted - 1) {
            int const          i = __ffs((int)wanted) - 1;
            hd_wt_expert const x = {e + i, __shfl_sync(0xffffffffu, slots, i),
                                    __shfl_sync(0xffffffffu, end - cost, i)};
            n = hd_wt_list_expert(run, n, x, r);
        }
        before = __shfl_sync(0xffffffffu, end, 31);
    }
    run->n = min(n, HD_WT_LISTED);
}

/* Lists what the cluster makes next, which may be nothing. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_list(const hd_grouped_gemm_args  &a,
                                                  hd_wt_grouped_shared<shape> *s, bool is_first)
{
    constexpr int   rows = shape::rows * shape::peers;
    int32_t const   tiles = (a.n + rows - 1) / rows;
    uint32_t *const counts = s->search()->counts;
    if (is_first || s->run.from < s->run.to) hd_wt_count_slots(a, counts);
    if (hd_wt_searcher() >= 32) return;
    if (is_first) hd_wt_find_run(counts, a.e, tiles, shape::peers, &s->run);
    __syncwarp();
    hd_wt_list_units(counts, a.e, tiles, &s->run);
}

/* ---- the slots of a unit ---- */

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

/* Lists the unit's slots, by rising slot: a warp looks through a part of all, twice. */
static __device__ __forceinline__ void hd_wt_list_slots(const hd_grouped_gemm_args &a,
                                                        const hd_wt_unit &u, hd_wt_search *search)
{
    int const     warp = hd_wt_searcher() / 32, lane = hd_wt_searcher() % 32;
    int32_t const n = a.t * a.s, part = (n + HD_WT_SEARCHES - 1) / HD_WT_SEARCHES * 32;
    int32_t const first = warp * part, end = min(n, first + part);
    int32_t       at = -u.first, own = 0;
    for (int32_t i = first + lane; i < end; i += HD_WT_LOOKS * 32) {
        int32_t id[HD_WT_LOOKS];
#pragma unroll
        for (int q = 0; q < HD_WT_LOOKS; q++) id[q] = i + q * 32 < end ? a.ids[i + q * 32] : -1;
#pragma unroll
        for (int q = 0; q < HD_WT_LOOKS; q++) own += id[q] == u.expert;
    }
    own = __reduce_add_sync(0xffffffffu, own);
    if (lane == 0) search->own[warp] = own;
    hd_wt_sync_search();
    for (int i = 0; i < warp; i++) at += search->own[i];
    for (int32_t i = first + lane; i - lane < end && at < HD_WT_TOKENS && at + own > 0;
         i += HD_WT_LOOKS * 32) {
        int32_t id[HD_WT_LOOKS];
#pragma unroll
        for (int q = 0; q < HD_WT_LOOKS; q++) id[q] = i + q * 32 < end ? a.ids[i + q * 32] : -1;
#pragma unroll
        for (int q = 0; q < HD_WT_LOOKS; q++) {
            unsigned const all = __ballot_sync(0xffffffffu, id[q] == u.expert);
            int32_t const  to = at + __popc(all & ((1u << lane) - 1));
            if (id[q] == u.expert && to >= 0 && to < HD_WT_TOKENS) search->slots[to] = i + q * 32;
            at += __popc(all);
            own -= __popc(all);
        }
    }
}

/* Notes the unit in the job. */
template <typename shape>
static __device__ __forceinline__ void
hd_wt_note_unit(const hd_grouped_gemm_args &a, hd_wt_grouped_shared<shape> *s, const hd_wt_unit &u)
{
    hd_wt_job *const j = &s->core.job;
    if (hd_wt_searcher() == 0) {
        j->w = (const uint8_t *)a.w[u.expert];
        j->sf = (const uint8_t *)a.sf[u.expert];
        j->scale = hd_wt_factor<shape> * (shape::is_nvfp4 ? a.w_scale[u.expert] : 1.0f);
        j->row_tiles = a.n / HD_TILES_ROWS;
        j->k_tiles = a.k / HD_TILES_COLS;
        j->n_tokens = u.n;
        hd_wt_note_x<shape>(a, j);
    }
    hd_wt_list_slots(a, u, s->search());
    hd_wt_sync_search();
    for (int32_t i = hd_wt_searcher(); i < HD_WT_TOKENS; i += HD_WT_SEARCHES)
        hd_wt_take_slot<shape>(a, i < u.n ? s->search()->slots[i] : 0, i, j);
}

/* ---- a unit ---- */

/* Where a thread is in the ring, which units go through one behind the other. */
template <typename shape> struct hd_wt_place {
    hd_ring_place<shape::slots> turn;
    int32_t                     chunk; /* of all that the block makes */
};

/* Writes a thread's sums of a part. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_write_part(const hd_wt_job &j, int32_t row0,
                                                        const float (&sum)[shape::sums])
{
    int const     lane = (int)threadIdx.x % 32;
    int32_t const row = row0 + (int)threadIdx.x / 32 * 16 + lane / 4, n_tokens = j.n_tokens;
    float const   scale = j.scale;
    if (row0 + (int)threadIdx.x / 32 * 16 >= j.row_tiles * HD_TILES_ROWS) return;
#pragma unroll
    for (int i = 0; i < shape::sums; i++) {
        int const token = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (token < n_tokens)
            j.y[token][row + i % 4 / 2 * 8] =
                (0.0f + sum[i]) * scale * (shape::is_coded ? j.x_scale[token] : 1.0f);
    }
}

/* Multiplies all tiles of a unit. */
template <typename shape>
static __device__ __forceinline__ void
hd_wt_multiply_unit(hd_wt_shared<shape> *s, const hd_wt_unit &u, hd_wt_place<shape> &place)
{
    int32_t const     step = shape::peers * shape::rows;
    int32_t           row0 = u.begin * step + hd_wt_peer<shape>() * shape::rows;
    hd_wt_pass<shape> all = {s,    hd_cluster_address(s->empty, threadIdx.x % shape::peers),
                             u.n,  place.chunk,
                             row0, u.end - u.begin - 1};
    typename hd_wt_pass<shape>::sums sum;
    all.start();
    for (int32_t tile = u.begin; tile < u.end; tile++, row0 += step) {
        all.run(place.turn, sum);
#pragma unroll
        for (int part = 0; part < shape::parts; part++)
            hd_wt_write_part<shape>(s->job, row0 + part * HD_WT_MULTIPLIES / 2, sum[part]);
    }
    place.chunk = all.first;
}

/* Tokens of a unit that a block converts: of all that are multiplied. */
template <typename shape> static __device__ __forceinline__ int hd_wt_own(const hd_wt_unit &u)
{
    return (u.n + 31) / 32 * 32 / shape::peers;
}

/* Converts floats for all tiles of a unit. */
template <bool is_wide, typename shape>
static __device__ __forceinline__ void
hd_wt_convert_unit(hd_wt_shared<shape> *s, const hd_wt_unit &u, hd_wt_place<shape> &place)
{
    int32_t const k_tiles = s->job.k_tiles;
    uint32_t      zeros = 0;
    for (int32_t tile = u.begin; tile < u.end; tile++, place.chunk += k_tiles) {
        hd_wt_conversion<is_wide, shape> all = {s, hd_wt_own<shape>(u), place.chunk,
                                                place.chunk + k_tiles, 0};
        all.run(place.turn, zeros);
    }
}

/* The same of codes. */
template <typename shape>
static __device__ __forceinline__ void
hd_wt_decode_unit(hd_wt_shared<shape> *s, const hd_wt_unit &u, hd_wt_place<shape> &place)
{
    int const own = hd_wt_own<shape>(u);
    for (int32_t tile = u.begin; tile < u.end; tile++) {
        if (own > 32)
            hd_wt_decode_own<4>(s, own, place.turn);
        else if (own > 16)
            hd_wt_decode_own<2>(s, own, place.turn);
        else
            hd_wt_decode_own<1>(s, own, place.turn);
    }
}

/* The unit is in the job, or nothing is listed: for all threads. */
static __device__ __forceinline__ void hd_wt_sync_noted(void)
{
    hd_wgmma_publish(); /* what was in the ring's place before copies come to it */
    hd_wt_sync_cluster();
}

/* What threads that multiply do. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_multiply_run(hd_wt_grouped_shared<shape> *s)
{
    hd_wt_place<shape> place = {{0, 0}, 0};
    for (;;) {
        __syncthreads(); /* listed */
        int32_t const n = s->run.n;
        if (n == 0) return;
        for (int32_t i = 0; i < n; i++) {
            hd_wt_sync_noted();
            hd_wt_unit const u = s->run.unit[i];
            hd_wt_multiply_unit(&s->core, u, place);
            __syncthreads(); /* nobody still reads the job, nor uses the ring */
        }
    }
}

/* Brings a unit's activations into the ring. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_bring_unit(hd_wt_shared<shape> *s, const hd_wt_unit &u,
                                                        hd_wt_place<shape> &place)
{
    if (threadIdx.x >= HD_WT_MULTIPLIES + HD_WT_CONVERTS + 32) return;
    if (threadIdx.x >= HD_WT_MULTIPLIES + HD_WT_CONVERTS)
        for (int32_t i = u.begin; i < u.end; i++, place.chunk += s->job.k_tiles)
            hd_wt_publish(s, place.chunk, hd_wt_own<shape>(u), place.turn);
    else if constexpr (shape::is_coded)
        hd_wt_decode_unit(s, u, place);
    else if (s->job.is_wide)
        hd_wt_convert_unit<true>(s, u, place);
    else
        hd_wt_convert_unit<false>(s, u, place);
}

/* What the others do. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_bring_run(const hd_grouped_gemm_args  &a,
                                                       hd_wt_grouped_shared<shape> *s)
{
    bool const         converts = threadIdx.x < HD_WT_MULTIPLIES + HD_WT_CONVERTS;
    hd_wt_place<shape> place = {{0, converts}, 0};
    for (bool is_first = true;; is_first = false) {
        hd_wt_list<shape>(a, s, is_first);
        __syncthreads();
        int32_t const n = s->run.n;
        if (n == 0) return;
        for (int32_t i = 0; i < n; i++) {
            hd_wt_unit const u = s->run.unit[i];
            hd_wt_note_unit<shape>(a, s, u);
            hd_wt_sync_noted();
            hd_wt_bring_unit<shape>(&s->core, u, place);
            __syncthreads();
        }
    }
}

template <typename shape>
static __global__ void __launch_bounds__(HD_WT_THREADS, 1)
    hd_wt_grouped_gemm(hd_grouped_gemm_args const a)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    auto *const                               s = (hd_wt_grouped_shared<shape> *)shared;
    hd_wt_start(&s->core);
    if (threadIdx.x < HD_WT_MULTIPLIES) {
        hd_wt_take_registers<HD_WT_MULTIPLY_REGISTERS>();
        hd_wt_multiply_run(s);
        hd_wt_sync_cluster(); /* nobody still sends to this block */
        return;
    }
    hd_wt_give_registers<HD_WT_OTHER_REGISTERS>();
    hd_wt_bring_run(a, s);
    hd_wt_sync_cluster();
}

/* ---- launching ---- */

/* Units of a launch, at most: experts' last ones may be smaller. */
static inline int64_t hd_wt_units(const hd_grouped_gemm_args *a)
{
    int64_t const slots = (int64_t)a->t * a->s;
    return slots / HD_WT_TOKENS + (slots < a->e ? slots : a->e);
}

/* Any number of tokens: kernels for few come before it in the table. */
static inline bool hd_wt_grouped_gemm_supports(const void *args)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    int64_t const slots = (int64_t)a->t * a->s, tiles = hd_blocks(a->n, HD_WT_MULTIPLIES);
    return slots <= INT32_MAX - 65536 && a->k > 0 && a->e <= 16384 && tiles <= INT16_MAX &&
           hd_wt_units(a) * tiles * hd_wt_cost(HD_WT_TOKENS) <= INT32_MAX;
}

template <typename shape>
static inline hd_status hd_launch_wt_grouped(const hd_grouped_gemm_args *a, hd_stream *stream)
{
    if (a->t == 0 || a->s == 0 || a->n == 0) return HD_OK;
    dim3 const grid((unsigned)(hd_sm_count() / shape::peers * shape::peers));
    return hd_wg_launch<hd_grouped_gemm_args>(hd_wt_grouped_gemm<shape>, *a, grid, shape::peers,
                                              HD_WT_THREADS, sizeof(hd_wt_grouped_shared<shape>),
                                              hd_cuda_stream(stream));
}

#endif
