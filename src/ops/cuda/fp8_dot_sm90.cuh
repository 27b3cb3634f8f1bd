#ifndef HD_OPS_CUDA_FP8_DOT_SM90_CUH
#define HD_OPS_CUDA_FP8_DOT_SM90_CUH

#include "async_copy.cuh"
#include "f16_planes.cuh"
#include "fp8_codes.cuh"
#include "launch.cuh"
#include "quant/fp8.h"
#include "quant/matrix.h"
#include "rounding.cuh"

/* The core of the small-batch products of experts with FP8 weights on Hopper; four-bit ones come in
 * tiles and have theirs in tiles_dot_sm90.cuh.
 *
 * Bound by: bytes.  A weight is read once from memory and used for at most four tokens.
 * Tile: 16 rows x 128 columns, which lie in one block of scales, one a warp at a time; cp.async
 * keeps n_stages - 1 more in flight for each of the 16 warps. Product: mma.m16n8k16 with f16
 * operands and f32 sums.  E4M3 fits f16, and an activation is split into two f16 (f16_planes.cuh).
 * The two halves of token q are columns 2q and 2q + 1, so a thread holds both sums of its token.
 * Order of k inside a product is free, so codes stay where a 32-bit word has them: of four bytes i
 *   and i + 2 make a register, and the activations are laid out alike.
 * Work: rounds.  In a round a block makes the rows of 16 / per_row row tiles of one unit (a
 *   matrix and its tokens); blocks take equal runs of rounds, so the weights of the next unit
 *   are on their way while the last one is finished.
 * Sums: a warp adds its tiles by rising k, warps that share rows are added in order.  The
 *   split follows from k alone, so a row does not depend on the batch. */

#define HD_TILE_ROWS   16
#define HD_TILE_WIDTH  128 /* bytes of codes of a row */
#define HD_TILE_STEPS  4   /* of two 16-byte units of each row: what one ldmatrix reads */
#define HD_TILE_WARPS  16
#define HD_TILE_TOKENS 4

#define HD_CODE_BYTES (HD_TILE_ROWS * HD_TILE_WIDTH)

struct hd_tile {
    static_assert(HD_TILE_WIDTH == HD_FP8_BLOCK, "a tile has one scale");
    static constexpr int k = HD_TILE_WIDTH; /* columns */
    static constexpr int step = k / HD_TILE_STEPS;
    static constexpr int bytes = HD_CODE_BYTES + 16;
    static constexpr int columns = step; /* a matrix has a whole number of these */

    /* Bytes of the scales before those of `row`, which begins a block. */
    static __device__ __forceinline__ int64_t scales_before(int64_t row, int32_t cols)
    {
        int64_t const blocks = (cols + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
        return row / HD_FP8_BLOCK * blocks * (int64_t)sizeof(float);
    }
};

/* One matrix: rows of codes and scales as in ops/gemm.h. */
struct hd_tile_matrix {
    const uint8_t *w, *sf; /* sf of the first row, which begins a block */
    int32_t        n, k;
    float          scale;
};

/* A matrix and the tokens it multiplies. */
struct hd_tile_unit {
    hd_tile_matrix m;
    const float   *x[HD_TILE_TOKENS];
    float         *y[HD_TILE_TOKENS];
    int            n; /* tokens */
};

/* ---- loading ---- */

/* What a lane copies of each tile of its row tile: four rows' units of 16 bytes, four rows apart;
 * lane 0 the scale too.  Units are placed so that ldmatrix meets no bank twice: unit u of row r
 * lies at u ^ (r & 7). */
struct hd_tile_lane {
    const uint8_t *w, *sf;  /* of the lane's first row, column 0; of the row tile     */
    int64_t        w_step;  /* four rows                                              */
    int32_t        rows, k; /* rows of the tile that exist; columns of the matrix     */
    uint32_t       to;      /* the lane's first unit in a stage                       */

