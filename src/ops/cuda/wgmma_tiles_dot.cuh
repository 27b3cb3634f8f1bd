#ifndef HD_OPS_CUDA_WGMMA_TILES_DOT_CUH
#define HD_OPS_CUDA_WGMMA_TILES_DOT_CUH

#include "vectors.cuh"
#include "wgmma_tiles_convert.cuh"
#include "wgmma_tiles_multiply.cuh"

/* The common core of products of four-bit weights in tiles (quant/tiles.h) with more tokens
 * than wgmma_dot.cuh takes at once, for Hopper's tensor cores.
 *
 * Bound by: the tensor cores and what is decoded and converted beside them: while they are busy a
 * warp makes an instruction in about six cycles.
 * Tile: 256 rows of weights, 128 where blocks are few, x 128 tokens, 64 columns (a chunk) at a
 * time; 128 rows x 64 tokens where there are no more; of experts with fewer 96, 64 or 32.  The two
 * blocks of a cluster have the same tokens: each converts one half of them, and copies that to the
 * other's shared memory.
 * Warps: two warpgroups multiply, one or two parts of 64 rows each: one decodes while the other's
 * products run; a third one converts, and a warp publishes what it made.
 * Product: wgmma with f32 sums.  The weights are operand A, decoded in registers; a thread copies
 * the words that it decodes to places of its own, some chunks ahead, so nobody waits for another.
 * The activations are operand B.
 * Floats: bf16, which e2m1 x e4m3 (times 2^-7) and e2m1 x 2^e fit.  An f32 is the sum of three of
 * them (24 bits, cut off, so nothing overflows), each a plane of its own.  A chunk that has only
 * the first, of activations that were rounded to bf16 or less, leaves the others out; the tensor
 * cores would add 0.
 * Codes: f16, which e2m1 x e4m3 (times 2^-14) fits, so one plane; a token's scale comes at last.
 * Ring: a slot holds the first planes of a chunk, swizzled by 128 bytes; the others have places of
 * their own, fewer.  It is full when all tokens have come, empty when all blocks that have a copy
 * have multiplied it.
 * Order of k inside a chunk is free, so codes of weights stay where the tile has them and the
 * columns of the activations are laid out alike. */

/* ---- results ---- */

/* Results of a token in shared memory; so long that a warp's stores meet no
 * bank twice. */
struct hd_wt_results {
    float row[HD_WT_MULTIPLIES / 2 + 4];
};

/* Puts a thread's sums of a part to those of their tokens: elements 4 j .. 4 j
 * + 3 are rows lane / 4, the same, and lane / 4 + 8 twice, of tokens 8 j + 2
 * (lane % 4) and the next. */
template <int n>
static __device__ __forceinline__ void hd_wt_put(hd_wt_results *out, const float (&sum)[n])
{
    int const lane = (int)threadIdx.x % 32, row = (int)threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < n; i++)
        out[i / 4 * 8 + lane % 4 * 2 + i % 2].row[row + i % 4 / 2 * 8] = 0.0f + sum[i];
}

/* Writes a part of y, whose sums are there: a warp has four rows a lane of a
 * token in turn. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_write(const hd_wt_job &j, int part,
                                                   const hd_wt_results *out)
{
    int const     lane = (int)threadIdx.x % 32;
    int32_t const row = j.row0 + part * HD_WT_MULTIPLIES / 2 + lane * 4, n_tokens = j.n_tokens;
    if (row >= j.row_tiles * HD_TILES_ROWS) return;
    float const scale = j.scale;
    for (int i = (int)threadIdx.x / 32; i < n_tokens; i += HD_WT_MULTIPLIES / 32) {
        float4      v = *(const float4 *)&out[i].row[lane * 4];
        float const x_scale = shape::is_coded ? j.x_scale[i] : 1.0f;
        v = {v.x * scale * x_scale, v.y * scale * x_scale, v.z * scale * x_scale,
             v.w * scale * x_scale};
        float *const y = j.y[i] + row;
        if (hd_is_aligned(y)) {
            *(float4 *)y = v;
        } else {
            y[0] = v.x;
            y[1] = v.y;
            y[2] = v.z;
            y[3] = v.w;
        }
    }
}

static __device__ __forceinline__ void hd_wt_sync_cluster(void)
{
    hd_cluster_arrive();
    hd_cluster_wait();
}

/* ---- a block ---- */

