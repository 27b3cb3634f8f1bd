#ifndef HD_OPS_CUDA_TILES_DOT_SM90_CUH
#define HD_OPS_CUDA_TILES_DOT_SM90_CUH

#include "tiles_sums_sm90.cuh"
#include "tiles_x_sm90.cuh"

/* The common core of products of four-bit weights in tiles (quant/tiles.h) with few tokens, on
 * Hopper.
 *
 * Bound by: bytes, where one token meets many rows; few rows by what passes outside of the loop,
 *   several tokens by issue slots.  A tile of 32 rows and 64 columns costs a warp 118 instructions
 *   with one token, 72 of them decoding, and about 150 with several, where weights are scaled
 *   before they are multiplied; at the memory's speed there is time for 300.  A weight comes from
 *   memory once, for up to 16 tokens.
 * Warps: 8 multiply one token, 16 several; one copies, one or three add and write.  A row is cut
 *   into slices, as many as warps at most, by k alone: of n slices, slice i has every n-th tile
 *   from i on.  A warp works on one slice of every row tile of its turn; the slices' sums are added
 *   as a tree, so a row depends neither on the batch nor on who made which slice.  Where the
 *   activations do not fit one block, a cluster of 2 to 8 shares the slices of a row tile: each
 *   block adds its own, and the block that owns the row tile the blocks' parts.  Those who multiply
 *   go on meanwhile, by one or two rounds.
 * Copies: a stage of the ring has one or two tiles for each warp, which follow each other in
 *   memory; one warp fills it by bulk copies, whose bytes the stage's barrier counts.
 *   Weights are not written by kernels: the first are asked for while the kernel before ends.
 * Waiting: what does not depend on the kernel before is found before it has ended, and without
 *   true divisions, which are a tenth of a microsecond each in a chain that nothing hides.
 * Activations: f32 as two planes of f16 (f16_planes.cuh); or, where they were rounded to NVFP4 and
 *   are there as codes, e2m1 x e4m3 as one, which is exact.
 * Shared memory: stages of 18 or 37 KB, activations 2 bytes x planes x tokens x columns, sums up
 *   to 32 KB.  Registers: at most 96, the most that 20 warps of a processor may have. */

/* ---- loading ---- */

template <int format, typename shape> struct hd_td_ring {
    static constexpr int chunk = hd_td_chunk(shape::blocks); /* tiles of a warp */
    static constexpr int tiles = shape::warps * chunk;       /* of a stage      */
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
    int32_t          unit = v.unit, turn = v.turn;
    hd_td_matrix     m = {NULL, NULL};
    for (int32_t round = 0; round < v.n_rounds; round++, turn++) {
        if (turn == p.rounds) {
            turn = 0;
            unit++;
        }
        if (round == 0 || turn == 0) m = units.matrix(unit);
        for (int32_t c = 0; c < p.chunks; c++) {
            hd_barrier_wait(&s.head->empty[slot.at], slot.parity);
            hd_td_fill_stage<format, shape>(v, m, turn * p.groups, c, slot.at);
            slot.next(p.stages);
        }
    }
}

/* ---- the loop ---- */

/* Where a lane reads the activations of eight columns each. */
template <int blocks> struct hd_td_lane_x {
    const uint4 *at[blocks];                 /* of the slice's next tile                       */
    int          step[blocks], half[blocks]; /* a column without a token stays at the zeros    */

    __device__ __forceinline__ explicit hd_td_lane_x(const hd_td_walk &v)
    {
        int const lane = (int)threadIdx.x % 32, columns = v.p.planes * v.p.tokens;
#pragma unroll
        for (int b = 0; b < blocks; b++) {
            bool const is_in = 8 * b + lane / 4 < columns;
            at[b] = is_in ? v.s.x + v.own * 8 * columns + 32 * b + lane : &v.s.head->zero;
            step[b] = is_in ? 8 * columns * v.p.here : 0;
            half[b] = is_in ? 4 * columns : 0;
        }
    }

    __device__ __forceinline__ hd_td_x<blocks> next(void)
    {
        hd_td_x<blocks> x;
#pragma unroll
        for (int b = 0; b < blocks; b++) {
            x.v[b][0] = at[b][0];
            x.v[b][1] = at[b][half[b]];
            at[b] += step[b];
        }
        return x;
    }
};