    __device__ __forceinline__ void start(const hd_tile_matrix &m, int32_t row, int lane)
    {
        w = m.w + (int64_t)(row + lane / 8) * m.k + lane % 8 * 16;
        sf = m.sf + hd_tile::scales_before(row, m.k);
        w_step = 4 * (int64_t)m.k;
        rows = m.n - row;
        k = m.k;
        to = lane / 8 * HD_TILE_WIDTH + ((lane % 8) ^ (lane / 8)) * 16;
    }

    /* Starts copying the tile of columns k0 on; rows 4 apart turn bit 2 of their units. */
    __device__ __forceinline__ void load(int32_t k0, uint8_t *stage, int lane) const
    {
        load_codes(k0, stage, lane, rows >= HD_TILE_ROWS && k0 + hd_tile::k <= k);
        if (lane == 0) hd_copy_4(stage + HD_CODE_BYTES, sf + k0 / HD_FP8_BLOCK * sizeof(float));
    }

    __device__ __forceinline__ void load_codes(int32_t k0, uint8_t *stage, int lane,
                                               bool is_whole) const
    {
        if (is_whole) {
#pragma unroll
            for (int i = 0; i < HD_TILE_ROWS / 4; i++)
                hd_copy_16(stage + (to ^ (i & 1 ? 64 : 0)) + i * 4 * HD_TILE_WIDTH,
                           w + k0 + i * w_step);
            return;
        }
#pragma unroll 1
        for (int i = 0; i < HD_TILE_ROWS / 4; i++)
            if (4 * i + lane / 8 < rows && k0 + lane % 8 * (hd_tile::k / 8) < k)
                hd_copy_16(stage + (to ^ (i & 1 ? 64 : 0)) + i * 4 * HD_TILE_WIDTH,
                           w + k0 + i * w_step);
    }
};

/* ---- decoding ---- */

/* Where a lane reads words of codes of step s: units 2 s and 2 s + 1 of rows g and g + 8; it gets
 * the codes of word lane % 4 of each. */
static __device__ __forceinline__ uint32_t hd_word_offset(int s, int lane)
{
    int const r = lane % 16, unit = 2 * s + lane / 16;
    return (uint32_t)(r * HD_TILE_WIDTH + (unit ^ (r & 7)) * 16);
}

/* ---- one tile ---- */

/* Two units of FP8, 32 columns, without their scale. */
static __device__ __forceinline__ void hd_units_fp8(const uint32_t w[4], uint4 x, float c[4])
{
    uint32_t a[4][2];
#pragma unroll
    for (int i = 0; i < 4; i++) hd_decode_bytes(w[i], a[i]);
    uint32_t const first[4] = {a[0][0], a[1][0], a[0][1], a[1][1]};
    uint32_t const second[4] = {a[2][0], a[3][0], a[2][1], a[3][1]};
    hd_mma(c, first, x.x, x.y);
    hd_mma(c, second, x.z, x.w);
}

/* The lane's 16 bytes of activations of a block of 32 columns; threads beyond the 2 n_tokens
 * columns multiply zeros. */
template <int n_tokens>
static __device__ __forceinline__ uint4 hd_block_of(const uint4 *x, int b, int lane)
{
    constexpr int wide = 8 * n_tokens; /* of 16 bytes: a block's activations */
    return wide == 32 || lane < wide ? x[b * wide + lane] : make_uint4(0, 0, 0, 0);
}

/* Adds the products of step s of a tile to sum[4] (rows g, g and g + 8, g + 8; columns 2q and
 * 2q + 1).
 * x  activations of the tile: [block of 32][column][quarter] of 16 bytes */
template <int n_tokens>
static __device__ __forceinline__ void hd_step_dot(uint32_t words, const uint4 *x, int s, int lane,
                                                   float sum[4])
{
    uint32_t w[4];
    hd_load_matrices(words, w);
    hd_units_fp8(w, hd_block_of<n_tokens>(x, s, lane), sum);
}

/* n steps of a tile; offset[s] is hd_word_offset(s). */
template <int n_tokens>
static __device__ __forceinline__ void hd_steps_dot(const uint8_t *stage, const uint32_t *offset,
                                                    const uint4 *x, int n, int lane, float sum[4])
{
    uint32_t const base = hd_shared_address(stage);
    if (n >= HD_TILE_STEPS) {
#pragma unroll
        for (int s = 0; s < HD_TILE_STEPS; s++)
            hd_step_dot<n_tokens>(base + offset[s], x, s, lane, sum);
        return;
    }
    for (int s = 0; s < n; s++)
        hd_step_dot<n_tokens>(base + hd_word_offset(s, lane), x, s, lane, sum);
}

/* Adds a tile's products to sum[4]. */
template <int n_tokens>
static __device__ __forceinline__ void hd_tile_dot(const uint8_t *stage, const uint32_t *offset,
                                                   const uint4 *x, int n, int lane, float sum[4])
{
    float const scale = *(const float *)(stage + HD_CODE_BYTES);
    float       c[4] = {0, 0, 0, 0};
    hd_steps_dot<n_tokens>(stage, offset, x, n, lane, c);
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = fmaf(c[i], scale, sum[i]);
}

/* ---- activations ---- */

/* Largest magnitudes of the unit's rows to units[q], as powers of two. */
template <int n_tokens>
static __device__ __forceinline__ void hd_find_units(const hd_tile_unit &u, float *units,
                                                     float *scratch)
{
    int const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int q = 0; q < n_tokens; q++) {
        bool const aligned = hd_is_aligned(u.x[q]);
        float      amax = 0;
        for (int32_t o = threadIdx.x; q < u.n && o < u.m.k / 8; o += HD_TILE_WARPS * 32) {
            float v[8];
            hd_read_eight(u.x[q], o, aligned, v);
#pragma unroll
            for (int i = 0; i < 8; i++) amax = fmaxf(amax, fabsf(v[i]));
        }
        amax = hd_warp_max(amax);
        if (lane == 0) scratch[q * HD_TILE_WARPS + warp] = amax;
    }
    __syncthreads();
    if (threadIdx.x < n_tokens) {
        float amax = 0;
        for (int w = 0; w < HD_TILE_WARPS; w++)
            amax = fmaxf(amax, scratch[threadIdx.x * HD_TILE_WARPS + w]);
        units[threadIdx.x] = hd_row_unit(amax);
    }
    __syncthreads();
}

