#include "grammar/automaton.h"

uint32_t hd_automaton_declare(hd_automaton *a)
{
    hd_rule const rule = {0};
    if (a->n_rules == HD_MAX_RULES) return HD_NO_RULE;
    hd_buffer_add(&a->rules, &rule, sizeof rule);
    return a->rules.failed ? HD_NO_RULE : a->n_rules++;
}

void hd_automaton_free(hd_automaton *a)
{
    hd_buffer_free(&a->rules);
    hd_buffer_free(&a->states);
    hd_buffer_free(&a->edges);
    hd_buffer_free(&a->rows);
    a->n_rules = a->n_states = 0;
}

bool hd_automaton_has_word(const hd_automaton *a, uint32_t rule)
{
    return hd_automaton_rules(a)[rule].height <= HD_MAX_NESTING;
}

/* ---- definition ---- */

static void add_state(hd_automaton *a, const hd_dfa *d, uint32_t number, uint32_t rule,
                      uint32_t base)
{
    const hd_dfa_state *const from = hd_dfa_states(d) + number;
    hd_rule_state             s = {.first = (uint32_t)(a->edges.used / sizeof(hd_dfa_edge)),
                                   .rule = rule,
                                   .accepts = from->accepts};
    for (uint32_t i = 0; i < from->n; i++) {
        hd_dfa_edge e = hd_dfa_edges(d)[from->first + i];
        if (e.lo >= HD_LABEL_CALL)
            s.n_calls++;
        else
            s.n++;
        e.to += base;
        hd_buffer_add(&a->edges, &e, sizeof e);
    }
    hd_buffer_add(&a->states, &s, sizeof s);
}

hd_status hd_automaton_define(hd_automaton *a, uint32_t rule, const hd_nfa *n, hd_rule_shape shape,
                              const char *path, hd_error *err)
{
    hd_dfa         d = {0};
    uint32_t const base = a->n_states;
    hd_status      status = hd_dfa_make(&d, n, path, err);
    if (status == HD_OK && d.n > HD_MAX_STATES - base)
        status = hd_error_set(err, HD_ERR_LIMIT, -1, "%s: the grammar has more than %u states",
                              path, HD_MAX_STATES);
    for (uint32_t i = 0; status == HD_OK && i < d.n; i++) add_state(a, &d, i, rule, base);
    if (status == HD_OK && (a->edges.failed || a->states.failed))
        status = hd_error_set(err, HD_ERR_MEMORY, -1, "%s: no memory for its rule", path);
    if (status == HD_OK) {
        a->n_states += d.n;
        hd_automaton_rules(a)[rule] = (hd_rule){.shape = shape, .start = base};
    }
    hd_dfa_free(&d);
    return status;
}

/* ---- heights ----
 *
 * From the ends backwards, by rising height: a state is settled when an edge of it leads to a
 * settled state, and, if the edge is a call, the called rule is settled as well.  What is never
 * settled has no way to an end. */

#define UNSETTLED UINT32_MAX

/* The edges that lead to each state, and the calls of each rule. */
typedef struct finder {
    hd_automaton *a;
    uint32_t      n_edges;
    uint32_t     *source;              /* [n_edges] state that an edge leaves */
    uint32_t     *into_start, *into;   /* [n_states + 1], [n_edges]           */
    uint32_t     *calls_start, *calls; /* [n_rules + 1], [n_edges]            */
    uint32_t     *queue;               /* [n_states] settled, to be looked at */
    uint32_t      n_queue;
    uint32_t     *waiting; /* [n_rules] containers whose start is settled: the next height's */
    uint32_t      n_waiting, n_taken;
    hd_pool       pool;
} finder;

static bool is_call(const hd_dfa_edge *e) { return e->lo >= HD_LABEL_CALL; }

static uint32_t called_rule(const hd_dfa_edge *e) { return e->lo - HD_LABEL_CALL; }

static bool allocate_finder(finder *f)
{
    size_t const n_edges = (size_t)f->n_edges + 1, n_states = (size_t)f->a->n_states + 2;
    size_t const n_rules = (size_t)f->a->n_rules + 2;
    uint32_t   **tables[] = {&f->source, &f->into,        &f->calls,  &f->into_start,
                             &f->queue,  &f->calls_start, &f->waiting};
    size_t const sizes[] = {n_edges, n_edges, n_edges, n_states, n_states, n_rules, n_rules};
    for (int i = 0; i < 7; i++) {
        *tables[i] = hd_pool_alloc(&f->pool, sizes[i] * sizeof(uint32_t));
        if (!*tables[i]) return false;
    }
    return true;
}

/* Counts of each key, one place late, become where each key's run begins. */
static void sum_starts(uint32_t *start, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) start[i + 1] += start[i];
}

/* Filling from the end took each run's end, one place late, down to its beginning. */
static void shift_starts(uint32_t *start, uint32_t n, uint32_t total)
{
    for (uint32_t i = 0; i < n; i++) start[i] = start[i + 1];
    start[n] = total;
}

