#include <assert.h>
#include <string.h>

#include "engine/prefix.h"

hd_kept *hd_kept_make(hd_kept *above, const int32_t *tokens, int32_t n, bool is_state)
{
    hd_kept *const k = hd_memory_alloc(sizeof *k + (size_t)n * sizeof k->tokens[0]);
    if (!k) return NULL;
    k->above = above;
    k->n = n;
    k->at = (above ? above->at : 0) + n;
    k->is_state = is_state;
    if (n > 0) memcpy(k->tokens, tokens, (size_t)n * sizeof *tokens);
    return k;
}

void hd_kept_free(hd_kept *k)
{
    if (!k) return;
    hd_memory_free(k->bytes);
    hd_memory_free(k);
}

static bool has_tokens(const hd_kept *k, const int32_t *tokens)
{
    return memcmp(k->tokens, tokens, (size_t)k->n * sizeof *tokens) == 0;
}

hd_kept *hd_kept_find(const hd_kept *above, const int32_t *tokens, int32_t n, bool is_state)
{
    for (hd_kept *k = above->below; k; k = k->beside)
        if (k->is_state == is_state && k->n == n && has_tokens(k, tokens)) return k;
    return NULL;
}

/* The state behind a page that most of tokens [n_max] lead to. */
static hd_kept *longest_state(const hd_kept *page, const int32_t *tokens, int32_t n_max)
{
    hd_kept *best = NULL;
    for (hd_kept *k = page->below; k; k = k->beside)
        if (k->is_state && k->at <= n_max && (!best || k->at > best->at) &&
            has_tokens(k, tokens + page->at))
            best = k;
    return best;
}

hd_kept *hd_prefix_find(const hd_prefix *p, const int32_t *tokens, int32_t n_max, int32_t *n_shared)
{
    const hd_kept *page = p->root, *next = page;
    hd_kept       *best = NULL;
    for (; next; next = page->at + HD_CACHE_EDGE <= n_max
                            ? hd_kept_find(page, tokens + page->at, HD_CACHE_EDGE, false)
                            : NULL) {
        page = next;
        hd_kept *const here = longest_state(page, tokens, n_max);
        if (here) best = here;
    }
    *n_shared = page->at;
    return best;
}

/* ---- by use ---- */

static void leave_order(hd_prefix *p, hd_kept *k)
{
    *(k->older ? &k->older->newer : &p->oldest) = k->newer;
    *(k->newer ? &k->newer->older : &p->newest) = k->older;
    k->older = k->newer = NULL;
}

static void become_newest(hd_prefix *p, hd_kept *k)
{
    k->older = p->newest;
    *(p->newest ? &p->newest->newer : &p->oldest) = k;
    p->newest = k;
    k->used = p->clock;
}

void hd_prefix_touch(hd_prefix *p, hd_kept *k)
{
    for (; k->above; k = k->above) {
        leave_order(p, k);
        become_newest(p, k);
    }
}

/* ---- in and out ---- */

void hd_prefix_link(hd_prefix *p, hd_kept *k)
{
    k->beside = k->above->below;
    k->above->below = k;
    become_newest(p, k);
}

void hd_prefix_unlink(hd_prefix *p, hd_kept *k)
{
    hd_kept **at = &k->above->below;
    assert(!k->below && k->file == HD_KEPT_UNWRITTEN);
    while (*at != k) at = &(*at)->beside;
    *at = k->beside;
    leave_order(p, k);
    hd_kept_free(k);
}