/* Splits eight elements of a row into the two columns of token q, in the order in which codes
 * are decoded: two words of unit o / 2 % 2. */
template <int n_tokens>
static __device__ __forceinline__ void hd_split_eight(const float v[8], float inverse, int32_t o,
                                                      int q, uint4 *out)
{
    __align__(16) __half high[8], low[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int const to = i / 4 * 4 + i % 2 * 2 + i % 4 / 2; /* (j, j + 2) */
        hd_split_f16(v[i] * inverse, high + to, low + to);
    }
    uint4 *const at = out + (o / 4) * (8 * n_tokens);
    int const    word = o % 2 * 2, unit = o / 2 % 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ((uint2 *)(at + (2 * q) * 4 + word + i))[unit] = ((const uint2 *)high)[i];
        ((uint2 *)(at + (2 * q + 1) * 4 + word + i))[unit] = ((const uint2 *)low)[i];
    }
}

/* The unit's activations to shared memory; units[q] is what their sums count in. */
template <int n_tokens>
static __device__ __forceinline__ void hd_split_rows(const hd_tile_unit &u, uint4 *out,
                                                     float *units, float *scratch)
{
    hd_find_units<n_tokens>(u, units, scratch);
#pragma unroll
    for (int q = 0; q < n_tokens; q++) {
        bool const  aligned = hd_is_aligned(u.x[q]);
        float const inverse = 1.0f / units[q];
        for (int32_t o = threadIdx.x; o < u.m.k / 8; o += HD_TILE_WARPS * 32) {
            float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            if (q < u.n) hd_read_eight(u.x[q], o, aligned, v);
            hd_split_eight<n_tokens>(v, inverse, o, q, out);
        }
    }
    __syncthreads();
}

