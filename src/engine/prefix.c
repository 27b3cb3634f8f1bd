/* Keeping and restoring, and room in memory. */
#include "engine/prefix.h"

#include <string.h>

/* Fewer tokens than this are read again as fast as they are restored. */
#define FEWEST_KEPT 16

/* ---- what a node holds ---- */

static hd_state_span rows_of(int32_t at, int32_t n)
{
    return (hd_state_span){HD_CACHE_ROWS, at - n, at};
}

static hd_state_span rings_of(int32_t at) { return (hd_state_span){HD_CACHE_RINGS, 0, at}; }

int64_t hd_kept_size(const hd_engine *e, int32_t at, int32_t n, bool is_state)
{
    hd_state_span const rows = rows_of(at, n), rings = rings_of(at);
    return hd_engine_span_bytes(e, &rows) + (is_state ? hd_engine_span_bytes(e, &rings) : 0);
}

static hd_status copy_out(const hd_session *s, hd_kept *k, hd_error *err)
{
    hd_state_span const rows = rows_of(k->at, k->n), rings = rings_of(k->at);
    HD_TRY(hd_engine_get(s->engine, &rows, s->seq, k->bytes, err));
    if (!k->is_state) return HD_OK;
    return hd_engine_get(s->engine, &rings, s->seq,
                         k->bytes + hd_engine_span_bytes(s->engine, &rows), err);
}

static hd_status copy_in(const hd_session *s, const hd_kept *k, const uint8_t *bytes, hd_error *err)
{
    hd_state_span const rows = rows_of(k->at, k->n), rings = rings_of(k->at);
    memcpy(s->tokens + k->at - k->n, k->tokens, (size_t)k->n * sizeof *k->tokens);
    HD_TRY(hd_engine_put(s->engine, &rows, s->seq, bytes, err));
    if (!k->is_state) return HD_OK;
    return hd_engine_put(s->engine, &rings, s->seq, bytes + hd_engine_span_bytes(s->engine, &rows),
                         err);
}

/* ---- open and close ---- */

hd_status hd_prefix_open(hd_prefix **out, hd_engine *e, const hd_prefix_options *opt, hd_error *err)
{
    hd_prefix *const p = hd_memory_alloc(sizeof *p);
    if (!p) HD_FAIL(err, HD_ERR_MEMORY, "no memory for kept prompts");
    *p = (hd_prefix){.engine = e, .ram_limit = opt->ram_bytes};
    p->root = hd_kept_make(NULL, NULL, 0, false);
    hd_status s = HD_OK;
    if (!p->root) s = hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for kept prompts");
    if (s == HD_OK && opt->folder) s = hd_prefix_disk_open(p, opt, err);
    if (s == HD_OK)
        *out = p;
    else
        hd_prefix_close(p);
    return s;
}

void hd_prefix_close(hd_prefix *p)
{
    if (!p) return;
    hd_prefix_disk_close(p);
    while (p->oldest) {
        hd_kept *const k = p->oldest;
        p->oldest = k->newer;
        hd_kept_free(k);
    }
    hd_kept_free(p->root);
    hd_memory_free(p);
}

void hd_prefix_settle(hd_prefix *p)
{
    if (p->disk) hd_prefix_disk_settle(p, false);
}

/* ---- room in memory ---- */

static int64_t memory_of(const hd_kept *k)
{
    return (int64_t)sizeof *k + k->n * (int64_t)sizeof k->tokens[0] + k->size;
}

static void drop_bytes(hd_prefix *p, hd_kept *k)
{
    if (!k->bytes) return;
    hd_memory_free(k->bytes);
    k->bytes = NULL;
    p->counts.bytes -= memory_of(k);
    p->counts.states -= k->is_state;
}

static void hold_bytes(hd_prefix *p, hd_kept *k, uint8_t *bytes)
{
    k->bytes = bytes;
    p->counts.bytes += memory_of(k);
    p->counts.states += k->is_state;
}

/* Whether a node's memory can go: it is in its file, or nothing needs it. */
static bool can_give_way(const hd_prefix *p, const hd_kept *k)
{
    if (!k->bytes || k->used == p->clock || k->file == HD_KEPT_QUEUED) return false;
    return k->file == HD_KEPT_WRITTEN || !k->below;
}

static void give_way(hd_prefix *p, hd_kept *k)
{
    bool const is_gone = k->file == HD_KEPT_UNWRITTEN;
    drop_bytes(p, k);
    p->counts.n_evicted += is_gone && k->is_state;
    if (is_gone) hd_prefix_unlink(p, k);
}

/* Room for so many bytes; what was touched by the operation under way stays. */
static bool make_room(hd_prefix *p, int64_t bytes)
{
    for (hd_kept *k = p->oldest, *newer; k && p->counts.bytes + bytes > p->ram_limit; k = newer) {
        newer = k->newer;
        if (can_give_way(p, k)) give_way(p, k);
    }
    return p->counts.bytes + bytes <= p->ram_limit;
}

void hd_prefix_drop(hd_prefix *p, hd_kept *k)
{
    while (k->below) {
        hd_kept *deepest = k->below;
        while (deepest->below) deepest = deepest->below;
        hd_prefix_disk_remove(p, deepest);
        drop_bytes(p, deepest);
        hd_prefix_unlink(p, deepest);
    }
    hd_prefix_disk_remove(p, k);
    drop_bytes(p, k);
    hd_prefix_unlink(p, k);
}

/* ---- restoring ---- */

