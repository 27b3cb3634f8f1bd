#ifndef HD_OPS_X86_DOT_H
#define HD_OPS_X86_DOT_H

#include <string.h>

#include "ops/x86/lanes.h"
#include "ops/x86/product.h"

/* What formats share: products of rows that are decoded in registers, or of a decoded tile, given
 * how a group is decoded.  Everything is inlined into the format's file, with its decoder and
 * the vectors that the file is compiled for. */

#define INLINE     static inline __attribute__((always_inline))
#define GROUP_VECS 8
#define GROUP      (GROUP_VECS * VEC_LANES) /* columns */

/* The weights of a group.  Where blocks have scales, either they are in v already, or each lane of
 * all vectors shares one and they wait in scale. */
typedef struct group {
    vec v[GROUP_VECS];
    vec scale;
} group;

/* Where a row's weights and scales of a group are. */
typedef struct row_at {
    const uint8_t *w, *sf;
} row_at;

/* How a format lies in memory, and is decoded. */
typedef struct layout {
    int32_t w_bytes, sf_bytes; /* of a group; sf_bytes 0: scales by blocks of 128 x 128, or none */
    bool    has_scale;         /* in group.scale */
    float   unit;              /* a power of two that decoding leaves out */
    group (*decode)(row_at at);
} layout;

/* Bytes from the first weight, or scale, of a row to column k0. */
INLINE int64_t w_offset(const layout *l, int64_t k0) { return k0 * l->w_bytes / GROUP; }
INLINE int64_t sf_offset(const layout *l, int64_t k0) { return k0 * l->sf_bytes / GROUP; }

INLINE row_at find_row(const layout *l, const hd_product_part *p, int32_t r)
{
    const hd_product_matrix *const m = p->m;
    int64_t const                  row = p->row + r;
    row_at                         at = {(const uint8_t *)m->w, (const uint8_t *)m->sf};
    at.w += row * w_offset(l, m->k) + w_offset(l, p->k0);
    if (l->sf_bytes)
        at.sf += row * sf_offset(l, m->k) + sf_offset(l, p->k0);
    else if (m->sf)
        at.sf += (row / 128 * ((m->k + 127) / 128) + p->k0 / 128) * (int64_t)sizeof(float);
    return at;
}

/* Group g of a row. */
INLINE row_at find_group(const layout *l, row_at row, int32_t g)
{
    row.w += (int64_t)g * l->w_bytes;
    if (l->sf_bytes)
        row.sf += (int64_t)g * l->sf_bytes;
    else if (row.sf)
        row.sf += (int64_t)(g * GROUP / 128) * (int64_t)sizeof(float);
    return row;
}

/* The last n weights of a row, copied and filled up with zeros, because behind them is the next
 * row or nothing. */
typedef struct row_end {
    uint8_t w[GROUP * 4], sf[8];
} row_end;

INLINE group decode_end(const layout *l, row_at row, int32_t g, int32_t n)
{
    row_end end = {{0}, {0}};
    row_at  at = find_group(l, row, g);
    memcpy(end.w, at.w, (size_t)w_offset(l, n));
    if (l->sf_bytes) {
        memcpy(end.sf, at.sf, (size_t)sf_offset(l, n));
        at.sf = end.sf;
    }
    at.w = end.w;
    return l->decode(at);
}

/* The products of a group; a shared scale multiplies their sum. */
INLINE vec add_products(const layout *l, const group *w, const float *x, vec sum)
{
    vec part = l->has_scale ? vec_zero() : sum;
#pragma GCC unroll 8
    for (int i = 0; i < GROUP_VECS; i++) part = vec_fma(w->v[i], vec_load(x + VEC_LANES * i), part);
    return l->has_scale ? vec_fma(part, w->scale, sum) : part;
}

/* Arranged floats of input j. */
INLINE const float *input_at(const hd_product_input *in, int32_t j)
{
    return (const float *)(const void *)(in->x + (int64_t)j * in->stride);
}

INLINE void load_sums(vec *sum, const float *sums, const int n_x)
{
    for (int j = 0; j < n_x; j++) sum[j] = vec_load(sums + j * VEC_LANES);
}