/* The same for one token: a lane's column has its block's elements alone, and zeros else. */
template <int format> struct hd_td_lane_one {
    const uint4 *at[2]; /* of the slice's next tile, by half */
    int          step[2];

    __device__ __forceinline__ explicit hd_td_lane_one(const hd_td_walk &v)
    {
        int const lane = (int)threadIdx.x % 32, planes = v.p.planes;
        int const block = lane / 8, plane = lane / 4 % 2;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            bool const is_in =
                plane < planes && block == (hd_td_tile<format>::is_nvfp4 ? lane % 4 : h);
            at[h] =
                is_in ? v.s.x + ((v.own * 2 + h) * planes + plane) * 4 + lane % 4 : &v.s.head->zero;
            step[h] = is_in ? 8 * planes * v.p.here : 0;
        }
    }

    __device__ __forceinline__ hd_td_x<1> next(void)
    {
        hd_td_x<1> x;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            x.v[0][h] = *at[h];
            at[h] += step[h];
        }
        return x;
    }
};

/* The one of both that a shape takes. */
template <int format, typename shape, bool is_one = shape::is_one> struct hd_td_lane {
    using x = hd_td_lane_x<shape::blocks>;
};
template <int format, typename shape> struct hd_td_lane<format, shape, true> {
    using x = hd_td_lane_one<format>;
};

/* n tiles of a chunk, the slice's from `tile` on, where the lane's codes and scales begin; here:
 * how far tiles are apart. */
template <int format, typename shape, int n, typename lane_x>
static __device__ __forceinline__ void hd_td_chunk_dot(const uint8_t *codes, const uint8_t *scales,
                                                       int here, lane_x &from,
                                                       float c[2][shape::blocks][4])
{
    if constexpr (shape::is_one) {
        hd_td_words words[n];
        hd_td_x<1>  x[n];
#pragma unroll
        for (int i = 0; i < n; i++) {
            const uint8_t *const at = codes + i * here * HD_TILES_CODE_BYTES;
            words[i] = {{*(const uint4 *)at, *(const uint4 *)(at + HD_TD_CODE_HALF)},
                        *(const uint32_t *)(scales + i * here * hd_td_tile<format>::scale_bytes)};
            x[i] = from.next();
        }
        hd_td_tiles_one<format, shape::planes, n>(words, x, c);
    } else {
#pragma unroll
        for (int i = 0; i < n; i++)
            hd_td_tile_dot<format, shape::blocks>(
                codes + i * here * HD_TILES_CODE_BYTES,
                scales + i * here * hd_td_tile<format>::scale_bytes, from.next(), c);
    }
}

/* Makes a warp's slice of a row tile: `tiles` of them, which lie in the ring from `slot` on. */
template <int format, typename shape, typename lane_x>
static __device__ __forceinline__ void hd_td_slice(const hd_td_walk &v, lane_x x, int tiles,
                                                   hd_td_slot *slot, float c[2][shape::blocks][4])
{
    using ring = hd_td_ring<format, shape>;
    int const            first = v.group * ring::chunk * v.p.here + v.own; /* tile of the stage */
    int const            lane = (int)threadIdx.x % 32;
    const uint8_t *const codes = v.s.ring + first * HD_TILES_CODE_BYTES + lane * 16;
    const uint8_t *const scales = v.s.ring + ring::scales_at +
                                  first * hd_td_tile<format>::scale_bytes +
                                  hd_td_scale_at<format, shape::is_one>(lane);
    for (int i = 0, tile = 0; i < v.p.chunks; i++, tile += ring::chunk) {
        int const at = slot->at * ring::bytes;
        hd_barrier_wait(&v.s.head->full[slot->at], slot->parity);
        if (tile + ring::chunk <= tiles)
            hd_td_chunk_dot<format, shape, ring::chunk>(codes + at, scales + at, v.p.here, x, c);
        else if (tile < tiles)
            hd_td_chunk_dot<format, shape, 1>(codes + at, scales + at, v.p.here, x, c);
        __syncwarp(); /* all lanes have read what may now be replaced */
        if (lane == 0) hd_barrier_arrive(&v.s.head->empty[slot->at]);
        slot->next(v.p.stages);
    }
}

