#include "grammar/view.h"

#include <string.h>

/* ---- walking the trie ---- */

#define MANY_IDS 512 /* from here on a mask is faster and hardly larger */

hd_status hd_walk_open(hd_walk *w, const hd_views *v, hd_error *err)
{
    size_t const n = (size_t)v->trie->max_bytes + 1;
    w->run.a = v->a;
    w->marks = hd_memory_alloc(n * sizeof *w->marks);
    w->ends = hd_memory_alloc(n * sizeof *w->ends);
    if (!w->marks || !w->ends) HD_FAIL(err, HD_ERR_MEMORY, "grammar: no memory for a matcher");
    return HD_OK;
}

void hd_walk_close(hd_walk *w)
{
    hd_run_free(&w->run);
    hd_memory_free(w->marks);
    hd_memory_free(w->ends);
}

typedef struct walker {
    const hd_token_trie *trie;
    hd_walk             *walk;
    hd_view             *view;
} walker;

static void add_token(walker *w, uint32_t node)
{
    int32_t const id = w->trie->token[node];
    if (id >= 0) hd_buffer_add(&w->view->ids, &id, sizeof id);
}

static void add_exit(walker *w, uint32_t node)
{
    hd_buffer_add(&w->view->exits, &node, sizeof node);
}

/* Whether nothing but text can be read from a mark on, more of it than a token has. */
static bool is_all_text(const walker *w, const hd_run_mark *m)
{
    const hd_run *const        run = &w->walk->run;
    const hd_thread *const     t = hd_run_threads(run) + m->first;
    const hd_rule_state *const s = hd_automaton_states(run->a) + t->state;
    uint32_t const             max = hd_automaton_rules(run->a)[s->rule].shape.max;
    return m->n == 1 && s->is_text && (max == HD_COUNT_ANY || max - t->count > w->trie->max_bytes);
}

/* Reads the byte of a node.  returns whether any thread took it, and those below it are to be read
 */
static bool enter(walker *w, uint32_t node, uint32_t depth)
{
    hd_run *const      run = &w->walk->run;
    hd_run_mark *const m = &w->walk->marks[depth];
    *m = hd_run_step(run, m - 1, w->trie->byte[node]);
    if (m->n == 0) return false;
    if (w->trie->is_plain[node] && is_all_text(w, m)) {
        for (uint32_t i = node; i < w->trie->skip[node]; i++) add_token(w, i);
        return false;
    }
    hd_run_close(run, m);
    add_token(w, node);
    if (m->has_end) add_exit(w, node);
    w->walk->ends[depth] = w->trie->skip[node];
    return true;
}

/* All nodes below one, at which the threads of marks[0] stand. */
static void walk_below(walker *w, uint32_t node)
{
    uint32_t *const ends = w->walk->ends;
    uint32_t        depth = 0;
    ends[0] = w->trie->skip[node];
    for (uint32_t i = node + 1; i < ends[0];) {
        while (i >= ends[depth]) depth--;
        bool const is_known = w->view->text_room && w->trie->is_plain[i];
        if (!is_known && enter(w, i, depth + 1))
            depth++, i++;
        else
            i = w->trie->skip[i];
    }
}

/* How many characters of plain text may come: as many as a token can have if more, 0 when the run
 * does not stand in text.  All plain tokens that are short enough are allowed then, and none of
 * them has an exit. */
static uint32_t find_text_room(const walker *w)
{
    const hd_run *const run = &w->walk->run;
    const hd_run_mark  *m = &w->walk->marks[0];
    const hd_thread    *text = NULL;
    for (uint32_t i = m->first; i < m->first + m->n; i++) {
        const hd_thread *const     t = hd_run_threads(run) + i;
        const hd_rule_state *const s = hd_automaton_states(run->a) + t->state;
        if (s->is_text && !text)
            text = t;
        else if (hd_automaton_reads_plain(run->a, s))
            return 0;
    }
    if (!text) return 0;
    const hd_rule_state *const s = hd_automaton_states(run->a) + text->state;
    uint32_t const             max = hd_automaton_rules(run->a)[s->rule].shape.max;
    bool const                 is_far =
        !s->counts_text || max == HD_COUNT_ANY || max - text->count > w->trie->max_bytes;
    return is_far ? w->trie->max_bytes : max - text->count;
}

