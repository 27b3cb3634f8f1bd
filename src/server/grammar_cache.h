#ifndef HD_SERVER_GRAMMAR_CACHE_H
#define HD_SERVER_GRAMMAR_CACHE_H

#include "hadal_serve.h"

/* Compiled grammars, the last ones used.  An agent sends the same tools with every turn. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_grammar_cache hd_grammar_cache;

/* A grammar that requests share; it lives as long as one of them holds it. */
typedef struct hd_held_grammar hd_held_grammar;

hd_status hd_grammar_cache_open(hd_grammar_cache **out, const hd_tokenizer *t, hd_error *err);
void      hd_grammar_cache_close(hd_grammar_cache *c); /* NULL is fine; nothing may be held */
/* Finds or compiles; one thread at a time.  On success hd_grammar_cache_release gives it back,
 * in any thread. */
hd_status         hd_grammar_cache_hold(hd_grammar_cache *c, const hd_grammar_options *o,
                                        hd_held_grammar **out, hd_error *err);
void              hd_grammar_cache_release(hd_held_grammar *g);  /* NULL is fine */
const hd_grammar *hd_held_grammar_get(const hd_held_grammar *g); /* NULL gives NULL */

#ifdef __cplusplus
}
#endif
#endif