/* ---- rounds ---- */

/* Warps that share a row tile, a power of two: few, because each tile of rows ends with a
 * barrier among them, but enough to occupy the GPU with `row_tiles` of them. */
static __host__ __forceinline__ int hd_warps_per_row(int64_t row_tiles, int32_t k)
{
    int const tiles = (k + hd_tile::k - 1) / hd_tile::k, warps = hd_sm_count() * HD_TILE_WARPS;
    int       share = 1;
    while (share < HD_TILE_WARPS && share * 2 <= tiles && row_tiles * share < warps) share *= 2;
    return share;
}

static __host__ __device__ __forceinline__ int32_t hd_row_tiles(int32_t n)
{
    return (n + HD_TILE_ROWS - 1) / HD_TILE_ROWS;
}

/* Rounds that one matrix of n rows takes. */
static __host__ __device__ __forceinline__ int32_t hd_rounds(int32_t n, int per_row)
{
    int32_t const groups = HD_TILE_WARPS / per_row;
    return (hd_row_tiles(n) + groups - 1) / groups;
}

/* A run of rounds of one block, and where the calling warp works in each. */
struct hd_tile_walk {
    int     per_row, group, part; /* warps that share rows; which row tile; which share of k */
    int     tiles;                /* of this warp along k, in a round */
    int32_t rounds;               /* of one unit */
    int32_t first, end;           /* rounds of this block, over all units */
};

static __device__ __forceinline__ hd_tile_walk hd_walk(int32_t n, int32_t k, int per_row,
                                                       int32_t units)
{
    hd_tile_walk v;
    int const    warp = threadIdx.x / 32, all = (k + hd_tile::k - 1) / hd_tile::k;
    v.per_row = per_row;
    v.group = warp / v.per_row;
    v.part = warp % v.per_row;
    v.tiles = (all - v.part + v.per_row - 1) / v.per_row;
    v.rounds = hd_rounds(n, per_row);
    int64_t const total = (int64_t)v.rounds * units;
    v.first = (int32_t)(total * blockIdx.x / gridDim.x);
    v.end = (int32_t)(total * (blockIdx.x + 1) / gridDim.x);
    return v;
}

static __device__ __forceinline__ int32_t hd_row_of(const hd_tile_walk &v, int32_t round)
{
    int const groups = HD_TILE_WARPS / v.per_row;
    return (round % v.rounds * groups + v.group) * HD_TILE_ROWS;
}

struct hd_tile_shared {
    uint8_t *stages;  /* [warps, stages, tile bytes]    */
    uint4   *x;       /* [k / 32, 2 n_tokens, 4]        */
    float   *sums;    /* [2, warps, 16, 4]              */
    float   *units;   /* [4]                            */
    float   *scratch; /* [4, warps]                     */
};

static __host__ __device__ __forceinline__ size_t hd_tile_shared_bytes(int32_t k, int n_tokens,
                                                                       int n_stages)
{
    return (size_t)HD_TILE_WARPS * n_stages * hd_tile::bytes + (size_t)k * 4 * n_tokens +
           2 * HD_TILE_WARPS * HD_TILE_ROWS * 4 * sizeof(float) +
           (HD_TILE_TOKENS + HD_TILE_TOKENS * HD_TILE_WARPS) * sizeof(float);
}

template <int n_tokens, int n_stages>
static __device__ __forceinline__ hd_tile_shared hd_tile_share(uint8_t *base, int32_t k)
{
    hd_tile_shared s;
    s.stages = base;
    s.x = (uint4 *)(base + (size_t)HD_TILE_WARPS * n_stages * hd_tile::bytes);
    s.sums = (float *)((uint8_t *)s.x + (size_t)k * 4 * n_tokens);
    s.units = s.sums + 2 * HD_TILE_WARPS * HD_TILE_ROWS * 4;
    s.scratch = s.units + HD_TILE_TOKENS;
    return s;
}

