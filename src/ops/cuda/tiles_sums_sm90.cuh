#ifndef HD_OPS_CUDA_TILES_SUMS_SM90_CUH
#define HD_OPS_CUDA_TILES_SUMS_SM90_CUH

#include "tiles_plan_sm90.cuh"

/* Sums of products of four-bit weights in tiles: warps note those of their slices, others add and
 * write them.  They are added as a tree, so that neither the number of blocks that share them nor
 * who adds what changes a bit. */

/* The place of a token's row in a warp's sums, which meets no bank twice when lanes are (row, four
 * tokens that a lane quad notes at once) and when they are rows. */
template <typename shape> static __device__ __forceinline__ int hd_td_place(int row, int token)
{
    return token * HD_TILES_ROWS + (row ^ token / (3 - shape::planes) % 4 * 8);
}

/* Where warp w notes its sums. */
template <typename shape>
static __device__ __forceinline__ float *hd_td_sums_of(const hd_td_walk &v, int buffer, int w)
{
    return v.s.sums + (buffer * shape::warps + w) * v.p.tokens * HD_TILES_ROWS;
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
    float *const  to = hd_td_sums_of<shape>(v, buffer, (int)threadIdx.x / 32);
#pragma unroll
    for (int i = 0; i < shape::blocks * each; i++) {
        int const b = i / each, token = 4 * each * b + lane % 4 * each + i % each;
        if (token >= n) continue;
        float const unit = v.s.head->units[v.own][token];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const float *const own = c[r / 2][b] + r % 2 * 2;
            float const sum = shape::planes == 2 ? own[0] + own[1] * HD_LOW_PLANE : own[i % each];
            to[hd_td_place<shape>(8 * r + lane / 4, token)] = sum * unit;
        }
    }
}

/* The same for one token, whose sums lane (row, q) has of block q: added, lane (row, q) gets that
 * of row 8 q + row. */
template <typename shape>
static __device__ __forceinline__ void hd_td_note_one(const hd_td_walk &v, int buffer,
                                                      const float c[2][1][4])
{
    int const lane = (int)threadIdx.x % 32;
    float     sum[4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float *const own = c[r / 2][0] + r % 2 * 2;
        sum[r] = shape::planes == 2 ? own[0] + own[1] * HD_LOW_PLANE : own[0];
    }
    float const all = hd_warp_join<4, 2>(sum);
    hd_td_sums_of<shape>(v, buffer, (int)threadIdx.x / 32)[8 * (lane % 4) + lane / 4] =
        all * v.s.head->units[v.own][0];
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

/* A lane of those that add has four rows of one of four tokens. */
struct hd_td_adder {
    int   warp, row, token;
    float factor; /* of finished sums */

    __device__ __forceinline__ explicit hd_td_adder(int first_warp)
        : warp((int)threadIdx.x / 32 - first_warp), row((int)threadIdx.x % 8 * 4),
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
    int const buffer = r.buffer<hd_td_kept(shape::blocks)>(),
              fours = shape::is_one ? 1 : (r.n + 3) / 4;
    int const       width = HD_TILES_ROWS * v.p.tokens;
    uint64_t *const sent = &v.s.head->sent[buffer];
    for (int i = d.warp; i < v.p.groups * fours; i += shape::adders) {
        int const     group = i / fours, token = i % fours * 4 + d.token;
        int32_t const row_tile = r.turn * v.p.groups + group;
        if (row_tile >= v.p.row_tiles) break;
        if (token >= r.n) continue;
        float4 const sum = hd_td_add(hd_td_sums_of<shape>(v, buffer, group * v.p.here) +
                                         hd_td_place<shape>(d.row, token),
                                     width, v.p.here);
        if (v.p.cluster == 1) {
            d.write(units.y(r.unit, token) + row_tile * HD_TILES_ROWS, sum);
            continue;
        }
        uint32_t const owner = (uint32_t)(group & (v.p.cluster - 1));
        const float   *part = hd_td_part_of(v, buffer, hd_td_over(group, v.p.cluster), v.rank);
        hd_store4_at(hd_cluster_address(part + token * HD_TILES_ROWS + d.row, owner), sum,
                     hd_cluster_address(sent, owner));
    }
}

/* The same for one token in a lone block: a lane has four rows of one of four row tiles at once.
 * y  of the unit's row d.row */
template <typename shape>
static __device__ __forceinline__ void hd_td_add_one(float *y, const hd_td_walk &v,
                                                     const hd_td_round &r, const hd_td_adder &d)
{
    const float *const from = hd_td_sums_of<shape>(v, r.buffer<hd_td_kept(shape::blocks)>(), 0);
    for (int group = d.token; group < v.p.groups; group += 4) {
        int32_t const row_tile = r.turn * v.p.groups + group;
        if (row_tile < v.p.row_tiles)
            d.write(y + row_tile * HD_TILES_ROWS,
                    hd_td_add(from + group * v.p.here * HD_TILES_ROWS + d.row, HD_TILES_ROWS,
                              v.p.here));
    }
}

/* Adds the parts of the row tiles that the block owns. */
template <typename shape, typename source>
static __device__ __forceinline__ void hd_td_add_parts(const source &units, const hd_td_walk &v,
                                                       const hd_td_round &r, const hd_td_adder &d)
{
    int const buffer = r.buffer<hd_td_kept(shape::blocks)>(),
              fours = shape::is_one ? 1 : (r.n + 3) / 4;
    for (int i = d.warp; i < v.p.owned * fours; i += shape::adders) {
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
static __device__ __forceinline__ void hd_td_finish(const source &units, const hd_td_walk &v,
                                                    hd_td_round r)
{
    constexpr int       kept = hd_td_kept(shape::blocks);
    const hd_td_plan   &p = v.p;
    const hd_td_shared &s = v.s;
    int const           lane = (int)threadIdx.x % 32;
    hd_td_adder         d(shape::warps + 1);
    bool const          is_cluster = p.cluster > 1;
    for (; r.local < v.n_rounds; r.next(v)) {
        int const      buffer = r.buffer<kept>();
        uint32_t const parity = r.parity<kept>();
        if (r.is_first_of_unit()) {
            hd_td_sync<shape>(HD_TD_ADDS); /* nobody still reads the last unit's list */
            r.n = units.take(r.unit, HD_TD_ADDS);
            d.factor = HD_TD_FACTOR * units.scale(r.unit);
        }
        if (is_cluster) {
            hd_barrier_wait(&s.head->freed[buffer], parity ^ 1);
            if (d.warp == 0 && lane == 0) hd_td_expect_parts(v, r, buffer);
        }
        float *const y = shape::is_one ? units.y(r.unit, 0) : NULL;
        hd_barrier_wait(&s.head->noted[buffer], parity);
        if (shape::is_one && !is_cluster)
            hd_td_add_one<shape>(y, v, r, d);
        else
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

#endif
