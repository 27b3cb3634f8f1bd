#include "weights/weights.h"

/* Walks all weights in a fixed order.  While the arena measures, nothing is copied and no
 * pointer changes, so the walk may be done again to bind. */
typedef struct uploader {
    hd_device       *d;
    hd_arena        *arena;
    const hd_config *c;
    hd_error        *err;
} uploader;

/* Moves `bytes` behind *p; NULL stays NULL. */
static hd_status move(const uploader *u, const void **p, size_t bytes)
{
    if (!*p || !bytes) return HD_OK;
    void *const to = hd_arena_alloc(u->arena, bytes);
    if (!to) return HD_OK;
    HD_TRY(hd_device_write(u->d, to, *p, bytes, u->err));
    *p = to;
    return HD_OK;
}

static hd_status move_floats(const uploader *u, const float **p, int64_t n)
{
    const void *at = *p;
    HD_TRY(move(u, &at, (size_t)n * sizeof **p));
    *p = at;
    return HD_OK;
}

static hd_status move_matrix(const uploader *u, hd_matrix *m)
{
    HD_TRY(move(u, &m->w, hd_matrix_w_bytes(m->format, m->n, m->k)));
    HD_TRY(move(u, &m->sf, hd_matrix_sf_bytes(m->format, m->n, m->k)));
    return move_floats(u, &m->input_scale_at, 1);
}

/* A list of pointers to matrices: first what they lead to, then the list itself. */
static hd_status move_list(const uploader *u, const void *const **list, int32_t e, size_t bytes)
{
    const void **const members = (const void **)(uintptr_t)*list;
    if (!members) return HD_OK;
    for (int32_t i = 0; i < e; i++) HD_TRY(move(u, &members[i], bytes));
    const void *at = members;
    HD_TRY(move(u, &at, (size_t)e * sizeof *members));
    *list = (const void *const *)at;
    return HD_OK;
}

static hd_status move_experts(const uploader *u, hd_experts *x)
{
    HD_TRY(move_list(u, &x->w, x->e, hd_matrix_w_bytes(x->format, x->n, x->k)));
    HD_TRY(move_list(u, &x->sf, x->e, hd_matrix_sf_bytes(x->format, x->n, x->k)));
    HD_TRY(move_floats(u, &x->scale, x->e));
    return move_floats(u, &x->input_scale, x->e);
}

static hd_status move_hc(const uploader *u, hd_hc_weights *h, int32_t outputs, int32_t scales)
{
    HD_TRY(move_floats(u, &h->fn, (int64_t)outputs * u->c->hc_mult * u->c->d_model));
    HD_TRY(move_floats(u, &h->base, outputs));
    return move_floats(u, &h->scale, scales);
}

static hd_status move_compressor(const uploader *u, hd_compressor_weights *w, int32_t ratio,
                                 int32_t head)
{
    HD_TRY(move_matrix(u, &w->wkv));
    HD_TRY(move_matrix(u, &w->wgate));
    HD_TRY(move_floats(u, &w->ape, (int64_t)ratio * w->wkv.n));
    return move_floats(u, &w->norm, head);
}

static hd_status move_attention(const uploader *u, hd_layer_weights *l)
{
    const hd_config *const c = u->c;
    hd_matrix *const       matrices[] = {&l->wq_a, &l->wq_b, &l->wkv, &l->wo_a, &l->wo_b};
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++)
        HD_TRY(move_matrix(u, matrices[i]));
    HD_TRY(move_floats(u, &l->attn_norm, c->d_model));
    HD_TRY(move_floats(u, &l->q_norm, c->q_rank));
    HD_TRY(move_floats(u, &l->kv_norm, c->head_dim));
    HD_TRY(move_floats(u, &l->sink, c->n_heads));
    if (l->ratio > 0) HD_TRY(move_compressor(u, &l->compressor, l->ratio, c->head_dim));
    if (l->ratio != 4) return HD_OK;
    HD_TRY(move_matrix(u, &l->indexer.wq_b));
    HD_TRY(move_matrix(u, &l->indexer.weights_proj));
    return move_compressor(u, &l->indexer.compressor, 4, c->index_dim);
}

static hd_status move_ffn(const uploader *u, hd_layer_weights *l)
{
    const hd_config *const c = u->c;
    hd_matrix *const       matrices[] = {&l->gate, &l->shared_w1, &l->shared_w3, &l->shared_w2};
    const void            *table = l->tid2eid;
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++)
        HD_TRY(move_matrix(u, matrices[i]));
    HD_TRY(move_floats(u, &l->ffn_norm, c->d_model));
    HD_TRY(move_floats(u, &l->gate_bias, c->n_experts));
    HD_TRY(move(u, &table, (size_t)c->n_vocab * (size_t)c->n_experts_used * sizeof(int32_t)));
    l->tid2eid = table;
    HD_TRY(move_experts(u, &l->w1));
    HD_TRY(move_experts(u, &l->w3));
    return move_experts(u, &l->w2);
}

static hd_status move_layer(const uploader *u, hd_layer_weights *l)
{
    int32_t const m = u->c->hc_mult;
    HD_TRY(move_hc(u, &l->hc_attn, (2 + m) * m, 3));
    HD_TRY(move_hc(u, &l->hc_ffn, (2 + m) * m, 3));
    HD_TRY(move_attention(u, l));
    return move_ffn(u, l);
}

static hd_status move_mtp(const uploader *u, hd_mtp_weights *m)
{
    int32_t const d = u->c->d_model;
    HD_TRY(move_matrix(u, &m->e_proj));
    HD_TRY(move_matrix(u, &m->h_proj));
    HD_TRY(move_floats(u, &m->enorm, d));
    HD_TRY(move_floats(u, &m->hnorm, d));
    HD_TRY(move_floats(u, &m->norm, d));
    HD_TRY(move_hc(u, &m->hc_head, u->c->hc_mult, 1));
    return move_layer(u, &m->block);
}

/* A tied head is the embedding's memory and moves with it. */
static hd_status move_globals(const uploader *u, hd_weights *w)
{
    bool const is_tied = w->head.w == w->embed.w;
    HD_TRY(move_matrix(u, &w->embed));
    if (is_tied)
        w->head = w->embed;
    else
        HD_TRY(move_matrix(u, &w->head));
    HD_TRY(move_floats(u, &w->norm, u->c->d_model));
    return move_hc(u, &w->hc_head, u->c->hc_mult, 1);
}

hd_status hd_weights_upload(hd_weights *w, hd_device *d, hd_arena *arena, const hd_log *log,
                            hd_error *err)
{
    uploader const u = {d, arena, w->config, err};
    HD_TRY(move_globals(&u, w));
    for (int32_t l = 0; l < u.c->n_layers; l++) {
        HD_TRY(move_layer(&u, &w->layers[l]));
        if (arena->base) hd_log_progress(log, "copying layers to the GPU", l + 1, u.c->n_layers);
    }
    return w->has_mtp ? move_mtp(&u, &w->mtp) : HD_OK;
}
