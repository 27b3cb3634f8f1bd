#ifndef HD_OPS_CUDA_TILES_PLAN_SM90_CUH
#define HD_OPS_CUDA_TILES_PLAN_SM90_CUH

#include "barrier_sm90.cuh"
#include "launch.cuh"
#include "tiles_mma_sm90.cuh"

/* How products of four-bit weights in tiles (tiles_dot_sm90.cuh) are cut into blocks, warps and
 * shared memory. */

#define HD_TD_WARPS   16 /* that multiply, at most       */
#define HD_TD_TOKENS  16 /* at most                      */
#define HD_TD_STAGES  8  /* of the ring, at most         */
#define HD_TD_ROUNDS  2  /* whose sums are kept, at most */
#define HD_TD_CLUSTER 8  /* blocks, at most              */

/* ---- shapes ---- */

/* What is known when a kernel is compiled: columns of activations, and planes of a token.  Of a
 * block's warps most multiply, one behind them copies, the rest add. */
template <int blocks_, int planes_> struct hd_td_shape {
    static constexpr int  blocks = blocks_, planes = planes_;
    static constexpr int  tokens = 8 * blocks / planes; /* at most                       */
    static constexpr int  warps = 16, adders = 3, threads = (warps + 1 + adders) * 32;
    static constexpr int  resident = 1; /* blocks of a processor                         */
    static constexpr bool is_one = false;
    static constexpr int  room = 227 * 1024; /* shared memory of a block                 */
};

/* One token: two blocks of a processor, so that one begins while the other ends. */
template <int planes_> struct hd_td_one {
    static constexpr int  blocks = 1, planes = planes_, tokens = 1;
    static constexpr int  warps = 8, adders = 1, threads = (warps + 1 + adders) * 32;
    static constexpr int  resident = 2;
    static constexpr bool is_one = true;
    static constexpr int  room = 113 * 1024;
};

/* One matrix: from its first row on. */
struct hd_td_matrix {
    const uint8_t *w, *sf;
};

/* ---- who does what ---- */

/* How a launch is cut.  A cluster takes a run of rounds.  In a round of a unit (a matrix and its
 * tokens) it makes `groups` row tiles, each by as many warps as there are slices. */
struct hd_td_plan {
    int32_t  k_tiles, row_tiles; /* of a unit                                                   */
    int32_t  rounds;             /* of a unit                                                   */
    int32_t  each, more;         /* rounds of a cluster, how many have one more; 0: not known   */
    int      slices, here;       /* of a row; those of one block: powers of two, as the cluster */
    int      cluster, groups;    /* blocks; row tiles of a round                                */
    int      owned;  /* row tiles of a round whose sums a block adds: groups rank + i * cluster */
    int      tokens; /* of a unit, at most                                                      */
    int      planes; /* columns of a token: 2, or 1 of codes                                    */
    int      blocks; /* of eight columns                                                        */
    int      warps;  /* of a block that multiply                                                */
    int      chunks; /* stages that a round takes                                               */
    int      stages; /* of the ring                                                             */
    uint32_t parts_at, x_at, ring_at; /* in shared memory, behind a table                      */
    size_t   bytes;                   /* of shared memory                                      */
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
    uint64_t noted[HD_TD_ROUNDS];              /* the warps' sums of a round are there */
    uint64_t taken[HD_TD_ROUNDS];              /* the block has added them             */
    uint64_t sent[HD_TD_ROUNDS];               /* the cluster's parts are there        */
    uint64_t freed[HD_TD_ROUNDS];              /* all blocks have added theirs         */
    float    units[HD_TD_WARPS][HD_TD_TOKENS]; /* of a slice's activations          */
};
#define HD_TD_HEAD_BYTES ((sizeof(hd_td_head) + 127) / 128 * 128)

struct hd_td_shared {
    hd_td_head *head;
    float      *sums;  /* [kept][warps][tokens][32]                                */
    float      *parts; /* [kept][owned][cluster][tokens][32], only in a cluster    */
    uint4      *x;     /* [tile of a slice][here][2][columns][4] of eight f16      */
    uint8_t    *ring;  /* [stages], [groups][chunk][here] codes, as many scales    */
};

/* Tiles of a chunk; rounds whose sums are kept: what leaves room for many tokens. */
static __host__ __device__ constexpr int hd_td_chunk(int blocks) { return blocks > 1 ? 1 : 2; }
static __host__ __device__ constexpr int hd_td_kept(int blocks)
{
    return blocks > 1 ? 1 : HD_TD_ROUNDS;
}

/* Bytes of a block's activations. */
static inline uint32_t hd_td_x_bytes(const hd_td_plan &p)
{
    return (uint32_t)((p.k_tiles + p.slices - 1) / p.slices * p.here * HD_TILES_COLS * 2 *
                      p.planes * p.tokens);
}

/* Bytes of a block's sums, and of the cluster's that it adds. */
static inline uint32_t hd_td_sum_bytes(const hd_td_plan &p)
{
    return (uint32_t)(hd_td_kept(p.blocks) * p.warps * HD_TILES_ROWS * p.tokens *
                      (int)sizeof(float));
}

static inline uint32_t hd_td_part_bytes(const hd_td_plan &p)
{
    int const parts = p.cluster > 1 ? p.owned * p.cluster : 0;
    return (uint32_t)(hd_td_kept(p.blocks) * parts * HD_TILES_ROWS * p.tokens * (int)sizeof(float));
}

