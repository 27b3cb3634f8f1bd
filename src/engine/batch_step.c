/* One pass of a batch: who starts, whose rows run, what comes of them.
 *
 * Each answer that is being drawn has one row in every pass, so none waits for another.  Prompt
 * rows come on top, at most `chunk` of them while somebody draws: that bounds how long a pass
 * takes.  Those who read share them, and whoever needs less leaves the rest to the others. */
#include "engine/batch.h"
#include "engine/sampler.h"

/* ---- ending ---- */

/* Takes a job out of those that run; its session is idle again. */
static void stop_running(hd_batch *b, hd_job *j)
{
    pthread_mutex_lock(&b->lock);
    int32_t const n = --b->stats.n_running;
    int32_t       at = 0;
    while (b->running[at] != j) at++;
    for (; at < n; at++) b->running[at] = b->running[at + 1];
    pthread_mutex_unlock(&b->lock);
    hd_session_empty(j->session);
    b->sessions[b->n_idle++] = j->session;
    b->promised -= j->promise;
    j->session = NULL;
}

static void count_end(hd_batch *b, const hd_job *j)
{
    pthread_mutex_lock(&b->lock);
    b->stats.n_failed += j->end.error.code != HD_OK;
    b->stats.new_tokens += j->reply.n_new;
    b->stats.cached_tokens += j->end.n_cached;
    pthread_mutex_unlock(&b->lock);
}

void hd_batch_end(hd_batch *b, hd_job *j)
{
    if (j->session) stop_running(b, j);
    hd_job_finish(j);
    count_end(b, j);
    hd_job_report(j);
    hd_job_free(j);
}

static void end_with(hd_batch *b, hd_job *j, const hd_error *why)
{
    j->failure = *why;
    hd_batch_end(b, j);
}

static hd_job *take_first(hd_batch *b)
{
    hd_job *const j = b->first;
    if (!j) return NULL;
    b->first = j->next;
    if (!b->first) b->last = NULL;
    b->stats.n_waiting--;
    return j;
}

void hd_batch_end_all(hd_batch *b, const hd_error *why)
{
    while (b->stats.n_running > 0) end_with(b, b->running[0], why);
    for (;;) {
        pthread_mutex_lock(&b->lock);
        hd_job *const j = take_first(b);
        pthread_mutex_unlock(&b->lock);
        if (!j) return;
        end_with(b, j, why);
    }
}

/* ---- cancelling ---- */

/* Cancelled ones of the queue, out of it; the lock is held. */
static hd_job *take_cancelled(hd_batch *b)
{
    hd_job *taken = NULL, *last = NULL;
    for (hd_job **at = &b->first; *at;) {
        hd_job *const j = *at;
        if (!j->is_cancelled) {
            last = j;
            at = &j->next;
            continue;
        }
        *at = j->next;
        j->next = taken;
        taken = j;
        b->stats.n_waiting--;
    }
    b->last = last;
    return taken;
}

static hd_job *find_cancelled(hd_batch *b)
{
    for (int32_t i = 0; i < b->stats.n_running; i++)
        if (b->running[i]->is_cancelled) return b->running[i];
    return NULL;
}

static void end_cancelled(hd_batch *b)
{
    hd_error why = {0};
    hd_error_set(&why, HD_ERR_CANCELLED, -1, "cancelled");
    pthread_mutex_lock(&b->lock);
    hd_job *waiting = b->has_cancelled ? take_cancelled(b) : NULL;
    hd_job *running = b->has_cancelled ? find_cancelled(b) : NULL;
    b->has_cancelled = false;
    pthread_mutex_unlock(&b->lock);
    for (hd_job *next; waiting; waiting = next) {
        next = waiting->next;
        end_with(b, waiting, &why);
    }
    while (running) {
        end_with(b, running, &why);
        pthread_mutex_lock(&b->lock);
        running = find_cancelled(b);
        pthread_mutex_unlock(&b->lock);
    }
}

/* ---- starting ---- */

/* In the order in which they came: one that waits for memory is not overtaken. */
static hd_job *take_startable(hd_batch *b)
{
    if (!b->first || b->n_idle == 0) return NULL;
    if (b->first->promise > b->options.kv_bytes - b->promised) return NULL;
    hd_job *const j = take_first(b);
    j->next = NULL;
    b->running[b->stats.n_running++] = j;
    return j;
}

static void start_jobs(hd_batch *b)
{
    for (;;) {
        pthread_mutex_lock(&b->lock);
        hd_job *const j = take_startable(b);
        if (j) b->stats.prompt_tokens += j->asked.n_prompt;
        pthread_mutex_unlock(&b->lock);
        if (!j) return;
        j->session = b->sessions[--b->n_idle];
        j->state = HD_JOB_HELD;
        j->started_at = hd_reply_now();
        b->promised += j->promise;
    }
}

