#include "grammar/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/state_sets.h"

/* Making a DFA: each of its states is a set of states, of the NFA or a pair of two DFAs.  Sets
 * are numbered as they are met; the number is the state. */

typedef struct maker {
    hd_dfa       *dfa;
    hd_state_sets sets;
    uint64_t      work;
    const char   *path;
    hd_error     *err;
    /* of an NFA */
    const hd_nfa      *nfa;
    const hd_nfa_edge *edges; /* of nfa */
    uint32_t          *stamp; /* [nfa->n] owned: the last closure that has this state */
    uint32_t           n_closures;
    hd_buffer          closure; /* uint32_t: the set being gathered */
    hd_buffer          leaving; /* hd_nfa_edge: all that leave the set */
    hd_buffer          cuts;    /* uint32_t: labels where the targets may change */
} maker;

static uint32_t *numbers(const hd_buffer *b) { return (uint32_t *)(void *)b->data; }
static size_t    count_numbers(const hd_buffer *b) { return b->used / sizeof(uint32_t); }

static hd_status fail_memory(const maker *m)
{
    HD_FAIL(m->err, HD_ERR_MEMORY, "%s: no memory for its automaton", m->path);
}

static hd_status add_work(maker *m, uint64_t more)
{
    m->work += more;
    if (m->work > HD_MAX_DFA_WORK || m->sets.n > HD_MAX_DFA)
        HD_FAIL(m->err, HD_ERR_LIMIT, "%s: grows too large as an automaton; %u states so far",
                m->path, m->sets.n);
    return HD_OK;
}

static void begin_state(maker *m, bool accepts)
{
    hd_dfa_state const state = {.first = (uint32_t)(m->dfa->edges.used / sizeof(hd_dfa_edge)),
                                .accepts = accepts};
    hd_buffer_add(&m->dfa->states, &state, sizeof state);
    if (!m->dfa->states.failed) m->dfa->n++;
}

/* Adds an edge to the state begun last; one that goes on where the last ended joins it, unless it
 * is a call: those are one rule each. */
static void add_edge(maker *m, const hd_dfa_edge *e)
{
    hd_dfa *const d = m->dfa;
    if (d->states.failed || d->edges.failed) return;
    hd_dfa_state *const state = hd_dfa_states(d) + d->n - 1;
    hd_dfa_edge *const  last = state->n ? hd_dfa_edges(d) + state->first + state->n - 1 : NULL;
    bool const          is_next = last && last->hi + 1 == e->lo && e->hi < HD_LABEL_CALL;
    if (is_next && last->to == e->to && last->flags == e->flags) {
        last->hi = e->hi;
        return;
    }
    hd_buffer_add(&d->edges, e, sizeof *e);
    state->n++;
}

/* ---- of an NFA ---- */

