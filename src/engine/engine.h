#ifndef HD_ENGINE_ENGINE_H
#define HD_ENGINE_ENGINE_H

#include <pthread.h>

#include "base/log.h"
#include "base/team.h"
#include "model/model.h"

/* The engine's inside, for engine/ and doctor/: programs use include/hadal.h. */

HD_BEGIN_C

/* A plan stays bound until another size needs its place; recorded ones keep theirs. */
#define HD_N_PLANS 12
/* Passes that decode are recorded for 1, 2, 4, ... rows, as many sizes as this. */
#define HD_N_GRAPHS 7

typedef struct hd_plan_slot {
    int32_t   t;        /* 0: empty */
    int32_t   n_wanted; /* rows of logits */
    bool      is_mtp;
    uint64_t  used; /* clock of the last use */
    hd_plan   plan;
    hd_arena  meta;  /* steps and args of this slot, fixed bytes */
    hd_graph *graph; /* owned: the plan recorded, on an accelerator; NULL: not yet */
} hd_plan_slot;

/* A token to evaluate.  Rows of one sequence stand in the order of their positions, which
 * continue those evaluated before, and are at most `chunk` in a pass. */
typedef struct hd_pass_row {
    int32_t token, pos, seq;
    bool    is_wanted; /* its logits are */
} hd_pass_row;

/* The rings of a sequence as they were at a page edge. */
typedef struct hd_mark {
    int32_t  at;    /* tokens then; 0: unused                    */
    uint8_t *bytes; /* [hd_engine_mark_bytes] in session_parts    */
} hd_mark;

struct hd_session {
    hd_engine *engine;
    int32_t    seq;    /* its part of every cache pool */
    int32_t    length; /* tokens evaluated             */
    bool       is_open, has_logits;
    int32_t   *tokens;  /* [max_tokens] those evaluated   */
    float     *logits;  /* [n_vocab] after the last token */
    int32_t   *scratch; /* [n_vocab] for the sampler      */
    float     *changed; /* [n_vocab] likewise             */
    hd_mark   *marks;   /* [options.marks]                */
};

/* Bytes that a session file is written in at a time. */
#define HD_IO_BYTES 65536

struct hd_engine {
    hd_options       options; /* defaults filled in */
    hd_kernel_choice choice;  /* of the plans; at first options.isa for every op */
    hd_log           log;
    hd_checkpoint   *checkpoint;
    hd_weights      *weights;
    hd_tokenizer    *tokenizer;
    hd_device       *device;   /* owned; NULL: kernels run on the host */
    hd_topology     *topology; /* owned */
    hd_team         *team;     /* owned; NULL on an accelerator        */
    hd_stream       *stream;   /* the one of either                    */
    hd_model         model;
    hd_pass          pass;
    hd_arena         tables, kv, act, placed; /* bases owned: device memory, where there is one;
                                                 placed: the weights there */
    int32_t        max_rows; /* of a pass: a chunk of one sequence and a row of every other      */
    int32_t       *ids;    /* [5, max_rows] owned: what the next pass reads, before it goes over */
    float         *logits; /* [max_rows, n_vocab] what the last pass left, for the host to read */
    hd_sample_ask *asks;   /* [max_rows] owned: of the next pass                                */
    int32_t       *drawn;  /* [2, max_rows] owned: ids that the last pass drew, and logprobs    */
    bool           draws;  /* tokens may be drawn where the logits are, which spares the host them;
                              on the host itself nothing is won                                 */
    hd_pass_row    *rows;  /* [chunk] in session_parts: of a pass over one sequence            */
    size_t          act_mark; /* where the buffers of a pass end and plans begin */
    hd_plan_slot    plans[HD_N_PLANS];
    char           *meta; /* owned: the plans' meta arenas */
    uint64_t        clock;
    hd_session     *sessions;      /* [n_sessions] owned */
    hd_arena        session_parts; /* base owned: what sessions point to, and io */
    uint8_t        *io;            /* [HD_IO_BYTES] */
    uint64_t        identity;      /* digest of the model, made when first needed */
    bool            has_identity;
    pthread_mutex_t lock; /* one pass at a time */
    bool            has_lock;
};

/* What is done with a row of logits. */
typedef struct hd_row_ask {
    hd_sample_ask draw;      /* a token is drawn where it is: see hd_engine_drawn       */
    bool          is_wanted; /* on the host: otherwise its place in engine->logits is undefined */
} hd_row_ask;

/* A pass over n <= max_rows rows.  The caller holds the engine's lock.  Results are in
 * engine->pass until the next pass; row i of engine->logits is that of the i-th row wanted.
 * next     [n] only for MTP: the ids one place later; the MTP block runs over the streams that
 *          the pass before left, and its logits, of all rows, replace those there
 * asks     one for each row wanted, in their order; NULL: all logits come to the host, which is all
 * after    called after each step, or NULL                                                   */
typedef struct hd_rows_run {
    const hd_pass_row *rows;
    const hd_row_ask  *asks;
    const int32_t     *next;
    int32_t            n;
    bool               is_mtp;
    hd_step_fn        *after;
    void              *user;
} hd_rows_run;
hd_status hd_engine_run_rows(hd_engine *e, const hd_rows_run *run, hd_error *err);
/* What was drawn from the i-th row wanted of the last pass, which had asks.
 * returns  HD_ERR_NUMERIC naming the first logit that is NaN or infinite */
