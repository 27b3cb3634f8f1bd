#ifndef HD_OPS_CUDA_TILES_DOT_SM90_CUH
#define HD_OPS_CUDA_TILES_DOT_SM90_CUH

#include <cooperative_groups.h>

#include "barrier_sm90.cuh"
#include "launch.cuh"
#include "tiles_mma_sm90.cuh"

/* The common core of products of four-bit weights in tiles (quant/tiles.h) with few tokens, on
 * Hopper.
 *
 * Bound by: issue slots, a little before bytes.  A tile of 32 rows and 64 columns costs a warp
 *   some 165 instructions, 120 of them decoding; at the memory's speed there is time for 250.
 *   A weight comes from memory once, for up to 16 tokens.
 * Warps: 16 multiply and one copies.  A row is cut into 1 to 16 slices, by k alone: of n slices,
 *   slice i has every n-th tile from i on.  A warp works on one slice of every row tile of its
 *   turn; the slices' sums are added in their order, so a row depends neither on the batch nor
 *   on who made which slice.  Where the activations do not fit one block, a cluster of 2 to 8
 *   shares the slices of a row tile, and adds them in the block that owns it.
 * Copies: a stage of the ring has one or two tiles for each warp, which follow each other in
 *   memory; the last warp fills it by bulk copies, whose bytes the stage's barrier counts.
 *   Weights are not written by kernels: the first are asked for while the kernel before ends.
 * Shared memory: stages of 18 or 37 KB, activations 4 bytes x tokens x columns, sums 16 or
 *   32 KB.  Registers: at most 96, the most that 17 warps may have. */

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
    int     blocks; /* of eight columns                                                        */
    int     chunks; /* stages that a round takes                                               */
    int     stages; /* of the ring                                                             */
    size_t  bytes;  /* of shared memory                                                        */
};

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

/* Tiles of a chunk; rounds whose sums are kept: what leaves room for many tokens. */
static __host__ __device__ constexpr int hd_td_chunk(int blocks) { return blocks > 1 ? 1 : 2; }
static __host__ __device__ constexpr int hd_td_kept(int blocks)
{
    return blocks > 1 ? 1 : HD_TD_ROUNDS;
}

/* Bytes of a block's activations. */
static __host__ __device__ __forceinline__ uint32_t hd_td_x_bytes(const hd_td_plan &p)
{
    return (uint32_t)((p.k_tiles + p.slices - 1) / p.slices * p.here * HD_TILES_COLS * 4 *
                      p.tokens);
}

static __host__ __device__ constexpr uint32_t hd_td_sum_bytes(int blocks)
{
    return (uint32_t)(hd_td_kept(blocks) * HD_TD_WARPS * HD_TILES_ROWS * 4 * blocks *
                      (int)sizeof(float));
}

