#include <math.h>

#include "model/parts.h"
#include "ops/attn_sparse.h"

const float *hd_site_freq(const hd_site *s)
{
    return s->cache->ratio > 0 ? s->m->freq_yarn : s->m->freq;
}

/* Queries of all heads. */
static float *add_queries(const hd_site *s, const hd_normed *latent)
{
    const hd_config *const c = s->m->config;
    float *const           q = HD_LINEAR(s, "q_b", .w = &s->w->wq_b, .x = latent->x, .from = latent,
                                         .t = s->t, .input = HD_INPUT_ROUNDED);
    hd_head_rows_args      rows = hd_head_rows_of(s, q, c->n_heads, c->head_dim);
    /* A second norm, of each head and without a weight: both exist. */
    rows.has_norm = true;
    hd_plan_add(s->p, "q_rope", &hd_op_head_rows, &rows);
    return q;
}

/* The one vector of a token that serves as key and value, into the window. */
static void add_window_row(const hd_site *s, const hd_normed *in)
{
    float *const kv = HD_LINEAR(s, "kv", .w = &s->w->wkv, .x = in->x, .from = in, .t = s->t,
                                .input = HD_INPUT_ROUNDED);
    hd_add_keys(s, &(hd_keys){.label = "kv_rope",
                              .round_label = "kv_round",
                              .store_label = "kv_ring",
                              .x = kv,
                              .norm = s->w->kv_norm,
                              .pool = &s->cache->win,
                              .group = 1});
}

/* Softmax over window, compressed rows and sink; the output is turned back by its position. */
static float *add_softmax(const hd_site *s, const float *q, const int32_t *ids)
{
    const hd_config *const      c = s->m->config;
    const hd_layer_cache *const k = s->cache;
    float *const                o = hd_plan_room(s->p, s->t, (int64_t)c->n_heads * c->head_dim);
    HD_ADD(s->p, "attn", attn_sparse, .q = q, .win = k->win.data, .rows = k->rows.data, .ids = ids,
           .sink = s->w->sink, .pos = s->b->pos, .seq = s->b->seq, .freq = hd_site_freq(s), .y = o,
           .t = s->t, .h = c->n_heads, .d = c->head_dim, .n_seq = s->m->shape.n_seq,
           .win_cap = k->win.cap, .row_cap = k->rows.cap, .window = c->window, .group = k->ratio,
           .k = k->ratio == 4 ? c->index_topk : 0, .dr = c->rope_dim,
           .scale = (float)(1 / sqrt((double)c->head_dim)), .win_layout = k->win.layout,
           .row_layout = k->rows.layout);
    return o;
}

static void add_compression(const hd_site *s, const hd_normed *in)
{
    hd_add_compressor(s, &(hd_compression){.w = &s->w->compressor,
                                           .kv = &s->cache->kv,
                                           .gate = &s->cache->gate,
                                           .rows = &s->cache->rows,
                                           .x = in->x,
                                           .head = s->m->config->head_dim});
}

/* Steps that may run side by side begin in this order, so what takes longest until the softmax
 * comes first: with an indexer its query and scores, else the compressor. */
float *hd_add_attention(const hd_site *s, const hd_normed *in)
{
    const hd_config *const c = s->m->config;
    bool const             has_indexer = s->cache->ratio == 4;
    if (s->cache->ratio > 0 && !has_indexer) add_compression(s, in);
    float *const    q_a = HD_LINEAR(s, "q_a", .w = &s->w->wq_a, .x = in->x, .from = in, .t = s->t,
                                    .input = HD_INPUT_ROUNDED);
    hd_normed const latent = hd_add_norm_for(
        s, &(hd_norm){.label = "q_norm",
                      .w = s->w->q_norm,
                      .x = q_a,
                      .d = c->q_rank,
                      .readers = {&s->w->wq_b, has_indexer ? &s->w->indexer.wq_b : NULL}});
    int32_t *const ids = has_indexer ? hd_add_indexer(s, in->x, &latent) : NULL;
    if (has_indexer) add_compression(s, in);
    float *const q = add_queries(s, &latent);
    add_window_row(s, in);
    float *const o = add_softmax(s, q, ids);
    float *const u =
        HD_LINEAR(s, "o_a", .w = &s->w->wo_a, .x = o, .t = s->t, .groups = c->o_groups);
    return HD_LINEAR(s, "o_b", .w = &s->w->wo_b, .x = u, .t = s->t, .input = HD_INPUT_ROUNDED);
}
