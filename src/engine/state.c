/* Sequences as state: forks, marks at page edges, and going back to them.
 *
 * Compressed rows stand at places of their own, so a shorter sequence still has all of its own.
 * Rings do not: what the tokens behind an edge look back on is overwritten soon after.  A mark
 * is a copy of it, taken by the pass that crosses the edge, while the rings still hold it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"

int32_t hd_engine_ranges(const hd_engine *e, const hd_state_span *span, int32_t layer,
                         hd_cache_range out[HD_CACHE_MAX_RANGES])
{
    const hd_layer_cache *const c = &e->model.caches[layer];
    int32_t const               n = hd_cache_ranges(c, &e->model.shape, span->part, span->to, out);
    for (int32_t i = 0; i < n && span->part == HD_CACHE_ROWS; i++)
        out[i].first = span->from / c->ratio;
    return n;
}

int32_t hd_engine_layers(const hd_engine *e)
{
    return e->model.config->n_layers + (e->options.has_mtp ? 1 : 0);
}

int64_t hd_engine_span_bytes(const hd_engine *e, const hd_state_span *span)
{
    int64_t bytes = 0;
    for (int32_t l = 0; l < hd_engine_layers(e); l++) {
        hd_cache_range r[HD_CACHE_MAX_RANGES];
        int32_t const  count = hd_engine_ranges(e, span, l, r);
        for (int32_t i = 0; i < count; i++) bytes += hd_cache_range_bytes(&r[i]);
    }
    return bytes;
}

hd_status hd_engine_get(const hd_engine *e, const hd_state_span *span, int32_t seq, uint8_t *bytes,
                        hd_error *err)
{
    for (int32_t l = 0; l < hd_engine_layers(e); l++) {
        hd_cache_range r[HD_CACHE_MAX_RANGES];
        int32_t const  count = hd_engine_ranges(e, span, l, r);
        for (int32_t i = 0; i < count; i++) {
            HD_TRY(hd_cache_get(&r[i], seq, bytes, err));
            bytes += hd_cache_range_bytes(&r[i]);
        }
    }
    return HD_OK;
}

hd_status hd_engine_put(const hd_engine *e, const hd_state_span *span, int32_t seq,
                        const uint8_t *bytes, hd_error *err)
{
    for (int32_t l = 0; l < hd_engine_layers(e); l++) {
        hd_cache_range r[HD_CACHE_MAX_RANGES];
        int32_t const  count = hd_engine_ranges(e, span, l, r);
        for (int32_t i = 0; i < count; i++) {
            HD_TRY(hd_cache_put(&r[i], seq, bytes, err));
            bytes += hd_cache_range_bytes(&r[i]);
        }
    }
    return HD_OK;
}

/* ---- marks ---- */

static hd_state_span rings_at(int32_t n) { return (hd_state_span){HD_CACHE_RINGS, 0, n}; }

int64_t hd_engine_mark_bytes(const hd_engine *e)
{
    int32_t const       window = e->model.config->window;
    int32_t const       full = (window + HD_CACHE_EDGE - 1) / HD_CACHE_EDGE * HD_CACHE_EDGE;
    hd_state_span const rings = rings_at(full);
    return hd_engine_span_bytes(e, &rings);
}

/* The mark that a new one replaces: an unused one, else the oldest. */
static hd_mark *oldest_mark(const hd_session *s)
{
    hd_mark *m = &s->marks[0];
    for (int32_t i = 1; i < s->engine->options.marks; i++)
        if (s->marks[i].at < m->at) m = &s->marks[i];
    return m;
}

hd_status hd_session_mark(hd_session *s, int32_t before, hd_error *err)
{
    if (s->engine->options.marks <= 0) return HD_OK;
    int32_t at = (before / HD_CACHE_EDGE + 1) * HD_CACHE_EDGE;
    for (; at <= s->length; at += HD_CACHE_EDGE) {
        hd_mark *const      m = oldest_mark(s);
        hd_state_span const rings = rings_at(at);
        m->at = 0;
        HD_TRY(hd_engine_get(s->engine, &rings, s->seq, m->bytes, err));
        m->at = at;
    }
    return HD_OK;
}

/* Forgets marks behind token n: the tokens that led there are gone. */
static void drop_marks(hd_session *s, int32_t n)
{
    for (int32_t i = 0; i < s->engine->options.marks; i++)
        if (s->marks[i].at > n) s->marks[i].at = 0;
}