static __device__ __forceinline__ hd_td_shared hd_td_share(uint8_t *base, const hd_td_plan &p)
{
    hd_td_shared s;
    s.head = (hd_td_head *)base;
    s.sums = (float *)(base + HD_TD_HEAD_BYTES);
    s.parts = (float *)(base + p.parts_at);
    s.x = (uint4 *)(base + p.x_at);
    s.ring = base + p.ring_at;
    return s;
}

/* The part of a warp that multiplies; a warp of another kind asks as the first. */
struct hd_td_walk {
    const hd_td_plan &p;
    hd_td_shared      s;
    int               rank, group;
    int               slice, own;           /* of all; of the block's                   */
    int32_t           tiles;                /* of the slice                             */
    int32_t           unit, turn, n_rounds; /* the cluster's first round; how many      */
};

/* x / power. */
static __device__ __forceinline__ int hd_td_over(int x, int power)
{
    return x >> (__ffs(power) - 1);
}

/* Which rounds the cluster makes: a run of its unit's, where the grid's second dimension is units,
 * or of all.  That is known without a division where the host knew the units. */
static __device__ __forceinline__ void hd_td_deal(hd_td_walk *v, int32_t units)
{
    const hd_td_plan &p = v->p;
    int32_t const     of = hd_td_over((int)gridDim.x, p.cluster);
    int32_t const     at = hd_td_over((int)blockIdx.x, p.cluster);
    bool const        is_dealt = p.each > 0;
    int32_t const     each = is_dealt ? p.each : p.rounds * units / of;
    int32_t const     more = is_dealt ? p.more : p.rounds * units % of;
    v->unit = (int32_t)blockIdx.y;
    v->turn = at * each + min(at, more);
    v->n_rounds = each + (at < more);
    if (gridDim.y == 1 && units > 1) {
        v->unit = v->turn / p.rounds;
        v->turn -= v->unit * p.rounds;
    }
}

static __device__ __forceinline__ hd_td_walk hd_td_start(const hd_td_plan &p, const hd_td_shared &s,
                                                         int warp, int32_t units)
{
    hd_td_walk v = {p, s};
    v.rank = (int)blockIdx.x & (p.cluster - 1);
    v.group = hd_td_over(warp, p.here);
    v.own = warp & (p.here - 1);
    v.slice = v.rank * p.here + v.own;
    v.tiles = hd_td_over(p.k_tiles - v.slice + p.slices - 1, p.slices);
    hd_td_deal(&v, units);
    return v;
}

/* A round of the walk. */
struct hd_td_round {
    int32_t local, unit, turn; /* counted from the walk's first; its unit; its place there */
    int     n;                 /* tokens of the unit                                       */

    __device__ __forceinline__ explicit hd_td_round(const hd_td_walk &v)
        : local(0), unit(v.unit), turn(v.turn), n(0)
    {
    }

    __device__ __forceinline__ void next(const hd_td_walk &v)
    {
        local++;
        if (++turn < v.p.rounds) return;
        turn = 0;
        unit++;
    }

    __device__ __forceinline__ bool is_first_of_unit(void) const { return local == 0 || turn == 0; }

    /* The place of what is kept for it, and whether that has been passed an odd number of times. */
    template <int kept> __device__ __forceinline__ int buffer(void) const { return local % kept; }
    template <int kept> __device__ __forceinline__ uint32_t parity(void) const
    {
        return (uint32_t)(local / kept) & 1;
    }
};

/* The ring's barriers are made by the warp that fills it, so that copies may begin at once.  Sums
 * of warps are announced; what other blocks send is counted as bytes. */
template <typename shape>
static __device__ __forceinline__ void hd_td_make_barriers(hd_td_head *h, const hd_td_plan &p)
{
    int const at = (int)threadIdx.x - shape::warps * 32;
    if (at >= 0 && at < 32 && at < p.stages) {
        hd_barrier_init(&h->full[at], 1);
        hd_barrier_init(&h->empty[at], shape::warps);
    }
    if ((int)threadIdx.x < HD_TD_ROUNDS) {
        hd_barrier_init(&h->noted[threadIdx.x], shape::warps);
        hd_barrier_init(&h->taken[threadIdx.x], shape::adders);
        hd_barrier_init(&h->sent[threadIdx.x], 1);
        hd_barrier_init(&h->freed[threadIdx.x], (uint32_t)(shape::adders * p.cluster));
    }
    if (threadIdx.x == 32) h->zero = make_uint4(0, 0, 0, 0);
    hd_barrier_publish();
    __syncwarp();
}

/* Warps that walk from unit to unit together. */
enum hd_td_team { HD_TD_MULTIPLIES, HD_TD_ADDS };

/* Waits for all warps of the own team. */
template <typename shape> static __device__ __forceinline__ void hd_td_sync(hd_td_team team)
{
    if (team == HD_TD_MULTIPLIES)
        asm volatile("bar.sync 1, %0;" ::"n"(shape::warps * 32) : "memory");
    else
        asm volatile("bar.sync 3, %0;" ::"n"(shape::adders * 32) : "memory");
}

/* True for one warp of the team. */
template <typename shape> static __device__ __forceinline__ bool hd_td_leads(hd_td_team team)
{
    return threadIdx.x / 32 == (team == HD_TD_MULTIPLIES ? 0 : shape::warps + 1);
}

#endif