static void walk_all(walker *w, uint32_t count)
{
    hd_view *const        view = w->view;
    const hd_view *const  inner = view->inner;
    uint32_t const        root = 0;
    const uint32_t *const from = inner ? (const uint32_t *)(const void *)inner->exits.data : &root;
    size_t const          n = inner ? inner->exits.used / sizeof *from : 1;
    hd_run_mark *const    m = &w->walk->marks[0];
    *m = hd_run_begin(&w->walk->run, view->place.state, count, view->place.depth);
    hd_run_close(&w->walk->run, m);
    view->text_room = inner ? 0 : find_text_room(w);
    for (size_t i = 0; i < n; i++) {
        if (m->has_end) add_exit(w, from[i]);
        walk_below(w, from[i]);
    }
}

/* ---- one view ---- */

static void free_view(hd_view *view)
{
    if (!view) return;
    hd_buffer_free(&view->ids);
    hd_buffer_free(&view->exits);
    hd_memory_free(view->mask);
    hd_memory_free(view);
}

static void set_bits(uint32_t *mask, const hd_buffer *ids)
{
    const int32_t *const id = (const int32_t *)(const void *)ids->data;
    for (size_t i = 0; i < ids->used / sizeof *id; i++) mask[id[i] / 32] |= 1u << id[i] % 32;
}

/* Where there is not room for every token, the plain ones that are short enough. */
static void add_short_plain(uint32_t *mask, const hd_view *view, const hd_token_trie *t)
{
    uint32_t const n = t->plain_until[view->text_room];
    for (uint32_t i = 0; i < n; i++) mask[t->plain[i] / 32] |= 1u << t->plain[i] % 32;
}

static bool ids_to_mask(hd_view *view, const hd_views *v)
{
    view->is_text = view->text_room == v->trie->max_bytes;
    bool const is_short = view->text_room && !view->is_text;
    if (!is_short && view->ids.used < MANY_IDS * sizeof(int32_t)) return true;
    view->mask = hd_memory_alloc((size_t)v->n_words * sizeof *view->mask);
    if (!view->mask) return false;
    set_bits(view->mask, &view->ids);
    if (is_short) add_short_plain(view->mask, view, v->trie);
    hd_buffer_free(&view->ids);
    return true;
}

static size_t view_bytes(const hd_views *v, const hd_view *view)
{
    size_t const mask = view->mask ? v->n_words * sizeof *view->mask : 0;
    return sizeof *view + view->ids.cap + view->exits.cap + mask;
}

static void use_view(const hd_views *v, const hd_view *view, uint32_t *mask)
{
    for (uint32_t i = 0; view->is_text && i < v->n_words; i++) mask[i] |= v->trie->plain_mask[i];
    for (uint32_t i = 0; view->mask && i < v->n_words; i++) mask[i] |= view->mask[i];
    set_bits(mask, &view->ids);
}

/* ---- the table ---- */

void hd_views_open(hd_views *v, const hd_automaton *a, const hd_token_trie *trie, int32_t n_vocab)
{
    v->a = a;
    v->trie = trie;
    v->n_words = ((uint32_t)n_vocab + 31) / 32;
    pthread_mutex_init(&v->lock, NULL);
}

void hd_views_close(hd_views *v)
{
    for (uint32_t i = 0; i < HD_VIEW_SLOTS; i++)
        while (v->slots[i]) {
            hd_view *const view = v->slots[i];
            v->slots[i] = view->next;
            free_view(view);
        }
    if (v->a) pthread_mutex_destroy(&v->lock);
}

static hd_view **find_slot(hd_views *v, const hd_view *inner, const hd_place *p)
{
    uint64_t h = (uintptr_t)inner / sizeof(hd_view);
    h = (h ^ p->state) * 0x9E3779B97F4A7C15u;
    h = (h ^ p->need ^ (uint64_t)p->room << 16 ^ (uint64_t)p->depth << 32) * 0x9E3779B97F4A7C15u;
    return &v->slots[(h >> 40) % HD_VIEW_SLOTS];
}

static hd_view *find_view(hd_views *v, const hd_view *inner, const hd_place *p)
{
    hd_view *view = *find_slot(v, inner, p);
    while (view && (view->inner != inner || memcmp(&view->place, p, sizeof *p) != 0))
        view = view->next;
    return view;
}

