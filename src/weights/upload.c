#include "quant/tiles.h"
#include "weights/weights.h"

/* Walks all weights in a fixed order.  While the arena measures, nothing is copied and no
 * pointer changes, so the walk may be done again to bind. */
typedef struct uploader {
    hd_device       *d;
    hd_arena        *arena;
    const hd_config *c;
    bool             has_tiles; /* four-bit matrices go into tiles where they fit */
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

/* A matrix on its way. */
typedef struct in_rows {
    hd_format format;
    int32_t   n, k;
} in_rows;

typedef void rearrange_fn(hd_format rows, int32_t n, int32_t k, const uint8_t *from, uint8_t *to);

/* Moves `bytes` behind *p in another order. */
static hd_status move_rearranged(const uploader *u, const void **p, size_t bytes, const in_rows *m,
                                 rearrange_fn *rearrange)
{
    if (!u->arena->base) return move(u, p, bytes); /* which only measures */
    uint8_t *const room = hd_memory_alloc(bytes);
    const void    *at = room;
    if (!room) HD_FAIL(u->err, HD_ERR_MEMORY, "no memory for a matrix of %zu bytes", bytes);
    rearrange(m->format, m->n, m->k, *p, room);
    hd_status s = move(u, &at, bytes);
    if (s == HD_OK) s = hd_device_sync(u->d, u->err);
    if (s == HD_OK) *p = at;
    hd_memory_free(room);
    return s;
}

static hd_status move_codes(const uploader *u, const void **p, const in_rows *m, bool is_tiled)
{
    size_t const bytes = hd_matrix_w_bytes(m->format, m->n, m->k);
    return is_tiled ? move_rearranged(u, p, bytes, m, hd_tiles_move_codes) : move(u, p, bytes);
}

static hd_status move_scales(const uploader *u, const void **p, const in_rows *m, bool is_tiled)
{
    size_t const bytes = hd_matrix_sf_bytes(m->format, m->n, m->k);
    return is_tiled ? move_rearranged(u, p, bytes, m, hd_tiles_move_scales) : move(u, p, bytes);
}

/* groups: matrices of equal size that lie one behind the other. */
static hd_status move_groups(const uploader *u, hd_matrix *m, int32_t groups)
{
    in_rows const rows = {m->format, m->n, m->k};
    bool const    is_tiled = u->has_tiles && hd_tiles_fit(m->format, m->n / groups, m->k);
    HD_TRY(move_codes(u, &m->w, &rows, is_tiled));
    HD_TRY(move_scales(u, &m->sf, &rows, is_tiled));
    if (is_tiled && u->arena->base) m->format = hd_format_in_tiles(m->format);
    return move_floats(u, &m->input_scale_at, 1);
}

static hd_status move_matrix(const uploader *u, hd_matrix *m) { return move_groups(u, m, 1); }

/* The embedding is looked up by rows. */
static hd_status move_table(const uploader *u, hd_matrix *m)
{
    uploader in_order = *u;
    in_order.has_tiles = false;
    return move_matrix(&in_order, m);
}

/* Moves what one pointer of a list leads to. */
typedef hd_status member_fn(const uploader *u, const void **p, const in_rows *m, bool is_tiled);

/* A list of pointers to matrices: first what they lead to, then the list itself. */
static hd_status move_list(const uploader *u, const void *const **list, const hd_experts *x,
                           bool is_tiled, member_fn *move_member)
{
    int32_t const      e = x->e;
    in_rows const      rows = {x->format, x->n, x->k};
    const void **const members = (const void **)(uintptr_t)*list;
    if (!members) return HD_OK;
    for (int32_t i = 0; i < e; i++) HD_TRY(move_member(u, &members[i], &rows, is_tiled));
    const void *at = members;
    HD_TRY(move(u, &at, (size_t)e * sizeof *members));
    *list = (const void *const *)at;
    return HD_OK;
}

static hd_status move_experts(const uploader *u, hd_experts *x)
{
    bool const is_tiled = u->has_tiles && hd_tiles_fit(x->format, x->n, x->k);
    HD_TRY(move_list(u, &x->w, x, is_tiled, move_codes));
    HD_TRY(move_list(u, &x->sf, x, is_tiled, move_scales));
    if (is_tiled && u->arena->base) x->format = hd_format_in_tiles(x->format);
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
    hd_matrix *const       matrices[] = {&l->wq_a, &l->wq_b, &l->wkv, &l->wo_b};
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++)
        HD_TRY(move_matrix(u, matrices[i]));
    HD_TRY(move_groups(u, &l->wo_a, c->o_groups));
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
    HD_TRY(move_experts(u, &l->w1_w3));
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
    HD_TRY(move_table(u, &w->embed));
    if (is_tied)
        w->head = w->embed;
    else
        HD_TRY(move_matrix(u, &w->head));
    HD_TRY(move_floats(u, &w->norm, u->c->d_model));
    return move_hc(u, &w->hc_head, u->c->hc_mult, 1);
}

hd_status hd_weights_upload(hd_weights *w, const hd_upload *to, const hd_log *log, hd_error *err)
{
    uploader const u = {to->device, to->arena, w->config, to->has_tiles, err};
    HD_TRY(move_globals(&u, w));
    for (int32_t l = 0; l < u.c->n_layers; l++) {
        HD_TRY(move_layer(&u, &w->layers[l]));
        if (to->arena->base)
            hd_log_progress(log, "copying layers to the GPU", l + 1, u.c->n_layers);
    }
    return w->has_mtp ? move_mtp(&u, &w->mtp) : HD_OK;
}
