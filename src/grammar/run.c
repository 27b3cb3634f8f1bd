#include "grammar/run.h"

void hd_run_free(hd_run *r)
{
    hd_buffer_free(&r->threads);
    hd_buffer_free(&r->calls);
    hd_buffer_free(&r->backs);
    hd_buffer_free(&r->made);
}

static uint32_t count_calls(const hd_run *r) { return (uint32_t)(r->calls.used / sizeof(hd_call)); }
static uint32_t count_backs(const hd_run *r) { return (uint32_t)(r->backs.used / sizeof(hd_back)); }

static bool has_failed(const hd_run *r)
{
    return r->is_full || r->threads.failed || r->calls.failed || r->backs.failed || r->made.failed;
}

hd_status hd_run_check(const hd_run *r, hd_error *err)
{
    if (r->threads.failed || r->calls.failed || r->backs.failed || r->made.failed)
        HD_FAIL(err, HD_ERR_MEMORY, "grammar: no memory to follow the answer");
    if (r->is_full)
        HD_FAIL(err, HD_ERR_LIMIT,
                "grammar: more than %u ways to read the answer, or %u parts begun in it",
                HD_MAX_THREADS, HD_MAX_CALLS);
    return HD_OK;
}

/* ---- threads ---- */

static bool is_same(const hd_thread *a, const hd_thread *b)
{
    return a->state == b->state && a->count == b->count && a->call == b->call;
}

/* Adds a thread to the mark, which is the last, unless it is there or cannot end within the
 * depth that is left. */
static void add_thread(hd_run *r, hd_run_mark *m, hd_thread t)
{
    const hd_rule_state *const s = hd_automaton_states(r->a) + t.state;
    if (hd_run_calls(r)[t.call].depth + s->height > HD_MAX_NESTING) return;
    for (uint32_t i = m->first; i < m->first + m->n; i++)
        if (is_same(hd_run_threads(r) + i, &t)) return;
    if (m->n == HD_MAX_THREADS) r->is_full = true;
    if (has_failed(r)) return;
    hd_buffer_add(&r->threads, &t, sizeof t);
    if (!r->threads.failed) m->n++;
}

/* Whether an edge may be taken with this count, which then becomes what it is behind it. */
static bool pass_edge(const hd_rule_shape *shape, uint32_t flags, uint32_t *count)
{
    bool const is_any = shape->max == HD_COUNT_ANY;
    if (flags & HD_EDGE_COUNT && !is_any && *count >= shape->max) return false;
    if (flags & HD_EDGE_ENOUGH && *count < shape->min) return false;
    /* Beyond what matters counts are one. */
    if (flags & HD_EDGE_COUNT && !(is_any && *count >= shape->min)) ++*count;
    return true;
}

static const hd_rule_shape *shape_of(const hd_run *r, uint32_t state)
{
    return &hd_automaton_rules(r->a)[hd_automaton_states(r->a)[state].rule].shape;
}

/* ---- calls ---- */

/* The call of a rule that began at this byte; it is made when it is not there. */
static uint32_t find_call(hd_run *r, uint32_t rule, uint32_t depth, bool *is_new)
{
    uint32_t *const made = (uint32_t *)(void *)r->made.data;
    size_t const    n = r->made.used / sizeof *made;
    *is_new = false;
    for (size_t i = 0; i < n; i += 2)
        if (made[i] == rule) return made[i + 1];
    *is_new = true;
    uint32_t const number = count_calls(r), pair[] = {rule, number};
    hd_call const  call = {.back = HD_NO_BACK, .depth = depth};
    if (number >= HD_MAX_CALLS) r->is_full = true;
    hd_buffer_add(&r->made, pair, sizeof pair);
    hd_buffer_add(&r->calls, &call, sizeof call);
    return number;
}

static void make_call(hd_run *r, hd_run_mark *m, hd_thread t, const hd_dfa_edge *e)
{
    uint32_t const       rule = e->lo - HD_LABEL_CALL;
    const hd_rule *const called = hd_automaton_rules(r->a) + rule;
    uint32_t const       outside = hd_run_calls(r)[t.call].depth;
    uint32_t const       height = hd_automaton_states(r->a)[e->to].height;
    if (!pass_edge(shape_of(r, t.state), e->flags, &t.count)) return;
    if (outside + called->height > HD_MAX_NESTING || outside + height > HD_MAX_NESTING) return;
    bool           is_new;
    uint32_t const number = find_call(r, rule, outside + called->shape.is_container, &is_new);
    uint32_t const n_backs = count_backs(r);
    if (has_failed(r)) return;
    hd_call *const call = hd_run_calls(r) + number;
    hd_back const  back = {{e->to, t.count, t.call}, call->back};
    hd_buffer_add(&r->backs, &back, sizeof back);
    if (r->backs.failed) return;
    call->back = n_backs;
    if (is_new) add_thread(r, m, (hd_thread){called->start, 0, number});
}

static void end_call(hd_run *r, hd_run_mark *m, const hd_thread *t)
{
    if (t->count < shape_of(r, t->state)->min) return;
    if (t->call == 0) m->has_end = true;
    for (uint32_t b = hd_run_calls(r)[t->call].back; b != HD_NO_BACK; b = hd_run_backs(r)[b].next)
        add_thread(r, m, hd_run_backs(r)[b].to);
}

