#ifndef HD_OPS_CUDA_TILES_DOT_SM90_CUH
#define HD_OPS_CUDA_TILES_DOT_SM90_CUH

#include <cooperative_groups.h>

#include "tiles_x_sm90.cuh"

/* The common core of products of four-bit weights in tiles (quant/tiles.h) with few tokens, on
 * Hopper.
 *
 * Bound by: issue slots, a little before bytes.  A tile of 32 rows and 64 columns costs a warp
 *   some 160 instructions, 104 of them decoding; at the memory's speed there is time for 250.
 *   A weight comes from memory once, for up to 16 tokens.
 * Warps: 16 multiply, one copies, three add and write.  A row is cut into 1 to 16 slices, by k
 *   alone: of n slices, slice i has every n-th tile from i on.  A warp works on one slice of every
 *   row tile of its turn; the slices' sums are added as a tree, so a row depends neither on the
 *   batch nor on who made which slice.  Where the activations do not fit one block, a cluster of
 *   2 to 8 shares the slices of a row tile: each block adds its own, and the block that owns the
 *   row tile the blocks' parts.  Those who multiply go on meanwhile, by one or two rounds.
 * Copies: a stage of the ring has one or two tiles for each warp, which follow each other in
 *   memory; one warp fills it by bulk copies, whose bytes the stage's barrier counts.
 *   Weights are not written by kernels: the first are asked for while the kernel before ends.
 * Activations: f32 as two planes of f16 (f16_planes.cuh); or, where they were rounded to NVFP4 and
 *   are there as codes, e2m1 x e4m3 as one, which is exact.
 * Shared memory: stages of 18 or 37 KB, activations 2 bytes x planes x tokens x columns, sums up
 *   to 32 KB.  Registers: at most 96, the most that 17 to 20 warps may have. */

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

/* ---- sums ----
 * Those of slices are added as a tree, so that neither the number of blocks that share them nor who
 * adds what changes a bit. */

/* The place of a token's row in a warp's sums, which meets no bank twice when lanes are (row, four
 * tokens that a lane quad notes at once) and when they are rows. */
template <typename shape> static __device__ __forceinline__ int hd_td_place(int row, int token)
{
    return token * HD_TILES_ROWS + (row ^ token / (3 - shape::planes) % 4 * 8);
}

/* Where warp w notes its sums. */
static __device__ __forceinline__ float *hd_td_sums_of(const hd_td_walk &v, int buffer, int w)
{
    return v.s.sums + (buffer * HD_TD_WARPS + w) * v.p.tokens * HD_TILES_ROWS;
}

/* Where the part of a block of the cluster is, in the block that owns the row tile. */
static __device__ __forceinline__ float *hd_td_part_of(const hd_td_walk &v, int buffer, int own,
                                                       int rank)
{
    return v.s.parts +
           ((buffer * v.p.owned + own) * v.p.cluster + rank) * v.p.tokens * HD_TILES_ROWS;
}

/* Notes the warp's sums of a row tile.  Lane (row, q) has of two planes both of token 4 b + q, of
 * one plane tokens 8 b + 2 q and the next. */
template <typename shape>
static __device__ __forceinline__ void hd_td_note(const hd_td_walk &v, int buffer,
                                                  const float c[2][shape::blocks][4], int n)
{
    constexpr int each = 3 - shape::planes; /* tokens of a lane in a block of columns */
    int const     lane = (int)threadIdx.x % 32;
    float *const  to = hd_td_sums_of(v, buffer, (int)threadIdx.x / 32);
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
            to[hd_td_place<shape>(8 * r + lane / 4, token)] = sum * unit;
        }
    }
}

