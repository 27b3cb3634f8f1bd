#ifndef HD_OPS_CUDA_WGMMA_TILES_DOT_CUH
#define HD_OPS_CUDA_WGMMA_TILES_DOT_CUH

#include "wgmma_tiles_convert.cuh"
#include "wgmma_tiles_multiply.cuh"

/* The common core of products of four-bit weights in tiles (quant/tiles.h) with more tokens
 * than wgmma_dot.cuh takes at once, for Hopper's tensor cores.
 *
 * Bound by: the tensor cores and the decoding beside them, from some hundred tokens on.
 * Tile: 256 rows of weights x 128 tokens, 64 columns (a chunk) at a time.  The two blocks of a
 *   cluster have the same tokens: each converts one half of them, and copies that to the other's
 *   shared memory.
 * Warps: two warpgroups multiply, twice 64 rows each, and take turns, so that one decodes while the
 *   other multiplies; a third one converts.
 * Product: wgmma with bf16 operands and f32 sums.  The weights are operand A, decoded in registers:
 *   e2m1 x e4m3 (times 2^-7) and e2m1 x 2^e fit bf16.  A thread copies the words that it decodes to
 *   places of its own, some chunks ahead, so nobody waits for another.  The activations are
 *   operand B: an f32 is the sum of three bf16 (24 bits, cut off, so nothing overflows), each a
 *   plane of its own.  A chunk that has only the first, of activations that were rounded to bf16 or
 *   less, leaves the others out; the tensor cores would add 0.
 * Ring: a slot holds the planes of a chunk, swizzled by 128 bytes.  It is full when both halves of
 *   the tokens have come, empty when both blocks have multiplied them.
 * Order of k inside a chunk is free, so codes stay where the tile has them and the columns of the
 *   activations are laid out alike. */

/* ---- results ---- */

/* Where element i of a thread's sums of a part belongs, or NULL: elements 4 j .. 4 j + 3 are rows
 * lane / 4, the same, and lane / 4 + 8 twice, of tokens 8 j + 2 (lane % 4) and the next. */
static __device__ __forceinline__ float *hd_wt_result(const hd_wt_job &j, int part, int i)
{
    int const     lane = (int)threadIdx.x % 32, token = i / 4 * 8 + lane % 4 * 2 + i % 2;
    int32_t const row = j.row0 + part * 128 + (int)threadIdx.x / 32 * 16 + lane / 4 + i % 4 / 2 * 8;
    return token < j.n_tokens && row < j.row_tiles * HD_TILES_ROWS ? j.y[token] + row : NULL;
}

/* Writes a part of y. */
static __device__ __forceinline__ void hd_wt_write(const hd_wt_job &j, int part,
                                                   const float (&sum)[HD_WT_SUMS])
{
    float const scale = j.scale;
#pragma unroll
    for (int i = 0; i < HD_WT_SUMS; i++) {
        if (i % 4 == 0) asm volatile("" ::: "memory"); /* or all addresses would be made at once */
        float *const y = hd_wt_result(j, part, i);
        if (y) *y = (0.0f + sum[i]) * scale;
    }
}

static __device__ __forceinline__ void hd_wt_sync_cluster(void)
{
    hd_cluster_arrive();
    hd_cluster_wait();
}

/* ---- a block ---- */

/* Before anything else; behind it the cluster's barriers are there. */
template <int format> static __device__ __forceinline__ void hd_wt_start(hd_wt_shared<format> *s)
{
    using tile = hd_wt_tile<format>;
    if (threadIdx.x < HD_WT_SLOTS) {
        hd_barrier_init(&s->full[threadIdx.x], HD_WT_PEERS);
        hd_barrier_init(&s->empty[threadIdx.x], HD_WT_PEERS * HD_WT_MULTIPLIES / 128);
    }
    hd_barrier_publish();
    hd_wgmma_publish(); /* what was in the ring's place before copies come to it */
    hd_wt_sync_cluster();
}

/* Whether the thread multiplies; the sums need more registers than each thread's share. */
static __device__ __forceinline__ bool hd_wt_multiplies(void)
{
    bool const multiplies = threadIdx.x < HD_WT_MULTIPLIES;
    if (multiplies)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
    else
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
    return multiplies;
}

/* Converts what the job needs. */
template <bool is_wide, int format>
static __device__ __forceinline__ void hd_wt_convert(hd_wt_shared<format> *s)
{
    hd_wt_turn                        turn = {0, 1};
    uint32_t                          zeros = 0;
    hd_wt_conversion<is_wide, format> all = {s, hd_wt_peer(), 0, s->job.k_tiles, 0};
    all.run(turn, zeros);
}

template <int format> static __device__ __forceinline__ void hd_wt_multiply(hd_wt_shared<format> *s)
{
    hd_wt_turn                        turn = {0, 0};
    typename hd_wt_pass<format>::sums sum;
    uint32_t const     empty = hd_cluster_address(s->empty, threadIdx.x % HD_WT_PEERS);
    hd_wt_pass<format> all = {s, empty, 0, s->job.k_tiles};
    all.run(turn, sum);
#pragma unroll
    for (int part = 0; part < HD_WT_PARTS; part++) hd_wt_write(s->job, part, sum[part]);
}

/* Makes the block's job, which is noted. */
template <int format> static __device__ __forceinline__ void hd_wt_make(hd_wt_shared<format> *s)
{
    hd_wt_start(s);
    if (hd_wt_multiplies())
        hd_wt_multiply(s);
    else if (s->job.is_wide)
        hd_wt_convert<true>(s);
    else
        hd_wt_convert<false>(s);
    hd_wt_sync_cluster(); /* nobody still touches this block's memory */
}

#endif
