#ifndef HD_CHECKPOINT_CONFIG_H
#define HD_CHECKPOINT_CONFIG_H

#include "base/status.h"

/* config.json and generation_config.json of a model folder, both key families, as one plain
 * struct.  Every field is in range once hd_config_parse has returned HD_OK. */

HD_BEGIN_C

#define HD_MAX_LAYERS 1024
#define HD_MAX_MTP    8
#define HD_MAX_EOS    8

typedef enum hd_scoring {
    HD_SCORING_SQRTSOFTPLUS,
    HD_SCORING_SIGMOID,
    HD_SCORING_SOFTMAX
} hd_scoring;

/* What the file says about its numbers, for messages only: it may lie, so formats are decided
 * tensor by tensor.  Empty where the file says nothing; cut where it says too much. */
typedef struct hd_quant_hint {
    char method[32];       /* "fp8", "modelopt", "compressed-tensors" */
    char algo[32];         /* "NVFP4", "MIXED_PRECISION"              */
    char moe_algo[32];     /* "NVFP4"                                 */
    char expert_dtype[16]; /* "fp4", "fp8"                            */
    char scale_fmt[16];    /* "ue8m0"                                 */
} hd_quant_hint;

typedef struct hd_yarn {
    double factor; /* 1: no YaRN                           */
    double orig;   /* positions the base model was made for */
    double beta_fast, beta_slow;
} hd_yarn;

typedef struct hd_config {
    int32_t       n_layers, d_model, n_vocab;
    int32_t       n_heads, head_dim;
    int32_t       rope_dim; /* the last rope_dim of head_dim and of index_dim; even */
    int32_t       q_rank;
    int32_t       o_groups, o_rank; /* o_groups divides n_heads */
    int32_t       n_experts, n_experts_used, d_expert;
    int32_t       n_hash_layers; /* the first ones, routed by token id */
    int32_t       index_heads, index_dim, index_topk;
    int32_t       window;            /* tokens a query sees uncompressed, its own included */
    int32_t       hc_mult, hc_iters; /* residual streams; Sinkhorn iterations              */
    int32_t       max_positions;
    int32_t       n_mtp; /* blocks promised; the tensors may not be there */
    int32_t       ratios[HD_MAX_LAYERS + HD_MAX_MTP]; /* [n_layers + n_mtp] 0, 4 or 128 */
    float         rms_eps, hc_eps;
    float         routed_scale;
    float         swiglu_limit; /* INFINITY: no clamp */
    hd_scoring    scoring;
    double        rope_theta, compress_theta; /* of window-only layers; of layers that compress */
    hd_yarn       yarn;                       /* of layers that compress */
    int32_t       bos;
    int32_t       n_eos;
    int32_t       eos[HD_MAX_EOS]; /* [n_eos], at least one */
    bool          tie_embeddings;  /* claimed; published files claim it wrongly */
    bool          has_dspark;      /* its mtp.* blocks are a DSpark drafter */
    hd_dialect    dialect;         /* a guess: releases with DSpark speak GA */
    hd_quant_hint quant;
} hd_config;

/* Parses the text of a config.json; `what` names it in messages.
 * returns  HD_ERR_FORMAT naming the key, HD_ERR_UNSUPPORTED for another architecture */
hd_status hd_config_parse(hd_config *out, const char *json, size_t bytes, const char *what,
                          hd_error *err);
/* Takes the end-of-sequence ids of a generation_config.json, if it has any. */
hd_status hd_config_parse_generation(hd_config *c, const char *json, size_t bytes, const char *what,
                                     hd_error *err);
/* Both files of a folder; generation_config.json may be absent.  Adds HD_ERR_IO. */
hd_status hd_config_read(hd_config *out, const char *folder, hd_error *err);

const char *hd_scoring_name(hd_scoring s); /* as in config.json; never NULL */

HD_END_C
#endif