template <int blocks>
static __device__ __forceinline__ hd_td_shared hd_td_share(uint8_t *base, const hd_td_plan &p)
{
    hd_td_shared s;
    s.head = (hd_td_head *)base;
    s.sums = (float *)(base + HD_TD_HEAD_BYTES);
    s.x = (uint4 *)((uint8_t *)s.sums + hd_td_sum_bytes(blocks));
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

/* ---- loading ---- */

template <int format, int blocks> struct hd_td_ring {
    static constexpr int chunk = hd_td_chunk(blocks); /* tiles of a warp */
    static constexpr int tiles = HD_TD_WARPS * chunk; /* of a stage      */
    static constexpr int scales_at = tiles * HD_TILES_CODE_BYTES;
    static constexpr int bytes = tiles * hd_td_tile<format>::bytes;
};

/* A place of the ring, and how often it has been passed. */
struct hd_td_slot {
    int      at;
    uint32_t parity;

    __device__ __forceinline__ void next(int stages)
    {
        if (++at == stages) {
            at = 0;
            parity ^= 1;
        }
    }
};

/* One of the copies that fill a stage: the codes or the scales of one tile for each slice of the
 * block, of one row tile.  There are 2 * chunk * groups of them. */
struct hd_td_part {
    int  group, turn; /* row tile of the round; which tile of the chunk */
    bool is_scale;

    template <int chunk> __device__ __forceinline__ static hd_td_part of(int i)
    {
        return {i / (2 * chunk), i / 2 % chunk, (i & 1) != 0};
    }
};

/* Starts filling a stage with chunk c of the round whose first row tile is given; every lane has
 * some of the copies. */
template <int format, int blocks>
static __device__ __forceinline__ void hd_td_fill_stage(const hd_td_walk &v, const hd_td_matrix &m,
                                                        int32_t row_tile, int32_t c, int slot)
{
    using ring = hd_td_ring<format, blocks>;
    int const       lane = (int)threadIdx.x % 32, copies = 2 * ring::chunk * v.p.groups;
    uint8_t *const  stage = v.s.ring + slot * ring::bytes;
    uint64_t *const full = &v.s.head->full[slot];
    uint32_t        all = 0;
    for (int pass = 0; pass < 2; pass++) { /* counts the bytes, then copies */
        for (int i = lane; i < copies; i += 32) {
            hd_td_part const part = hd_td_part::of<ring::chunk>(i);
            int32_t const    bytes =
                part.is_scale ? hd_td_tile<format>::scale_bytes : HD_TILES_CODE_BYTES;
            int32_t const row = row_tile + part.group;
            int32_t const tile = (c * ring::chunk + part.turn) * v.p.slices + v.rank * v.p.here;
            int32_t const n = row < v.p.row_tiles ? min(v.p.here, v.p.k_tiles - tile) : 0;
            if (n <= 0) continue;
            if (pass == 0) {
                all += (uint32_t)(n * bytes);
                continue;
            }
            int const to = (part.group * ring::chunk + part.turn) * v.p.here;
            hd_bulk_copy(stage + (part.is_scale ? ring::scales_at : 0) + to * bytes,
                         (part.is_scale ? m.sf : m.w) + ((int64_t)row * v.p.k_tiles + tile) * bytes,
                         (uint32_t)(n * bytes), full);
        }
        if (pass == 1) break;
        all = __reduce_add_sync(0xffffffffu, all);
        if (lane == 0) hd_barrier_expect(full, all);
        __syncwarp();
    }
}

/* Fills the ring with all that the block's warps need, in order. */
template <int format, int blocks, typename source>
static __device__ void hd_td_fill(const source &units, const hd_td_plan &p, const hd_td_shared &s,
                                  int32_t n_units)
{
    hd_td_walk const v = hd_td_start(p, s, 0, n_units);
    hd_td_slot       slot = {0, 1};
    int32_t          unit = v.first / p.rounds, turn = v.first % p.rounds;
    hd_td_matrix     m = {NULL, NULL, 0};
    for (int32_t round = v.first; round < v.last; round++, turn++) {
        if (turn == p.rounds) {
            turn = 0;
            unit++;
        }
        if (round == v.first || turn == 0) m = units.matrix(unit);
        for (int32_t c = 0; c < p.chunks; c++) {
            hd_barrier_wait(&s.head->empty[slot.at], slot.parity);
            hd_td_fill_stage<format, blocks>(v, m, turn * p.groups, c, slot.at);
            slot.next(p.stages);
        }
    }
}

/* ---- activations ---- */

/* Where octet o of a slice goes, from its first one on: its place in the tile follows the words. */
template <int format> static __device__ __forceinline__ int hd_td_octet(const hd_td_plan &p, int o)
{
    int const octet = o % 8;
    int const q = hd_td_tile<format>::is_nvfp4 ? octet / 2 : octet % 4;
    int const h = hd_td_tile<format>::is_nvfp4 ? octet % 2 : octet / 4;
    return (o / 8 * p.here * 2 + h) * 8 * p.tokens + q;
}

/* Eight elements of a row, scaled, to the two columns of a token. */
static __device__ __forceinline__ void hd_td_split_eight(const float e[8], float inverse, uint4 *at)
{
    __align__(16) __half high[8], low[8];
#pragma unroll
    for (int j = 0; j < 8; j++) hd_split_f16(e[j] * inverse, high + j, low + j);
    at[0] = *(const uint4 *)high;
    at[4] = *(const uint4 *)low;
}

static __device__ __forceinline__ float hd_td_largest(const float e[8], float amax)
{
#pragma unroll
    for (int j = 0; j < 8; j++) amax = fmaxf(amax, fabsf(e[j]));
    return amax;
}

/* Octet o of a slice, counted in octets of the row from the slice's first on. */
static __device__ __forceinline__ int32_t hd_td_octet_of(const hd_td_plan &p, int32_t o)
{
    return o / 8 * p.slices * (HD_TILES_COLS / 8) + o % 8;
}

#define HD_TD_OCTETS                                                             \
    2 /* of a slice that a lane keeps: all of them, up to 8,192 columns of a row \
       */

/* Splits the warp's slice of tokens q, q + groups, ..: `at_once` of them, whose loads are under way
 * together; a load takes a microsecond while the weights come.  Columns of tokens that the unit
 * lacks get those of its first one, and are not used. */
template <int format, int at_once, typename source>
static __device__ __forceinline__ void hd_td_split_some(const source &units, const hd_td_walk &v,
                                                        int32_t unit, int q, int n)
{
    int const    lane = (int)threadIdx.x % 32, octets = v.tiles * 8;
    const float *row[at_once];
    float        amax[at_once], kept[at_once][HD_TD_OCTETS][8];
    bool         aligned = true;
#pragma unroll
    for (int i = 0; i < at_once; i++) {
        int const token = q + i * v.p.groups;
        row[i] = units.x(unit, token < n ? token : 0) + v.slice * HD_TILES_COLS;
        aligned &= hd_is_aligned(row[i]);
        amax[i] = 0;
    }
#pragma unroll
    for (int j = 0; j < HD_TD_OCTETS; j++)
#pragma unroll
        for (int i = 0; i < at_once; i++)
            hd_read_eight(row[i], hd_td_octet_of(v.p, min(lane + 32 * j, octets - 1)), aligned,
                          kept[i][j]);
#pragma unroll
    for (int i = 0; i < at_once; i++)
#pragma unroll
        for (int j = 0; j < HD_TD_OCTETS; j++) amax[i] = hd_td_largest(kept[i][j], amax[i]);
#pragma unroll 1
    for (int o = lane + 32 * HD_TD_OCTETS; o < octets; o += 32)
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            float e[8];
            hd_read_eight(row[i], hd_td_octet_of(v.p, o), aligned, e);
            amax[i] = hd_td_largest(e, amax[i]);
        }
#pragma unroll
    for (int i = 0; i < at_once; i++) {
        int const token = q + i * v.p.groups;
        if (token >= v.p.tokens) continue;
        float const  own = hd_row_unit(hd_warp_max(amax[i])), inverse = 1.0f / own;
        uint4 *const to = v.s.x + v.own * 16 * v.p.tokens + token * 8;
        if (lane == 0) v.s.head->units[v.slice][token] = own;
#pragma unroll
        for (int j = 0; j < HD_TD_OCTETS; j++)
            if (lane + 32 * j < octets)
                hd_td_split_eight(kept[i][j], inverse,
                                  to + hd_td_octet<format>(v.p, lane + 32 * j));
#pragma unroll 1
        for (int o = lane + 32 * HD_TD_OCTETS; o < octets; o += 32) {
            float e[8];
            hd_read_eight(row[i], hd_td_octet_of(v.p, o), aligned, e);
            hd_td_split_eight(e, inverse, to + hd_td_octet<format>(v.p, o));
        }
    }
}

