#ifndef HD_MODEL_MODEL_H
#define HD_MODEL_MODEL_H

#include "kv/cache.h"
#include "model/plan.h"
#include "ops/sample.h"
#include "weights/weights.h"

/* DeepSeek-V4 as straight-line code that fills plans: one function a part of the model, in the
 * order in which a token flows (embed, then for each layer attention and experts inside mHC,
 * then the head; the MTP block behind it). */

HD_BEGIN_C

/* Buffers of a pass that live longer than one layer, at fixed addresses. */
typedef struct hd_pass {
    int32_t *token;   /* [t] ids                                            */
    int32_t *pos;     /* [t] place in the sequence                          */
    int32_t *seq;     /* [t] which sequence                                 */
    int32_t *next;    /* [t] ids one place later, for the MTP block         */
    int32_t *wanted;  /* [t] rows whose logits are wanted, ascending        */
    float   *streams; /* [t, m, d] residual streams                         */
    float   *logits;  /* [t, vocab] one row for each that is wanted         */
    uint8_t *asks;    /* [t] hd_sample_ask: how a token is drawn from each  */
    int32_t *drawn;   /* [t] ids                                            */
    float   *logprob; /* [t] theirs; stands behind drawn                    */
} hd_pass;

typedef struct hd_model {
    const hd_config  *config;  /* borrowed */
    const hd_weights *weights; /* borrowed */
    hd_act            act;     /* never HD_ACT_DEFAULT */
    hd_cache_shape    shape;
    hd_layer_cache   *caches;    /* [n_layers + 1], the last one is the MTP block's */
    float            *freq;      /* [rope_dim / 2] radians a position, window-only layers */
    float            *freq_yarn; /* the same for layers with a compressor                 */
} hd_model;

/* What a checkpoint was made for: W4A4 for NVFP4 with input scales, the released rounding for
 * FP8 and MXFP4, none for plain floats. */
hd_act hd_model_default_act(const hd_weights *w);

/* Tables that no pass changes, from `arena`: RoPE frequencies. */
void hd_model_bind_tables(hd_model *m, hd_arena *arena);
/* Caches of all layers, from `arena`; m->caches itself must have room. */
void hd_model_bind_caches(hd_model *m, hd_arena *arena);
/* Bytes of KV that one more token of context costs, an average over whole pages. */
double hd_model_token_bytes(const hd_model *m);
/* Bytes of the pages that the rows of n tokens of one sequence stand in. */
int64_t hd_model_rows_bytes(const hd_model *m, int32_t n);
/* Buffers of a pass of at most t tokens, from `arena`. */
void hd_model_bind_pass(hd_pass *b, const hd_model *m, int32_t t, hd_arena *arena);

/* Most steps that the two plans below may have together. */
int32_t hd_model_max_steps(const hd_model *m);
/* Appends a forward pass over t tokens, of any sequences, and the head for n_wanted of them:
 * those in b->wanted, which is not read when it is all of them. */
void hd_model_plan(hd_plan *p, const hd_model *m, const hd_pass *b, int32_t t, int32_t n_wanted);
/* Appends the MTP block over the t tokens of the pass before; its logits replace those in
 * b->logits, all rows. */
void hd_model_plan_mtp(hd_plan *p, const hd_model *m, const hd_pass *b, int32_t t);
/* Draws from the first t rows of b->logits as b->asks say: b->drawn, b->logprob.
 * returns  HD_ERR_UNSUPPORTED when no kernel takes them, or what the kernel returns */
hd_status hd_model_draw(const hd_model *m, const hd_pass *b, int32_t t, const hd_kernel_choice *c,
                        hd_stream *stream, hd_error *err);

HD_END_C
#endif