void hd_run_close(hd_run *r, hd_run_mark *m)
{
    hd_buffer_clear(&r->made);
    for (uint32_t i = 0; i < m->n && !has_failed(r); i++) {
        hd_thread const            t = hd_run_threads(r)[m->first + i];
        const hd_rule_state *const s = hd_automaton_states(r->a) + t.state;
        for (uint32_t k = 0; k < s->n_calls; k++)
            make_call(r, m, t, hd_automaton_edges(r->a) + s->first + s->n + k);
        if (s->accepts) end_call(r, m, &t);
    }
    m->n_calls = count_calls(r);
    m->n_backs = count_backs(r);
}

/* ---- steps ---- */

hd_run_mark hd_run_begin(hd_run *r, uint32_t state, uint32_t count, uint32_t depth)
{
    hd_call const outermost = {.back = HD_NO_BACK, .depth = depth};
    hd_run_mark   m = {0};
    hd_buffer_clear(&r->threads);
    hd_buffer_clear(&r->calls);
    hd_buffer_clear(&r->backs);
    hd_buffer_add(&r->calls, &outermost, sizeof outermost);
    if (!has_failed(r)) add_thread(r, &m, (hd_thread){state, count, 0});
    m.n_calls = 1;
    return m;
}

hd_run_mark hd_run_step(hd_run *r, const hd_run_mark *from, uint32_t label)
{
    hd_run_mark m = {.first = from->first + from->n};
    r->threads.used = (size_t)m.first * sizeof(hd_thread);
    r->calls.used = (size_t)from->n_calls * sizeof(hd_call);
    r->backs.used = (size_t)from->n_backs * sizeof(hd_back);
    for (uint32_t i = 0; i < from->n; i++) {
        hd_thread                  t = hd_run_threads(r)[from->first + i];
        const hd_rule_state *const s = hd_automaton_states(r->a) + t.state;
        const hd_dfa_edge *const   e = hd_automaton_find(r->a, s, label);
        if (!e || (e->flags && !pass_edge(shape_of(r, t.state), e->flags, &t.count))) continue;
        t.state = e->to;
        add_thread(r, &m, t);
    }
    m.n_calls = from->n_calls;
    m.n_backs = from->n_backs;
    return m;
}

/* ---- compaction ---- */

typedef struct mover {
    hd_run   *from;
    hd_buffer calls, backs; /* of the new run */
    uint32_t *place;        /* [calls] owned: new number + 1 */
    hd_buffer todo;         /* uint32_t: old numbers, in the order of the new ones */
} mover;

static uint32_t move_call(mover *m, uint32_t old)
{
    uint32_t const number = (uint32_t)(m->todo.used / sizeof(uint32_t));
    if (m->place[old]) return m->place[old] - 1;
    hd_buffer_add(&m->todo, &old, sizeof old);
    m->place[old] = number + 1;
    return number;
}

static void move_backs(mover *m, uint32_t old)
{
    hd_call  call = hd_run_calls(m->from)[old];
    uint32_t b = call.back;
    call.back = HD_NO_BACK;
    for (; b != HD_NO_BACK; b = hd_run_backs(m->from)[b].next) {
        hd_back back = hd_run_backs(m->from)[b];
        back.to.call = move_call(m, back.to.call);
        back.next = call.back;
        call.back = (uint32_t)(m->backs.used / sizeof back);
        hd_buffer_add(&m->backs, &back, sizeof back);
    }
    hd_buffer_add(&m->calls, &call, sizeof call);
}

/* The run itself stays as it is until all is moved. */
static bool move_all(mover *m, const hd_run_mark *mark)
{
    move_call(m, 0);
    for (uint32_t i = 0; i < mark->n; i++)
        move_call(m, hd_run_threads(m->from)[mark->first + i].call);
    for (size_t i = 0; i < m->todo.used / sizeof(uint32_t) && !m->todo.failed; i++)
        move_backs(m, ((uint32_t *)(void *)m->todo.data)[i]);
    return !m->todo.failed && !m->calls.failed && !m->backs.failed;
}

static void take_moved(hd_run *r, hd_run_mark *mark, mover *m)
{
    hd_thread *const threads = (hd_thread *)(void *)r->threads.data;
    for (uint32_t i = 0; i < mark->n; i++) {
        threads[i] = threads[mark->first + i];
        threads[i].call = m->place[threads[i].call] - 1;
    }
    r->threads.used = (size_t)mark->n * sizeof *threads;
    hd_buffer_free(&r->calls);
    hd_buffer_free(&r->backs);
    r->calls = m->calls;
    r->backs = m->backs;
    m->calls = m->backs = (hd_buffer){0};
    *mark = (hd_run_mark){.n = mark->n, .n_calls = count_calls(r), .n_backs = count_backs(r)};
}

hd_status hd_run_compact(hd_run *r, hd_run_mark *m, hd_error *err)
{
    mover      move = {.from = r,
                       .place = hd_memory_alloc(((size_t)count_calls(r) + 1) * sizeof *move.place)};
    bool const is_moved = move.place && move_all(&move, m);
    if (is_moved) take_moved(r, m, &move);
    hd_memory_free(move.place);
    hd_buffer_free(&move.todo);
    hd_buffer_free(&move.calls);
    hd_buffer_free(&move.backs);
    if (!is_moved) HD_FAIL(err, HD_ERR_MEMORY, "grammar: no memory to follow the answer");
    return HD_OK;
}