/* Waits for the warps that share rows with the calling one. */
static __device__ __forceinline__ void hd_group_sync(const hd_tile_walk &v)
{
    if (v.per_row == 1)
        __syncwarp();
    else
        asm volatile("bar.sync %0, %1;" ::"r"(v.group + 1), "r"(v.per_row * 32) : "memory");
}

/* Adds the parts of the group's row tile and writes its rows; place `at` is row at / 4, token
 * at % 4. */
static __device__ __forceinline__ void hd_finish_rows(const hd_tile_unit &u, const hd_tile_walk &v,
                                                      int32_t row0, const float *sums,
                                                      const float *units)
{
    for (int at = threadIdx.x % 32 + v.part * 32; at < HD_TILE_ROWS * 4; at += v.per_row * 32) {
        int const row = row0 + at / 4, q = at % 4;
        if (row >= u.m.n || q >= u.n) continue;
        float sum = 0;
        for (int p = 0; p < v.per_row; p++)
            sum += sums[(v.group * v.per_row + p) * HD_TILE_ROWS * 4 + at];
        u.y[q][row] = sum * (HD_FP8_F16_FACTOR * u.m.scale) * units[q];
    }
}

/* The loads of one warp, in order, each a tile ahead of its use. */
template <int n_stages, typename source> struct hd_tile_feed {
    const source       &units;
    const hd_tile_walk &v;
    uint8_t            *stages;
    int32_t             round; /* next to load */
    int                 tile, slot, lane;
    hd_tile_matrix      m;
    hd_tile_lane        from;

    __device__ __forceinline__ hd_tile_feed(const source &u, const hd_tile_walk &w, uint8_t *s)
        : units(u), v(w), stages(s), round(w.first), tile(0), slot(0), lane(threadIdx.x % 32)
    {
        if (round < v.end) {
            m = units.matrix(round / v.rounds);
            from.start(m, hd_row_of(v, round), lane);
        }
    }

    __device__ __forceinline__ void next_round(void)
    {
        tile = 0;
        if (++round >= v.end) return;
        if (round % v.rounds == 0) m = units.matrix(round / v.rounds);
        from.start(m, hd_row_of(v, round), lane);
    }

    __device__ __forceinline__ void load(void)
    {
        if (round < v.end) {
            from.load((v.part + tile * v.per_row) * hd_tile::k, stages + slot * hd_tile::bytes,
                      lane);
            if (++tile == v.tiles) next_round();
        }
        hd_copy_commit();
        slot = slot + 1 == n_stages ? 0 : slot + 1;
    }
};

