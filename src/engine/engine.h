#ifndef HD_ENGINE_ENGINE_H
#define HD_ENGINE_ENGINE_H

#include <pthread.h>

#include "base/log.h"
#include "model/model.h"

/* The engine's inside, for engine/ and doctor/: programs use include/hadal.h. */

HD_BEGIN_C

/* A plan stays bound until another size needs its place. */
#define HD_N_PLANS 4

typedef struct hd_plan_slot {
    int32_t        t; /* 0: empty */
    hd_logits_rows rows;
    bool           is_mtp;
    uint64_t       used; /* clock of the last use */
    hd_plan        plan;
    hd_arena       meta; /* steps and args of this slot, fixed bytes */
} hd_plan_slot;

struct hd_session {
    hd_engine *engine;
    int32_t    seq;    /* its part of every cache pool */
    int32_t    length; /* tokens evaluated             */
    bool       is_open, has_logits;
    float     *logits;  /* [n_vocab] after the last token */
    int32_t   *scratch; /* [n_vocab] for the sampler      */
};

struct hd_engine {
    hd_options      options; /* defaults filled in */
    hd_log          log;
    hd_checkpoint  *checkpoint;
    hd_weights     *weights;
    hd_tokenizer   *tokenizer;
    hd_model        model;
    hd_pass         pass;
    hd_arena        tables, kv, act; /* bases owned */
    size_t          act_mark;        /* where the buffers of a pass end and plans begin */
    hd_plan_slot    plans[HD_N_PLANS];
    char           *meta; /* owned: the plans' meta arenas */
    uint64_t        clock;
    hd_session     *sessions; /* [n_sessions] owned */
    float          *logits;   /* [n_sessions, n_vocab] owned */
    int32_t        *scratch;  /* [n_sessions, n_vocab] owned */
    pthread_mutex_t lock;     /* one pass at a time */
    bool            has_lock;
};

/* A pass over n <= chunk tokens that stand at positions pos.. of a sequence.  The caller holds
 * the engine's lock.  Results are in engine->pass until the next pass.
 * next     [n] only for MTP: the ids one place later; the MTP block runs over the streams that
 *          the pass before left, and its logits replace those there
 * after    called after each step, or NULL                                                   */
typedef struct hd_pass_run {
    const int32_t *tokens, *next;
    int32_t        n, seq, pos;
    hd_logits_rows rows;
    bool           is_mtp;
    hd_step_fn    *after;
    void          *user;
} hd_pass_run;
hd_status hd_engine_run(hd_engine *e, const hd_pass_run *run, hd_error *err);
/* The plan that hd_engine_run would run, for who wants to know its steps beforehand; it stays
 * bound until HD_N_PLANS others were asked for. */
hd_status hd_engine_plan(hd_engine *e, const hd_pass_run *run, const hd_plan **out, hd_error *err);

HD_END_C
#endif