/* The n activations of the unit to shared memory: the warps of a slice share its tokens. */
template <int format, typename source>
static __device__ __forceinline__ void hd_td_split(const source &units, const hd_td_walk &v,
                                                   int32_t unit, int n)
{
    if (v.p.tokens <= v.p.groups) {
        if (v.group < v.p.tokens) hd_td_split_some<format, 1>(units, v, unit, v.group, n);
        return;
    }
    for (int q = v.group; q < v.p.tokens; q += 2 * v.p.groups)
        hd_td_split_some<format, 2>(units, v, unit, q, n);
}

/* ---- sums ---- */

/* Where a buffer notes slice i of the block's row tile `own`. */
template <int blocks>
static __device__ __forceinline__ float *hd_td_sums_of(const hd_td_walk &v, int buffer, int own,
                                                       int i)
{
    return v.s.sums +
           (uint32_t)(((buffer * v.p.owned + own) * v.p.slices + i) * 4 * blocks * HD_TILES_ROWS);
}

/* The place of a token's row there, which meets no bank twice when lanes are (row, token % 4) and
 * when they are rows. */
static __device__ __forceinline__ int hd_td_place(int row, int token)
{
    return token * HD_TILES_ROWS + (row ^ token % 4 * 8);
}

/* Notes the warp's sums of a row tile in the block that owns it; lane (row, q) has both planes of
 * token 4 b + q. */
