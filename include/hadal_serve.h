#ifndef HADAL_SERVE_H
#define HADAL_SERVE_H

/* hadal_serve.h: many answers at once, for servers and programs that ask in parallel.
 *
 * A grammar limits what an answer may be; a batch shares an engine's passes among requests and
 * keeps the states of prompts that were read, so that the next request pays for its new suffix
 * only.  What a request is answered never depends on who else is there, nor on what was kept:
 * tokens and logarithms of probabilities are the same bits as alone and cold.
 * Conventions are those of hadal.h. */

#include "hadal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- grammars: answers that cannot be malformed ------------------------------------------- */

typedef enum hd_grammar_kind {
    HD_GRAMMAR_JSON,      /* the text of the answer is one JSON object              */
    HD_GRAMMAR_SCHEMA,    /* the text of the answer is JSON that a JSON Schema takes */
    HD_GRAMMAR_TOOL_CALLS /* the answer is made of tool calls, with the arguments that the tools'
                             schemas take */
} hd_grammar_kind;

typedef struct hd_grammar_options {
    hd_grammar_kind kind;
    const char     *json; /* [json_bytes] SCHEMA: the schema; TOOL_CALLS: the array `tools` of a
                             Chat Completions request; copied */
    size_t      json_bytes;
    const char *instead; /* [instead_bytes] TOOL_CALLS: a schema; JSON that it takes may be the text
                            of an answer without calls; copied.  NULL: no text; not together with
                            is_optional */
    size_t      instead_bytes;
    const char *function;    /* TOOL_CALLS: the one to call; NULL: any of them                */
    bool        is_single;   /* TOOL_CALLS: one call, not several                             */
    bool        is_optional; /* TOOL_CALLS: text instead of, or before, calls is fine as well:
                                only what is inside a block of calls is limited */
    hd_dialect dialect;      /* how calls are spelled                                         */
} hd_grammar_options;

/* A compiled grammar; it never changes, and any number of matchers may use it at a time. */
typedef struct hd_grammar hd_grammar;

/* Compiles a grammar over the tokens of `t`, which must outlive it.
 * returns  HD_ERR_FORMAT or HD_ERR_UNSUPPORTED with the JSON path of the part of the schema that
 *          is wrong or that no answer can be held to; HD_ERR_LIMIT when it grows too large      */
hd_status hd_grammar_open(hd_grammar **out, const hd_tokenizer *t, const hd_grammar_options *opt,
                          hd_error *err);
void      hd_grammar_close(hd_grammar *g);

/* The place of one answer in a grammar; used from one thread at a time. */
typedef struct hd_matcher hd_matcher;

/* start    where the answer begins: what stands in reasoning is free up to its end, and the end
 *          of the answer is not allowed there                                                  */
hd_status hd_matcher_open(hd_matcher **out, const hd_grammar *g, hd_parse_start start,
                          hd_error *err);
void      hd_matcher_close(hd_matcher *m);
/* Whether any token may come next: then no mask is needed. */
bool hd_matcher_is_free(const hd_matcher *m);
/* Sets bit id % 32 of allowed[id / 32] for each token that may come next, and clears the others;
 * at least one is set.
 * allowed  [(n_vocab + 31) / 32]  caller's
 * ends     [n_ends] ids that end the answer: allowed where the answer may end                  */
hd_status hd_matcher_mask(hd_matcher *m, uint32_t *allowed, int32_t n_vocab, const int32_t *ends,
                          int32_t n_ends, hd_error *err);
/* Takes the token that came.
 * returns  HD_ERR_INVALID when it was not allowed; the matcher is as it was */
hd_status hd_matcher_accept(hd_matcher *m, int32_t id, hd_error *err);

/* ---- batches ------------------------------------------------------------------------------- */

typedef struct hd_batch hd_batch;

typedef struct hd_batch_options {
    int32_t n_waiting;      /* requests that may wait for a place; 0: 256                       */
    int32_t chunk;          /* most prompt tokens of one pass while others draw, the bound on
                               their delay; 0: 64; at most the engine's chunk                   */
    int64_t kv_bytes;       /* of KV rows of what runs: a request starts when the rows of its prompt
                               and max_new fit, so that it never fails later; 0: whole contexts of
                               all sessions or half of the machine's memory, what is less      */
    int64_t ram_bytes;      /* of kept prompts in memory; 0: 1 GiB or an eighth of the machine's,
                               what is less; -1: none, and no folder                            */
    const char *folder;     /* of kept prompts on disk, made when missing; NULL: none           */
    int64_t     disk_bytes; /* of that folder; 0: 16 GiB                                        */
} hd_batch_options;

/* Takes the engine's sessions for its own: no other may be open, hd_options.n_sessions requests
 * run at once.  Close the batch before the engine. */