/* Notes where all activations of gemm or grouped_gemm are, in a job. */
template <typename shape, typename args>
static __device__ __forceinline__ void hd_wt_note_x(const args &a, hd_wt_job *j)
{
    j->x_codes = a.x_codes;
    j->x_sf = a.x_sf;
    j->is_wide = shape::is_coded ? ((uintptr_t)a.x_codes & 15) == 0 && ((uintptr_t)a.x_sf & 3) == 0
                                 : hd_is_wide(a.x, a.k);
}

/* Before anything else; behind it the cluster's barriers are there. */
template <typename shape> static __device__ __forceinline__ void hd_wt_start(hd_wt_shared<shape> *s)
{
    if (threadIdx.x < shape::slots) {
        hd_barrier_init(&s->made[threadIdx.x], HD_WT_CONVERTS / 32);
        hd_barrier_init(&s->full[threadIdx.x], shape::peers);
        hd_barrier_init(&s->empty[threadIdx.x], shape::peers * HD_WT_MULTIPLIES / 128);
    }
    hd_barrier_publish();
    hd_wgmma_publish(); /* what was in the ring's place before copies come to it
                         */
    hd_wt_sync_cluster();
}

/* The sums need more registers than each thread's share: who multiplies takes some, the others give
 * them.  Whole warpgroups do. */
template <int registers> static __device__ __forceinline__ void hd_wt_take_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers> static __device__ __forceinline__ void hd_wt_give_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

/* Converts what the job needs. */
template <bool is_wide, typename shape>
static __device__ __forceinline__ void hd_wt_convert(hd_wt_shared<shape> *s)
{
    hd_ring_place<shape::slots>      turn = {0, 1};
    uint32_t                         zeros = 0;
    hd_wt_conversion<is_wide, shape> all = {s, shape::own, 0, s->job.k_tiles, 0};
    all.run(turn, zeros);
}

/* The same of codes. */
template <typename shape>
static __device__ __forceinline__ void hd_wt_decode(hd_wt_shared<shape> *s)
{
    hd_ring_place<shape::slots> turn = {0, 1};
    hd_wt_decode_own<shape::own / 16>(s, shape::own, turn);
}

template <typename shape>
static __device__ __forceinline__ void hd_wt_multiply(hd_wt_shared<shape> *s)
{
    hd_ring_place<shape::slots>      turn = {0, 0};
    typename hd_wt_pass<shape>::sums sum;
    uint32_t const    empty = hd_cluster_address(s->empty, threadIdx.x % shape::peers);
    hd_wt_pass<shape> all = {s, empty, shape::tokens, 0, s->job.row0, 0};
    all.start();
    all.run(turn, sum);
    hd_wt_sync_cluster(); /* nobody still uses the ring, nor sends to this block's
                           */
    auto *const out = (hd_wt_results *)s->planes;
#pragma unroll
    for (int part = 0; part < shape::parts; part++)
        hd_wt_put(out + part * shape::tokens, sum[part]);
    asm volatile("bar.sync 2, %0;" ::"n"(HD_WT_MULTIPLIES) : "memory");
#pragma unroll
    for (int part = 0; part < shape::parts; part++)
        hd_wt_write<shape>(s->job, part, out + part * shape::tokens);
}

/* Makes the block's job, which is noted. */
template <typename shape> static __device__ __forceinline__ void hd_wt_make(hd_wt_shared<shape> *s)
{
    hd_wt_start(s);
    if (threadIdx.x < HD_WT_MULTIPLIES) {
        hd_wt_take_registers<HD_WT_MULTIPLY_REGISTERS>();
        hd_wt_multiply(s);
        return;
    }
    hd_wt_give_registers<HD_WT_OTHER_REGISTERS>();
    if (threadIdx.x >= HD_WT_MULTIPLIES + HD_WT_CONVERTS) {
        hd_ring_place<shape::slots> turn = {0, 0};
        if (threadIdx.x < HD_WT_MULTIPLIES + HD_WT_CONVERTS + 32)
            hd_wt_publish(s, 0, shape::own, turn);
    } else if constexpr (shape::is_coded)
        hd_wt_decode(s);
    else if (s->job.is_wide)
        hd_wt_convert<true>(s);
    else
        hd_wt_convert<false>(s);
    hd_wt_sync_cluster();
}

#endif