static void group_edges(finder *f)
{
    const hd_dfa_edge *const   edges = hd_automaton_edges(f->a);
    const hd_rule_state *const states = hd_automaton_states(f->a);
    uint32_t const             n_states = f->a->n_states, n_rules = f->a->n_rules;
    uint32_t                   n_calls = 0;
    for (uint32_t s = 0; s < n_states; s++)
        for (uint32_t i = 0; i < states[s].n + states[s].n_calls; i++)
            f->source[states[s].first + i] = s;
    for (uint32_t e = 0; e < f->n_edges; e++) {
        f->into_start[edges[e].to + 1]++;
        if (is_call(&edges[e])) f->calls_start[called_rule(&edges[e]) + 1]++, n_calls++;
    }
    sum_starts(f->into_start, n_states);
    sum_starts(f->calls_start, n_rules);
    for (uint32_t e = f->n_edges; e-- > 0;) {
        f->into[--f->into_start[edges[e].to + 1]] = e;
        if (is_call(&edges[e])) f->calls[--f->calls_start[called_rule(&edges[e]) + 1]] = e;
    }
    shift_starts(f->into_start, n_states, f->n_edges);
    shift_starts(f->calls_start, n_rules, n_calls);
}

static void settle_state(finder *f, uint32_t state, uint32_t height)
{
    hd_rule_state *const s = hd_automaton_states(f->a) + state;
    if (s->height != UNSETTLED) return;
    s->height = height;
    if (height > f->a->max_height) f->a->max_height = height;
    f->queue[f->n_queue++] = state;
}

static void settle_rule(finder *f, uint32_t rule, uint32_t height, uint32_t n_calls)
{
    hd_rule *const r = hd_automaton_rules(f->a) + rule;
    r->height = height;
    for (uint32_t i = 0; i < n_calls; i++) {
        uint32_t const e = f->calls[f->calls_start[rule] + i];
        uint32_t const to = hd_automaton_edges(f->a)[e].to;
        if (hd_automaton_states(f->a)[to].height != UNSETTLED)
            settle_state(f, f->source[e], height);
    }
}

static uint32_t count_calls(const finder *f, uint32_t rule)
{
    return f->calls_start[rule + 1] - f->calls_start[rule];
}

/* What a settled state settles: those before it, and its rule when it is the start. */
static void look_at(finder *f, uint32_t state, uint32_t height)
{
    const hd_rule *const rules = hd_automaton_rules(f->a);
    uint32_t const       rule = hd_automaton_states(f->a)[state].rule;
    for (uint32_t i = f->into_start[state]; i < f->into_start[state + 1]; i++) {
        const hd_dfa_edge *const e = hd_automaton_edges(f->a) + f->into[i];
        if (!is_call(e) || rules[called_rule(e)].height != UNSETTLED)
            settle_state(f, f->source[f->into[i]], height);
    }
    if (rules[rule].start != state) return;
    if (rules[rule].shape.is_container)
        f->waiting[f->n_waiting++] = rule;
    else
        settle_rule(f, rule, height, count_calls(f, rule));
}

static void settle_all(finder *f)
{
    hd_automaton *const a = f->a;
    uint32_t            looked = 0, taken = 0;
    for (uint32_t r = 0; r < a->n_rules; r++) hd_automaton_rules(a)[r].height = UNSETTLED;
    for (uint32_t s = 0; s < a->n_states; s++) hd_automaton_states(a)[s].height = UNSETTLED;
    for (uint32_t s = 0; s < a->n_states; s++)
        if (hd_automaton_states(a)[s].accepts) settle_state(f, s, 0);
    for (uint32_t height = 0; height <= HD_MAX_NESTING; height++) {
        uint32_t const n_waiting = f->n_waiting;
        for (; taken < n_waiting; taken++)
            settle_rule(f, f->waiting[taken], height, count_calls(f, f->waiting[taken]));
        while (looked < f->n_queue) look_at(f, f->queue[looked++], height);
        if (taken == f->n_waiting) break;
    }
}

/* ---- what remains ---- */

static bool is_live(const hd_automaton *a, const hd_dfa_edge *e)
{
    if (hd_automaton_states(a)[e->to].height == UNSETTLED) return false;
    return !is_call(e) || hd_automaton_rules(a)[called_rule(e)].height != UNSETTLED;
}

static void drop_dead_edges(hd_automaton *a)
{
    hd_dfa_edge *const edges = hd_automaton_edges(a);
    uint32_t           kept = 0;
    for (uint32_t s = 0; s < a->n_states; s++) {
        hd_rule_state *const state = hd_automaton_states(a) + s;
        uint32_t const       first = state->first, n = state->n + state->n_calls;
        state->first = kept;
        state->n = state->n_calls = 0;
        for (uint32_t i = first; i < first + n; i++) {
            if (!is_live(a, &edges[i])) continue;
            if (is_call(&edges[i]))
                state->n_calls++;
            else
                state->n++;
            edges[kept++] = edges[i];
        }
    }
    a->edges.used = (size_t)kept * sizeof *edges;
}