/* Makes the rounds of this block.  `units` has matrix(u) and unit(u) for u < its count. */
template <int n_tokens, int n_stages, typename source>
static __device__ __forceinline__ void hd_tile_run(const source &units, const hd_tile_walk &v,
                                                   uint8_t *shared, int32_t k)
{
    hd_tile_shared const           s = hd_tile_share<n_tokens, n_stages>(shared, k);
    int const                      warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint8_t *const                 stages = s.stages + warp * n_stages * hd_tile::bytes;
    hd_tile_feed<n_stages, source> feed(units, v, stages);
    for (int i = 0; i < n_stages - 1; i++) feed.load();
    hd_await_previous();
    hd_tile_unit u;
    uint32_t     offset[HD_TILE_STEPS];
    int          slot = 0;
    for (int i = 0; i < HD_TILE_STEPS; i++) offset[i] = hd_word_offset(i, lane);
    for (int32_t round = v.first; round < v.end; round++) {
        if (round == v.first || round % v.rounds == 0) {
            __syncthreads(); /* nobody still reads the last unit's activations */
            units.unit(round / v.rounds, &u);
            hd_split_rows<n_tokens>(u, s.x, s.units, s.scratch);
        }
        float c[4] = {0, 0, 0, 0};
        for (int t = 0; t < v.tiles; t++) {
            hd_copy_wait<n_stages - 2>();
            __syncwarp();
            int32_t const tile = v.part + t * v.per_row;
            int32_t const left = (k - tile * hd_tile::k) / hd_tile::step;
            hd_tile_dot<n_tokens>(stages + slot * hd_tile::bytes, offset,
                                  s.x + tile * (hd_tile::k / 4) * n_tokens, left, lane, c);
            slot = slot + 1 == n_stages ? 0 : slot + 1;
            __syncwarp();
            feed.load();
        }
        float *const sums = s.sums + (round & 1) * HD_TILE_WARPS * HD_TILE_ROWS * 4;
        float *const mine =
            sums + warp * HD_TILE_ROWS * 4 + lane; /* row lane / 4, token lane % 4 */
        mine[0] = c[0] + c[1] * HD_LOW_PLANE;
        mine[32] = c[2] + c[3] * HD_LOW_PLANE;
        hd_group_sync(v);
        hd_finish_rows(u, v, hd_row_of(v, round), sums, s.units);
    }
    hd_copy_wait<0>();
}

/* ---- choosing ---- */

/* Stages that fit beside the activations, 2 to 4; 0 when not even two do. */
#define HD_TILE_TABLE_BYTES (1056 * sizeof(int32_t)) /* what a kernel may keep beside them */
static __host__ __forceinline__ int hd_tile_stages(int32_t k, int n_tokens)
{
    for (int n = 4; n >= 2; n--)
        if (hd_tile_shared_bytes(k, n_tokens, n) + HD_TILE_TABLE_BYTES <= 227 * 1024) return n;
    return 0;
}

/* Launches `kernel<n_tokens, n_stages>` of the widest size that fits. */
#define HD_TILE_CASE(kernel, tokens, stages, grid, bytes, stream, ...)                       \
    if (!hd_allow_shared((const void *)kernel<tokens, stages>, bytes)) return HD_ERR_DEVICE; \
    return hd_launch(kernel<tokens, stages>, grid, HD_TILE_WARPS * 32, bytes,                \
                     hd_cuda_stream(stream), __VA_ARGS__);
#define HD_TILE_TOKENS_CASE(kernel, tokens, stages, grid, bytes, stream, ...) \
    if (stages == 4) {                                                        \
        HD_TILE_CASE(kernel, tokens, 4, grid, bytes, stream, __VA_ARGS__)     \
    } else if (stages == 3) {                                                 \
        HD_TILE_CASE(kernel, tokens, 3, grid, bytes, stream, __VA_ARGS__)     \
    } else {                                                                  \
        HD_TILE_CASE(kernel, tokens, 2, grid, bytes, stream, __VA_ARGS__)     \
    }
#define HD_TILE_LAUNCH(kernel, n_tokens, k, grid, stream, ...)                                  \
    do {                                                                                        \
        int const    stages_ = hd_tile_stages(k, n_tokens);                                     \
        size_t const bytes_ = hd_tile_shared_bytes(k, n_tokens, stages_) + HD_TILE_TABLE_BYTES; \
        if (n_tokens == 1) {                                                                    \
            HD_TILE_TOKENS_CASE(kernel, 1, stages_, grid, bytes_, stream, __VA_ARGS__)          \
        } else {                                                                                \
            HD_TILE_TOKENS_CASE(kernel, 4, stages_, grid, bytes_, stream, __VA_ARGS__)          \
        }                                                                                       \
    } while (0)

/* One block an SM, and none without a round. */
static __host__ __forceinline__ unsigned hd_tile_grid(int32_t n, int per_row, int64_t units)
{
    int64_t const rounds = hd_rounds(n, per_row) * units;
    return (unsigned)(rounds < hd_sm_count() ? rounds : hd_sm_count());
}

#endif
