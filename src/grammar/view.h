#ifndef HD_GRAMMAR_VIEW_H
#define HD_GRAMMAR_VIEW_H

#include <pthread.h>

#include "grammar/run.h"
#include "tokenizer/token_trie.h"

HD_BEGIN_C

/* Which tokens a thread takes, found once and kept.
 *
 * The view of a place, a state with the count that matters there, has the tokens that can be
 * read whole within the call where it stands, and the exits: the places in the trie, inside of
 * tokens, where the call may have ended.  What the caller makes of the rest of these tokens is a
 * view inside that one, which walks on from the exits in the caller's state; it may have exits
 * in turn.  So the tokens of a thread are those of a chain of views, one for each call that can
 * end within a token. */

typedef struct hd_place {
    uint32_t state;
    uint32_t need;  /* what is missing to the least count, and what is left to the most: */
    uint32_t room;  /* as far as a token can tell                                        */
    uint32_t depth; /* of containers where that can matter, else 0                       */
} hd_place;

typedef struct hd_view {
    const struct hd_view *inner; /* the one whose exits it walks on from; NULL: none */
    struct hd_view       *next;  /* in its slot */
    hd_place              place;
    bool                  is_kept;   /* in the table */
    uint32_t              text_room; /* characters of plain text that it takes, up to a token's */
    bool                  is_text;   /* all plain tokens, too */
    hd_buffer             ids;       /* int32_t: the tokens, unless they are many */
    uint32_t             *mask;      /* [n_words] owned; the tokens; NULL: in ids */
    hd_buffer             exits;     /* uint32_t: nodes of the trie, ascending */
} hd_view;

#define HD_VIEW_SLOTS     4096u
#define HD_MAX_VIEW_BYTES ((size_t)64 << 20) /* kept in one grammar; what is more is made anew */

/* All views of a grammar; any thread may ask. */
typedef struct hd_views {
    const hd_automaton  *a;
    const hd_token_trie *trie;
    uint32_t             n_words; /* of a mask */
    pthread_mutex_t      lock;    /* of what follows */
    hd_view             *slots[HD_VIEW_SLOTS];
    size_t               bytes;
} hd_views;

void hd_views_open(hd_views *v, const hd_automaton *a, const hd_token_trie *trie, int32_t n_vocab);
void hd_views_close(hd_views *v);

/* What a walk needs; of one thread at a time. */
typedef struct hd_walk {
    hd_run       run;
    hd_run_mark *marks; /* [max_bytes + 1] owned: closed, by depth below where it began */
    uint32_t    *ends;  /* [max_bytes + 1] owned: behind the nodes below that depth     */
} hd_walk;
hd_status hd_walk_open(hd_walk *w, const hd_views *v, hd_error *err);
void      hd_walk_close(hd_walk *w);

/* Adds to `mask` [n_words] the tokens that any thread of a mark that is not closed takes.
 * returns  HD_ERR_MEMORY, HD_ERR_LIMIT */
hd_status hd_views_add(hd_views *v, const hd_run *r, const hd_run_mark *m, hd_walk *walk,
                       uint32_t *mask, hd_error *err);

HD_END_C
#endif