template <int blocks>
static __device__ __forceinline__ void hd_td_note(const hd_td_walk &v, int buffer,
                                                  const float c[2][blocks][4], int n)
{
    int const      lane = (int)threadIdx.x % 32;
    uint32_t const owner = (uint32_t)v.owner;
    float *const   to = hd_td_sums_of<blocks>(v, buffer, v.place, v.slice);
    uint32_t const there = hd_cluster_address(to, owner);
    uint32_t const barrier = hd_cluster_address(&v.s.head->summed[buffer], owner);
#pragma unroll
    for (int b = 0; b < blocks; b++) {
        int const token = 4 * b + lane % 4;
        if (token >= n) continue;
        float const unit = v.s.head->units[v.slice][token];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *const both = c[i / 2][b] + i % 2 * 2;
            float const        sum = (both[0] + both[1] * HD_LOW_PLANE) * unit;
            int const          at = hd_td_place(8 * i + lane / 4, token);
            if (v.p.cluster == 1)
                to[at] = sum;
            else
                hd_store_at(there + (uint32_t)at * 4, sum, barrier);
        }
    }
}

/* Announces the warp's part of a round's sums: in a cluster the bytes are counted, and one thread
 * says how many come. */
static __device__ __forceinline__ void hd_td_announce(const hd_td_walk &v, int buffer, int32_t turn,
                                                      int n)
{
    if (v.p.cluster == 1) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) hd_barrier_arrive(&v.s.head->summed[buffer]);
        return;
    }
    if (threadIdx.x != 0) return;
    int32_t const left =
        v.p.row_tiles - turn * v.p.groups - v.rank; /* the block's row tiles that exist */
    int32_t const there = max(0, min(v.p.owned, (left + v.p.cluster - 1) / v.p.cluster));
    hd_barrier_expect(&v.s.head->summed[buffer],
                      (uint32_t)(there * v.p.slices * HD_TILES_ROWS * n) * (uint32_t)sizeof(float));
}

/* A round of the walk. */
struct hd_td_round {
    int32_t local, unit, turn; /* counted from the walk's first; its unit; its place there */
    int     n;                 /* tokens of the unit                                       */
    float   factor;            /* of finished sums                                         */
};

/* Adds the slices of the round's row tiles that the block owns and writes their rows: a thread has
 * a row of a token.  Warps take turns, because few tokens need few of them. */
template <int blocks, typename source>
static __device__ __forceinline__ void hd_td_write(const source &units, const hd_td_walk &v,
                                                   const hd_td_round &r)
{
    constexpr int width = HD_TILES_ROWS * 4 * blocks, kept = hd_td_kept(blocks);
    int const     buffer = r.local % kept, lane = (int)threadIdx.x % 32;
    int const     first = ((int)threadIdx.x / 32 + r.local) % HD_TD_WARPS;
    for (int i = first; i < v.p.owned * r.n; i += HD_TD_WARPS) {
        int const     own = i / r.n, token = i % r.n;
        int32_t const row_tile = r.turn * v.p.groups + own * v.p.cluster + v.rank;
        if (i == first) hd_barrier_wait(&v.s.head->summed[buffer], (uint32_t)(r.local / kept) & 1);
        if (row_tile >= v.p.row_tiles) continue;
        const float *const from =
            hd_td_sums_of<blocks>(v, buffer, own, 0) + hd_td_place(lane, token);
        float sum = 0;
#pragma unroll 4
        for (int j = 0; j < v.p.slices; j++) sum += from[j * width];
        units.y(r.unit, token)[row_tile * HD_TILES_ROWS + lane] = sum * r.factor;
    }
    __syncwarp();
    if (v.p.cluster == 1 && lane == 0) hd_barrier_arrive(&v.s.head->taken[buffer]);
    if (v.p.cluster > 1 && lane < v.p.cluster)
        hd_barrier_arrive_at(hd_cluster_address(&v.s.head->taken[buffer], (uint32_t)lane));
}

/* ---- the loop ---- */

/* Where a lane reads the activations of eight columns each. */
template <int blocks> struct hd_td_lane_x {
    const uint4 *first[blocks];              /* of the slice                                   */
    int          step[blocks], half[blocks]; /* a column without a token stays at the zeros    */

    __device__ __forceinline__ explicit hd_td_lane_x(const hd_td_walk &v)
    {
        int const lane = (int)threadIdx.x % 32, columns = 2 * v.p.tokens;
#pragma unroll
        for (int b = 0; b < blocks; b++) {
            bool const is_in = 8 * b + lane / 4 < columns;
            first[b] = is_in ? v.s.x + v.own * 8 * columns + 32 * b + lane : &v.s.head->zero;
            step[b] = is_in ? 8 * columns * v.p.here : 0;
            half[b] = is_in ? 4 * columns : 0;
        }
    }

    __device__ __forceinline__ hd_td_x<blocks> of(int tile) const
    {
        hd_td_x<blocks> x;
#pragma unroll
        for (int b = 0; b < blocks; b++) {
            const uint4 *const at = first[b] + tile * step[b];
            x.v[b][0] = at[0];
            x.v[b][1] = at[half[b]];
        }
        return x;
    }
};