INLINE void store_sums(float *sums, const vec *sum, const int n_x)
{
    for (int j = 0; j < n_x; j++) vec_store(sums + j * VEC_LANES, sum[j]);
}

#define DOT_ROWS 4 /* at a time */

/* Fetches the same group of a row that comes up.  Rows of few bits are short, and what lies beyond
 * a page the processor does not foresee; longer ones it follows by itself. */
INLINE void fetch_ahead(const layout *l, row_at at, int32_t g, int64_t columns)
{
    if (l->w_bytes > GROUP) return;
    for (int32_t i = 0; i < l->w_bytes; i += 64) vec_prefetch(at.w + w_offset(l, columns) + i);
    if (l->sf_bytes && g % (64 / l->sf_bytes) == 0) vec_prefetch(at.sf + sf_offset(l, columns));
}

/* The products of a group of two rows: an activation is read once for both, because reading comes
 * to a limit before multiplying does. */
INLINE void add_two_rows(const layout *l, const group w[2], const hd_product_input *in, int32_t g,
                         vec (*sum)[4], const int n_x)
{
    vec part[2][4];
#pragma GCC unroll 4
    for (int j = 0; j < n_x; j++)
        for (int r = 0; r < 2; r++) part[r][j] = l->has_scale ? vec_zero() : sum[r][j];
#pragma GCC unroll 8
    for (int i = 0; i < GROUP_VECS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_x; j++) {
            vec const x = vec_keep(vec_load(input_at(in, j) + g * GROUP + VEC_LANES * i));
            for (int r = 0; r < 2; r++) part[r][j] = vec_fma(w[r].v[i], x, part[r][j]);
        }
#pragma GCC unroll 4
    for (int j = 0; j < n_x; j++)
        for (int r = 0; r < 2; r++)
            sum[r][j] = l->has_scale ? vec_fma(part[r][j], w[r].scale, sum[r][j]) : part[r][j];
}

/* All whole groups of n_r rows from r on by n_x inputs: so many that their sums, each a chain of
 * its own, keep the multipliers busy. */
INLINE void dot_groups(const layout *l, const hd_product_part *p, const hd_product_input *in,
                       float *sums, int32_t r, const int n_r, const int n_x)
{
    int64_t const ahead = DOT_ROWS * (int64_t)p->m->k;
    row_at        row[DOT_ROWS];
    vec           sum[DOT_ROWS][4];
    for (int i = 0; i < n_r; i++) row[i] = find_row(l, p, r + i);
    for (int i = 0; i < n_r; i++) load_sums(sum[i], sums + (r + i) * n_x * VEC_LANES, n_x);
    for (int32_t g = 0; g < p->n / GROUP; g++) {
#pragma GCC unroll 4
        for (int i = 0; i + 2 <= n_r; i += 2) {
            row_at const at[2] = {find_group(l, row[i], g), find_group(l, row[i + 1], g)};
            group const  w[2] = {l->decode(at[0]), l->decode(at[1])};
            fetch_ahead(l, at[0], g, ahead);
            fetch_ahead(l, at[1], g, ahead);
            add_two_rows(l, w, in, g, sum + i, n_x);
        }
        if (n_r == 1) {
            row_at const at = find_group(l, row[0], g);
            group const  w = l->decode(at);
            fetch_ahead(l, at, g, ahead);
#pragma GCC unroll 4
            for (int j = 0; j < n_x; j++)
                sum[0][j] = add_products(l, &w, input_at(in, j) + g * GROUP, sum[0][j]);
        }
    }
    for (int i = 0; i < n_r; i++) store_sums(sums + (r + i) * n_x * VEC_LANES, sum[i], n_x);
}

/* What is left of all rows behind the last whole group. */
INLINE void dot_ends(const layout *l, const hd_product_part *p, const hd_product_input *in,
                     float *sums, const int n_x)
{
    int32_t const groups = p->n / GROUP, end = p->n % GROUP;
    for (int32_t r = 0; end > 0 && r < p->n_rows; r++) {
        group const w = decode_end(l, find_row(l, p, r), groups, end);
        vec         sum[4];
        load_sums(sum, sums + r * n_x * VEC_LANES, n_x);
        for (int j = 0; j < n_x; j++)
            sum[j] = add_products(l, &w, input_at(in, j) + groups * GROUP, sum[j]);
        store_sums(sums + r * n_x * VEC_LANES, sum, n_x);
    }
}