/* What a warp that multiplies does. */
template <int format, typename shape, typename source, typename lane_x>
static __device__ __forceinline__ void hd_td_multiply(const source &units, const hd_td_walk &v,
                                                      hd_td_round r, const lane_x &x)
{
    constexpr int       blocks = shape::blocks, kept = hd_td_kept(blocks);
    const hd_td_plan   &p = v.p;
    const hd_td_shared &s = v.s;
    hd_td_slot          slot = {0, 0};
    for (; r.local < v.n_rounds; r.next(v)) {
        int const buffer = r.buffer<kept>();
        if (r.is_first_of_unit() && !(r.local > 0 && units.keeps_x())) {
            if (r.local > 0)
                hd_td_sync<shape>(HD_TD_MULTIPLIES); /* all are done with the last one's x */
            r.n = units.take(r.unit, HD_TD_MULTIPLIES);
            hd_td_put_x<format, shape>(units, v, r.unit, r.n);
            hd_td_sync<shape>(HD_TD_MULTIPLIES);
        }
        float      c[2][blocks][4] = {};
        bool const has_rows = r.turn * p.groups + v.group < p.row_tiles;
        hd_td_slice<format, shape>(v, x, has_rows ? v.tiles : 0, &slot, c);
        hd_barrier_wait(&s.head->taken[buffer], r.parity<kept>() ^ 1);
        if constexpr (shape::is_one) {
            if (has_rows) hd_td_note_one<shape>(v, buffer, c);
        } else if (has_rows) {
            hd_td_note<shape>(v, buffer, c, r.n);
        }
        __syncwarp();
        if (threadIdx.x % 32 == 0) hd_barrier_arrive(&s.head->noted[buffer]);
    }
}

/* What a warp does that does not copy.  All that can be known before is, when the kernel in front
 * ends. */
template <int format, typename shape, typename source>
static __device__ __forceinline__ void hd_td_work(const source &units, const hd_td_plan &p,
                                                  const hd_td_shared &s, int32_t n_units)
{
    int const        warp = (int)threadIdx.x / 32;
    bool const       multiplies = warp < shape::warps;
    hd_td_walk const v = hd_td_start(p, s, multiplies ? warp : 0, n_units);
    typename hd_td_lane<format, shape>::x const x(v);
    hd_td_round const                           r(v);
    hd_await_previous();
    hd_release_next();
    if (multiplies)
        hd_td_multiply<format, shape>(units, v, r, x);
    else
        hd_td_finish<shape>(units, v, r);
}

/* Makes n_units units.  `units` has list(), which the warp that copies calls first, and matrix(u),
 * which it calls before the kernel in front has ended, unless list() waits for that; take(u, team),
 * called by all threads of a team, which returns the number of the unit's tokens and lets those
 * that multiply call row(u, q) and x_scale(u, q), those that add scale(u) and y(u, q): which row of
 * x its token q is, and its scale; the matrix's scale, and the token's row of y; keeps_x(), whether
 * all units have the same x; and args(), those of the op. */
template <int format, typename shape, typename source>
static __device__ __forceinline__ void hd_td_run(const source &units, const hd_td_plan &p,
                                                 const hd_td_shared &s, int32_t n_units)
{
    bool const is_cluster = p.cluster > 1, copies = (int)threadIdx.x / 32 == shape::warps;
    hd_td_make_barriers<shape>(s.head, p);
    if (is_cluster) hd_cluster_arrive();
    if (copies) { /* made the ring's barriers itself: need not wait */
        if (!is_cluster) asm volatile("bar.arrive 2, %0;" ::"n"(shape::threads) : "memory");
        units.list();
        hd_td_fill<format, shape>(units, p, s, n_units);
        if (is_cluster) hd_cluster_wait();
    } else {
        if (is_cluster)
            hd_cluster_wait();
        else
            asm volatile("bar.sync 2, %0;" ::"n"(shape::threads) : "memory");
        hd_td_work<format, shape>(units, p, s, n_units);
    }
    if (!is_cluster) return;
    hd_cluster_arrive();
    hd_cluster_wait(); /* nobody still writes here */
}

