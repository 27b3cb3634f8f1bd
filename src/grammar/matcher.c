#include <string.h>

#include "grammar/grammar.h"
#include "tokenizer/chat_tokens.h"

/* ---- phases ---- */

static void begin_rule(hd_matcher *m, uint32_t rule)
{
    m->phase = HD_PHASE_GRAMMAR;
    m->mark = hd_run_begin(&m->run, hd_automaton_rules(&m->g->a)[rule].start, 0, 0);
}

/* The content of an answer begins. */
static void begin_content(hd_matcher *m)
{
    const hd_grammar *const g = m->g;
    if (g->is_optional)
        m->phase = HD_PHASE_TEXT;
    else
        begin_rule(m, g->whole);
}

static hd_status begin(hd_matcher *m, hd_parse_start start, hd_error *err)
{
    const hd_grammar *const g = m->g;
    switch (start) {
    case HD_START_REASONING:
    case HD_START_REASONING_CONTINUATION:
        if (g->think_end < 0)
            HD_FAIL(err, HD_ERR_UNSUPPORTED, "grammar: the tokenizer has no token %s",
                    HD_TOKEN_THINK_END);
        m->phase = HD_PHASE_REASONING;
        return HD_OK;
    case HD_START_CONTENT:
    case HD_START_CONTENT_CONTINUATION: begin_content(m); return HD_OK;
    case HD_START_TOOL_CALLS:
        if (g->kind != HD_GRAMMAR_TOOL_CALLS) break;
        begin_rule(m, g->calls.behind_tag);
        return HD_OK;
    }
    HD_FAIL(err, HD_ERR_INVALID, "grammar: an answer of this kind does not begin in calls");
}

/* ---- open, close ---- */

hd_status hd_matcher_open(hd_matcher **out, const hd_grammar *g, hd_parse_start start,
                          hd_error *err)
{
    if (!out || !g) HD_FAIL(err, HD_ERR_INVALID, "matcher: no grammar or no result");
    hd_matcher *const m = hd_memory_alloc(sizeof *m);
    if (!m) HD_FAIL(err, HD_ERR_MEMORY, "matcher: no memory");
    m->g = g;
    m->run.a = &g->a;
    hd_status status = hd_walk_open(&m->walk, &g->views, err);
    if (status == HD_OK) status = begin(m, start, err);
    if (status == HD_OK) status = hd_run_check(&m->run, err);
    if (status == HD_OK)
        *out = m;
    else
        hd_matcher_close(m);
    return status;
}

void hd_matcher_close(hd_matcher *m)
{
    if (!m) return;
    hd_run_free(&m->run);
    hd_walk_close(&m->walk);
    hd_memory_free(m);
}

bool hd_matcher_is_free(const hd_matcher *m) { return m->phase == HD_PHASE_TEXT; }

/* ---- masks ---- */

static void set_bit(uint32_t *mask, int32_t id, bool value)
{
    uint32_t const bit = 1u << id % 32;
    mask[id / 32] = value ? mask[id / 32] | bit : mask[id / 32] & ~bit;
}

static void allow_all(uint32_t *mask, int32_t n_vocab)
{
    memset(mask, 0, ((size_t)n_vocab + 31) / 32 * sizeof *mask);
    for (int32_t i = 0; i < n_vocab / 32; i++) mask[i] = UINT32_MAX;
    if (n_vocab % 32) mask[n_vocab / 32] = (1u << n_vocab % 32) - 1;
}

typedef struct target {
    uint32_t *mask;
    int32_t   n_vocab;
} target;

/* The mask of the grammar's vocabulary, cut or filled up to the caller's. */
static hd_status add_tokens(hd_matcher *m, const target *to, hd_error *err)
{
    const hd_grammar *const g = m->g;
    hd_views *const         views = (hd_views *)(uintptr_t)&g->views; /* kept behind a lock */
    uint32_t const          n_words = ((uint32_t)to->n_vocab + 31) / 32;
    uint32_t               *mask = to->mask;
    bool const              is_smaller = n_words < views->n_words;
    if (is_smaller) mask = hd_memory_alloc(views->n_words * sizeof *mask);
    if (!mask) HD_FAIL(err, HD_ERR_MEMORY, "matcher: no memory for a mask");
    hd_status const status = hd_views_add(views, &m->run, &m->mark, &m->walk, mask, err);
    if (is_smaller) {
        memcpy(to->mask, mask, n_words * sizeof *mask);
        hd_memory_free(mask);
    }
    return status;
}

/* Goes back to the mark: what was tried is forgotten. */
static void forget(hd_matcher *m)
{
    m->run.threads.used = ((size_t)m->mark.first + m->mark.n) * sizeof(hd_thread);
    m->run.calls.used = (size_t)m->mark.n_calls * sizeof(hd_call);
    m->run.backs.used = (size_t)m->mark.n_backs * sizeof(hd_back);
}