static hd_mark *find_mark(const hd_session *s, int32_t at)
{
    for (int32_t i = 0; i < s->engine->options.marks; i++)
        if (s->marks[i].at == at) return &s->marks[i];
    return NULL;
}

/* Nothing is cleared: no token looks at rows behind its own position. */
void hd_session_reset(hd_session *s)
{
    s->length = 0;
    s->has_logits = false;
    drop_marks(s, 0);
}

/* Writes "256, 512" or "none". */
static void print_marks(const hd_session *s, char *out, size_t cap)
{
    size_t used = 0;
    snprintf(out, cap, "none");
    for (int32_t at = HD_CACHE_EDGE; at <= s->length && used < cap; at += HD_CACHE_EDGE)
        if (find_mark(s, at))
            used += (size_t)snprintf(out + used, cap - used, "%s%d", used ? ", " : "", at);
}

static hd_status rewind_to(hd_session *s, int32_t n, hd_error *err)
{
    hd_mark *const      m = find_mark(s, n);
    hd_state_span const rings = rings_at(n);
    if (!m) {
        char kept[128];
        print_marks(s, kept, sizeof kept);
        HD_FAIL(err, HD_ERR_LIMIT, "no state is kept at %d tokens; kept are: %s", n, kept);
    }
    HD_TRY(hd_engine_put(s->engine, &rings, s->seq, m->bytes, err));
    drop_marks(s, n);
    s->length = n;
    s->has_logits = false;
    return HD_OK;
}

hd_status hd_session_rewind(hd_session *s, int32_t n, hd_error *err)
{
    if (n == s->length) return HD_OK;
    if (n < 0 || n > s->length)
        HD_FAIL(err, HD_ERR_INVALID, "cannot go back to %d tokens, there are %d", n, s->length);
    if (n == 0) {
        hd_session_reset(s);
        return HD_OK;
    }
    if (n % HD_CACHE_EDGE != 0)
        HD_FAIL(err, HD_ERR_INVALID,
                "cannot go back to %d tokens: wanted 0, %d or a multiple of %d", n, s->length,
                HD_CACHE_EDGE);
    pthread_mutex_lock(&s->engine->lock);
    hd_status const status = rewind_to(s, n, err);
    pthread_mutex_unlock(&s->engine->lock);
    return status;
}

/* ---- forks ---- */

static hd_status copy_rows(hd_session *to, const hd_session *from, hd_error *err)
{
    for (int part = HD_CACHE_RINGS; part <= HD_CACHE_ROWS; part++)
        for (int32_t l = 0; l < hd_engine_layers(to->engine); l++) {
            hd_cache_range      r[HD_CACHE_MAX_RANGES];
            hd_state_span const span = {(hd_cache_part)part, 0, from->length};
            int32_t const       count = hd_engine_ranges(to->engine, &span, l, r);
            for (int32_t i = 0; i < count; i++)
                HD_TRY(hd_cache_copy(&r[i], to->seq, from->seq, err));
        }
    return HD_OK;
}

static void copy_marks(hd_session *to, const hd_session *from)
{
    size_t const bytes = (size_t)hd_engine_mark_bytes(to->engine);
    for (int32_t i = 0; i < to->engine->options.marks; i++) {
        to->marks[i].at = from->marks[i].at;
        if (to->marks[i].at) memcpy(to->marks[i].bytes, from->marks[i].bytes, bytes);
    }
}

static hd_status fork_from(hd_session *to, const hd_session *from, hd_error *err)
{
    HD_TRY(copy_rows(to, from, err));
    copy_marks(to, from);
    memcpy(to->tokens, from->tokens, (size_t)from->length * sizeof *to->tokens);
    memcpy(to->logits, from->logits,
           (size_t)from->engine->model.config->n_vocab * sizeof *to->logits);
    to->length = from->length;
    to->has_logits = from->has_logits;
    return HD_OK;
}

hd_status hd_session_fork(hd_session *to, const hd_session *from, hd_error *err)
{
    if (to->engine != from->engine) HD_FAIL(err, HD_ERR_INVALID, "sessions of two engines");
    if (to == from) return HD_OK;
    pthread_mutex_lock(&to->engine->lock);
    hd_status const status = fork_from(to, from, err);
    pthread_mutex_unlock(&to->engine->lock);
    return status;
}

const int32_t *hd_session_tokens(const hd_session *s) { return s->tokens; }
