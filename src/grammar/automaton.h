#ifndef HD_GRAMMAR_AUTOMATON_H
#define HD_GRAMMAR_AUTOMATON_H

#include "grammar/dfa.h"

HD_BEGIN_C

/* The rules of a grammar, each a DFA whose labels may be calls of rules: a pushdown automaton.
 * Never changes once it is finished.
 *
 * A rule may count (items, characters): its edges say what they have to do with the count. */

#define HD_COUNT_ANY  UINT32_MAX /* as max: as many as you like */
#define HD_MAX_RULES  65536u
#define HD_MAX_STATES (1u << 19) /* of all rules */
/* Containers within each other; what is deeper no reader of JSON here takes. */
#define HD_MAX_NESTING 200u

typedef struct hd_rule_shape {
    bool     is_container;
    uint32_t min, max;
} hd_rule_shape;

typedef struct hd_rule {
    hd_rule_shape shape;
    uint32_t      start;  /* state */
    uint32_t      height; /* fewest containers within each other in a word of it, itself too */
} hd_rule;

typedef struct hd_rule_state {
    uint32_t first, n; /* edges that read a byte or the marker */
    uint32_t n_calls;  /* calls, behind these */
    uint32_t rule;     /* whose it is */
    uint32_t height;   /* fewest containers within each other from here to the rule's end */
    uint32_t row;      /* its table by byte, plus 1; 0: none */
    bool     accepts;
    bool     is_text; /* any plain text leads on: all its characters lead to one state, and stay
                         there; none of both accepts, or calls what reads plain text */
    bool counts_text; /* each character is one more */
} hd_rule_state;

/* Bytes of characters that are never part of the markup around text, in JSON or calls. */
static inline bool hd_is_plain_byte(uint32_t c)
{
    return c >= 0x20 && c < 256 && c != '"' && c != '\\' && c != '<';
}

typedef struct hd_automaton {
    hd_buffer rules;  /* hd_rule */
    hd_buffer states; /* hd_rule_state */
    hd_buffer edges;  /* hd_dfa_edge; `to` is a state of the whole */
    hd_buffer rows;   /* uint32_t[256] each: edge + 1 by byte */
    uint32_t  n_rules, n_states;
    uint32_t  max_height; /* of a state */
} hd_automaton;

#define HD_NO_RULE UINT32_MAX

static inline hd_rule *hd_automaton_rules(const hd_automaton *a)
{
    return (hd_rule *)(void *)a->rules.data;
}
static inline hd_rule_state *hd_automaton_states(const hd_automaton *a)
{
    return (hd_rule_state *)(void *)a->states.data;
}
static inline hd_dfa_edge *hd_automaton_edges(const hd_automaton *a)
{
    return (hd_dfa_edge *)(void *)a->edges.data;
}

/* The edge of a state that reads a byte or the marker; NULL: none. */
static inline const hd_dfa_edge *hd_automaton_find(const hd_automaton *a, const hd_rule_state *s,
                                                   uint32_t label)
{
    const hd_dfa_edge *e = hd_automaton_edges(a);
    if (s->row && label < 256) {
        const uint32_t *const rows = (const uint32_t *)(const void *)a->rows.data;
        uint32_t const        at = rows[(size_t)(s->row - 1) * 256 + label];
        return at ? e + at - 1 : NULL;
    }
    e += s->first;
    for (const hd_dfa_edge *const end = e + s->n; e < end; e++)
        if (label <= e->hi) return label >= e->lo ? e : NULL;
    return NULL;
}

/* A rule that can be called, and is defined later; HD_NO_RULE: memory is short or there are
 * HD_MAX_RULES. */
uint32_t  hd_automaton_declare(hd_automaton *a);
hd_status hd_automaton_define(hd_automaton *a, uint32_t rule, const hd_nfa *n, hd_rule_shape shape,
                              const char *path, hd_error *err);
/* Once all rules are defined: takes away every way that cannot be gone to its end, so that what
 * remains never leads into a dead end. */
hd_status hd_automaton_finish(hd_automaton *a, hd_error *err);
/* Whether a rule has any word, after finish. */
bool hd_automaton_has_word(const hd_automaton *a, uint32_t rule);
/* Whether a state has an edge that reads a plain byte; calls do not count. */
bool hd_automaton_reads_plain(const hd_automaton *a, const hd_rule_state *s);
void hd_automaton_free(hd_automaton *a);

HD_END_C
#endif