static __device__ __forceinline__ float4 hd_td_plus(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* The sums of n = 2^i values that are `apart`, as a tree, for four rows. */
template <int n> static __device__ __forceinline__ float4 hd_td_tree(const float *from, int apart)
{
    if constexpr (n == 1)
        return *(const float4 *)from;
    else
        return hd_td_plus(hd_td_tree<n / 2>(from, apart),
                          hd_td_tree<n / 2>(from + n / 2 * apart, apart));
}

static __device__ __forceinline__ float4 hd_td_add(const float *from, int apart, int n)
{
    switch (n) {
    case 1: return hd_td_tree<1>(from, apart);
    case 2: return hd_td_tree<2>(from, apart);
    case 4: return hd_td_tree<4>(from, apart);
    case 8: return hd_td_tree<8>(from, apart);
    default: return hd_td_tree<16>(from, apart);
    }
}

/* A round of the walk. */
struct hd_td_round {
    int32_t local, unit, turn; /* counted from the walk's first; its unit; its place there */
    int     n;                 /* tokens of the unit                                       */

    __device__ __forceinline__ explicit hd_td_round(const hd_td_walk &v)
        : local(0), unit(v.first / v.p.rounds), turn(v.first % v.p.rounds), n(0)
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

/* A lane of those that add has four rows of one of four tokens. */
struct hd_td_adder {
    int   warp, row, token;
    float factor; /* of finished sums */

    __device__ __forceinline__ hd_td_adder(void)
        : warp((int)threadIdx.x / 32 - HD_TD_WARPS - 1), row((int)threadIdx.x % 8 * 4),
          token((int)threadIdx.x % 32 / 8), factor(0)
    {
    }

    /* Writes finished sums of a row tile. */
    __device__ __forceinline__ void write(float *y, float4 sum) const
    {
        float4 const out = {sum.x * factor, sum.y * factor, sum.z * factor, sum.w * factor};
        if (hd_is_aligned(y)) {
            *(float4 *)(y + row) = out;
            return;
        }
        y[row] = out.x;
        y[row + 1] = out.y;
        y[row + 2] = out.z;
        y[row + 3] = out.w;
    }
};

/* Adds the slices of the block's row tiles.  A lone block is done with that; in a cluster the part
 * goes to the row tile's owner. */
template <typename shape, typename source>
static __device__ __forceinline__ void hd_td_add_slices(const source &units, const hd_td_walk &v,
                                                        const hd_td_round &r, const hd_td_adder &d)
{
    int const       buffer = r.buffer<hd_td_kept(shape::blocks)>(), fours = (r.n + 3) / 4;
    int const       width = HD_TILES_ROWS * v.p.tokens;
    uint64_t *const sent = &v.s.head->sent[buffer];
    for (int i = d.warp; i < v.p.groups * fours; i += HD_TD_ADDERS) {
        int const     group = i / fours, token = i % fours * 4 + d.token;
        int32_t const row_tile = r.turn * v.p.groups + group;
        if (row_tile >= v.p.row_tiles) break;
        if (token >= r.n) continue;
        float4 const sum =
            hd_td_add(hd_td_sums_of(v, buffer, group * v.p.here) + hd_td_place<shape>(d.row, token),
                      width, v.p.here);
        if (v.p.cluster == 1) {
            d.write(units.y(r.unit, token) + row_tile * HD_TILES_ROWS, sum);
            continue;
        }
        uint32_t const owner = (uint32_t)(group % v.p.cluster);
        const float   *part = hd_td_part_of(v, buffer, group / v.p.cluster, v.rank);
        hd_store4_at(hd_cluster_address(part + token * HD_TILES_ROWS + d.row, owner), sum,
                     hd_cluster_address(sent, owner));
    }
}

/* Adds the parts of the row tiles that the block owns. */
template <typename shape, typename source>
static __device__ __forceinline__ void hd_td_add_parts(const source &units, const hd_td_walk &v,
                                                       const hd_td_round &r, const hd_td_adder &d)
{
    int const buffer = r.buffer<hd_td_kept(shape::blocks)>(), fours = (r.n + 3) / 4;
    for (int i = d.warp; i < v.p.owned * fours; i += HD_TD_ADDERS) {
        int const     own = i / fours, token = i % fours * 4 + d.token;
        int32_t const row_tile = r.turn * v.p.groups + own * v.p.cluster + v.rank;
        if (row_tile >= v.p.row_tiles) break;
        if (token >= r.n) continue;
        d.write(units.y(r.unit, token) + row_tile * HD_TILES_ROWS,
                hd_td_add(hd_td_part_of(v, buffer, own, 0) + token * HD_TILES_ROWS + d.row,
                          HD_TILES_ROWS * v.p.tokens, v.p.cluster));
    }
}

/* Says how many bytes of a round's parts come to this block. */
static __device__ __forceinline__ void hd_td_expect_parts(const hd_td_walk &v, const hd_td_round &r,
                                                          int buffer)
{
    int32_t const left =
        v.p.row_tiles - r.turn * v.p.groups - v.rank; /* the block's row tiles that exist */
    int32_t const there = max(0, min(v.p.owned, (left + v.p.cluster - 1) / v.p.cluster));
    hd_barrier_expect(&v.s.head->sent[buffer],
                      (uint32_t)(there * v.p.cluster * HD_TILES_ROWS * r.n) *
                          (uint32_t)sizeof(float));
}

/* What a warp that adds does. */
template <typename shape, typename source>
static __device__ __forceinline__ void hd_td_finish(const source &units, const hd_td_plan &p,
                                                    const hd_td_shared &s, int32_t n_units)
{
    constexpr int    kept = hd_td_kept(shape::blocks);
    hd_td_walk const v = hd_td_start(p, s, 0, n_units);
    int const        lane = (int)threadIdx.x % 32;
    hd_td_adder      d;
    bool const       is_cluster = p.cluster > 1;
    for (hd_td_round r(v); r.local < v.last - v.first; r.next(v)) {
        int const      buffer = r.buffer<kept>();
        uint32_t const parity = r.parity<kept>();
        if (r.is_first_of_unit()) {
            hd_td_sync(HD_TD_ADDS); /* nobody still reads the last unit's list */
            r.n = units.take(r.unit, HD_TD_ADDS);
            d.factor = (shape::planes == 2 ? HD_TD_FACTOR : 1.0f) * units.matrix(r.unit).scale;
        }
        if (is_cluster) {
            hd_barrier_wait(&s.head->freed[buffer], parity ^ 1);
            if (d.warp == 0 && lane == 0) hd_td_expect_parts(v, r, buffer);
        }
        hd_barrier_wait(&s.head->noted[buffer], parity);
        hd_td_add_slices<shape>(units, v, r, d);
        __syncwarp();
        if (lane == 0) hd_barrier_arrive(&s.head->taken[buffer]);
        if (!is_cluster) continue;
        hd_barrier_wait(&s.head->sent[buffer], parity);
        hd_td_add_parts<shape>(units, v, r, d);
        __syncwarp();
        if (lane < p.cluster)
            hd_barrier_arrive_at(hd_cluster_address(&s.head->freed[buffer], (uint32_t)lane));
    }
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
    constexpr int              blocks = shape::blocks, kept = hd_td_kept(blocks);
    hd_td_lane_x<blocks> const x(v);
    hd_td_slot                 slot = {0, 0};
    for (hd_td_round r(v); r.local < v.last - v.first; r.next(v)) {
        int const buffer = r.buffer<kept>();
        if (r.is_first_of_unit()) {
            if (r.local > 0) hd_td_sync(HD_TD_MULTIPLIES); /* all are done with the last one's x */
            r.n = units.take(r.unit, HD_TD_MULTIPLIES);
            hd_td_put_x<format, shape>(units, v, r.unit, r.n);
            hd_td_sync(HD_TD_MULTIPLIES);
        }
        float      c[2][blocks][4] = {};
        bool const has_rows = r.turn * p.groups + v.group < p.row_tiles;
        hd_td_slice<format, shape>(v, x, has_rows ? v.tiles : 0, &slot, c);
        hd_barrier_wait(&s.head->taken[buffer], r.parity<kept>() ^ 1);
        if (has_rows) hd_td_note<shape>(v, buffer, c, r.n);
        __syncwarp();
        if (threadIdx.x % 32 == 0) hd_barrier_arrive(&s.head->noted[buffer]);
    }
}

/* What a warp does, by its place in the block. */
template <int format, typename shape, typename source>
static __device__ __forceinline__ void hd_td_work(const source &units, const hd_td_plan &p,
                                                  const hd_td_shared &s, int32_t n_units)
{
    int const warp = (int)threadIdx.x / 32;
    if (warp == HD_TD_WARPS) {
        hd_td_fill<format, shape>(units, p, s, n_units);
        return;
    }
    hd_await_previous();
    hd_release_next();
    if (warp < HD_TD_WARPS)
        hd_td_multiply<format, shape>(units, p, s, n_units);
    else
        hd_td_finish<shape>(units, p, s, n_units);
}

/* Makes n_units units.  `units` has matrix(u), which is called before the kernel in front has
 * ended; take(u, team), called by all threads of a team, which returns the number of the unit's
 * tokens and lets those that multiply call row(u, q), those that add y(u, q): which row of x its
 * token q is, and its row of y; and args(), those of the op. */
template <int format, typename shape, typename source>
static __device__ __forceinline__ void hd_td_run(const source &units, const hd_td_plan &p,
                                                 const hd_td_shared &s, int32_t n_units)
{
    bool const is_cluster = p.cluster > 1;
    hd_td_make_barriers(s.head, p);
    if (is_cluster)
        cooperative_groups::this_cluster().sync();
    else if (threadIdx.x / 32 == HD_TD_WARPS) /* made the ring's barriers itself: need not wait */
        asm volatile("bar.arrive 2, %0;" ::"n"(HD_TD_THREADS) : "memory");
    else
        asm volatile("bar.sync 2, %0;" ::"n"(HD_TD_THREADS) : "memory");
    hd_td_work<format, shape>(units, p, s, n_units);
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
    p->groups = HD_TD_WARPS / p->here;
    p->owned = p->groups / p->cluster;
    size_t const stage =
        (size_t)HD_TD_WARPS * (size_t)hd_td_chunk(p->blocks) * hd_td_tile<format>::bytes;
    size_t const fixed =
        HD_TD_HEAD_BYTES + table + hd_td_sum_bytes(*p) + hd_td_part_bytes(*p) + hd_td_x_bytes(*p);
    if (fixed + least * stage > HD_TD_SMEM) return false;
    size_t const fit = (HD_TD_SMEM - fixed) / stage;
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