/* What may come that is no ordinary token. */
static void look_ahead(hd_matcher *m, bool *has_end, bool *has_marker)
{
    const hd_automaton *const a = &m->g->a;
    hd_run_mark               closed = m->mark;
    hd_run_close(&m->run, &closed);
    *has_end = closed.has_end;
    *has_marker = false;
    for (uint32_t i = closed.first; i < closed.first + closed.n; i++) {
        const hd_rule_state *const s = hd_automaton_states(a) + hd_run_threads(&m->run)[i].state;
        *has_marker = *has_marker || hd_automaton_find(a, s, HD_LABEL_MARKER);
    }
    forget(m);
}

static hd_status fill_mask(hd_matcher *m, const target *to, bool *has_end, hd_error *err)
{
    int32_t const marker = m->g->marker;
    bool          has_marker;
    *has_end = m->phase == HD_PHASE_TEXT;
    if (m->phase != HD_PHASE_GRAMMAR) {
        allow_all(to->mask, to->n_vocab);
        return HD_OK;
    }
    memset(to->mask, 0, ((size_t)to->n_vocab + 31) / 32 * sizeof *to->mask);
    HD_TRY(add_tokens(m, to, err));
    if (to->n_vocab % 32) to->mask[to->n_vocab / 32] &= (1u << to->n_vocab % 32) - 1;
    look_ahead(m, has_end, &has_marker);
    if (has_marker && marker >= 0 && marker < to->n_vocab) set_bit(to->mask, marker, true);
    return hd_run_check(&m->run, err);
}

static bool is_empty(const target *to)
{
    for (size_t i = 0; i < ((size_t)to->n_vocab + 31) / 32; i++)
        if (to->mask[i]) return false;
    return true;
}

hd_status hd_matcher_mask(hd_matcher *m, uint32_t *allowed, int32_t n_vocab, const int32_t *ends,
                          int32_t n_ends, hd_error *err)
{
    target const to = {allowed, n_vocab};
    bool         has_end;
    if (!m || !allowed || n_vocab < 1 || n_ends < 0 || (n_ends && !ends))
        HD_FAIL(err, HD_ERR_INVALID, "matcher: no mask, no vocabulary or no ends");
    HD_TRY(fill_mask(m, &to, &has_end, err));
    for (int32_t i = 0; i < n_ends; i++)
        if (ends[i] >= 0 && ends[i] < n_vocab) set_bit(allowed, ends[i], has_end);
    if (is_empty(&to))
        HD_FAIL(err, HD_ERR_INVALID,
                "matcher: only the end is allowed, and no token of it is known");
    return HD_OK;
}

/* ---- tokens ---- */

static hd_status fail_token(int32_t id, hd_error *err)
{
    HD_FAIL(err, HD_ERR_INVALID, "matcher: token %d is not allowed here", id);
}

/* Calls made and left stay until there are more of them than of those needed. */
#define MANY_CALLS 256

static hd_status keep(hd_matcher *m, hd_run_mark next, hd_error *err)
{
    bool const is_long = next.n_calls > MANY_CALLS || next.first > MANY_CALLS;
    if (is_long) HD_TRY(hd_run_compact(&m->run, &next, err));
    m->mark = next;
    return HD_OK;
}

static hd_status accept_labels(hd_matcher *m, const char *bytes, size_t n, int32_t id,
                               hd_error *err)
{
    hd_run_mark next = m->mark;
    for (size_t i = 0; i < n; i++) {
        uint32_t const label = bytes ? (unsigned char)bytes[i] : HD_LABEL_MARKER;
        hd_run_close(&m->run, &next);
        next = hd_run_step(&m->run, &next, label);
        if (next.n == 0) break;
    }
    hd_status status = hd_run_check(&m->run, err);
    if (status == HD_OK && (next.n == 0 || n == 0)) status = fail_token(id, err);
    if (status == HD_OK) status = keep(m, next, err);
    if (status != HD_OK) forget(m);
    return status;
}

static void accept_text(hd_matcher *m, const char *bytes, size_t n, bool is_control, int32_t id)
{
    bool const begins = is_control && id == m->g->marker && m->is_bracket;
    m->is_bracket = !is_control && n && bytes[n - 1] == '<';
    if (begins) begin_rule(m, m->g->calls.in_tag);
}

hd_status hd_matcher_accept(hd_matcher *m, int32_t id, hd_error *err)
{
    size_t            n = 0;
    const char *const bytes = m ? hd_tokenizer_bytes(m->g->t, id, &n) : NULL;
    if (!m) HD_FAIL(err, HD_ERR_INVALID, "matcher: there is none");
    bool const is_control = bytes && hd_tokenizer_is_control(m->g->t, id);
    switch (m->phase) {
    case HD_PHASE_REASONING:
        if (is_control && id == m->g->think_end) begin_content(m);
        return hd_run_check(&m->run, err);
    case HD_PHASE_TEXT: accept_text(m, bytes, n, is_control, id); return hd_run_check(&m->run, err);
    case HD_PHASE_GRAMMAR: break;
    }
    if (is_control && id != m->g->marker) return fail_token(id, err);
    return accept_labels(m, is_control ? NULL : bytes, is_control ? 1 : n, id, err);
}
