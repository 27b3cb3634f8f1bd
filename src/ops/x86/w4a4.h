#ifndef HD_OPS_X86_W4A4_H
#define HD_OPS_X86_W4A4_H

#include <stdalign.h>
#include <string.h>

#include "ops/x86/lanes.h"
#include "ops/x86/product.h"
#include "quant/fp4.h"
#ifdef __AVX512F__
#include "ops/x86/codes_avx512.h"
#else
#include "ops/x86/codes_avx2.h"
#endif

/* NVFP4 weights by NVFP4 activations, for any vector width; inlined into the format's file.
 * Doubled, a code is a whole number of at most 12, so the products of a block are summed exactly
 * in integers.  What is left for floats is one product for each lane: the sum, the weights' scale
 * and the activations', of 10, 4 and 4 significant bits, so that it is exact too; only adding the
 * products up rounds.
 *
 * A group has a block for each lane, in the order of codes_spread.  The instructions want one
 * factor without a sign, so a weight's is BIAS too large, and the sums of an input begin at -BIAS
 * times its own codes. */

#define INLINE       static inline __attribute__((always_inline))
#define GROUP        (HD_NVFP4_BLOCK * VEC_LANES) /* columns                       */
#define CODE_BYTES   (GROUP / 2)
#define WHOLE_BYTES  (GROUP / 4) /* of a fourth of the codes spread */
#define GROUP_SCALES VEC_LANES
#define BIAS         12
#define DOUBLED(b)                                                                              \
    {                                                                                           \
        (b), (b) + 1, (b) + 2, (b) + 3, (b) + 4, (b) + 6, (b) + 8, (b) + 12, (b), (b)-1, (b)-2, \
            (b)-3, (b)-4, (b)-6, (b)-8, (b)-12                                                  \
    }

static const int8_t doubled[16] = DOUBLED(0), biased[16] = DOUBLED(BIAS);

/* Activations; the scale of a block makes good what others leave out: 2^8 of the weights' and
 * that codes are doubled. */
typedef struct token_group {
    alignas(WHOLE_BYTES) int8_t codes[4][WHOLE_BYTES];
    int32_t start[VEC_LANES];
    float   scale[VEC_LANES];
} token_group;

/* Weights of a decoded tile. */
typedef struct weight_group {
    alignas(WHOLE_BYTES) uint8_t codes[4][WHOLE_BYTES];
    float scale[VEC_LANES]; /* times 2^-8 */
} weight_group;

/* The same in registers. */
typedef struct weights {
    whole codes[4];
    vec   scale;
} weights;

/* ---- where codes and scales are ---- */

typedef struct code_row {
    const uint8_t *codes, *sf;
} code_row;

INLINE code_row find_row(const hd_product_part *p, int32_t r)
{
    int64_t const at = (p->row + r) * p->m->k + p->k0;
    return (code_row){(const uint8_t *)p->m->w + at / 2,
                      (const uint8_t *)p->m->sf + at / HD_NVFP4_BLOCK};
}

INLINE code_row find_group(code_row row, int32_t g)
{
    return (code_row){row.codes + (int64_t)g * CODE_BYTES, row.sf + (int64_t)g * GROUP_SCALES};
}

/* The last n columns of a row, filled up with zeros. */
typedef struct row_end {
    uint8_t codes[CODE_BYTES], sf[GROUP_SCALES];
} row_end;

INLINE code_row copy_end(code_row at, int32_t n, row_end *end)
{
    memset(end, 0, sizeof *end);
    memcpy(end->codes, at.codes, (size_t)n / 2);
    memcpy(end->sf, at.sf, (size_t)n / HD_NVFP4_BLOCK);
    return (code_row){end->codes, end->sf};
}

/* ---- activations ---- */

INLINE void arrange_group(code_row at, token_group *out)
{
    whole const one = whole_bytes(BIAS), bias[4] = {one, one, one, one};
    whole       codes[4];
    codes_spread(at.codes, doubled, codes);
    for (int i = 0; i < 4; i++) whole_store(out->codes[i], codes[i]);
    whole const sums = codes_dot(whole_zero(), bias, codes);
    whole_store(out->start, whole_subtract(whole_zero(), sums));
    vec_store(out->scale, vec_mul(block_scales_or_nan(at.sf), vec_all(0x1p14f)));
}

static inline void arrange(const hd_product_token *t, int32_t k0, int32_t n, void *out)
{
    token_group *const to = (token_group *)out;
    code_row const     row = {t->codes + k0 / 2, t->sf + k0 / HD_NVFP4_BLOCK};
    row_end            end;
    int32_t            g = 0;
    for (; (g + 1) * GROUP <= n; g++) arrange_group(find_group(row, g), to + g);
    if (n % GROUP) arrange_group(copy_end(find_group(row, g), n % GROUP, &end), to + g);
}

