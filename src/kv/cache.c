#include "kv/cache.h"

#include <string.h>

#define WINDOW_PAGE 64

const char *hd_kv_name(hd_kv kv)
{
    static const char *const names[] = {"default", "f32", "bf16", "fp8", "nvfp4"};
    return (size_t)kv < sizeof names / sizeof names[0] ? names[kv] : "unknown";
}

bool hd_kv_from_name(hd_kv *out, const char *name)
{
    for (hd_kv kv = HD_KV_DEFAULT; kv <= HD_KV_NVFP4; kv++)
        if (strcmp(name, hd_kv_name(kv)) == 0) {
            *out = kv;
            return true;
        }
    return false;
}

/* ---- layouts ---- */

static hd_row_layout kv_layout(const hd_cache_shape *s, int32_t page)
{
    static const hd_row_format formats[] = {[HD_KV_DEFAULT] = HD_ROW_F32,
                                            [HD_KV_F32] = HD_ROW_F32,
                                            [HD_KV_BF16] = HD_ROW_BF16,
                                            [HD_KV_FP8] = HD_ROW_FP8,
                                            [HD_KV_NVFP4] = HD_ROW_NVFP4};
    bool const                 has_tail = s->kv >= HD_KV_FP8;
    return (hd_row_layout){formats[s->kv], s->head_dim, has_tail ? s->rope_dim : 0, page};
}

/* Models were trained with four-bit indexer rows, so every smaller format takes them. */
static hd_row_layout index_layout(const hd_cache_shape *s, int32_t ratio)
{
    hd_row_format const f = s->kv >= HD_KV_FP8 ? HD_ROW_MXFP4 : kv_layout(s, 1).format;
    return (hd_row_layout){f, s->index_dim, 0, HD_CACHE_EDGE / ratio};
}

static hd_row_layout ring_layout(int32_t width) { return (hd_row_layout){HD_ROW_F32, width, 0, 1}; }

hd_status hd_cache_check(const hd_cache_shape *s, hd_error *err)
{
    hd_row_layout const kv = kv_layout(s, WINDOW_PAGE), index = index_layout(s, 4);
    if (!hd_row_is_valid(&kv))
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "KV rows of %d elements, %d of them RoPE, cannot be %s",
                s->head_dim, s->rope_dim, hd_row_format_name(kv.format));
    if (s->index_dim > 0 && !hd_row_is_valid(&index))
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "indexer rows of %d elements cannot be %s", s->index_dim,
                hd_row_format_name(index.format));
    return HD_OK;
}

/* ---- pools ---- */

static hd_cache_pool bind_pool(const hd_cache_shape *s, int64_t cap, hd_row_layout layout,
                               hd_arena *arena)
{
    int64_t const pages = s->n_seq * hd_row_pages(&layout, cap);
    void *const   data = hd_arena_alloc(arena, (size_t)pages * (size_t)hd_row_page_bytes(&layout));
    return (hd_cache_pool){data, layout, (int32_t)cap};
}

/* The window's ring fills its pages, since a partial one costs as much. */
static hd_cache_pool bind_window(const hd_cache_shape *s, hd_arena *arena)
{
    hd_row_layout const l = kv_layout(s, WINDOW_PAGE);
    int64_t const       rows = (int64_t)s->window + s->chunk;
    return bind_pool(s, hd_row_pages(&l, rows) * WINDOW_PAGE, l, arena);
}

/* What the compressor of `head` wide rows keeps open: one group, two when groups overlap. */
static void bind_rings(const hd_cache_shape *s, int32_t ratio, int32_t head, hd_cache_pool *kv,
                       hd_cache_pool *gate, hd_arena *arena)
{
    bool const          overlap = ratio == 4;
    int64_t const       cap = (int64_t)ratio * (overlap ? 2 : 1) + s->chunk;
    hd_row_layout const l = ring_layout(overlap ? 2 * head : head);
    *kv = bind_pool(s, cap, l, arena);
    *gate = bind_pool(s, cap, l, arena);
}

/* At least one row, so that a short context still has an operand. */
static int64_t n_rows(const hd_cache_shape *s, int32_t ratio)
{
    return s->max_tokens / ratio > 0 ? s->max_tokens / ratio : 1;
}

void hd_cache_bind(hd_layer_cache *out, const hd_cache_shape *shape, int32_t ratio, hd_arena *arena)
{
    *out = (hd_layer_cache){.ratio = ratio};
    out->win = bind_window(shape, arena);
    if (ratio <= 0) return;
    out->rows =
        bind_pool(shape, n_rows(shape, ratio), kv_layout(shape, HD_CACHE_EDGE / ratio), arena);
    bind_rings(shape, ratio, shape->head_dim, &out->kv, &out->gate, arena);
    if (ratio != 4) return;
    out->index_rows = bind_pool(shape, n_rows(shape, ratio), index_layout(shape, ratio), arena);
    bind_rings(shape, ratio, shape->index_dim, &out->index_kv, &out->index_gate, arena);
}

int64_t hd_cache_edge_bytes(const hd_cache_shape *shape, int32_t ratio)
{
    if (ratio <= 0) return 0;
    hd_row_layout const kv = kv_layout(shape, HD_CACHE_EDGE / ratio);
    hd_row_layout const index = index_layout(shape, ratio);
    return hd_row_page_bytes(&kv) + (ratio == 4 ? hd_row_page_bytes(&index) : 0);
}