/* ---- choosing ---- */

static inline int hd_td_slices(int32_t k_tiles, int most)
{
    int n = 1;
    while (n < most && k_tiles >= 8 * n) n *= 2;
    return n;
}

/* Stages that keep the memory busy while one is worked on. */
#define HD_TD_ENOUGH 3

/* Fills in what follows from the cluster; false when shared memory is too small for `least` stages.
 */
template <int format, typename shape>
static inline bool hd_td_fit(hd_td_plan *p, size_t table, size_t least)
{
    p->here = p->slices / p->cluster;
    p->groups = shape::warps / p->here;
    p->owned = p->groups / p->cluster;
    size_t const stage =
        (size_t)shape::warps * (size_t)hd_td_chunk(p->blocks) * hd_td_tile<format>::bytes;
    p->parts_at = HD_TD_HEAD_BYTES + hd_td_sum_bytes(*p);
    p->x_at = p->parts_at + hd_td_part_bytes(*p);
    p->ring_at = p->x_at + hd_td_x_bytes(*p);
    size_t const fixed = table + p->ring_at;
    if (fixed + least * stage > shape::room) return false;
    size_t const fit = (shape::room - fixed) / stage;
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
template <int format, typename shape>
static inline bool hd_td_choose(int32_t n, int32_t k, int most, size_t table, hd_td_plan *p)
{
    int const each = 8 / p->planes; /* tokens of a block of columns */
    p->k_tiles = k / HD_TILES_COLS;
    p->row_tiles = n / HD_TILES_ROWS;
    p->warps = shape::warps;
    p->slices = hd_td_slices(p->k_tiles, shape::warps);
    p->blocks = p->tokens > 2 * each ? 4 : p->tokens > each ? 2 : 1;
    for (size_t least = HD_TD_ENOUGH; least >= 2; least--)
        for (p->cluster = 1; p->cluster <= most && p->cluster <= p->slices; p->cluster *= 2)
            if (hd_td_fit<format, shape>(p, table, least)) return true;
    return false;
}

/* Clusters of a unit that are launched, where so many fit: as many for each unit where that costs
 * no time; 0: all share all units. */
static inline int64_t hd_td_even(int64_t rounds, int64_t units, int64_t fit)
{
    int64_t const all = rounds * units, of = min(fit / units, rounds);
    if (of == 0 || (rounds + of - 1) / of > (all + fit - 1) / fit) return 0;
    return of;
}

/* units  as many, or is_known false: as many at most */
template <typename shape, typename args>
static inline hd_status hd_td_launch(void (*kernel)(args, hd_td_plan), const args &a, hd_td_plan p,
                                     int64_t units, bool is_known, cudaStream_t stream)
{
    const void *const k = (const void *)kernel;
    if (!hd_allow_shared(k, p.bytes)) return HD_ERR_DEVICE;
    /* Without being asked, the driver leaves room for one block. */
    if (cudaFuncSetAttribute(k, cudaFuncAttributePreferredSharedMemoryCarveout, 100) != cudaSuccess)
        return HD_ERR_DEVICE;
    int64_t const fit = p.cluster == 1
                            ? hd_sm_count() * shape::resident
                            : max(1, hd_resident_clusters(k, p.cluster, shape::threads, p.bytes));
    int64_t const even = is_known ? hd_td_even(p.rounds, units, fit) : 0;
    int64_t const all = p.rounds * units, of = even ? even : min(all, fit);
    int64_t const dealt = even ? p.rounds : all;
    p.each = is_known ? (int32_t)(dealt / of) : 0;
    p.more = (int32_t)(dealt % of);
    return hd_launch_clusters(kernel, dim3((unsigned)(of * p.cluster), even ? (unsigned)units : 1u),
                              (unsigned)p.cluster, shape::threads, p.bytes, stream, a, p);
}

#endif