/* n tiles of a chunk, the slice's from `tile` on; here: how far they are apart. */
template <int format, int blocks, int n>
static __device__ __forceinline__ void hd_td_chunk_dot(const uint8_t *codes, const uint8_t *scales,
                                                       int here, const hd_td_lane_x<blocks> &from,
                                                       int tile, float c[2][blocks][4])
{
#pragma unroll
    for (int i = 0; i < n; i++)
        hd_td_tile_dot<format, blocks>(codes + i * here * HD_TILES_CODE_BYTES,
                                       scales + i * here * hd_td_tile<format>::scale_bytes,
                                       from.of(tile + i), c);
}

/* Makes a warp's slice of a row tile: `tiles` of them, which lie in the ring from `slot` on. */
template <int format, int blocks>
static __device__ __forceinline__ void hd_td_slice(const hd_td_walk           &v,
                                                   const hd_td_lane_x<blocks> &x, int tiles,
                                                   hd_td_slot *slot, float c[2][blocks][4])
{
    using ring = hd_td_ring<format, blocks>;
    int const            first = v.group * ring::chunk * v.p.here + v.own; /* tile of the stage */
    const uint8_t *const codes = v.s.ring + first * HD_TILES_CODE_BYTES;
    const uint8_t *const scales =
        v.s.ring + ring::scales_at + first * hd_td_tile<format>::scale_bytes;
    for (int i = 0, tile = 0; i < v.p.chunks; i++, tile += ring::chunk) {
        int const at = slot->at * ring::bytes;
        hd_barrier_wait(&v.s.head->full[slot->at], slot->parity);
        if (tile + ring::chunk <= tiles)
            hd_td_chunk_dot<format, blocks, ring::chunk>(codes + at, scales + at, v.p.here, x, tile,
                                                         c);
        else if (tile < tiles)
            hd_td_chunk_dot<format, blocks, 1>(codes + at, scales + at, v.p.here, x, tile, c);
        __syncwarp(); /* all lanes have read what may now be replaced */
        if (threadIdx.x % 32 == 0) hd_barrier_arrive(&v.s.head->empty[slot->at]);
        slot->next(v.p.stages);
    }
}

/* What a warp that multiplies does. */
template <int format, int blocks, typename source>
static __device__ __forceinline__ void hd_td_multiply(const source &units, const hd_td_plan &p,
                                                      const hd_td_shared &s, int32_t n_units)
{
    hd_td_walk const           v = hd_td_start(p, s, (int)threadIdx.x / 32, n_units);
    hd_td_lane_x<blocks> const x(v);
    hd_td_slot                 slot = {0, 0};
    hd_td_round                r = {0, v.first / p.rounds, v.first % p.rounds, 0, 0};
    for (; r.local < v.last - v.first; r.local++, r.turn++) {
        int const buffer = r.local % hd_td_kept(blocks);
        if (r.turn == p.rounds) {
            r.turn = 0;
            r.unit++;
        }
        if (r.local == 0 || r.turn == 0) {
            if (r.local > 0) hd_td_sync(); /* nobody still reads the last unit's activations */
            r.n = units.take(r.unit);
            r.factor = HD_TD_FACTOR * units.matrix(r.unit).scale;
            hd_td_split<format>(units, v, r.unit, r.n);
            hd_td_sync();
        }
        float      c[2][blocks][4] = {};
        bool const has_rows = r.turn * p.groups + v.group < p.row_tiles;
        hd_td_slice<format, blocks>(v, x, has_rows ? v.tiles : 0, &slot, c);
        hd_barrier_wait(&s.head->taken[buffer], (uint32_t)(r.local / hd_td_kept(blocks)) & 1 ^ 1);
        if (has_rows) hd_td_note<blocks>(v, buffer, c, r.n);
        hd_td_announce(v, buffer, r.turn, r.n);
        hd_td_write<blocks>(units, v, r);
    }
}

/* Makes n_units units.  `units` has matrix(u), which is called before the kernel in front has
 * ended; take(u), called by all threads that multiply, which returns the number of the unit's
 * tokens and lets x(u, q) and y(u, q), the rows of its token q, be called. */