/* Where there are many edges, a table finds one at once. */
static void add_rows(hd_automaton *a)
{
    enum { FEW_EDGES = 3, MAX_ROWS = 4096 };
    uint32_t n_rows = 0;
    for (uint32_t s = 0; s < a->n_states && n_rows < MAX_ROWS; s++) {
        hd_rule_state *const state = hd_automaton_states(a) + s;
        uint32_t             row[256] = {0};
        if (state->n <= FEW_EDGES) continue;
        for (uint32_t i = state->first; i < state->first + state->n; i++) {
            const hd_dfa_edge *const e = hd_automaton_edges(a) + i;
            for (uint32_t c = e->lo; c <= e->hi && c < 256; c++) row[c] = i + 1;
        }
        hd_buffer_add(&a->rows, row, sizeof row);
        state->row = ++n_rows;
    }
}

/* ---- text ---- */

/* UTF-8, a run of byte ranges for each form of a character. */
typedef struct char_form {
    uint32_t n;
    uint8_t  lo[4], hi[4];
} char_form;
static const char_form char_forms[] = {
    {1, {0x20}, {0x7F}},
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

typedef struct text_check {
    const hd_automaton *a;
    uint32_t            home;  /* where the first character led; UNSETTLED: none yet */
    uint32_t            flags; /* of its first byte */
} text_check;

/* Whether all characters of a form lead from `at`, behind its first `i` bytes, to one home, with
 * the same flags on their first bytes. */
static bool leads_home(text_check *t, const char_form *form, uint32_t i, uint32_t at)
{
    uint32_t last = UNSETTLED; /* where the byte before led */
    if (i == form->n || i == sizeof form->lo) {
        if (t->home == UNSETTLED) t->home = at;
        return at == t->home;
    }
    for (uint32_t c = form->lo[i]; c <= form->hi[i]; c++) {
        if (!hd_is_plain_byte(c)) continue;
        const hd_dfa_edge *const e = hd_automaton_find(t->a, hd_automaton_states(t->a) + at, c);
        if (e && i == 0 && t->home == UNSETTLED) t->flags = e->flags;
        if (!e || e->flags != (i ? 0 : t->flags)) return false;
        if (e->to == last) continue;
        last = e->to;
        if (!leads_home(t, form, i + 1, last)) return false;
    }
    return true;
}

bool hd_automaton_reads_plain(const hd_automaton *a, const hd_rule_state *s)
{
    const hd_dfa_edge *const edges = hd_automaton_edges(a) + s->first;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t c = edges[i].lo; c <= edges[i].hi && c < 256; c++)
            if (hd_is_plain_byte(c)) return true;
    return false;
}

/* Whether a state calls anything that may begin with plain text. */
static bool calls_plain(const hd_automaton *a, const hd_rule_state *s)
{
    for (uint32_t i = 0; i < s->n_calls; i++) {
        const hd_dfa_edge *const   e = hd_automaton_edges(a) + s->first + s->n + i;
        const hd_rule_state *const start =
            hd_automaton_states(a) + hd_automaton_rules(a)[called_rule(e)].start;
        if (start->accepts || start->n_calls || hd_automaton_reads_plain(a, start)) return true;
    }
    return false;
}

/* Where plain text leads in one character, if it all leads to one state that does not accept. */
static bool find_home(const hd_automaton *a, uint32_t state, text_check *out)
{
    *out = (text_check){.a = a, .home = UNSETTLED};
    const hd_rule_state *const s = hd_automaton_states(a) + state;
    if (!s->row || s->accepts || calls_plain(a, s)) return false;
    for (size_t i = 0; i < sizeof char_forms / sizeof char_forms[0]; i++)
        if (!leads_home(out, &char_forms[i], 0, state)) return false;
    return !(out->flags & ~(uint32_t)HD_EDGE_COUNT);
}

static void mark_text(hd_automaton *a)
{
    for (uint32_t s = 0; s < a->n_states; s++) {
        hd_rule_state *const state = hd_automaton_states(a) + s;
        text_check           here, there;
        if (!find_home(a, s, &here) || !find_home(a, here.home, &there)) continue;
        state->is_text = there.home == here.home && there.flags == here.flags;
        state->counts_text = here.flags & HD_EDGE_COUNT;
    }
}

hd_status hd_automaton_finish(hd_automaton *a, hd_error *err)
{
    finder f = {.a = a, .n_edges = (uint32_t)(a->edges.used / sizeof(hd_dfa_edge))};
    bool   is_enough = allocate_finder(&f);
    if (is_enough) {
        group_edges(&f);
        settle_all(&f);
        drop_dead_edges(a);
        add_rows(a);
        is_enough = !a->rows.failed;
        if (is_enough) mark_text(a);
    }
    hd_pool_free(&f.pool);
    if (!is_enough) HD_FAIL(err, HD_ERR_MEMORY, "grammar: no memory for %u states", a->n_states);
    return HD_OK;
}