INLINE void dot_rows(const layout *l, const hd_product_part *p, const hd_product_input *in,
                     float *sums, const int n_x)
{
    int32_t r = 0;
    for (; r + DOT_ROWS <= p->n_rows; r += DOT_ROWS) dot_groups(l, p, in, sums, r, DOT_ROWS, n_x);
    for (; r < p->n_rows; r++) dot_groups(l, p, in, sums, r, 1, n_x);
    dot_ends(l, p, in, sums, n_x);
}

INLINE void dot_any(const layout *l, const hd_product_part *p, const hd_product_input *in,
                    float *sums)
{
    switch (in->n_x) {
    case 1: dot_rows(l, p, in, sums, 1); break;
    case 2: dot_rows(l, p, in, sums, 2); break;
    case 3: dot_rows(l, p, in, sums, 3); break;
    default: dot_rows(l, p, in, sums, 4); break;
    }
}

#define TILE_GROUP (GROUP + VEC_LANES) /* floats of a group in a tile: the scale has its place */

INLINE void store_group(const layout *l, float *out, group w)
{
    for (int i = 0; i < GROUP_VECS; i++) vec_store(out + VEC_LANES * i, w.v[i]);
    if (l->has_scale) vec_store(out + GROUP, w.scale);
}

INLINE void decode_rows(const layout *l, const hd_product_part *p, void *out, int32_t stride)
{
    int32_t const groups = p->n / GROUP, end = p->n % GROUP;
    for (int32_t r = 0; r < p->n_rows; r++) {
        row_at const row = find_row(l, p, r);
        float *const to = (float *)(void *)((char *)out + (int64_t)r * stride);
        for (int32_t g = 0; g < groups; g++)
            store_group(l, to + g * TILE_GROUP, l->decode(find_group(l, row, g)));
        if (end) store_group(l, to + groups * TILE_GROUP, decode_end(l, row, groups, end));
    }
}

/* Puts the activations of columns [k0, k0 + n) into the order of the weights, a group at a
 * time. */
INLINE void arrange_floats(const hd_product_token *t, int32_t k0, int32_t n, float *out,
                           void (*arrange)(const float *x, float *out))
{
    const float *const x = t->x + k0;
    int32_t            i = 0;
    for (; i + GROUP <= n; i += GROUP) arrange(x + i, out + i);
    if (i == n) return;
    float end[GROUP] = {0};
    memcpy(end, x + i, (size_t)(n - i) * sizeof *x);
    arrange(end, out + i);
}

/* ---- a decoded tile ---- */

/* Of a tile: rows that stand `stride` floats apart, and at most three inputs whose sums are in
 * `sums`, with row_sums floats between rows. */
typedef struct block {
    const float *w, *x[3];
    float       *sums;
    int32_t      stride, row_sums;
} block;

/* Sums of a block in registers. */
typedef struct block_sums {
    vec v[VEC_ROWS][3];
} block_sums;

/* The products of group g, added to s. */
INLINE void multiply_group(const block *b, int32_t g, block_sums *s, const int n_rows,
                           const int n_x)
{
    const float *const w = b->w + g * TILE_GROUP;
#pragma GCC unroll 8
    for (int c = 0; c < GROUP; c += VEC_LANES) {
        vec in[3];
#pragma GCC unroll 3
        for (int j = 0; j < n_x; j++) in[j] = vec_load(b->x[j] + g * GROUP + c);
#pragma GCC unroll 8
        for (int i = 0; i < n_rows; i++) {
            vec const row = vec_keep(vec_load(w + i * b->stride + c));
#pragma GCC unroll 3
            for (int j = 0; j < n_x; j++) s->v[i][j] = vec_fma(row, in[j], s->v[i][j]);
        }
    }
}

/* The same where a scale multiplies the products of the group. */
INLINE void multiply_scaled_group(const block *b, int32_t g, block_sums *s, const int n_rows,
                                  const int n_x)
{
    const float *const scales = b->w + g * TILE_GROUP + GROUP;
    block_sums         part;
#pragma GCC unroll 8
    for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n_x; j++) part.v[i][j] = vec_zero();
    multiply_group(b, g, &part, n_rows, n_x);
