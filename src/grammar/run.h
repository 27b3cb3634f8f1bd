#ifndef HD_GRAMMAR_RUN_H
#define HD_GRAMMAR_RUN_H

#include "grammar/automaton.h"

HD_BEGIN_C

/* An automaton at work.  All ways to read the bytes so far are followed at once: each is a
 * thread, a state within a call; a call knows where its callers go on.  Ways that made the same
 * call at the same byte share it, so that their number stays small however deep they are
 * (a graph-structured stack). */

#define HD_MAX_THREADS 1024u      /* at one byte */
#define HD_MAX_CALLS   (1u << 20) /* kept at a time */

typedef struct hd_thread {
    uint32_t state, count; /* count of the rule so far */
    uint32_t call;
} hd_thread;

/* Call 0 is the outermost: where a run began. */
typedef struct hd_call {
    uint32_t back;  /* first of its returns; HD_NO_BACK: none */
    uint32_t depth; /* containers around what is read in it, its own rule too */
} hd_call;

/* Where a caller goes on. */
typedef struct hd_back {
    hd_thread to;
    uint32_t  next;
} hd_back;
#define HD_NO_BACK UINT32_MAX

typedef struct hd_run {
    const hd_automaton *a;
    hd_buffer           threads; /* hd_thread */
    hd_buffer           calls;   /* hd_call   */
    hd_buffer           backs;   /* hd_back   */
    hd_buffer           made;    /* uint32_t pairs: rule, call; made at this byte */
    bool                is_full; /* sticky: a limit was met */
} hd_run;

/* The threads that stand at one byte, and what was there when they came. */
typedef struct hd_run_mark {
    uint32_t first, n; /* threads */
    uint32_t n_calls, n_backs;
    bool     has_end; /* one of them has read a whole word of the outermost call's rule */
} hd_run_mark;

static inline const hd_thread *hd_run_threads(const hd_run *r)
{
    return (const hd_thread *)(const void *)r->threads.data;
}
static inline hd_call *hd_run_calls(const hd_run *r) { return (hd_call *)(void *)r->calls.data; }
static inline hd_back *hd_run_backs(const hd_run *r) { return (hd_back *)(void *)r->backs.data; }

/* Forgets all and stands at `state` with `count` in an outermost call of that depth.  The mark
 * is not closed yet. */
hd_run_mark hd_run_begin(hd_run *r, uint32_t state, uint32_t count, uint32_t depth);
/* Adds all threads that stand at the same byte: in calls that begin there, and behind those that
 * end there. */
void hd_run_close(hd_run *r, hd_run_mark *m);
/* Drops what came after a closed mark, then reads a label: the threads are behind it, not
 * closed. */
hd_run_mark hd_run_step(hd_run *r, const hd_run_mark *from, uint32_t label);
/* Keeps the threads of a mark that is not closed and the calls that they need, nothing else. */
hd_status hd_run_compact(hd_run *r, hd_run_mark *m, hd_error *err);
hd_status hd_run_check(const hd_run *r, hd_error *err); /* HD_ERR_MEMORY, HD_ERR_LIMIT */
void      hd_run_free(hd_run *r);

HD_END_C
#endif