/* Puts a view into the table if there is room and nobody was faster.
 * returns  the one to use, which its user frees if it is not kept */
static hd_view *keep_view(hd_views *v, hd_view *view)
{
    size_t const bytes = view_bytes(v, view);
    pthread_mutex_lock(&v->lock);
    hd_view *const there = find_view(v, view->inner, &view->place);
    bool const     may_stay = !view->inner || view->inner->is_kept;
    if (!there && may_stay && bytes <= HD_MAX_VIEW_BYTES - v->bytes) {
        hd_view **const slot = find_slot(v, view->inner, &view->place);
        view->next = *slot;
        view->is_kept = true;
        *slot = view;
        v->bytes += bytes;
    }
    pthread_mutex_unlock(&v->lock);
    if (there) free_view(view);
    return there ? there : view;
}

/* ---- the views of a thread ---- */

typedef struct asker {
    hd_views     *views;
    const hd_run *run;
    hd_walk      *walk;
    uint32_t     *mask;
    hd_error     *err;
} asker;

static uint32_t at_most(uint32_t n, uint32_t most) { return n < most ? n : most; }

/* Beyond the bytes of a token, a distance is as good as any; the same holds for depth. */
static hd_place place_of(const asker *a, const hd_thread *t)
{
    const hd_automaton *const  g = a->views->a;
    const hd_token_trie *const trie = a->views->trie;
    const hd_rule_shape *const s =
        &hd_automaton_rules(g)[hd_automaton_states(g)[t->state].rule].shape;
    uint32_t const depth = hd_run_calls(a->run)[t->call].depth, far = trie->max_bytes + 1;
    uint32_t const need = s->min > t->count ? s->min - t->count : 0;
    uint32_t const room = s->max == HD_COUNT_ANY ? far : s->max - t->count;
    return (hd_place){.state = t->state,
                      .need = at_most(need, far),
                      .room = at_most(room, far),
                      .depth =
                          depth + trie->max_brackets + g->max_height > HD_MAX_NESTING ? depth : 0};
}

static hd_status make_view(asker *a, hd_view **out, const hd_view *inner, const hd_place *place,
                           uint32_t count)
{
    hd_view *const view = hd_memory_alloc(sizeof *view);
    hd_status      status = HD_ERR_MEMORY;
    if (view) {
        view->inner = inner;
        view->place = *place;
        walk_all(&(walker){a->views->trie, a->walk, view}, count);
        status = hd_run_check(&a->walk->run, a->err);
        if (view->ids.failed || view->exits.failed || !ids_to_mask(view, a->views))
            status = HD_ERR_MEMORY;
    }
    if (status == HD_ERR_MEMORY) hd_error_set(a->err, status, -1, "grammar: no memory for a mask");
    if (status == HD_OK)
        *out = keep_view(a->views, view);
    else
        free_view(view);
    return status;
}

/* Adds the tokens of a thread that end in its call, and those that end in the calls around. */
static hd_status add_thread(asker *a, const hd_view *inner, const hd_thread *t)
{
    hd_place const place = place_of(a, t);
    hd_status      status = HD_OK;
    pthread_mutex_lock(&a->views->lock);
    hd_view *view = find_view(a->views, inner, &place);
    pthread_mutex_unlock(&a->views->lock);
    if (!view) HD_TRY(make_view(a, &view, inner, &place, t->count));
    use_view(a->views, view, a->mask);
    uint32_t b = view->exits.used ? hd_run_calls(a->run)[t->call].back : HD_NO_BACK;
    for (; b != HD_NO_BACK && status == HD_OK; b = hd_run_backs(a->run)[b].next)
        status = add_thread(a, view, &hd_run_backs(a->run)[b].to);
    if (!view->is_kept) free_view(view);
    return status;
}

hd_status hd_views_add(hd_views *v, const hd_run *r, const hd_run_mark *m, hd_walk *walk,
                       uint32_t *mask, hd_error *err)
{
    asker a = {v, r, walk, mask, err};
    for (uint32_t i = 0; i < m->n; i++)
        HD_TRY(add_thread(&a, NULL, hd_run_threads(r) + m->first + i));
    return HD_OK;
}