hd_status hd_batch_open(hd_batch **out, hd_engine *e, const hd_batch_options *opt, hd_error *err);
/* Ends what still runs or waits, with HD_ERR_CANCELLED; keeps on disk what is to be kept. */
void hd_batch_close(hd_batch *b);

/* Why an answer without text is blank. */
typedef enum hd_blank {
    HD_BLANK_NO,        /* it is not                                             */
    HD_BLANK_REASONING, /* the limit came before the reasoning ended             */
    HD_BLANK_EOS,       /* the model ended at once                               */
    HD_BLANK_STOP,      /* a stop string or stop id was the first thing it said  */
    HD_BLANK_UNPARSED   /* all that it said was a block of calls that do not parse */
} hd_blank;
const char *hd_blank_name(hd_blank b); /* "no", "reasoning", "eos", "stop", "unparsed" */

typedef struct hd_answer_end {
    hd_error error;   /* code HD_OK, or why it failed: HD_ERR_NUMERIC names layer and step of the
                         first NaN, HD_ERR_CANCELLED */
    hd_finish finish; /* HD_FINISH_NONE after a failure */
    hd_blank  blank;
    int32_t   stop;        /* which stop string ended it, as an index; -1: none            */
    int32_t   n_prompt;    /* tokens of the prompt                                         */
    int32_t   n_cached;    /* of these, taken from what was kept                           */
    int32_t   n_new;       /* tokens drawn, the end included                               */
    int32_t   n_reasoning; /* of these, before the end of reasoning                      */
    double    wait_s, prompt_s, new_s; /* in the queue; reading the prompt; drawing      */
} hd_answer_end;

/* Exactly one member is set. */
typedef struct hd_answer_event {
    const hd_sampled *prompt;    /* a token of the prompt, in order (hd_request.is_scored); the
                                    logprob of the first is NaN                           */
    const hd_sampled     *token; /* a token just drawn                                    */
    const hd_parse_event *parse; /* what the parser released                              */
    const hd_answer_end  *end;   /* the last event of every request                       */
} hd_answer_event;
/* Called in the thread that calls hd_batch_step (or hd_batch_close), with no lock held; pointers
 * live until it returns.  Returning false cancels the request. */
typedef bool hd_answer_fn(void *user, const hd_answer_event *e);

typedef struct hd_request {
    const int32_t      *prompt; /* [n_prompt] at least one; copied             */
    int32_t             n_prompt;
    hd_generate_options generate; /* on_event, user unused; all arrays copied.  max_new 0: up to the
                                     end of the context; with is_scored, -1: no token is drawn */
    const hd_grammar *grammar;   /* borrowed until the end event; NULL: none; not with ignore_eos */
    bool              is_scored; /* report the prompt's tokens; generate.n_top alternatives each */
    bool              is_kept;   /* keep the states of this prompt and answer         */
    hd_answer_fn     *on_event;
    void             *user;
} hd_request;

/* Puts a request in the queue; any thread.
 * ticket   names it to hd_batch_cancel; never 0
 * returns  HD_ERR_INVALID for a bad option, HD_ERR_LIMIT when prompt and max_new exceed the context
 *          or kv_bytes (the message says by how much) or all places to wait are taken (where is 1
 *          then), HD_ERR_MEMORY, HD_ERR_DEVICE when the engine is dead */
hd_status hd_batch_submit(hd_batch *b, const hd_request *r, uint64_t *ticket, hd_error *err);
/* Ends a request before the next pass; its last event says HD_ERR_CANCELLED.  Any thread; nothing
 * happens when it has ended. */
void hd_batch_cancel(hd_batch *b, uint64_t ticket);

/* One pass: a token of every answer that is being drawn, and as much of a waiting prompt as the
 * chunk allows.  One thread at a time.
 * is_idle  true when there was nothing to do
 * returns  HD_ERR_DEVICE when the engine is dead; failures of single requests go to their events */
hd_status hd_batch_step(hd_batch *b, bool *is_idle, hd_error *err);
/* Waits until there is something to do, or for at most `ms` milliseconds (-1: for ever). */
void hd_batch_wait(hd_batch *b, int32_t ms);
/* Lets hd_batch_wait return now; any thread. */
void hd_batch_wake(hd_batch *b);

typedef struct hd_batch_stats {
    int32_t n_running, n_waiting;           /* now */
    int64_t n_passes, n_requests, n_failed; /* since open; cancelled ones count as failed */
    int64_t prompt_tokens, cached_tokens, new_tokens;
    int64_t kept_states, kept_bytes; /* in memory, now */
    int64_t disk_states, disk_bytes; /* in the folder, now */
    int64_t n_evicted, n_damaged;    /* states given up for room; found broken on disk */
} hd_batch_stats;
void hd_batch_stats_get(const hd_batch *b, hd_batch_stats *out); /* any thread */

#ifdef __cplusplus
}
#endif
#endif
