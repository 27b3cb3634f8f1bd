#ifndef HD_ENGINE_BATCH_H
#define HD_ENGINE_BATCH_H

#include "engine/prefix.h"
#include "engine/reply.h"

/* Batches from inside.
 *
 *   batch_job.c     a request: copied, checked, and what its user is told
 *   batch.c         open and close, the queue, waiting
 *   batch_step.c    a pass: who starts, whose rows run, what comes of them
 *   batch_prefix.c  which states are kept, and who waits for one
 *
 * Any thread may put a job into the queue or mark one as cancelled; all else is the business of
 * the thread that steps, so only the queue, the marks and the counts are locked. */

HD_BEGIN_C

/* Most states that are kept of one prompt. */
#define HD_MAX_KEEP 24

typedef enum hd_job_state {
    HD_JOB_WAITING, /* in the queue                         */
    HD_JOB_HELD,    /* has a session, and waits for a state that another is about to keep */
    HD_JOB_READING, /* its prompt is not wholly evaluated   */
    HD_JOB_DRAWING  /* its last token is the one to read    */
} hd_job_state;

typedef struct hd_job {
    struct hd_job *next; /* in the queue */
    uint64_t       ticket;
    hd_job_state   state;
    bool           is_cancelled; /* locked */

    hd_request    asked; /* what it points to is in pool */
    hd_pool       pool;
    bool          is_drawn; /* false: the prompt is scored, and that is all */
    hd_reply      reply;
    hd_matcher   *matcher;              /* owned; NULL: none */
    uint32_t     *allowed;              /* [(n_vocab + 31) / 32] in pool, with a matcher */
    int64_t       promise;              /* bytes of KV rows */
    hd_session   *session;              /* borrowed while it runs; NULL: it waits */
    int32_t       first_row, n_rows;    /* in the pass under way */
    bool          is_asked;             /* its last row is drawn from where the logits are */
    hd_error      failure;              /* what ends it; HD_OK when nothing went wrong */
    int32_t       keep_at[HD_MAX_KEEP]; /* [n_keep] tokens behind which its state is kept, rising */
    bool          has_waited;           /* for another's state */
    int32_t       n_keep, n_kept;       /* the first n_kept are done */
    double        asked_at, started_at, drawing_at; /* seconds of hd_reply_now */
    hd_answer_end end;
} hd_job;

struct hd_batch {
    hd_engine       *engine;
    hd_batch_options options;  /* defaults filled in */
    hd_session     **sessions; /* [n_sessions] owned: idle ones in front */
    int32_t          n_idle;
    hd_job         **running; /* [n_sessions] owned */
    hd_pass_row     *rows;    /* [max_rows] owned: of a pass */
    hd_row_ask      *asks;    /* [max_rows] owned: of its rows that are wanted */
    int32_t          n_rows, n_asks;
    int32_t          turn;     /* whose prompt is read first in the next pass */
    hd_prefix       *prefix;   /* owned; NULL: nothing is kept */
    int64_t          promised; /* bytes of KV rows, to those that run */

    pthread_mutex_t lock; /* over what follows, and over is_cancelled */
    pthread_cond_t  changed;
    bool            has_lock, has_changed;
    hd_job         *first, *last; /* the queue */
    bool            is_woken, is_dead, has_cancelled;
    uint64_t        n_tickets;
    hd_batch_stats  stats; /* n_running and n_waiting are what is in the two lists */
};

/* ---- batch_job.c ---- */

/* A job of a request, not yet in the queue.
 * owns     *out is the caller's: hd_job_free
 * returns  HD_ERR_INVALID, HD_ERR_LIMIT, HD_ERR_MEMORY */
hd_status hd_job_make(hd_job **out, hd_batch *b, const hd_request *r, hd_error *err);
void      hd_job_free(hd_job *j); /* NULL is fine */

/* Draws a token behind those of its session, which may end it. */
hd_status hd_job_draw(hd_job *j, const float *logits, hd_error *err);
/* As hd_reply_ask, and takes what was drawn so. */
bool      hd_job_ask(const hd_job *j, hd_sample_ask *out);
hd_status hd_job_take(hd_job *j, hd_token_prob token, hd_error *err);
/* Whether nothing is to be drawn any more. */
bool hd_job_is_done(const hd_job *j);
/* Reports tokens `first` .. `first + n - 1` of the prompt; logits [n, n_vocab] stand behind each.
 */
hd_status hd_job_score(hd_job *j, int32_t first, int32_t n, const float *logits, hd_error *err);
/* Gives out what is left of the answer, and knows then how it ended. */
void hd_job_finish(hd_job *j);
/* Gives out the end. */
void hd_job_report(hd_job *j);

/* ---- batch_prefix.c ---- */

/* Looks for a state to go on from; the job reads from there, or stays held.
 * returns  HD_ERR_DEVICE, as those below */
hd_status hd_job_begin(hd_batch *b, hd_job *j, hd_error *err);
/* Keeps what the last pass came past. */
hd_status hd_job_keep(hd_batch *b, hd_job *j, hd_error *err);
/* Keeps the end of an answer. */
hd_status hd_job_keep_end(hd_batch *b, const hd_job *j, hd_error *err);
/* Adds a place to keep a state at, further on than the job is; false when there are too many. */
bool hd_job_keep_at(hd_job *j, int32_t at);

/* ---- batch_step.c ---- */

/* Ends a job that runs, or that is in no list any more, and frees it. */
void hd_batch_end(hd_batch *b, hd_job *j);
/* Takes over what was kept and written since, into the counts. */
void hd_batch_count_kept(hd_batch *b);
/* Ends all that runs or waits. */
void hd_batch_end_all(hd_batch *b, const hd_error *why);

HD_END_C
#endif