static int compare_numbers(const void *a, const void *b)
{
    uint32_t const x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void begin_closure(maker *m)
{
    hd_buffer_clear(&m->closure);
    m->n_closures++;
}

static void add_to_closure(maker *m, uint32_t state)
{
    if (m->stamp[state] == m->n_closures) return;
    m->stamp[state] = m->n_closures;
    hd_buffer_add(&m->closure, &state, sizeof state);
}

/* Adds what can be reached by reading nothing, and numbers the set. */
static hd_status end_closure(maker *m, uint32_t *number)
{
    for (size_t i = 0; i < count_numbers(&m->closure); i++) {
        uint32_t e = numbers(&m->nfa->heads)[numbers(&m->closure)[i]];
        for (; e != HD_NO_EDGE; e = m->edges[e].next)
            if (m->edges[e].lo > m->edges[e].hi) add_to_closure(m, m->edges[e].to);
    }
    if (m->closure.failed) return fail_memory(m);
    size_t const n = count_numbers(&m->closure);
    HD_TRY(add_work(m, n));
    if (n) qsort(m->closure.data, n, sizeof(uint32_t), compare_numbers);
    *number = hd_state_sets_put(&m->sets, numbers(&m->closure), n);
    return *number == HD_NO_SET ? fail_memory(m) : HD_OK;
}

static int compare_leaving(const void *a, const void *b)
{
    return compare_numbers(&((const hd_nfa_edge *)a)->lo, &((const hd_nfa_edge *)b)->lo);
}

/* All edges that read something, by their first label, and the labels where any begins or ends.
 * returns whether the set has the NFA's end */
static bool gather_leaving(maker *m, uint32_t number)
{
    size_t                n;
    bool                  accepts = false;
    const uint32_t *const states = hd_state_sets_get(&m->sets, number, &n);
    hd_buffer_clear(&m->leaving);
    hd_buffer_clear(&m->cuts);
    for (size_t i = 0; i < n; i++) {
        accepts = accepts || states[i] == HD_NFA_END;
        uint32_t e = numbers(&m->nfa->heads)[states[i]];
        for (; e != HD_NO_EDGE; e = m->edges[e].next) {
            const hd_nfa_edge *const edge = &m->edges[e];
            uint32_t const           cuts[] = {edge->lo, edge->hi + 1};
            if (edge->lo > edge->hi) continue;
            hd_buffer_add(&m->leaving, edge, sizeof *edge);
            hd_buffer_add(&m->cuts, cuts, sizeof cuts);
        }
    }
    if (m->leaving.failed || m->cuts.failed) return false;
    size_t const n_leaving = m->leaving.used / sizeof(hd_nfa_edge);
    if (n_leaving) qsort(m->leaving.data, n_leaving, sizeof(hd_nfa_edge), compare_leaving);
    if (n_leaving) qsort(m->cuts.data, n_leaving * 2, sizeof(uint32_t), compare_numbers);
    return accepts;
}

/* The edges of labels lo..hi, in which nothing begins or ends.  Those before *first end before. */
static hd_status add_interval(maker *m, uint32_t lo, uint32_t hi, size_t *first)
{
    const hd_nfa_edge *const leaving = (const hd_nfa_edge *)(const void *)m->leaving.data;
    size_t const             n = m->leaving.used / sizeof *leaving;
    hd_dfa_edge              edge = {.lo = lo, .hi = hi};
    size_t                   i = *first;
    begin_closure(m);
    while (i < n && leaving[i].hi < lo) i++;
    *first = i;
    for (; i < n && leaving[i].lo <= lo; i++) {
        if (leaving[i].hi < lo) continue;
        add_to_closure(m, leaving[i].to);
        edge.flags |= leaving[i].flags;
    }
    HD_TRY(add_work(m, i - *first + 1));
    if (m->closure.used == 0 && !m->closure.failed) return HD_OK;
    HD_TRY(end_closure(m, &edge.to));
    add_edge(m, &edge);
    return HD_OK;
}

static hd_status expand_set(maker *m, uint32_t number)
{
    bool const accepts = gather_leaving(m, number);
    if (m->leaving.failed || m->cuts.failed) return fail_memory(m);
    begin_state(m, accepts);
    size_t       first = 0;
    size_t const n = count_numbers(&m->cuts);
    for (size_t i = 0; i + 1 < n; i++) {
        uint32_t const lo = numbers(&m->cuts)[i], end = numbers(&m->cuts)[i + 1];
        if (lo < end) HD_TRY(add_interval(m, lo, end - 1, &first));
    }
    return HD_OK;
}

static hd_status expand_all(maker *m, hd_status (*expand)(maker *, uint32_t))
{
    for (uint32_t i = 0; i < m->sets.n; i++) HD_TRY(expand(m, i));
    return m->dfa->states.failed || m->dfa->edges.failed ? fail_memory(m) : HD_OK;
}

static hd_status make_from_nfa(maker *m)
{
    uint32_t number;
    m->stamp = hd_memory_alloc(((size_t)m->nfa->n + 1) * sizeof *m->stamp);
    if (!m->stamp) return fail_memory(m);
    begin_closure(m);
    add_to_closure(m, HD_NFA_START);
    HD_TRY(end_closure(m, &number));
    return expand_all(m, expand_set);
}

static void free_maker(maker *m)
{
    hd_state_sets_free(&m->sets);
    hd_memory_free(m->stamp);
    hd_buffer_free(&m->closure);
    hd_buffer_free(&m->leaving);
    hd_buffer_free(&m->cuts);
}

hd_status hd_dfa_make(hd_dfa *out, const hd_nfa *n, const char *path, hd_error *err)
{
    maker m = {.dfa = out,
               .path = path,
               .err = err,
               .nfa = n,
               .edges = (const hd_nfa_edge *)(const void *)n->edges.data};
    if (n->is_full)
        HD_FAIL(err, HD_ERR_LIMIT, "%s: more than %u parts of an automaton", path, HD_MAX_NFA);
    if (n->heads.failed || n->edges.failed) return fail_memory(&m);
    hd_status const status = make_from_nfa(&m);
    free_maker(&m);
    return status;
}

void hd_dfa_free(hd_dfa *d)
{
    hd_buffer_free(&d->states);
    hd_buffer_free(&d->edges);
    d->n = 0;
}

/* ---- of two DFAs ---- */

/* A set is a pair: the state of a, and the state of b plus 1, 0 where b has none. */
typedef struct pairing {
    maker         m; /* first, so that a maker is one */
    const hd_dfa *a, *b;
    hd_dfa_op     op;
} pairing;

static const hd_dfa_state *state_of(const hd_dfa *d, uint32_t number)
{
    return hd_dfa_states(d) + number;
}

/* NULL when there are none: then the DFA may have no edges at all, and no memory for them. */
static const hd_dfa_edge *edges_of(const hd_dfa *d, const hd_dfa_state *s)
{
    return s->n ? hd_dfa_edges(d) + s->first : NULL;
}

/* An edge of a over labels for which b does the same: to `to_b`, a state plus 1. */
static hd_status add_pair(pairing *p, const hd_dfa_edge *of_a, uint32_t lo, uint32_t hi,
                          uint32_t to_b)
{
    uint32_t const pair[] = {of_a->to, to_b};
    hd_dfa_edge    edge = {.lo = lo, .hi = hi, .flags = of_a->flags};
    if (to_b == 0 && p->op == HD_DFA_BOTH) return HD_OK;
    HD_TRY(add_work(&p->m, 1));
    edge.to = hd_state_sets_put(&p->m.sets, pair, 2);
    if (edge.to == HD_NO_SET) return fail_memory(&p->m);
    add_edge(&p->m, &edge);
    return HD_OK;
}

/* Cuts an edge of a where edges of b begin and end. */
static hd_status pair_edge(pairing *p, const hd_dfa_edge *e, const hd_dfa_edge *b, uint32_t n_b)
{
    uint32_t lo = e->lo;
    for (uint32_t i = 0; i < n_b && lo <= e->hi; i++) {
        if (b[i].hi < lo) continue;
        if (b[i].lo > e->hi) break;
        if (b[i].lo > lo) HD_TRY(add_pair(p, e, lo, b[i].lo - 1, 0));
        if (b[i].lo > lo) lo = b[i].lo;
        uint32_t const hi = b[i].hi < e->hi ? b[i].hi : e->hi;
        HD_TRY(add_pair(p, e, lo, hi, b[i].to + 1));
        lo = hi + 1;
    }
    return lo <= e->hi ? add_pair(p, e, lo, e->hi, 0) : HD_OK;
}

static hd_status expand_pair(maker *m, uint32_t number)
{
    pairing *const            p = (pairing *)m;
    size_t                    n;
    const uint32_t *const     pair = hd_state_sets_get(&m->sets, number, &n);
    const hd_dfa_state *const a = state_of(p->a, pair[0]);
    const hd_dfa_state *const b = pair[1] ? state_of(p->b, pair[1] - 1) : NULL;
    bool const                b_accepts = b && b->accepts;
    begin_state(m, a->accepts && b_accepts == (p->op == HD_DFA_BOTH));
    for (uint32_t i = 0; i < a->n; i++)
        HD_TRY(pair_edge(p, edges_of(p->a, a) + i, b ? edges_of(p->b, b) : NULL, b ? b->n : 0));
    return HD_OK;
}

hd_status hd_dfa_combine(hd_dfa *out, const hd_dfa *a, const hd_dfa *b, hd_dfa_op op,
                         const char *path, hd_error *err)
{
    pairing        p = {.m = {.dfa = out, .path = path, .err = err}, .a = a, .b = b, .op = op};
    uint32_t const start[] = {0, 1};
    hd_status      status = HD_OK;
    if (hd_state_sets_put(&p.m.sets, start, 2) == HD_NO_SET) status = fail_memory(&p.m);
    if (status == HD_OK) status = expand_all(&p.m, expand_pair);
    free_maker(&p.m);
    return status;
}

/* ---- use ---- */

bool hd_dfa_matches(const hd_dfa *d, const char *text, size_t bytes)
{
    const hd_dfa_state *state = state_of(d, 0);
    for (size_t i = 0; i < bytes; i++) {
        const hd_dfa_edge *e = edges_of(d, state), *const end = state->n ? e + state->n : NULL;
        unsigned char const c = (unsigned char)text[i];
        while (e < end && e->hi < c) e++;
        if (e == end || e->lo > c) return false;
        state = state_of(d, e->to);
    }
    return state->accepts;
}

/* All states of a DFA were made because they can be reached. */
bool hd_dfa_is_empty(const hd_dfa *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (state_of(d, i)->accepts) return false;
    return true;
}

void hd_dfa_embed(const hd_dfa *d, hd_nfa *n, uint32_t from, uint32_t to)
{
    uint32_t const base = n->n;
    for (uint32_t i = 0; i < d->n; i++) hd_nfa_state(n);
    if (n->is_full || n->heads.failed) return;
    hd_nfa_skip(n, from, base);
    for (uint32_t i = 0; i < d->n; i++) {
        const hd_dfa_state *const state = state_of(d, i);
        if (state->accepts) hd_nfa_skip(n, base + i, to);
        for (uint32_t k = 0; k < state->n; k++) {
            const hd_dfa_edge *const e = hd_dfa_edges(d) + state->first + k;
            hd_nfa_edge_add(
                n, base + i,
                &(hd_nfa_edge){.lo = e->lo, .hi = e->hi, .to = base + e->to, .flags = e->flags});
        }
    }
}