INLINE const token_group *input_at(const hd_product_input *in, int32_t j)
{
    return (const token_group *)(const void *)(in->x + (int64_t)j * in->stride);
}

/* ---- products ---- */

INLINE weights read_weights(code_row at)
{
    weights w;
    codes_spread(at.codes, biased, w.codes);
    w.scale = block_scales(at.sf);
    return w;
}

/* A group of activations in registers. */
typedef struct inputs {
    whole codes[4], start;
    vec   scale;
} inputs;

INLINE inputs load_inputs(const token_group *x)
{
    return (inputs){{whole_keep(whole_load(x->codes[0])), whole_keep(whole_load(x->codes[1])),
                     whole_keep(whole_load(x->codes[2])), whole_keep(whole_load(x->codes[3]))},
                    whole_load(x->start),
                    vec_keep(vec_load(x->scale))};
}

INLINE vec add_products(const weights *w, const inputs *x, vec sum)
{
    whole const products = codes_dot(x->start, w->codes, x->codes);
    return vec_fma(whole_to_f32(products), vec_mul(w->scale, x->scale), sum);
}

INLINE void load_sums(vec *sum, const float *sums, const int n_x)
{
#pragma GCC unroll 6
    for (int j = 0; j < n_x; j++) sum[j] = vec_load(sums + j * VEC_LANES);
}

INLINE void store_sums(float *sums, const vec *sum, const int n_x)
{
#pragma GCC unroll 6
    for (int j = 0; j < n_x; j++) vec_store(sums + j * VEC_LANES, sum[j]);
}

#define DOT_ROWS 4 /* at a time */

/* Group g of one or two rows by n_x inputs: reading an input is what limits this, and is done once
 * for both. */
INLINE void dot_pair(const code_row *row, int64_t ahead, const hd_product_input *in, int32_t g,
                     vec sum[][4], const int n_r, const int n_x)
{
    weights w[2];
#pragma GCC unroll 2
    for (int i = 0; i < n_r; i++) {
        code_row const at = find_group(row[i], g);
        w[i] = read_weights(at);
        for (int b = 0; b < CODE_BYTES; b += 64) vec_prefetch(at.codes + ahead / 2 + b);
        if (g % (64 / GROUP_SCALES) == 0) vec_prefetch(at.sf + ahead / HD_NVFP4_BLOCK);
    }
#pragma GCC unroll 4
    for (int j = 0; j < n_x; j++) {
        inputs const x = load_inputs(input_at(in, j) + g);
#pragma GCC unroll 2
        for (int i = 0; i < n_r; i++) sum[i][j] = add_products(&w[i], &x, sum[i][j]);
    }
}

/* All whole groups of n_r rows by n_x inputs, straight from memory.  The next rows are fetched
 * meanwhile: rows are short, and what follows a page is not foreseen by the processor. */
INLINE void dot_groups(const hd_product_part *p, const hd_product_input *in, float *sums, int32_t r,
                       const int n_r, const int n_x)
{
    int64_t const ahead = (int64_t)DOT_ROWS * p->m->k;
    code_row      row[DOT_ROWS];
    vec           sum[DOT_ROWS][4];
    for (int i = 0; i < n_r; i++) row[i] = find_row(p, r + i);
    for (int i = 0; i < n_r; i++) load_sums(sum[i], sums + (r + i) * n_x * VEC_LANES, n_x);
    for (int32_t g = 0; g < p->n / GROUP; g++)
#pragma GCC unroll 2
        for (int i = 0; i < n_r; i += 2)
            dot_pair(row + i, ahead, in, g, sum + i, n_r < 2 ? 1 : 2, n_x);
    for (int i = 0; i < n_r; i++) store_sums(sums + (r + i) * n_x * VEC_LANES, sum[i], n_x);
}

/* What is left of all rows behind the last whole group. */
INLINE void dot_ends(const hd_product_part *p, const hd_product_input *in, float *sums)
{
    int32_t const g = p->n / GROUP, n = p->n % GROUP;
    for (int32_t r = 0; n > 0 && r < p->n_rows; r++) {
        row_end       end;
        weights const w = read_weights(copy_end(find_group(find_row(p, r), g), n, &end));
        for (int j = 0; j < in->n_x; j++) {
            float *const sum = sums + (r * in->n_x + j) * VEC_LANES;
            inputs const x = load_inputs(input_at(in, j) + g);
            vec_store(sum, add_products(&w, &x, vec_load(sum)));
        }
    }
}

