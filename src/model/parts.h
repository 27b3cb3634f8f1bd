#ifndef HD_MODEL_PARTS_H
#define HD_MODEL_PARTS_H

#include "model/model.h"
#include "ops/head_rows.h"
#include "ops/rmsnorm_nvfp4.h"

/* The parts of a forward pass, shared inside model/.  Each appends its steps to p. */

HD_BEGIN_C

/* What every part needs: the plan, the model, the pass and its size. */
typedef struct hd_site {
    hd_plan                *p;
    const hd_model         *m;
    const hd_pass          *b;
    const hd_layer_weights *w;
    const hd_layer_cache   *cache;
    int32_t                 t;
} hd_site;

/* Whether the released code rounds in front of a matrix once it is quantized. */
typedef enum hd_input { HD_INPUT_PLAIN, HD_INPUT_ROUNDED } hd_input;

/* Activations in front of a matrix: floats, and the codes that they stand for where they were
 * rounded to NVFP4 and a kernel may multiply codes. */
typedef struct hd_rows_in {
    const float   *x;
    bool           has_codes;
    const uint8_t *codes, *sf;
    const float   *scale;
} hd_rows_in;
/* Whether the activation mode rounds what a matrix of this format reads to NVFP4. */
bool hd_is_rounded_for(const hd_site *s, hd_format f);
/* Makes room for rows rounded to NVFP4, of a's dimensions. */
hd_rows_in hd_make_nvfp4_room(const hd_site *s, hd_quant_nvfp4_args *a);
/* Adds the step that rounds a.x to NVFP4, in rows that this makes room for.  a holds what is read,
 * the dimensions, and whether codes are made as well. */
hd_rows_in hd_add_nvfp4_rounding(const hd_site *s, const char *label, hd_quant_nvfp4_args a);
/* Whether a product, with and without codes in its arguments, runs different kernels: only then
 * is it worth making them. */
bool hd_codes_matter(const hd_site *s, const hd_op *op, const void *plain, const void *coded);
/* The same of one matrix and all rows of the pass. */
bool hd_wants_codes(const hd_site *s, const hd_matrix *w);

/* Rows [t, d], normalised or gated, and what the same step rounded them to for matrices that read
 * them. */
typedef struct hd_normed {
    const float     *x;
    int32_t          n;                      /* readers that it was rounded for */
    const hd_matrix *reader[HD_NORM_COPIES]; /* borrowed */
    hd_rows_in       in[HD_NORM_COPIES];
} hd_normed;

/* RMSNorm of rows whose first readers may be matrices that want them rounded. */
typedef struct hd_norm {
    const char      *label;
    const float     *w; /* [d] */
    float           *x; /* [t, d], changed in place where nobody wants it rounded */
    int32_t          d;
    const hd_matrix *readers[HD_NORM_COPIES]; /* borrowed; behind the last one NULL */
} hd_norm;
/* One step for the norm and the roundings to NVFP4 that the activation mode asks for. */
hd_normed hd_add_norm_for(const hd_site *s, const hd_norm *n);

/* y [t, w->n] = W round(x), with the rounding that the activation mode asks for in front
 * of this matrix; `labels` are the step's and the rounding step's. */
typedef struct hd_linear {
    const char      *label, *round_label;
    const hd_matrix *w;
    const float     *x;      /* [t, groups * w->k] */
    const hd_normed *from;   /* x is its rows, which may be there rounded for w; or NULL */
    float           *y;      /* [t, w->n]; NULL: room from the act arena */
    int32_t          t;      /* rows */
    int32_t          groups; /* side by side; 0 for one matrix */
    hd_input         input;
} hd_linear;
float *hd_add_linear(const hd_site *s, const hd_linear *l);
#define HD_LINEAR(site, name, ...) \
    hd_add_linear((site), &(hd_linear){.label = (name), .round_label = name "_in", __VA_ARGS__})

/* RMSNorm of rows wide d, in place; w NULL for none. */
void hd_add_norm(const hd_site *s, const char *label, float *x, const float *w, int32_t rows,
                 int32_t d);
/* Rows of h heads x [t, h, d], for a step that turns them by the tokens' positions. */
hd_head_rows_args hd_head_rows_of(const hd_site *s, float *x, int32_t h, int32_t d);
/* Whether the indexer's queries and keys go through a Hadamard transform: the released code does
 * so in front of its FP4, and keys that are kept in FP4 need it in every mode.  Dot products do not
 * change by it. */
bool hd_index_is_transformed(const hd_site *s);

/* Keys of the pass's tokens, or of groups of them: norm, RoPE and into the cache.  Rounded in
 * between, when the mode asks for it and the format that they are kept in does not round by itself:
 * a row is rounded once. */
typedef struct hd_keys {
    const char          *label, *round_label, *store_label; /* the latter when they are rounded */
    float               *x;                                 /* [t, pool->layout.d]              */
    const float         *norm;
    const hd_cache_pool *pool;
    int32_t              group; /* tokens that a row stands for */
    bool                 is_index;
} hd_keys;
void hd_add_keys(const hd_site *s, const hd_keys *k);

/* Streams -> x -> block -> streams: opens with hc_pre and the norm, closes with hc_post. */
typedef struct hd_mixed {
    hd_normed in; /* [t, d] the block's input */
    float    *post, *comb;
} hd_mixed;
/* norm: but for x and d, which this sets. */
hd_mixed hd_add_hc_pre(const hd_site *s, const char *label, const hd_hc_weights *w, hd_norm norm);
void     hd_add_hc_post(const hd_site *s, const char *label, const hd_mixed *mixed, const float *y);

/* Compressed rows of the pass's tokens into `rows`; head wide, for attention or the indexer. */
typedef struct hd_compression {
    const hd_compressor_weights *w;
    const hd_cache_pool         *kv, *gate, *rows;
    const float                 *x; /* [t, d] */
    int32_t                      head;
    bool                         is_index;
} hd_compression;
void hd_add_compressor(const hd_site *s, const hd_compression *c);

/* Rows that each token attends to, [t, index_topk]. */
int32_t *hd_add_indexer(const hd_site *s, const float *x, const hd_normed *q_latent);
float   *hd_add_attention(const hd_site *s, const hd_normed *in); /* [t, d] -> [t, d] */
float   *hd_add_moe(const hd_site *s, const hd_normed *in);       /* [t, d] -> [t, d] */
/* One layer over s->b->streams. */
void hd_add_block(const hd_site *s);
/* hc_head, norm and the output matrix for n rows of streams. */
typedef struct hd_head {
    const hd_hc_weights *hc;
    const float         *norm;
    const float         *streams;
    int32_t              n;
} hd_head;
void hd_add_head(const hd_site *s, const hd_head *h);

/* Frequencies of the site's layer. */
const float *hd_site_freq(const hd_site *s);

HD_END_C
#endif
