#ifndef HD_OPS_CUDA_TILES_DOT_SM90_CUH
#define HD_OPS_CUDA_TILES_DOT_SM90_CUH

#include <cooperative_groups.h>

#include "tiles_x_sm90.cuh"

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
 * Activations: f32 as two planes of f16 (f16_planes.cuh); or, where they were rounded to NVFP4 and
 *   are there as codes, e2m1 x e4m3 as one, which is exact.
 * Shared memory: stages of 18 or 37 KB, activations 2 bytes x planes x tokens x columns, sums 16
 *   or 32 KB.  Registers: at most 96, the most that 17 warps may have. */

/* ---- loading ---- */

template <int format, typename shape> struct hd_td_ring {
    static constexpr int chunk = hd_td_chunk(shape::blocks); /* tiles of a warp */
    static constexpr int tiles = HD_TD_WARPS * chunk;        /* of a stage      */
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
template <int format, typename shape>
static __device__ __forceinline__ void hd_td_fill_stage(const hd_td_walk &v, const hd_td_matrix &m,
                                                        int32_t row_tile, int32_t c, int slot)
{
    using ring = hd_td_ring<format, shape>;
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
template <int format, typename shape, typename source>
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
            hd_td_fill_stage<format, shape>(v, m, turn * p.groups, c, slot.at);
            slot.next(p.stages);
        }
    }
}

/* ---- sums ---- */

/* Where a buffer notes slice i of the block's row tile `own`. */
static __device__ __forceinline__ float *hd_td_sums_of(const hd_td_walk &v, int buffer, int own,
                                                       int i)
{
    return v.s.sums +
           (uint32_t)(((buffer * v.p.owned + own) * v.p.slices + i) * v.p.tokens * HD_TILES_ROWS);
}

/* The place of a token's row there, which meets no bank twice when lanes are (row, four tokens
 * that a lane quad notes at once) and when they are rows. */
template <typename shape> static __device__ __forceinline__ int hd_td_place(int row, int token)
{
    return token * HD_TILES_ROWS + (row ^ token / (3 - shape::planes) % 4 * 8);
}

static __device__ __forceinline__ void hd_td_note_one(const hd_td_walk &v, float *to,
                                                      uint32_t there, uint32_t barrier, float sum)
{
    if (v.p.cluster == 1)
        *to = sum;
    else
        hd_store_at(there, sum, barrier);
}

/* Notes the warp's sums of a row tile in the block that owns it.  Lane (row, q) has of two planes
 * both of token 4 b + q, of one plane tokens 8 b + 2 q and the next. */
