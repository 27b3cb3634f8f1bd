#ifndef HD_OPS_X86_PRODUCT_H
#define HD_OPS_X86_PRODUCT_H

#include "ops/gemm.h"
#include "ops/grouped_gemm.h"

/* Matrix products for x86: the loops and threads that gemm_<format> and grouped_gemm_<format>
 * share, for any vector width.  A format decodes its weights to f32, or to whole numbers that
 * activations on a grid multiply exactly, in an order that suits it, and puts the activations
 * into the same order.
 *
 * The sum of an output is kept in as many parts as a vector has lanes, over rising k, and the
 * parts are added at the end.  Few tokens (dot) take the weights straight from memory, many
 * (multiply) from a tile that was decoded once; both add the same terms in the same order, so a
 * row of y does not depend on what else is in the batch. */

HD_BEGIN_C

#define HD_PRODUCT_DOT  4 /* tokens up to which weights are not worth a tile                 */
#define HD_PRODUCT_ROWS 8 /* rows of a decoded tile                                          */

typedef struct hd_product_matrix {
    const void *w, *sf; /* layouts in ops/gemm.h */
    int32_t     k;
    float       scale; /* of every output */
} hd_product_matrix;

/* Rows [row, row + n_rows) of a matrix, columns [k0, k0 + n); k0 is a multiple of 128. */
typedef struct hd_product_part {
    const hd_product_matrix *m;
    int64_t                  row;
    int32_t                  n_rows, k0, n;
} hd_product_part;

/* The activations of one token: as floats, or as the codes of ops/gemm.h. */
typedef struct hd_product_token {
    const float   *x;          /* [k]            */
    const uint8_t *codes, *sf; /* [k/2], [k/16] */
    float          scale;      /* of all codes; 1 for floats */
} hd_product_token;

/* Arranged activations: n_x runs that stand `stride` bytes apart. */
typedef struct hd_product_input {
    const char *x;
    int32_t     n_x, stride;
} hd_product_input;

/* Columns come in groups, the last one filled up with zeros; sums are [n_rows, n_x, lanes] and
 * grow. */
typedef struct hd_product_format {
    int32_t lanes;
    int32_t group;            /* columns                                    */
    int32_t x_bytes, w_bytes; /* of a group arranged, and decoded           */
    bool    has_scale;        /* one for the matrix, from the arguments     */
    bool    is_coded;         /* reads the codes of activations             */
    /* columns [k0, k0 + n) */
    void (*arrange)(const hd_product_token *t, int32_t k0, int32_t n, void *out);
    void (*decode)(const hd_product_part *p, void *out, int32_t stride); /* row by row, in bytes */
    void (*dot)(const hd_product_part *p, const hd_product_input *in, float *sums);
    /* w [HD_PRODUCT_ROWS, n_groups] decoded; all rows are multiplied */
    void (*multiply)(const void *w, int32_t n_groups, const hd_product_input *in, float *sums);
    void (*add_lanes)(const float *sums, int32_t n, float *out); /* of each of n sums */
} hd_product_format;

extern const hd_product_format hd_product_f32_avx2, hd_product_bf16_avx2, hd_product_fp8_avx2,
    hd_product_mxfp4_avx2, hd_product_nvfp4_avx2, hd_product_nvfp4_w4a4_avx2;
extern const hd_product_format hd_product_f32_avx512, hd_product_bf16_avx512, hd_product_fp8_avx512,
    hd_product_mxfp4_avx512, hd_product_nvfp4_avx512, hd_product_nvfp4_w4a4_avx512;

/* The whole ops. */
hd_status hd_product_gemm(const hd_gemm_args *a, hd_stream *stream, const hd_product_format *f);
/* The same with rows of y that stand y_width apart. */
hd_status hd_product_gemm_into(const hd_gemm_args *a, int64_t y_width, hd_stream *stream,
                               const hd_product_format *f);
hd_status hd_product_grouped(const hd_grouped_gemm_args *a, hd_stream *stream,
                             const hd_product_format *f);

HD_END_C
#endif