static void begin_jobs(hd_batch *b)
{
    for (int32_t i = 0; i < b->stats.n_running;) {
        hd_job *const j = b->running[i++];
        if (j->state != HD_JOB_HELD || hd_job_begin(b, j, &j->failure) == HD_OK) continue;
        hd_batch_end(b, j);
        i--;
    }
}

/* ---- rows ---- */

static int32_t count_state(const hd_batch *b, hd_job_state state)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->stats.n_running; i++) n += b->running[i]->state == state;
    return n;
}

/* How many rows each job has in the next pass. */
static void share_rows(hd_batch *b)
{
    int32_t const n = b->stats.n_running, n_drawing = count_state(b, HD_JOB_DRAWING);
    int32_t       readers = count_state(b, HD_JOB_READING);
    int32_t       left = n_drawing > 0 ? b->options.chunk : b->engine->options.chunk;
    for (int32_t i = 0; i < n; i++) {
        hd_job *const j = b->running[(b->turn + i) % n];
        j->n_rows = j->state == HD_JOB_DRAWING;
        if (j->state != HD_JOB_READING) continue;
        int32_t const need = j->asked.n_prompt - j->session->length;
        int32_t const share = (left + readers - 1) / readers;
        j->n_rows = need < share ? need : share;
        left -= j->n_rows;
        readers--;
    }
    b->turn = n > 0 ? (b->turn + 1) % n : 0;
}

/* The tokens that a job's rows read. */
static const int32_t *tokens_of(const hd_job *j)
{
    return j->state == HD_JOB_DRAWING ? &j->reply.drawn.token.id
                                      : j->asked.prompt + j->session->length;
}

static bool is_scored(const hd_job *j) { return j->asked.is_scored && j->state == HD_JOB_READING; }

/* Whether a token is drawn behind the job's rows. */
static bool is_drawn(const hd_job *j)
{
    bool const is_last = j->session->length + j->n_rows >= j->asked.n_prompt;
    return j->state == HD_JOB_DRAWING || (j->is_drawn && is_last);
}

/* The job's last row: where nothing is drawn behind it, what is asked for tells of a bad number. */
static void ask_last(hd_batch *b, hd_job *j)
{
    hd_row_ask *const ask = &b->asks[b->n_asks - 1];
    hd_sample_ask     draw;
    j->is_asked = b->engine->draws && !is_scored(j) && (!is_drawn(j) || hd_job_ask(j, &draw));
    if (!j->is_asked) return;
    ask->is_wanted = false;
    if (is_drawn(j)) ask->draw = draw;
}

/* The last row's logits are looked at even where nothing is drawn: a number that is none is found
 * in the pass that made it. */
static void list_job(hd_batch *b, hd_job *j)
{
    j->first_row = b->n_rows;
    const int32_t *const token = tokens_of(j);
    for (int32_t i = 0; i < j->n_rows; i++) {
        bool const is_wanted = i == j->n_rows - 1 || is_scored(j);
        b->rows[b->n_rows++] =
            (hd_pass_row){token[i], j->session->length + i, j->session->seq, is_wanted};
        if (is_wanted) b->asks[b->n_asks++] = (hd_row_ask){.is_wanted = true};
    }
    if (j->n_rows > 0) ask_last(b, j);
}

static void list_rows(hd_batch *b)
{
    b->n_rows = b->n_asks = 0;
    share_rows(b);
    for (int32_t i = 0; i < b->stats.n_running; i++) list_job(b, b->running[i]);
}

static hd_status run_rows(hd_batch *b, hd_error *err)
{
    const hd_row_ask *const asks = b->engine->draws ? b->asks : NULL;
    hd_rows_run const       run = {.rows = b->rows, .asks = asks, .n = b->n_rows};
    pthread_mutex_lock(&b->engine->lock);
    hd_status const s = hd_engine_run_rows(b->engine, &run, err);
    pthread_mutex_unlock(&b->engine->lock);
    return s;
}

/* ---- what comes of them ---- */

/* Logits of the job's rows, in the order of the rows that were wanted. */
typedef struct results {
    const float *logits;       /* of its first wanted row */
    const float *last;         /* of its last row         */
    int32_t      at, n_wanted; /* those rows, in the pass's list */
} results;

static results results_at(const hd_batch *b, const hd_job *j, int32_t at)
{
    int64_t const      vocab = b->engine->model.config->n_vocab;
    int32_t const      n = is_scored(j) ? j->n_rows : j->n_rows > 0;
    const float *const logits = b->engine->logits + at * vocab;
    return (results){logits, logits + (n - 1) * vocab, at, n};
}

/* What was drawn from the job's last row, or why nothing can be. */
static hd_status look_at(const hd_job *j, const results *r, hd_token_prob *drawn, hd_error *err)
{
    const hd_engine *const e = j->session->engine;
    if (j->is_asked) return hd_engine_drawn(e, r->at + r->n_wanted - 1, drawn, err);
    return hd_sampler_check_logits(r->last, e->model.config->n_vocab, err);
}

