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
    if (s->head_dim > HD_ROW_MAX || s->index_dim > HD_ROW_MAX)
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "cache rows of %d and %d elements: at most %d are read",
                s->head_dim, s->index_dim, HD_ROW_MAX);
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
    return (hd_cache_pool){data, layout, (int32_t)cap, s->device};
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

/* ---- rows of a sequence's state ---- */

/* Tokens of the open group, and with overlap of the one before. */
static int32_t first_open(int32_t ratio, int32_t n)
{
    int32_t const first = n / ratio * ratio - (ratio == 4 ? ratio : 0);
    return first > 0 ? first : 0;
}

static int32_t list_rings(const hd_layer_cache *c, const hd_cache_shape *s, int32_t n,
                          hd_cache_range *out)
{
    int32_t const first = n > s->window - 1 ? n - (s->window - 1) : 0;
    out[0] = (hd_cache_range){&c->win, first, n};
    if (c->ratio <= 0) return 1;
    int32_t const open = first_open(c->ratio, n);
    out[1] = (hd_cache_range){&c->kv, open, n};
    out[2] = (hd_cache_range){&c->gate, open, n};
    if (c->ratio != 4) return 3;
    out[3] = (hd_cache_range){&c->index_kv, open, n};
    out[4] = (hd_cache_range){&c->index_gate, open, n};
    return 5;
}

int32_t hd_cache_ranges(const hd_layer_cache *c, const hd_cache_shape *shape, hd_cache_part part,
                        int32_t n, hd_cache_range out[HD_CACHE_MAX_RANGES])
{
    if (part == HD_CACHE_RINGS) return list_rings(c, shape, n, out);
    if (c->ratio <= 0) return 0;
    out[0] = (hd_cache_range){&c->rows, 0, n / c->ratio};
    if (c->ratio != 4) return 1;
    out[1] = (hd_cache_range){&c->index_rows, 0, n / c->ratio};
    return 2;
}

int64_t hd_cache_row_bytes(const hd_cache_pool *p)
{
    return hd_row_data_bytes(&p->layout) + hd_row_scale_bytes(&p->layout);
}

int64_t hd_cache_range_bytes(const hd_cache_range *r)
{
    return (r->end - r->first) * hd_cache_row_bytes(r->pool);
}

/* Rows of a range that stand side by side: in one page, not across the end of a ring. */
typedef struct row_run {
    uint8_t *data, *scales; /* of the first row */
    int32_t  n;
} row_run;

static row_run find_run(const hd_cache_pool *p, int32_t seq, int32_t row, int32_t end)
{
    int32_t const place = row % p->cap, page = p->layout.page;
    int64_t const at = hd_row_of(&p->layout, seq, p->cap, place);
    int32_t       n = page - place % page;
    if (n > p->cap - place) n = p->cap - place;
    if (n > end - row) n = end - row;
    return (row_run){p->data + hd_row_data_at(&p->layout, at),
                     p->data + hd_row_scale_at(&p->layout, at), n};
}

/* One of the two parts of a run's rows, data or scales: runs side by side in the pool, `pitch`
 * apart in a run of bytes. */
static hd_status copy_part(const hd_cache_pool *p, hd_copy_kind kind, uint8_t *in_pool,
                           uint8_t *out, const size_t sizes[3], hd_error *err)
{
    size_t const  width = sizes[0], pitch = sizes[1];
    hd_copy const get = {HD_COPY_READ, out, in_pool, pitch, width, width, sizes[2]};
    hd_copy const put = {HD_COPY_WRITE, in_pool, out, width, pitch, width, sizes[2]};
    return width ? hd_device_copy(p->device, kind == HD_COPY_READ ? &get : &put, err) : HD_OK;
}

/* All rows of a range, each its data and then its scales, out of the pool or into it. */
static hd_status move_range(const hd_cache_range *r, int32_t seq, hd_copy_kind kind, uint8_t *bytes,
                            hd_error *err)
{
    const hd_cache_pool *const p = r->pool;
    size_t const               data = (size_t)hd_row_data_bytes(&p->layout);
    size_t const               scales = (size_t)hd_row_scale_bytes(&p->layout);
    for (int32_t q = r->first; q < r->end;) {
        row_run const run = find_run(p, seq, q, r->end);
        size_t const  rows = (size_t)run.n, pitch = data + scales;
        HD_TRY(copy_part(p, kind, run.data, bytes, (const size_t[]){data, pitch, rows}, err));
        HD_TRY(copy_part(p, kind, run.scales, bytes + data, (const size_t[]){scales, pitch, rows},
                         err));
        bytes += rows * pitch;
        q += run.n;
    }
    return HD_OK;
}

hd_status hd_cache_get(const hd_cache_range *r, int32_t seq, uint8_t *out, hd_error *err)
{
    return move_range(r, seq, HD_COPY_READ, out, err);
}

hd_status hd_cache_put(const hd_cache_range *r, int32_t seq, const uint8_t *in, hd_error *err)
{
    return move_range(r, seq, HD_COPY_WRITE, (uint8_t *)(uintptr_t)in, err);
}

hd_status hd_cache_copy(const hd_cache_range *r, int32_t to_seq, int32_t from_seq, hd_error *err)
{
    const hd_cache_pool *const p = r->pool;
    size_t const               data = (size_t)hd_row_data_bytes(&p->layout);
    size_t const               scales = (size_t)hd_row_scale_bytes(&p->layout);
    for (int32_t q = r->first, n; q < r->end; q += n) {
        row_run const to = find_run(p, to_seq, q, r->end), from = find_run(p, from_seq, q, r->end);
        size_t const  rows = (size_t)to.n;
        hd_copy const d = {HD_COPY_WITHIN, to.data, from.data, data, data, data, rows};
        hd_copy const s = {HD_COPY_WITHIN, to.scales, from.scales, scales, scales, scales, rows};
        HD_TRY(hd_device_copy(p->device, &d, err));
        if (scales) HD_TRY(hd_device_copy(p->device, &s, err));
        n = to.n;
    }
    return HD_OK;
}

static void return_pool(const hd_cache_pool *p, int32_t seq)
{
    int64_t const bytes = hd_row_pages(&p->layout, p->cap) * hd_row_page_bytes(&p->layout);
    hd_device_return(p->device, p->data + seq * bytes, (size_t)bytes);
}

void hd_cache_return(const hd_layer_cache *c, int32_t seq)
{
    if (c->ratio > 0) return_pool(&c->rows, seq);
    if (c->ratio == 4) return_pool(&c->index_rows, seq);
}

/* ---- costs ---- */

static int64_t pool_bytes(const hd_cache_pool *p, const hd_cache_shape *s)
{
    return s->n_seq * hd_row_pages(&p->layout, p->cap) * hd_row_page_bytes(&p->layout);
}

int64_t hd_cache_bytes(const hd_layer_cache *c, const hd_cache_shape *shape, hd_cache_part part)
{
    hd_cache_range r[HD_CACHE_MAX_RANGES];
    int64_t        bytes = 0;
    int32_t const  n = hd_cache_ranges(c, shape, part, 0, r);
    for (int32_t i = 0; i < n; i++) bytes += pool_bytes(r[i].pool, shape);
    return bytes;
}

int64_t hd_cache_edge_bytes(const hd_cache_shape *shape, int32_t ratio)
{
    if (ratio <= 0) return 0;
    hd_row_layout const kv = kv_layout(shape, HD_CACHE_EDGE / ratio);
    hd_row_layout const index = index_layout(shape, ratio);
    return hd_row_page_bytes(&kv) + (ratio == 4 ? hd_row_page_bytes(&index) : 0);
}