INLINE void dot_rows(const hd_product_part *p, const hd_product_input *in, float *sums,
                     const int n_x)
{
    int32_t r = 0;
    for (; r + DOT_ROWS <= p->n_rows; r += DOT_ROWS) dot_groups(p, in, sums, r, DOT_ROWS, n_x);
    for (; r < p->n_rows; r++) dot_groups(p, in, sums, r, 1, n_x);
    dot_ends(p, in, sums);
}

static inline void dot(const hd_product_part *p, const hd_product_input *in, float *sums)
{
    switch (in->n_x) {
    case 1: dot_rows(p, in, sums, 1); break;
    case 2: dot_rows(p, in, sums, 2); break;
    case 3: dot_rows(p, in, sums, 3); break;
    default: dot_rows(p, in, sums, 4); break;
    }
}

/* ---- a decoded tile ---- */

INLINE void store_group(weight_group *out, weights w)
{
    for (int i = 0; i < 4; i++) whole_store(out->codes[i], w.codes[i]);
    vec_store(out->scale, w.scale);
}

static inline void decode_part(const hd_product_part *p, void *out, int32_t stride)
{
    int32_t const groups = p->n / GROUP, n = p->n % GROUP;
    for (int32_t r = 0; r < p->n_rows; r++) {
        weight_group *const to = (weight_group *)(void *)((char *)out + (int64_t)r * stride);
        code_row const      row = find_row(p, r);
        row_end             end;
        for (int32_t g = 0; g < groups; g++) store_group(to + g, read_weights(find_group(row, g)));
        if (n) store_group(to + groups, read_weights(copy_end(find_group(row, groups), n, &end)));
    }
}

INLINE weights load_group(const weight_group *w)
{
    return (weights){{whole_keep(whole_load(w->codes[0])), whole_keep(whole_load(w->codes[1])),
                      whole_keep(whole_load(w->codes[2])), whole_keep(whole_load(w->codes[3]))},
                     vec_keep(vec_load(w->scale))};
}

/* CODE_ROWS rows by inputs [j0, j0 + n_x), in registers. */
INLINE void multiply_block(const weight_group *w, int32_t n_groups, const hd_product_input *in,
                           int32_t j0, float *sums, const int n_x)
{
    int32_t const row_sums = in->n_x * VEC_LANES;
    vec           sum[CODE_ROWS][CODE_INPUTS];
#pragma GCC unroll 2
    for (int i = 0; i < CODE_ROWS; i++) load_sums(sum[i], sums + i * row_sums, n_x);
    for (int32_t g = 0; g < n_groups; g++) {
        weights row[CODE_ROWS];
#pragma GCC unroll 2
        for (int i = 0; i < CODE_ROWS; i++) row[i] = load_group(w + (int64_t)i * n_groups + g);
#pragma GCC unroll 6
        for (int j = 0; j < n_x; j++) {
            inputs const x = load_inputs(input_at(in, j0 + j) + g);
#pragma GCC unroll 2
            for (int i = 0; i < CODE_ROWS; i++) sum[i][j] = add_products(&row[i], &x, sum[i][j]);
        }
    }
#pragma GCC unroll 2
    for (int i = 0; i < CODE_ROWS; i++) store_sums(sums + i * row_sums, sum[i], n_x);
}

static inline void multiply_tile(const void *w, int32_t n_groups, const hd_product_input *in,
                                 float *sums)
{
    for (int32_t j = 0, n_x; j < in->n_x; j += n_x) {
        int32_t const left = in->n_x - j;
        n_x = left >= CODE_INPUTS ? CODE_INPUTS : left >= 2 ? 2 : 1;
        for (int32_t i = 0; i < HD_PRODUCT_ROWS; i += CODE_ROWS) {
            const weight_group *const rows = (const weight_group *)w + (int64_t)i * n_groups;
            float *const              to = sums + ((int64_t)i * in->n_x + j) * VEC_LANES;
            switch (n_x) {
            case 1: multiply_block(rows, n_groups, in, j, to, 1); break;
            case 2: multiply_block(rows, n_groups, in, j, to, 2); break;
            default: multiply_block(rows, n_groups, in, j, to, CODE_INPUTS); break;
            }
        }
    }
}

static inline void add_all_lanes(const float *sums, int32_t n, float *out)
{
    add_lanes_times(sums, n, 1, out);
}

#define W4A4_FORMAT(symbol)                                            \
    const hd_product_format symbol = {.lanes = VEC_LANES,              \
                                      .group = GROUP,                  \
                                      .x_bytes = sizeof(token_group),  \
                                      .w_bytes = sizeof(weight_group), \
                                      .has_scale = true,               \
                                      .is_coded = true,                \
                                      .arrange = arrange,              \
                                      .decode = decode_part,           \
                                      .dot = dot,                      \
                                      .multiply = multiply_tile,       \
                                      .add_lanes = add_all_lanes}

#endif
