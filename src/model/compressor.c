#include "model/parts.h"
#include "ops/compress_kv.h"

/* Labels of the two compressors' steps, attention's and the indexer's. */
typedef struct labels {
    const char *pool, *rope, *round, *rows;
} labels;
static const labels names[2] = {
    {"comp_pool", "comp_rope", "comp_round", "comp_rows"},
    {"index_pool", "index_rope", "index_round", "index_rows"},
};

static float *add_projection(const hd_site *s, const hd_compression *c, bool is_gate)
{
    const hd_matrix *const w = is_gate ? &c->w->wgate : &c->w->wkv;
    if (c->is_index)
        return is_gate ? HD_LINEAR(s, "index_gate", .w = w, .x = c->x, .t = s->t)
                       : HD_LINEAR(s, "index_kv", .w = w, .x = c->x, .t = s->t);
    return is_gate ? HD_LINEAR(s, "comp_gate", .w = w, .x = c->x, .t = s->t)
                   : HD_LINEAR(s, "comp_kv", .w = w, .x = c->x, .t = s->t);
}

/* A ring of the compressor as compress_kv reads it: pages of one f32 row. */
static float *ring_rows(const hd_cache_pool *ring) { return (float *)(void *)ring->data; }

/* Every token's projections go to the rings; where a token completes a group, the group is
 * pooled to one row, which takes the position of the group's first token. */
void hd_add_compressor(const hd_site *s, const hd_compression *c)
{
    const labels *const n = &names[c->is_index];
    int32_t const       ratio = s->cache->ratio;
    const float *const kv = add_projection(s, c, false), *const gate = add_projection(s, c, true);
    float *const row = hd_plan_room(s->p, s->t, c->head);
    HD_ADD(s->p, n->pool, compress_kv, .x_kv = kv, .x_gate = gate, .ape = c->w->ape,
           .pos = s->b->pos, .seq = s->b->seq, .kv = ring_rows(c->kv), .gate = ring_rows(c->gate),
           .y = row, .t = s->t, .d = c->head, .r = ratio, .n_seq = s->m->shape.n_seq,
           .cap = c->kv->cap, .overlap = ratio == 4);
    hd_add_keys(s, &(hd_keys){.label = n->rope,
                              .round_label = n->round,
                              .store_label = n->rows,
                              .x = row,
                              .norm = c->w->norm,
                              .pool = c->rows,
                              .group = ratio,
                              .is_index = c->is_index});
}