/* What comes from a file stays in memory, where there is room. */
static hd_status restore_file(hd_prefix *p, hd_kept *k, const hd_session *s, hd_error *err)
{
    uint8_t *const bytes = hd_memory_alloc((size_t)k->size);
    if (!bytes)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for kept tokens: %zu bytes", (size_t)k->size);
    hd_status status = hd_prefix_disk_get(p, k, bytes, err);
    if (status == HD_OK) status = copy_in(s, k, bytes, err);
    if (status == HD_OK && make_room(p, memory_of(k)))
        hold_bytes(p, k, bytes);
    else
        hd_memory_free(bytes);
    return status;
}

static hd_status restore_node(hd_prefix *p, hd_kept *k, const hd_session *s, hd_error *err)
{
    return k->bytes ? copy_in(s, k, k->bytes, err) : restore_file(p, k, s, err);
}

/* A node whose file is no good, and all that needs it. */
static void give_up(hd_prefix *p, hd_kept *k)
{
    hd_prefix_disk_settle(p, true);
    p->counts.n_damaged++;
    hd_prefix_drop(p, k);
}

hd_status hd_prefix_restore(hd_prefix *p, hd_kept *state, hd_session *s, hd_error *err)
{
    p->clock++;
    hd_prefix_touch(p, state);
    for (hd_kept *k = state; k->above; k = k->above) {
        hd_status const status = restore_node(p, k, s, err);
        if (status == HD_OK) continue;
        if (status == HD_ERR_FORMAT || status == HD_ERR_IO) give_up(p, k);
        return status;
    }
    s->length = state->at;
    s->has_logits = false;
    return HD_OK;
}

/* ---- keeping ---- */

/* The last page there is of the session's first n tokens. */
static hd_kept *last_page(const hd_prefix *p, const int32_t *tokens, int32_t n)
{
    hd_kept *page = p->root, *next = page;
    while (next) {
        page = next;
        next = page->at + HD_CACHE_EDGE <= n
                   ? hd_kept_find(page, tokens + page->at, HD_CACHE_EDGE, false)
                   : NULL;
    }
    return page;
}

/* Memory of the nodes that are missing between a page and a state. */
static int64_t memory_between(const hd_prefix *p, const hd_kept *page, int32_t n)
{
    int64_t const node = (int64_t)sizeof *page;
    int32_t const edge = n / HD_CACHE_EDGE * HD_CACHE_EDGE;
    int64_t       bytes = node + (n - page->at) * (int64_t)sizeof page->tokens[0];
    for (int32_t at = page->at + HD_CACHE_EDGE; at <= edge; at += HD_CACHE_EDGE)
        bytes += node + hd_kept_size(p->engine, at, HD_CACHE_EDGE, false);
    return bytes + hd_kept_size(p->engine, n, n - edge, true);
}

/* The node behind *last up to token n, a page or a state, in the tree; it is *last then.
 * *last    NULL when memory is short */
static hd_status add_node(hd_prefix *p, const hd_session *s, int32_t n, bool is_state,
                          hd_kept **last, hd_error *err)
{
    hd_kept *const above = *last;
    hd_kept *const k = hd_kept_make(above, s->tokens + above->at, n - above->at, is_state);
    *last = NULL;
    if (!k) return HD_OK;
    k->size = hd_kept_size(p->engine, n, k->n, is_state);
    k->bytes = hd_memory_alloc((size_t)k->size);
    hd_status const status = k->bytes ? copy_out(s, k, err) : HD_OK;
    if (status != HD_OK || !k->bytes) {
        hd_kept_free(k);
        return status;
    }
    hold_bytes(p, k, k->bytes);
    hd_prefix_link(p, k);
    if (p->disk) hd_prefix_disk_name(p, k);
    *last = k;
    return HD_OK;
}

/* Has the nodes up to a state written, a page before what hangs behind it. */
static void write_nodes(hd_prefix *p, hd_kept *state)
{
    for (;;) {
        hd_kept *next = NULL;
        for (hd_kept *k = state; k->above; k = k->above)
            if (k->file == HD_KEPT_UNWRITTEN) next = k;
        if (!next) return;
        hd_prefix_disk_put(p, next);
        if (next->file == HD_KEPT_UNWRITTEN) return;
    }
}

/* Where memory ends in between, pages without a state are left; they give way in time. */
static hd_status keep_new(hd_prefix *p, const hd_session *s, hd_kept *page, int32_t n,
                          hd_error *err)
{
    hd_kept *last = page;
    if (!make_room(p, memory_between(p, page, n))) return HD_OK;
    for (int32_t at = page->at + HD_CACHE_EDGE; last && at <= n; at += HD_CACHE_EDGE)
        HD_TRY(add_node(p, s, at, false, &last, err));
    if (last) HD_TRY(add_node(p, s, n, true, &last, err));
    if (!last) return HD_OK;
    hd_prefix_touch(p, last);
    if (p->disk) write_nodes(p, last);
    return HD_OK;
}

hd_status hd_prefix_keep(hd_prefix *p, const hd_session *s, int32_t n, hd_error *err)
{
    if (n < FEWEST_KEPT) return HD_OK;
    p->clock++;
    hd_kept *const page = last_page(p, s->tokens, n);
    hd_kept *const same = n - page->at < HD_CACHE_EDGE
                              ? hd_kept_find(page, s->tokens + page->at, n - page->at, true)
                              : NULL;
    hd_prefix_touch(p, same ? same : page);
    return same ? HD_OK : keep_new(p, s, page, n, err);
}