static hd_status draw(hd_job *j, const results *r, hd_token_prob drawn, hd_error *err)
{
    return j->is_asked ? hd_job_take(j, drawn, err) : hd_job_draw(j, r->last, err);
}

static hd_status take_prompt(hd_batch *b, hd_job *j, const results *r, hd_error *err)
{
    hd_session *const s = j->session;
    int32_t const     first = s->length;
    hd_token_prob     drawn = {0};
    HD_TRY(look_at(j, r, &drawn, err));
    hd_session_advance(s, tokens_of(j), j->n_rows);
    HD_TRY(hd_job_keep(b, j, err));
    if (j->asked.is_scored) HD_TRY(hd_job_score(j, first, j->n_rows, r->logits, err));
    if (s->length < j->asked.n_prompt) return HD_OK;
    j->state = HD_JOB_DRAWING;
    j->drawing_at = hd_reply_now();
    return j->is_drawn && !j->reply.is_cancelled ? draw(j, r, drawn, err) : HD_OK;
}

static hd_status take_result(hd_batch *b, hd_job *j, const results *r, hd_error *err)
{
    hd_token_prob drawn = {0};
    if (j->n_rows == 0) return HD_OK;
    if (j->state == HD_JOB_READING) return take_prompt(b, j, r, err);
    if (j->is_asked) HD_TRY(look_at(j, r, &drawn, err));
    hd_session_advance(j->session, tokens_of(j), 1);
    return draw(j, r, drawn, err);
}

static bool is_finished(const hd_job *j)
{
    return j->reply.is_cancelled || (j->state == HD_JOB_DRAWING && hd_job_is_done(j));
}

/* Names the first bad number of a job whose logits were bad.  Its rows run again, alone, so the
 * logits of the pass are gone. */
static void explain(hd_batch *b, hd_job *j)
{
    hd_error found = {0};
    pthread_mutex_lock(&b->engine->lock);
    hd_engine_find_nan(b->engine, b->rows + j->first_row, j->n_rows, &found);
    pthread_mutex_unlock(&b->engine->lock);
    if (found.code == HD_ERR_NUMERIC) j->failure = found;
}

/* All logits are used before anything is explained. */
static void take_results(hd_batch *b)
{
    int32_t at = 0;
    for (int32_t i = 0; i < b->stats.n_running; i++) {
        hd_job *const j = b->running[i];
        results const r = results_at(b, j, at);
        take_result(b, j, &r, &j->failure);
        at += r.n_wanted;
    }
    for (int32_t i = 0; i < b->stats.n_running;) {
        hd_job *const j = b->running[i];
        if (j->failure.code == HD_ERR_NUMERIC) explain(b, j);
        if (j->failure.code == HD_OK && is_finished(j)) hd_job_keep_end(b, j, &j->failure);
        if (j->failure.code == HD_OK && !is_finished(j))
            i++;
        else
            hd_batch_end(b, j);
    }
}

/* ---- the pass ---- */

static void count_pass(hd_batch *b)
{
    pthread_mutex_lock(&b->lock);
    b->stats.n_passes++;
    pthread_mutex_unlock(&b->lock);
}

void hd_batch_count_kept(hd_batch *b)
{
    if (!b->prefix) return;
    hd_prefix_settle(b->prefix);
    const hd_prefix_counts *const c = &b->prefix->counts;
    pthread_mutex_lock(&b->lock);
    hd_batch_stats *const s = &b->stats;
    s->kept_states = c->states;
    s->kept_bytes = c->bytes;
    s->disk_states = c->disk_states;
    s->disk_bytes = c->disk_bytes;
    s->n_evicted = c->n_evicted;
    s->n_damaged = c->n_damaged;
    pthread_mutex_unlock(&b->lock);
}

/* A pass that failed ends those who were in it; a dead engine ends all. */
static hd_status fail_pass(hd_batch *b, const hd_error *why, hd_error *err)
{
    if (why->code != HD_ERR_DEVICE) {
        for (int32_t i = 0; i < b->stats.n_running;) {
            hd_job *const j = b->running[i];
            if (j->n_rows == 0)
                i++;
            else
                end_with(b, j, why);
        }
        return HD_OK;
    }
    pthread_mutex_lock(&b->lock);
    b->is_dead = true;
    pthread_mutex_unlock(&b->lock);
    hd_batch_end_all(b, why);
    HD_FAIL(err, HD_ERR_DEVICE, "%s", why->message);
}

hd_status hd_batch_step(hd_batch *b, bool *is_idle, hd_error *err)
{
    hd_error why = {0};
    if (b->is_dead) HD_FAIL(err, HD_ERR_DEVICE, "the engine is dead");
    end_cancelled(b);
    start_jobs(b);
    begin_jobs(b);
    list_rows(b);
    *is_idle = b->n_rows == 0;
    if (!*is_idle) {
        if (run_rows(b, &why) != HD_OK) return fail_pass(b, &why, err);
        take_results(b);
        count_pass(b);
    }
    hd_batch_count_kept(b);
    return HD_OK;
}