#pragma GCC unroll 8
    for (int i = 0; i < n_rows; i++) {
        vec const scale = vec_keep(vec_load(scales + i * b->stride));
#pragma GCC unroll 3
        for (int j = 0; j < n_x; j++) s->v[i][j] = vec_fma(part.v[i][j], scale, s->v[i][j]);
    }
}

INLINE void multiply_block(const layout *l, const block *b, int32_t n_groups, const int n_rows,
                           const int n_x)
{
    block_sums s;
#pragma GCC unroll 8
    for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n_x; j++)
            s.v[i][j] = vec_load(b->sums + i * b->row_sums + j * VEC_LANES);
    for (int32_t g = 0; g < n_groups; g++)
        if (l->has_scale)
            multiply_scaled_group(b, g, &s, n_rows, n_x);
        else
            multiply_group(b, g, &s, n_rows, n_x);
#pragma GCC unroll 8
    for (int i = 0; i < n_rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n_x; j++)
            vec_store(b->sums + i * b->row_sums + j * VEC_LANES, s.v[i][j]);
}

/* Where products of a group wait for a scale, registers hold half as many rows. */
INLINE void multiply_tile(const layout *l, const float *w, int32_t n_groups,
                          const hd_product_input *in, float *sums)
{
    int32_t const width = n_groups * TILE_GROUP, row_sums = in->n_x * VEC_LANES;
    int const     n_rows = l->has_scale ? VEC_ROWS / 2 : VEC_ROWS;
    for (int32_t j = 0; j < in->n_x; j += 3)
        for (int32_t i = 0; i < HD_PRODUCT_ROWS; i += n_rows) {
            int32_t const n_x = in->n_x - j < 3 ? in->n_x - j : 3;
            block b = {w + i * width, {0}, sums + i * row_sums + j * VEC_LANES, width, row_sums};
            for (int32_t k = 0; k < n_x; k++) b.x[k] = input_at(in, j + k);
            switch (n_x) {
            case 1: multiply_block(l, &b, n_groups, n_rows, 1); break;
            case 2: multiply_block(l, &b, n_groups, n_rows, 2); break;
            default: multiply_block(l, &b, n_groups, n_rows, 3); break;
            }
        }
}

INLINE void add_all_lanes(const layout *l, const float *sums, int32_t n, float *out)
{
    add_lanes_times(sums, n, l->unit, out);
}

/* The format's table: its name, whether a matrix has a scale of its own, how it lies in memory and
 * how activations are arranged. */
#define F32_FORMAT(symbol, own_scale, layout, arrange_group)                                       \
    static void arrange(const hd_product_token *t, int32_t k0, int32_t n, void *out)               \
    {                                                                                              \
        arrange_floats(t, k0, n, (float *)out, arrange_group);                                     \
    }                                                                                              \
    static void decode_part(const hd_product_part *p, void *out, int32_t stride)                   \
    {                                                                                              \
        decode_rows(&(layout), p, out, stride);                                                    \
    }                                                                                              \
    static void dot(const hd_product_part *p, const hd_product_input *in, float *sums)             \
    {                                                                                              \
        dot_any(&(layout), p, in, sums);                                                           \
    }                                                                                              \
    static void multiply(const void *w, int32_t n_groups, const hd_product_input *in, float *sums) \
    {                                                                                              \
        multiply_tile(&(layout), (const float *)w, n_groups, in, sums);                            \
    }                                                                                              \
    static void join_lanes(const float *sums, int32_t n, float *out)                               \
    {                                                                                              \
        add_all_lanes(&(layout), sums, n, out);                                                    \
    }                                                                                              \
    const hd_product_format symbol = {.lanes = VEC_LANES,                                          \
                                      .group = GROUP,                                              \
                                      .x_bytes = GROUP * (int32_t)sizeof(float),                   \
                                      .w_bytes = TILE_GROUP * (int32_t)sizeof(float),              \
                                      .has_scale = (own_scale),                                    \
                                      .arrange = arrange,                                          \
                                      .decode = decode_part,                                       \
                                      .dot = dot,                                                  \
                                      .multiply = multiply,                                        \
                                      .add_lanes = join_lanes}

#endif
