#include <math.h>

#include "model/parts.h"
#include "ops/index_score.h"
#include "ops/quant_mxfp4.h"
#include "ops/topk.h"

static float *add_queries(const hd_site *s, const hd_normed *latent)
{
    const hd_config *const c = s->m->config;
    int32_t const          h = c->index_heads, d = c->index_dim;
    float *const           q = HD_LINEAR(s, "index_q", .w = &s->w->indexer.wq_b, .x = latent->x,
                                         .from = latent, .t = s->t, .input = HD_INPUT_ROUNDED);
    hd_head_rows_args      rows = hd_head_rows_of(s, q, h, d);
    rows.has_hadamard = hd_index_is_transformed(s);
    hd_plan_add(s->p, "index_q_rope", &hd_op_head_rows, &rows);
    if (s->m->act == HD_ACT_OFFICIAL)
        HD_ADD(s->p, "index_q_round", quant_mxfp4, .x = q, .y = q, .t = s->t * h, .k = d);
    return q;
}

int32_t *hd_add_indexer(const hd_site *s, const float *x, const hd_normed *q_latent)
{
    const hd_config *const          c = s->m->config;
    const hd_indexer_weights *const w = &s->w->indexer;
    const hd_cache_pool *const      keys = &s->cache->index_rows;
    int32_t const                   h = c->index_heads, d = c->index_dim;
    float *const                    q = add_queries(s, q_latent);
    hd_add_compressor(s, &(hd_compression){.w = &w->compressor,
                                           .kv = &s->cache->index_kv,
                                           .gate = &s->cache->index_gate,
                                           .rows = keys,
                                           .x = x,
                                           .head = d,
                                           .is_index = true});
    float *const   wgt = HD_LINEAR(s, "index_weights", .w = &w->weights_proj, .x = x, .t = s->t);
    float *const   score = hd_plan_room(s->p, s->t, keys->cap);
    int32_t *const ids = hd_plan_room(s->p, s->t, c->index_topk);
    HD_ADD(s->p, "index_score", index_score, .q = q, .wgt = wgt, .keys = keys->data,
           .pos = s->b->pos, .seq = s->b->seq, .score = score, .t = s->t, .h = h, .d = d,
           .n_seq = s->m->shape.n_seq, .cap = keys->cap, .group = s->cache->ratio,
           .scale = (float)(1 / sqrt((double)d * h)), .layout = keys->layout);
    HD_ADD(s->p, "index_topk", topk, .score = score, .pos = s->b->pos, .ids = ids, .t = s->t,
           .n = keys->cap, .k = c->index_topk, .group = s->cache->ratio);
    return ids;
}