hd_status hd_engine_drawn(const hd_engine *e, int32_t i, hd_token_prob *out, hd_error *err);

/* The same over n <= chunk tokens that stand at positions pos.. of one sequence. */
typedef enum hd_logits_rows { HD_LOGITS_NONE, HD_LOGITS_LAST, HD_LOGITS_ALL } hd_logits_rows;
typedef struct hd_pass_run {
    const int32_t    *tokens, *next;
    int32_t           n, seq, pos;
    hd_logits_rows    rows;
    const hd_row_ask *asks;
    bool              is_mtp;
    hd_step_fn       *after;
    void             *user;
} hd_pass_run;
hd_status hd_engine_run(hd_engine *e, const hd_pass_run *run, hd_error *err);
/* The plan that hd_engine_run would run, for who wants to know its steps beforehand; it stays
 * bound until HD_N_PLANS others were asked for. */
hd_status hd_engine_plan(hd_engine *e, const hd_pass_run *run, const hd_plan **out, hd_error *err);

/* For opening: plans of the largest pass without memory, which tells how much they need; then
 * with it; then what decodes is recorded, where there is an accelerator. */
hd_status hd_engine_measure_plans(hd_engine *e, hd_arena *act, size_t *meta_bytes, hd_error *err);
hd_status hd_engine_bind_plans(hd_engine *e, size_t meta_bytes, hd_error *err);
hd_status hd_engine_record_plans(hd_engine *e, hd_error *err);

/* Runs the rows again, which changes nothing, and looks at what each step leaves.
 * returns  HD_ERR_NUMERIC naming layer, step and place of the first number that is none; HD_OK
 *          when there is no such number */
hd_status hd_engine_find_nan(hd_engine *e, const hd_pass_row *rows, int32_t n, hd_error *err);
/* Replaces what plans choose kernels from, and forgets those that are bound; of the same place,
 * host or accelerator, as options.isa.  Whether every step finds a kernel shows when a plan is
 * bound. */
void hd_engine_choose(hd_engine *e, const hd_kernel_choice *choice);

/* ---- memory ---- */

/* Bytes that an engine takes, all its sessions together. */
typedef struct hd_memory_use {
    hd_options options; /* with the defaults filled in */
    int64_t    weights; /* mapped from the files       */
    int64_t    rows;    /* of the KV cache: grow with the context                  */
    int64_t    rings;   /* of the KV cache: windows and open groups                */
    int64_t    marks;   /* rings kept aside at page edges                          */
    int64_t    sessions, activations, plans;
    int64_t    total; /* all of them */
    double     token; /* rows of one more token of context in one session */
} hd_memory_use;
/* What hd_engine_open would take with each of n contexts (0: the default one); reads headers
 * only.  out [n]; an entry stays zero where the context is longer than the model's. */
hd_status hd_engine_measure(const hd_options *opt, const int32_t *contexts, int32_t n,
                            hd_memory_use *out, hd_error *err);

/* ---- state of sequences ---- */

/* Layers that have a cache in use, the MTP block's included. */
int32_t hd_engine_layers(const hd_engine *e);
/* A part of the state of a sequence: its rings behind token `to`, or the compressed rows that the
 * tokens from .. to - 1 completed. */
typedef struct hd_state_span {
    hd_cache_part part;
    int32_t       from, to;
} hd_state_span;
/* hd_cache_ranges of one layer. */
int32_t hd_engine_ranges(const hd_engine *e, const hd_state_span *span, int32_t layer,
                         hd_cache_range out[HD_CACHE_MAX_RANGES]);
int64_t hd_engine_span_bytes(const hd_engine *e, const hd_state_span *span);
/* A span out of the cache, or into it, layer by layer.
 * bytes    [hd_engine_span_bytes]
 * returns  HD_ERR_DEVICE */
hd_status hd_engine_get(const hd_engine *e, const hd_state_span *span, int32_t seq, uint8_t *bytes,
                        hd_error *err);
hd_status hd_engine_put(const hd_engine *e, const hd_state_span *span, int32_t seq,
                        const uint8_t *bytes, hd_error *err);
/* Room for one mark. */
int64_t hd_engine_mark_bytes(const hd_engine *e);
/* hd_session_reset, and gives the memory of its rows back. */
void hd_session_empty(hd_session *s);
/* hd_session_eval of n > 0 tokens, and a token drawn behind them where the logits are. */
hd_status hd_session_eval_draw(hd_session *s, const int32_t *tokens, int32_t n,
                               const hd_sample_ask *draw, hd_token_prob *drawn, hd_error *err);
/* Counts n tokens as evaluated, which stood behind the others in a pass. */
void hd_session_advance(hd_session *s, const int32_t *tokens, int32_t n);
/* Keeps marks at the page edges that a pass crossed: those in (before, s->length]. */
hd_status hd_session_mark(hd_session *s, int32_t before, hd_error *err);
/* Makes engine->identity, unless it is there: it reads a page of every tensor. */
hd_status hd_engine_identify(hd_engine *e, hd_error *err);
/* Replaces the session by a saved one, or leaves it as it is.  The engine is identified and
 * locked.  `what` names the bytes in messages. */
hd_status hd_session_parse(hd_session *s, const uint8_t *data, size_t bytes, const char *what,
                           hd_error *err);

HD_END_C
#endif
