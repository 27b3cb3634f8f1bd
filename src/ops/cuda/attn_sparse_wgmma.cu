#include "ops/cuda/attn_wgmma_heads.cuh"

/* Rows of 512 for many tokens, on Hopper's tensor cores by warpgroups.
 *
 * Bound by: the way of a tile through logits, weights and sums, one behind the other: shared memory
 *   has no room for a third tile that could occupy the tensor cores while weights are worked out.
 *   Beside that the warps that make tiles have to keep up.
 * Grid: clusters of two blocks, as many as fit the GPU; a cluster takes token after token, each
 *   block 32 of its heads.  A token of more than 64 heads is several.
 * Operands: f16 planes (key_planes.cuh), two of queries and of weights, one of keys.  The planes
 *   of a head are lines of one operand A, r and r + 8: 64 lines are 32 heads, and the thread that
 *   has the sums of one plane has those of the other.
 * Tile: 64 keys.  Four warps make it, in each block one half, which bulk copies bring to the other;
 *   there are two slots.  The same lines are operand B of the logits and, transposed, of the sums.
 * Logits and sums: two warpgroups.  Each multiplies half of the columns for the logits; they
 *   exchange these, and each works out all weights and adds them to half of the columns.
 * Weights: relative to about the largest logit and the largest unit so far; only what outgrows them
 *   by some powers of two makes a warp multiply its sums.
 * Order: a token's keys as the op has them, whatever the batch.
 * Error, as shares of the sum of the terms' magnitudes: planes give each product 3 * 2^-23; the
 *   tensor cores cut off what they add, at most 2^-23 of the sum in each of the 16 steps of a half,
 *   whose sums are half of it on average: 2^-19 together, where the op allows a logit 2^-16.7.  The
 *   sums over n keys take n / 16 steps, at most n * 2^-27 in all, which is allowed.
 * An infinite query or key gives NaN. */

#define ATTEND_REGISTERS 208
#define LOAD_REGISTERS   88
#define LEAST_ITEMS      16 /* with which this is faster */

template <hd_row_format format, bool is_wide>
static __global__ void __cluster_dims__(HD_AW_PEERS) __launch_bounds__(HD_AW_THREADS, 1)
    attend_tokens(const __grid_constant__ hd_attn_job j)
{
    extern __shared__ __align__(1024) uint8_t memory[];
    hd_aw_shared *const                       s = (hd_aw_shared *)memory;
    hd_take_turn();
    if (threadIdx.x == 0) {
        for (int i = 0; i < HD_AW_SLOTS; i++) {
            hd_barrier_init(&s->full[i], HD_AW_LOADS / 32);
            hd_barrier_init(&s->empty[i], HD_AW_PEERS * HD_AW_ATTENDS / 32);
        }
        hd_barrier_publish();
    }
    hd_cluster_arrive();
    hd_cluster_wait();
    if (threadIdx.x < HD_AW_ATTENDS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(ATTEND_REGISTERS));
        hd_aw_attend_all<is_wide>(&j, s);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LOAD_REGISTERS));
        hd_aw_load_all<format, is_wide>(&j, s);
    }
    __syncwarp();
    hd_cluster_arrive(); /* nobody still writes or arrives here */
    hd_cluster_wait();
}

/* ---- on the host ---- */

static bool takes(const hd_row_layout *l)
{
    return hd_attn_takes(l) && l->format != HD_ROW_F32 &&
           (l->format == HD_ROW_BF16 || l->tail == HD_AW_TAIL);
}

bool hd_attn_sparse_wgmma_supports(const void *args)
{
    const hd_attn_sparse_args *const a = (const hd_attn_sparse_args *)args;
    if (a->d != HD_KEY_WIDTH || !takes(&a->win_layout)) return false;
    if (a->dr > 2 * HD_AW_TURNS || a->h <= HD_AW_HEADS) return false;
    if ((int64_t)a->t * hd_aw_clusters(a->h) < LEAST_ITEMS) return false;
    return a->group <= 0 || takes(&a->row_layout);
}

template <hd_row_format format, bool is_wide>
static hd_status launch_with(const hd_attn_job *j, cudaStream_t stream)
{
    int64_t const  items = (int64_t)j->a.t * hd_aw_clusters(j->a.h);
    int64_t const  most = hd_sm_count() / HD_AW_PEERS;
    unsigned const grid = (unsigned)(items < most ? items : most) * HD_AW_PEERS;
    size_t const   bytes = sizeof(hd_aw_shared);
    if (!hd_allow_shared((const void *)attend_tokens<format, is_wide>, bytes)) return HD_ERR_DEVICE;
    return hd_launch(attend_tokens<format, is_wide>, grid, HD_AW_THREADS, bytes, stream, *j);
}

template <hd_row_format format> static hd_status launch(const hd_attn_job *j, cudaStream_t stream)
{
    bool const is_wide = j->is_wide && (uintptr_t)j->a.q % 16 == 0;
    return is_wide ? launch_with<format, true>(j, stream) : launch_with<format, false>(j, stream);
}

hd_status hd_attn_sparse_wgmma(const void *args, hd_stream *stream)
{
    const hd_attn_sparse_args *const a = (const hd_attn_sparse_args *)args;
    hd_attn_job const                j = hd_attn_job_of(a);
    if (a->t == 0 || a->h == 0) return HD_OK;
    switch (a->win_layout.format) {
    case HD_ROW_BF16: return launch<HD_ROW_BF16>(&j, hd_cuda_stream(stream));
    case HD_ROW_FP8: return launch<HD_ROW_FP8>(&j, hd_cuda_stream(stream));
    default: return launch<HD_ROW_NVFP4>(&j, hd_cuda_stream(stream));
    }
}
