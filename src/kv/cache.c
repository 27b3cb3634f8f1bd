#include "kv/cache.h"

static hd_cache_pool bind_pool(const hd_cache_shape *s, int64_t cap, int32_t width, hd_arena *arena)
{
    size_t const bytes = (size_t)s->n_seq * (size_t)cap * (size_t)width * sizeof(float);
    return (hd_cache_pool){hd_arena_alloc(arena, bytes), (int32_t)cap, width};
}

/* What the compressor of `head` wide rows keeps open: one group, two when groups overlap. */
static void bind_rings(const hd_cache_shape *s, int32_t ratio, int32_t head, hd_cache_pool *kv,
                       hd_cache_pool *gate, hd_arena *arena)
{
    bool const    overlap = ratio == 4;
    int64_t const cap = (int64_t)ratio * (overlap ? 2 : 1) + s->chunk;
    int32_t const width = overlap ? 2 * head : head;
    *kv = bind_pool(s, cap, width, arena);
    *gate = bind_pool(s, cap, width, arena);
}

/* At least one row, so that a short context still has an operand. */
static int64_t n_rows(const hd_cache_shape *s, int32_t ratio)
{
    return s->max_tokens / ratio > 0 ? s->max_tokens / ratio : 1;
}

void hd_cache_bind(hd_layer_cache *out, const hd_cache_shape *shape, int32_t ratio, hd_arena *arena)
{
    *out = (hd_layer_cache){.ratio = ratio};
    out->win = bind_pool(shape, (int64_t)shape->window + shape->chunk, shape->head_dim, arena);
    if (ratio <= 0) return;
    out->rows = bind_pool(shape, n_rows(shape, ratio), shape->head_dim, arena);
    bind_rings(shape, ratio, shape->head_dim, &out->kv, &out->gate, arena);
    if (ratio != 4) return;
    out->index_rows = bind_pool(shape, n_rows(shape, ratio), shape->index_dim, arena);
    bind_rings(shape, ratio, shape->index_dim, &out->index_kv, &out->index_gate, arena);
}

int64_t hd_cache_token_bytes(const hd_cache_shape *shape, int32_t ratio)
{
    if (ratio <= 0) return 0;
    int64_t const width = shape->head_dim + (ratio == 4 ? shape->index_dim : 0);
    return width * (int64_t)sizeof(float) / ratio;
}
