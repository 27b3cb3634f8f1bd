#ifndef HD_GRAMMAR_DFA_H
#define HD_GRAMMAR_DFA_H

#include "grammar/nfa.h"

HD_BEGIN_C

/* A deterministic automaton over the labels of an NFA. */

typedef struct hd_dfa_edge {
    uint32_t lo, hi, to, flags;
} hd_dfa_edge;

typedef struct hd_dfa_state {
    uint32_t first, n; /* edges, ascending by label and apart */
    bool     accepts;
} hd_dfa_state;

/* State 0 is the start; a state without states behind it that accept may be there. */
typedef struct hd_dfa {
    hd_buffer states; /* hd_dfa_state */
    hd_buffer edges;  /* hd_dfa_edge */
    uint32_t  n;      /* states */
} hd_dfa;

#define HD_MAX_DFA      (1u << 17) /* states of one automaton */
#define HD_MAX_DFA_WORK (1u << 26) /* edges looked at while one is made */

static inline hd_dfa_state *hd_dfa_states(const hd_dfa *d)
{
    return (hd_dfa_state *)(void *)d->states.data;
}
static inline hd_dfa_edge *hd_dfa_edges(const hd_dfa *d)
{
    return (hd_dfa_edge *)(void *)d->edges.data;
}

/* Makes the deterministic form of n.
 * path     names the part of the schema in messages
 * owns     the caller frees *out, also after a failure
 * returns  HD_ERR_LIMIT, HD_ERR_MEMORY */
hd_status hd_dfa_make(hd_dfa *out, const hd_nfa *n, const char *path, hd_error *err);
void      hd_dfa_free(hd_dfa *d);

typedef enum hd_dfa_op { HD_DFA_BOTH, HD_DFA_MINUS } hd_dfa_op;
/* The texts of a that b has as well, or has not. */
hd_status hd_dfa_combine(hd_dfa *out, const hd_dfa *a, const hd_dfa *b, hd_dfa_op op,
                         const char *path, hd_error *err);
bool      hd_dfa_matches(const hd_dfa *d, const char *text, size_t bytes);
bool      hd_dfa_is_empty(const hd_dfa *d); /* no state that can be reached accepts */
/* Adds d to an NFA, between two of its states. */
void hd_dfa_embed(const hd_dfa *d, hd_nfa *n, uint32_t from, uint32_t to);

HD_END_C
#endif
