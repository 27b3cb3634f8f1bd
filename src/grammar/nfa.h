#ifndef HD_GRAMMAR_NFA_H
#define HD_GRAMMAR_NFA_H

#include "base/memory.h"

HD_BEGIN_C

/* A language under construction: states with edges that read a label or nothing.  A label is a
 * byte, the control token that marks the tags of calls, or a call: a word of another rule. */

#define HD_LABEL_MARKER 256u
#define HD_LABEL_CALL   0x10000u /* + number of the rule */

/* What an edge has to do with the count of its rule. */
enum {
    HD_EDGE_COUNT = 1, /* is one more; not taken where the most are there */
    HD_EDGE_ENOUGH = 2 /* not taken while the least are not there          */
};

typedef struct hd_nfa_edge {
    uint32_t lo, hi; /* labels lo..hi; lo > hi: reads nothing */
    uint32_t to, next, flags;
} hd_nfa_edge;

#define HD_NO_EDGE UINT32_MAX

/* Zero-initialise, then hd_nfa_begin.  Adding to an NFA that failed does nothing. */
typedef struct hd_nfa {
    hd_buffer heads;   /* [n] uint32_t: first edge of each state */
    hd_buffer edges;   /* hd_nfa_edge */
    uint32_t  n;       /* states */
    bool      is_full; /* sticky: more than HD_MAX_NFA edges or states */
} hd_nfa;

#define HD_MAX_NFA     (1u << 20)
#define HD_NFA_START   0u
#define HD_NFA_END     1u
#define HD_MAX_UNICODE 0x10FFFFu

void     hd_nfa_begin(hd_nfa *n); /* empty, with the states START and END; keeps the memory */
void     hd_nfa_free(hd_nfa *n);
uint32_t hd_nfa_state(hd_nfa *n);
void     hd_nfa_edge_add(hd_nfa *n, uint32_t from, const hd_nfa_edge *e);
void     hd_nfa_range(hd_nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);
void     hd_nfa_skip(hd_nfa *n, uint32_t from, uint32_t to);
void     hd_nfa_call(hd_nfa *n, uint32_t from, uint32_t rule, uint32_t to);
void     hd_nfa_text(hd_nfa *n, uint32_t from, const char *text, size_t bytes, uint32_t to);
/* Code points lo..hi in UTF-8, surrogates left out; `flags` on the first byte. */
typedef struct hd_char_range {
    uint32_t lo, hi;
} hd_char_range;
void hd_nfa_chars(hd_nfa *n, uint32_t from, hd_char_range r, uint32_t flags, uint32_t to);

HD_END_C
#endif