template <int format, int blocks, typename source>
static __device__ __forceinline__ void hd_td_run(const source &units, const hd_td_plan &p,
                                                 const hd_td_shared &s, int32_t n_units)
{
    bool const is_cluster = p.cluster > 1;
    hd_td_make_barriers(s.head, p);
    if (threadIdx.x >= HD_TD_WARPS * 32) {
        __syncwarp();
        if (!is_cluster) {
            /* The ring's barriers are this warp's own work; the others wait for them below. */
            asm volatile("bar.arrive 2, %0;" ::"n"(HD_TD_THREADS) : "memory");
            hd_td_fill<format, blocks>(units, p, s, n_units);
            return;
        }
    }
    if (is_cluster)
        cooperative_groups::this_cluster().sync();
    else
        asm volatile("bar.sync 2, %0;" ::"n"(HD_TD_THREADS) : "memory");
    if (threadIdx.x >= HD_TD_WARPS * 32)
        hd_td_fill<format, blocks>(units, p, s, n_units);
    else {
        hd_await_previous();
        hd_release_next();
        hd_td_multiply<format, blocks>(units, p, s, n_units);
    }
    if (is_cluster) cooperative_groups::this_cluster().sync(); /* nobody still writes here */
}

/* ---- choosing ---- */

static inline int hd_td_slices(int32_t k_tiles)
{
    int n = 1;
    while (n < HD_TD_WARPS && k_tiles >= 8 * n) n *= 2;
    return n;
}

/* Stages that keep the memory busy while one is worked on. */
#define HD_TD_ENOUGH 3

/* Fills in what follows from the cluster; false when shared memory is too small for `least` stages.
 */
template <int format> static inline bool hd_td_fit(hd_td_plan *p, size_t table, size_t least)
{
    p->here = p->slices / p->cluster;
    size_t const stage =
        (size_t)HD_TD_WARPS * (size_t)hd_td_chunk(p->blocks) * hd_td_tile<format>::bytes;
    size_t const fixed = HD_TD_HEAD_BYTES + table + hd_td_sum_bytes(p->blocks) + hd_td_x_bytes(*p);
    if (fixed + least * stage > HD_TD_SMEM) return false;
    size_t const fit = (HD_TD_SMEM - fixed) / stage;
    p->groups = HD_TD_WARPS / p->here;
    p->owned = p->groups / p->cluster;
    p->rounds = (p->row_tiles + p->groups - 1) / p->groups;
    p->chunks = ((p->k_tiles + p->slices - 1) / p->slices + hd_td_chunk(p->blocks) - 1) /
                hd_td_chunk(p->blocks);
    p->stages = fit > HD_TD_STAGES ? HD_TD_STAGES : (int)fit;
    p->bytes = fixed + (size_t)p->stages * stage;
    return true;
}

/* The smallest cluster, of `most` blocks at most, that has room for the activations of `tokens`;
 * false: there is none.
 * table  bytes that the kernel has besides */
template <int format>
static inline bool hd_td_choose(int32_t n, int32_t k, int tokens, int most, size_t table,
                                hd_td_plan *p)
{
    p->k_tiles = k / HD_TILES_COLS;
    p->row_tiles = n / HD_TILES_ROWS;
    p->slices = hd_td_slices(p->k_tiles);
    p->tokens = tokens;
    p->blocks = tokens > 8 ? 4 : tokens > 4 ? 2 : 1;
    for (size_t least = HD_TD_ENOUGH; least >= 2; least--)
        for (p->cluster = 1; p->cluster <= most && p->cluster <= p->slices; p->cluster *= 2)
            if (hd_td_fit<format>(p, table, least)) return true;
    return false;
}

template <typename args>
static inline hd_status hd_td_launch(void (*kernel)(args, hd_td_plan), const args &a,
                                     const hd_td_plan &p, int64_t units, cudaStream_t stream)
{
    const void *const k = (const void *)kernel;
    if (!hd_allow_shared(k, p.bytes)) return HD_ERR_DEVICE;
    int64_t const rounds = p.rounds * units;
    int64_t const fit = p.cluster == 1
                            ? hd_sm_count()
                            : max(1, hd_resident_clusters(k, p.cluster, HD_TD_THREADS, p.bytes));
    return hd_launch_clusters(kernel, (unsigned)((rounds < fit ? rounds : fit) * p.cluster),
                              (unsigned)p.cluster, HD_TD_THREADS, p.bytes, stream, a, p);
}

#endif
