#ifndef HD_OPS_CUDA_WGMMA_GROUPED_GEMM_CUH
#define HD_OPS_CUDA_WGMMA_GROUPED_GEMM_CUH

#include "ops/grouped_gemm.h"
#include "wgmma_dot.cuh"

/* grouped_gemm for many tokens on Hopper: a block for each tile of rows (x) and expert (y), which
 * walks the slots that go to its expert, 64 of them at a time.  A thread looks for them in
 * a run of its own, so they come by rising slot. */

struct hd_wg_slots {
    int32_t first, end; /* the thread's run of all slots             */
    int32_t before;     /* slots of the expert in front of the run   */
    int32_t all;        /* slots of the expert                       */
};

template <int warps>
static __device__ hd_wg_slots hd_wg_count_slots(const hd_grouped_gemm_args &a, int32_t e)
{
    __shared__ int32_t counted[warps];
    int const          warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    int32_t const      n = a.t * a.s, run = (n + 32 * warps - 1) / (32 * warps);
    hd_wg_slots        w = {min(n, (int32_t)threadIdx.x * run), 0, 0, 0};
    int32_t            own = 0;
    w.end = min(n, w.first + run);
    for (int32_t i = w.first; i < w.end; i++) own += a.ids[i] == e;
    int32_t sum = own; /* of the lanes up to this one */
    for (int o = 1; o < 32; o *= 2) {
        int32_t const left = __shfl_up_sync(0xffffffffu, sum, o);
        if (lane >= o) sum += left;
    }
    if (lane == 31) counted[warp] = sum;
    __syncthreads();
    w.before = sum - own;
    for (int i = 0; i < warps; i++) {
        if (i < warp) w.before += counted[i];
        w.all += counted[i];
    }
    return w;
}

/* Notes the expert's slots [from, from + HD_WG_TOKENS) in the job. */
static __device__ void hd_wg_take_slots(const hd_grouped_gemm_args &a, int32_t e,
                                        const hd_wg_slots &w, int32_t from, hd_wg_job *j)
{
    int32_t at = w.before - from;
    for (int32_t i = w.first; i < w.end && at < HD_WG_TOKENS; i++) {
        if (a.ids[i] != e) continue;
        if (at >= 0) {
            j->x[at] = a.x + (int64_t)(a.xs == 1 ? i / a.s : i) * a.k;
            j->y[at] = a.y + (int64_t)i * a.n;
        }
        at++;
    }
    if (threadIdx.x == 0) j->n_tokens = min(HD_WG_TOKENS, w.all - from);
    for (int32_t i = w.all - from + (int32_t)threadIdx.x; i < HD_WG_TOKENS;
         i += (int32_t)blockDim.x)
        j->x[i] = a.x;
}

template <int format>
static __global__ void __launch_bounds__(hd_wg_tile<format>::threads, 1)
    hd_wgmma_grouped_gemm(hd_grouped_gemm_args const a)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    auto *const                               s = (hd_wg_shared<format> *)shared;
    int32_t const                             e = (int32_t)blockIdx.y;
    hd_wg_slots const slots = hd_wg_count_slots<hd_wg_tile<format>::warps>(a, e);
    if (slots.all > 0 && threadIdx.x == 0) {
        s->job.w = (const uint8_t *)a.w[e];
        s->job.sf = format == HD_FMT_BF16 ? NULL : (const uint8_t *)a.sf[e];
        s->job.is_wide = hd_is_wide(a.x, a.k);
        s->job.n = a.n;
        s->job.k = a.k;
        s->job.scale = 1.0f;
        s->job.row0 = (int32_t)blockIdx.x * hd_wg_tile<format>::rows;
    }
    for (int32_t from = 0; from < slots.all; from += HD_WG_TOKENS) {
        hd_wg_take_slots(a, e, slots, from, &s->job);
        __syncthreads();
        hd_wg_make(s);
        __syncthreads(); /* nobody still reads the job */
    }
}

template <int format> static inline bool hd_wgmma_grouped_gemm_supports(const void *args)
{
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    return a->k > 0 && a->k % hd_wg_tile<format>::columns == 0 && a->e <= 65535 &&
           (int64_t)a->t * a->s <= INT32_MAX - 2048;
}

template <int format>
static inline hd_status hd_launch_wgmma_grouped_gemm(const void *args, hd_stream *stream)
{
    using tile = hd_wg_tile<format>;
    const hd_grouped_gemm_args *const a = (const hd_grouped_gemm_args *)args;
    if (a->t == 0 || a->s == 0 || a->n == 0) return HD_OK;
    dim3 const grid(hd_blocks(a->n, tile::rows), (unsigned)a->e);
    return hd_wg_launch<hd_grouped_gemm_args>(hd_wgmma_grouped_gemm<format>, *a, grid, 1,
                                              tile::threads, sizeof(hd_wg_shared<format>),
                                              hd_cuda_stream(stream));
}

#endif
