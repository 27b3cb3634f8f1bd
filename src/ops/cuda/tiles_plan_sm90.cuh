#ifndef HD_OPS_CUDA_TILES_PLAN_SM90_CUH
#define HD_OPS_CUDA_TILES_PLAN_SM90_CUH

#include "barrier_sm90.cuh"
#include "launch.cuh"
#include "tiles_mma_sm90.cuh"

/* How products of four-bit weights in tiles (tiles_dot_sm90.cuh) are cut into blocks, warps and
 * shared memory. */

#define HD_TD_WARPS   16
#define HD_TD_THREADS ((HD_TD_WARPS + 1) * 32)
#define HD_TD_TOKENS  16 /* at most                        */
#define HD_TD_STAGES  8  /* of the ring, at most           */
#define HD_TD_ROUNDS  2  /* whose sums are kept, at most   */
#define HD_TD_CLUSTER 8  /* blocks, at most                */
#define HD_TD_SMEM    (227 * 1024)

/* One matrix: from its first row on. */
struct hd_td_matrix {
    const uint8_t *w, *sf;
    float          scale;
};

/* ---- who does what ---- */

/* How a launch is cut.  A cluster takes a run of rounds.  In a round of a unit (a matrix and its
 * tokens) it makes `groups` row tiles, each by as many warps as there are slices. */
struct hd_td_plan {
    int32_t k_tiles, row_tiles; /* of a unit                                                   */
    int32_t rounds;             /* of a unit                                                   */
    int     slices, here;       /* of a row; those of one block                                */
    int     cluster, groups;    /* blocks; row tiles of a round                                */
    int     owned;  /* row tiles of a round whose sums a block adds: groups rank + i * cluster */
    int     tokens; /* of a unit, at most                                                      */
    int     planes; /* columns of a token: 2, or 1 of codes                                    */
    int     blocks; /* of eight columns                                                        */
    int     chunks; /* stages that a round takes                                               */
    int     stages; /* of the ring                                                             */
    size_t  bytes;  /* of shared memory                                                        */
};

/* The beginning of one, for units of so many tokens. */
static inline hd_td_plan hd_td_plan_for(int tokens, int planes)
{
    hd_td_plan p = {};
    p.tokens = tokens;
    p.planes = planes;
    return p;
}

/* ---- shared memory ---- */

struct hd_td_head {
    uint4    zero;                             /* what columns without a token read */
    uint64_t full[HD_TD_STAGES];               /* a stage's chunks are there        */
    uint64_t empty[HD_TD_STAGES];              /* all warps have used theirs        */
    uint64_t summed[HD_TD_ROUNDS];             /* a round's sums are there          */
    uint64_t taken[HD_TD_ROUNDS];              /* all blocks have added theirs      */
    float    units[HD_TD_WARPS][HD_TD_TOKENS]; /* of a slice's activations          */
};
#define HD_TD_HEAD_BYTES ((sizeof(hd_td_head) + 127) / 128 * 128)

struct hd_td_shared {
    hd_td_head *head;
    float      *sums; /* [kept][owned][slices][tokens][32], of all blocks' slices */
    uint4      *x;    /* [tile of a slice][here][2][columns][4] of eight f16      */
    uint8_t    *ring; /* [stages], [groups][chunk][here] codes, as many scales    */
};

/* What is known when a kernel is compiled: columns of activations, and planes of a token. */
template <int blocks_, int planes_> struct hd_td_shape {
    static constexpr int blocks = blocks_, planes = planes_;
    static constexpr int tokens = 8 * blocks / planes; /* at most */
};

/* Tiles of a chunk; rounds whose sums are kept: what leaves room for many tokens. */
static __host__ __device__ constexpr int hd_td_chunk(int blocks) { return blocks > 1 ? 1 : 2; }
static __host__ __device__ constexpr int hd_td_kept(int blocks)
{
    return blocks > 1 ? 1 : HD_TD_ROUNDS;
}

/* Bytes of a block's activations. */
static __host__ __device__ __forceinline__ uint32_t hd_td_x_bytes(const hd_td_plan &p)
{
    return (uint32_t)((p.k_tiles + p.slices - 1) / p.slices * p.here * HD_TILES_COLS * 2 *
                      p.planes * p.tokens);
}

/* Bytes of a block's sums. */
static __host__ __device__ __forceinline__ uint32_t hd_td_sum_bytes(const hd_td_plan &p)
{
    return (uint32_t)(hd_td_kept(p.blocks) * HD_TD_WARPS * HD_TILES_ROWS * p.tokens *
                      (int)sizeof(float));
}

static __device__ __forceinline__ hd_td_shared hd_td_share(uint8_t *base, const hd_td_plan &p)
{
    hd_td_shared s;
    s.head = (hd_td_head *)base;
    s.sums = (float *)(base + HD_TD_HEAD_BYTES);
    s.x = (uint4 *)((uint8_t *)s.sums + hd_td_sum_bytes(p));
    s.ring = (uint8_t *)s.x + hd_td_x_bytes(p);
    return s;
}

/* The part of a warp that multiplies. */
struct hd_td_walk {
    const hd_td_plan &p;
    hd_td_shared      s;
    int               rank, group;
    int     owner, place; /* block that adds the group's sums; row tile of those it owns */
    int     slice, own;   /* of all; of the block's                           */
    int32_t tiles;        /* of the slice                                     */
    int32_t first, last;  /* the cluster's rounds [first, last), of all units */
};

static __device__ __forceinline__ hd_td_walk hd_td_start(const hd_td_plan &p, const hd_td_shared &s,
                                                         int warp, int32_t units)
{
    hd_td_walk    v = {p, s};
    int32_t const at = (int32_t)blockIdx.x / p.cluster, of = (int32_t)gridDim.x / p.cluster;
    int32_t const each = p.rounds * units / of, more = p.rounds * units % of;
    v.rank = (int)blockIdx.x % p.cluster;
    v.group = warp / p.here;
    v.owner = v.group % p.cluster;
    v.place = v.group / p.cluster;
    v.own = warp % p.here;
    v.slice = v.rank * p.here + v.own;
    v.tiles = (p.k_tiles - v.slice + p.slices - 1) / p.slices;
    v.first = at * each + min(at, more);
    v.last = v.first + each + (at < more);
    return v;
}

/* The ring's barriers are made by the warp that fills it, so that copies may begin at once.  In a
 * cluster sums come by hd_store_at, as bytes; in a lone block warps announce theirs. */
static __device__ __forceinline__ void hd_td_make_barriers(hd_td_head *h, const hd_td_plan &p)
{
    int const at = (int)threadIdx.x - HD_TD_WARPS * 32;
    if (at >= 0 && at < p.stages) {
        hd_barrier_init(&h->full[at], 1);
        hd_barrier_init(&h->empty[at], HD_TD_WARPS);
    }
    if ((int)threadIdx.x < HD_TD_ROUNDS) {
        hd_barrier_init(&h->summed[threadIdx.x], p.cluster == 1 ? HD_TD_WARPS : 1);
        hd_barrier_init(&h->taken[threadIdx.x], (uint32_t)(HD_TD_WARPS * p.cluster));
    }
    if (threadIdx.x == 32) h->zero = make_uint4(0, 0, 0, 0);
    hd_barrier_publish();
    __syncwarp();
}

/* Waits for all warps that multiply. */
static __device__ __forceinline__ void hd_td_sync(void)
{
    asm volatile("bar.sync 1, %0;" ::"n"(HD_TD_WARPS * 32) : "memory");
}

#endif