template <typename shape>
static __device__ __forceinline__ void hd_td_note(const hd_td_walk &v, int buffer,
                                                  const float c[2][shape::blocks][4], int n)
{
    constexpr int  each = 3 - shape::planes; /* tokens of a lane in a block of columns */
    int const      lane = (int)threadIdx.x % 32;
    uint32_t const owner = (uint32_t)v.owner;
    float *const   to = hd_td_sums_of(v, buffer, v.place, v.slice);
    uint32_t const there = hd_cluster_address(to, owner);
    uint32_t const barrier = hd_cluster_address(&v.s.head->summed[buffer], owner);
#pragma unroll
    for (int i = 0; i < shape::blocks * each; i++) {
        int const b = i / each, token = 4 * each * b + lane % 4 * each + i % each;
        if (token >= n) continue;
        float const unit = v.s.head->units[v.slice][token];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const float *const own = c[r / 2][b] + r % 2 * 2;
            float const        sum = shape::planes == 2 ? own[0] + own[1] * HD_LOW_PLANE
                                                        : own[i % each] * HD_TD_CODED_FACTOR;
            int const          at = hd_td_place<shape>(8 * r + lane / 4, token);
            hd_td_note_one(v, to + at, there + (uint32_t)at * 4, barrier, sum * unit);
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
template <typename shape, typename source>
static __device__ __forceinline__ void hd_td_write(const source &units, const hd_td_walk &v,
                                                   const hd_td_round &r)
{
    constexpr int kept = hd_td_kept(shape::blocks);
    int const     width = HD_TILES_ROWS * v.p.tokens, buffer = r.local % kept,
              lane = (int)threadIdx.x % 32;
    int const first = ((int)threadIdx.x / 32 + r.local) % HD_TD_WARPS;
    for (int i = first; i < v.p.owned * r.n; i += HD_TD_WARPS) {
        int const     own = i / r.n, token = i % r.n;
        int32_t const row_tile = r.turn * v.p.groups + own * v.p.cluster + v.rank;
        if (i == first) hd_barrier_wait(&v.s.head->summed[buffer], (uint32_t)(r.local / kept) & 1);
        if (row_tile >= v.p.row_tiles) continue;
        const float *const from =
            hd_td_sums_of(v, buffer, own, 0) + hd_td_place<shape>(lane, token);
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
        int const lane = (int)threadIdx.x % 32, columns = v.p.planes * v.p.tokens;
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
template <int format, typename shape>
static __device__ __forceinline__ void hd_td_slice(const hd_td_walk                  &v,
                                                   const hd_td_lane_x<shape::blocks> &x, int tiles,
                                                   hd_td_slot *slot, float c[2][shape::blocks][4])
{
    constexpr int blocks = shape::blocks;
    using ring = hd_td_ring<format, shape>;
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
template <int format, typename shape, typename source>
static __device__ __forceinline__ void hd_td_multiply(const source &units, const hd_td_plan &p,
                                                      const hd_td_shared &s, int32_t n_units)
{
    hd_td_walk const           v = hd_td_start(p, s, (int)threadIdx.x / 32, n_units);
    constexpr int              blocks = shape::blocks;
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
            r.factor = (shape::planes == 2 ? HD_TD_FACTOR : 1.0f) * units.matrix(r.unit).scale;
            hd_td_put_x<format, shape>(units, v, r.unit, r.n);
            hd_td_sync();
        }
        float      c[2][blocks][4] = {};
        bool const has_rows = r.turn * p.groups + v.group < p.row_tiles;
        hd_td_slice<format, shape>(v, x, has_rows ? v.tiles : 0, &slot, c);
        hd_barrier_wait(&s.head->taken[buffer], (uint32_t)(r.local / hd_td_kept(blocks)) & 1 ^ 1);
        if (has_rows) hd_td_note<shape>(v, buffer, c, r.n);
        hd_td_announce(v, buffer, r.turn, r.n);
        hd_td_write<shape>(units, v, r);
    }
}

/* Makes n_units units.  `units` has matrix(u), which is called before the kernel in front has
 * ended; take(u), called by all threads that multiply, which returns the number of the unit's
 * tokens and lets row(u, q) and y(u, q) be called: which row of x its token q is, and its row of y;
 * and args(), those of the op. */
template <int format, typename shape, typename source>
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
            hd_td_fill<format, shape>(units, p, s, n_units);
            return;
        }
    }
    if (is_cluster)
        cooperative_groups::this_cluster().sync();
    else
        asm volatile("bar.sync 2, %0;" ::"n"(HD_TD_THREADS) : "memory");
    if (threadIdx.x >= HD_TD_WARPS * 32)
        hd_td_fill<format, shape>(units, p, s, n_units);
    else {
        hd_await_previous();
        hd_release_next();
        hd_td_multiply<format, shape>(units, p, s, n_units);
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
    size_t const fixed = HD_TD_HEAD_BYTES + table + hd_td_sum_bytes(*p) + hd_td_x_bytes(*p);
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

/* The smallest cluster, of `most` blocks at most, that has room for the activations of p->tokens in
 * p->planes, which are set; false: there is none.
 * table  bytes that the kernel has besides */
template <int format>
static inline bool hd_td_choose(int32_t n, int32_t k, int most, size_t table, hd_td_plan *p)
{
    int const each = 8 / p->planes; /* tokens of a block of columns */
    p->k_tiles = k / HD_TILES_COLS;
    p->row_tiles = n / HD_TILES_ROWS;
    p->slices = hd_td_slices(p->k_tiles);
    p->blocks = p->tokens > 2 * each ? 4 : p->tokens > each ? 2 : 1;
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
