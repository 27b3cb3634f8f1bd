#ifndef HD_WEIGHTS_WEIGHTS_H
#define HD_WEIGHTS_WEIGHTS_H

#include "base/device.h"
#include "checkpoint/checkpoint.h"
#include "quant/matrix.h"

/* The weights of a model under the names that the forward pass uses, with the format of each
 * matrix decided from the tensors found beside it, never from the config.
 *
 * Every tensor of the checkpoint is ticked exactly once; what is missing, left over, of
 * another dtype or shape is one error that names tensor, file, found and wanted.
 * Matrices stay where the file is mapped; small vectors become f32 in the weights' own pool. */

HD_BEGIN_C

/* Projections of all routed experts of a layer: [e] matrices of one format and shape, e for each
 * projection. */
typedef struct hd_experts {
    hd_format          format;
    int32_t            e, n, k;
    const void *const *w;           /* [e] */
    const void *const *sf;          /* [e]; NULL for F32 and BF16 */
    const float       *scale;       /* [e] */
    const float       *input_scale; /* [e] all 0 when the checkpoint has none */
} hd_experts;

typedef struct hd_hc_weights {
    const float *fn, *base, *scale; /* shapes in ops/hc_pre.h, ops/hc_head.h */
} hd_hc_weights;

typedef struct hd_compressor_weights {
    hd_matrix    wkv, wgate; /* [width, d_model]; width 2 * head for ratio 4, head for 128 */
    const float *ape;        /* [ratio, width] */
    const float *norm;       /* [head] */
} hd_compressor_weights;

typedef struct hd_indexer_weights {
    hd_matrix             wq_b;         /* [index_heads * index_dim, q_rank] */
    hd_matrix             weights_proj; /* [index_heads, d_model]            */
    hd_compressor_weights compressor;   /* head = index_dim                  */
} hd_indexer_weights;

typedef struct hd_layer_weights {
    int32_t               ratio; /* 0: window only, 4: with indexer, 128 */
    hd_hc_weights         hc_attn, hc_ffn;
    const float          *attn_norm, *ffn_norm; /* [d_model]  */
    const float          *q_norm;               /* [q_rank]   */
    const float          *kv_norm;              /* [head_dim] */
    const float          *sink;                 /* [n_heads]  */
    hd_matrix             wq_a, wq_b, wkv, wo_a, wo_b;
    hd_compressor_weights compressor; /* ratio > 0  */
    hd_indexer_weights    indexer;    /* ratio == 4 */
    hd_matrix             gate;       /* [n_experts, d_model] */
    const float          *gate_bias;  /* [n_experts]; NULL in hash layers */
    const int32_t        *tid2eid;    /* [n_vocab, n_experts_used]; hash layers only */
    hd_matrix             shared_w1, shared_w3, shared_w2;
    hd_experts            w1_w3; /* gate of all experts, then up of all */
    hd_experts            w2;    /* down */
} hd_layer_weights;

typedef struct hd_mtp_weights {
    hd_layer_weights block;
    hd_matrix        e_proj, h_proj;
    const float     *enorm, *hnorm, *norm;
    hd_hc_weights    hc_head;
} hd_mtp_weights;

typedef struct hd_weights {
    const hd_config  *config; /* borrowed from the checkpoint */
    hd_matrix         embed, head;
    const float      *norm;
    hd_hc_weights     hc_head;
    hd_layer_weights *layers; /* [n_layers] */
    bool              has_mtp;
    bool              has_dspark; /* mtp.* is a DSpark drafter, which is left aside */
    hd_mtp_weights    mtp;
    int32_t           n_matrices[HD_N_FORMATS]; /* by format, experts counted singly        */
    int32_t           n_nvfp4_experts;          /* NVFP4 matrices among routed experts      */
    int64_t           bytes;                    /* of all tensors used                      */
    char              family[128];              /* "NVFP4 1216, BF16 24": one line          */
    hd_pool           pool;
} hd_weights;

/* Binds all tensors of `ck`, which must stay open while the weights live.
 * is_trusted  block scales, an eighth of a four-bit checkpoint, are not read; all else is checked
 * log      may be NULL: progress, and what is left aside (once each)
 * owns     *out is the caller's, closed by hd_weights_close (NULL is fine)
 * returns  HD_ERR_FORMAT, HD_ERR_UNSUPPORTED, HD_ERR_MEMORY */
hd_status hd_weights_load(hd_weights **out, hd_checkpoint *ck, bool is_trusted, const hd_log *log,
                          hd_error *err);
void      hd_weights_close(hd_weights *w);

typedef struct hd_upload {
    hd_device *device;
    hd_arena  *arena;
    bool       has_tiles; /* four-bit matrices that consist of whole tiles become tiles */
} hd_upload;

/* Copies all weights to an accelerator and lets every pointer lead there: first with an arena
 * that only measures, then bound to its memory.  The checkpoint may go afterwards.
 * returns  HD_ERR_DEVICE when a copy fails, HD_ERR_MEMORY when a matrix has no room to be moved in
 */
hd_status hd_weights_upload(hd_weights *w, const hd_upload *to, const hd_log *log, hd_error *err);

HD_END_C
#endif
