#include "server/grammar_cache.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"

enum { MAX_IDLE = 32 };

struct hd_held_grammar {
    hd_held_grammar   *next;
    hd_grammar        *grammar; /* owned */
    hd_grammar_options options; /* its texts lie in `pool` */
    hd_pool            pool;    /* owned */
    _Atomic int32_t    n_holders;
    uint64_t           used; /* the cache's clock when it was asked for last */
};

struct hd_grammar_cache {
    const hd_tokenizer *tokenizer; /* borrowed */
    hd_held_grammar    *list;      /* owned */
    int32_t             n;
    uint64_t            clock;
};

hd_status hd_grammar_cache_open(hd_grammar_cache **out, const hd_tokenizer *t, hd_error *err)
{
    hd_grammar_cache *const c = hd_memory_alloc(sizeof *c);
    if (!c) HD_FAIL(err, HD_ERR_MEMORY, "no memory for grammars");
    c->tokenizer = t;
    *out = c;
    return HD_OK;
}

static void free_grammar(hd_held_grammar *g)
{
    hd_grammar_close(g->grammar);
    hd_pool_free(&g->pool);
    hd_memory_free(g);
}

void hd_grammar_cache_close(hd_grammar_cache *c)
{
    if (!c) return;
    for (hd_held_grammar *g = c->list, *next; g; g = next) {
        next = g->next;
        free_grammar(g);
    }
    hd_memory_free(c);
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool same_bytes(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return !a == !b && a_bytes == b_bytes && (a_bytes == 0 || memcmp(a, b, a_bytes) == 0);
}

static bool is_same(const hd_grammar_options *a, const hd_grammar_options *b)
{
    return a->kind == b->kind && a->dialect == b->dialect && a->is_single == b->is_single &&
           a->is_optional == b->is_optional && same_text(a->function, b->function) &&
           same_bytes(a->json, a->json_bytes, b->json, b->json_bytes) &&
           same_bytes(a->instead, a->instead_bytes, b->instead, b->instead_bytes);
}

static hd_held_grammar *find(hd_grammar_cache *c, const hd_grammar_options *o)
{
    for (hd_held_grammar *g = c->list; g; g = g->next)
        if (is_same(&g->options, o)) return g;
    return NULL;
}

/* The place in the list of the one that nobody holds and that was not asked for the longest. */
static hd_held_grammar **find_oldest(hd_grammar_cache *c)
{
    hd_held_grammar **oldest = NULL;
    for (hd_held_grammar **g = &c->list; *g; g = &(*g)->next)
        if ((*g)->n_holders == 0 && (!oldest || (*g)->used < (*oldest)->used)) oldest = g;
    return oldest;
}

static void make_room(hd_grammar_cache *c)
{
    hd_held_grammar **place;
    while (c->n >= MAX_IDLE && (place = find_oldest(c))) {
        hd_held_grammar *const g = *place;
        *place = g->next;
        c->n--;
        free_grammar(g);
    }
}

static hd_status copy_text(hd_pool *pool, const char **text, size_t bytes, hd_error *err)
{
    if (!*text) return HD_OK;
    *text = hd_pool_copy(pool, *text, bytes);
    if (!*text) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a grammar");
    return HD_OK;
}

static hd_status copy_options(hd_held_grammar *g, const hd_grammar_options *o, hd_error *err)
{
    g->options = *o;
    HD_TRY(copy_text(&g->pool, &g->options.json, o->json_bytes, err));
    HD_TRY(copy_text(&g->pool, &g->options.instead, o->instead_bytes, err));
    return copy_text(&g->pool, &g->options.function, o->function ? strlen(o->function) : 0, err);
}

static hd_status compile(hd_grammar_cache *c, const hd_grammar_options *o, hd_held_grammar **out,
                         hd_error *err)
{
    hd_held_grammar *const g = hd_memory_alloc(sizeof *g);
    if (!g) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a grammar");
    hd_status s = copy_options(g, o, err);
    if (s == HD_OK) s = hd_grammar_open(&g->grammar, c->tokenizer, &g->options, err);
    if (s == HD_OK)
        *out = g;
    else
        free_grammar(g);
    return s;
}

hd_status hd_grammar_cache_hold(hd_grammar_cache *c, const hd_grammar_options *o,
                                hd_held_grammar **out, hd_error *err)
{
    hd_held_grammar *g = find(c, o);
    if (!g) {
        make_room(c);
        HD_TRY(compile(c, o, &g, err));
        g->next = c->list;
        c->list = g;
        c->n++;
    }
    g->n_holders++;
    g->used = ++c->clock;
    *out = g;
    return HD_OK;
}

void hd_grammar_cache_release(hd_held_grammar *g)
{
    if (g) g->n_holders--;
}

const hd_grammar *hd_held_grammar_get(const hd_held_grammar *g) { return g ? g->grammar : NULL; }
