/* Batches: open and close, the queue, waiting, counts. */
#include "engine/batch.h"

#include <time.h>

#define DEFAULT_WAITING 256
#define MAX_WAITING     (1 << 20)
#define DEFAULT_CHUNK   64
#define MOST_RAM        ((int64_t)1 << 30) /* of kept prompts, when nobody says */
#define DEFAULT_DISK    ((int64_t)16 << 30)

/* ---- open ---- */

/* KV rows of everything that runs, when nobody says how much: memory of an accelerator was set
 * aside at open, that of the host is taken as it fills. */
static int64_t default_kv_bytes(const hd_engine *e)
{
    int64_t const all =
        hd_model_rows_bytes(&e->model, e->options.max_tokens) * e->options.n_sessions;
    int64_t const half = hd_memory_machine_bytes() / 2;
    return !e->device && half > 0 && half < all ? half : all;
}

static hd_status check_options(hd_batch_options *o, const hd_engine *e, hd_error *err)
{
    if (o->n_waiting < 0 || o->n_waiting > MAX_WAITING)
        HD_FAIL(err, HD_ERR_INVALID, "%d places to wait: wanted 1 .. %d, or 0", o->n_waiting,
                MAX_WAITING);
    if (o->chunk < 0 || o->chunk > e->options.chunk)
        HD_FAIL(err, HD_ERR_INVALID, "prompts in chunks of %d tokens: wanted 1 .. %d, or 0",
                o->chunk, e->options.chunk);
    if (o->kv_bytes < 0) HD_FAIL(err, HD_ERR_INVALID, "a negative number of bytes for KV rows");
    if (!o->n_waiting) o->n_waiting = DEFAULT_WAITING;
    if (!o->chunk) o->chunk = e->options.chunk < DEFAULT_CHUNK ? e->options.chunk : DEFAULT_CHUNK;
    if (!o->kv_bytes) o->kv_bytes = default_kv_bytes(e);
    return HD_OK;
}

static hd_status check_keeping(hd_batch_options *o, hd_error *err)
{
    int64_t const eighth = hd_memory_machine_bytes() / 8;
    if (o->ram_bytes < -1) HD_FAIL(err, HD_ERR_INVALID, "kept prompts: bytes of memory below -1");
    if (o->disk_bytes < 0)
        HD_FAIL(err, HD_ERR_INVALID, "kept prompts: bytes of the folder below 0");
    if (o->ram_bytes == -1 && o->folder)
        HD_FAIL(err, HD_ERR_INVALID, "%s: no memory for what is on its way there", o->folder);
    if (!o->ram_bytes) o->ram_bytes = eighth > 0 && eighth < MOST_RAM ? eighth : MOST_RAM;
    if (!o->disk_bytes) o->disk_bytes = DEFAULT_DISK;
    return HD_OK;
}

static hd_status open_prefix(hd_batch *b, hd_error *err)
{
    hd_prefix_options const o = {.ram_bytes = b->options.ram_bytes,
                                 .folder = b->options.folder,
                                 .disk_bytes = b->options.disk_bytes};
    return o.ram_bytes > 0 ? hd_prefix_open(&b->prefix, b->engine, &o, err) : HD_OK;
}

static hd_status alloc_lists(hd_batch *b, hd_error *err)
{
    size_t const n = (size_t)b->engine->options.n_sessions;
    b->sessions = hd_memory_alloc(n * sizeof *b->sessions);
    b->running = hd_memory_alloc(n * sizeof *b->running);
    b->rows = hd_memory_alloc((size_t)b->engine->max_rows * sizeof *b->rows);
    b->asks = hd_memory_alloc((size_t)b->engine->max_rows * sizeof *b->asks);
    if (!b->sessions || !b->running || !b->rows || !b->asks)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu requests at once", n);
    return HD_OK;
}

static hd_status open_lock(hd_batch *b, hd_error *err)
{
    pthread_condattr_t attr;
    b->has_lock = pthread_mutex_init(&b->lock, NULL) == 0;
    if (pthread_condattr_init(&attr) == 0) {
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        b->has_changed = pthread_cond_init(&b->changed, &attr) == 0;
        pthread_condattr_destroy(&attr);
    }
    if (!b->has_lock || !b->has_changed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a lock");
    return HD_OK;
}

static hd_status open_parts(hd_batch *b, hd_error *err)
{
    HD_TRY(check_options(&b->options, b->engine, err));
    HD_TRY(open_lock(b, err));
    HD_TRY(check_keeping(&b->options, err));
    HD_TRY(alloc_lists(b, err));
    HD_TRY(open_prefix(b, err));
    hd_batch_count_kept(b);
    for (; b->n_idle < b->engine->options.n_sessions; b->n_idle++)
        HD_TRY(hd_session_open(&b->sessions[b->n_idle], b->engine, err));
    return HD_OK;
}

hd_status hd_batch_open(hd_batch **out, hd_engine *e, const hd_batch_options *opt, hd_error *err)
{
    hd_batch *const b = hd_memory_alloc(sizeof *b);
    if (!b) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a batch");
    b->engine = e;
    if (opt) b->options = *opt;
    hd_status const s = open_parts(b, err);
    if (s == HD_OK)
        *out = b;
    else
        hd_batch_close(b);
    return s;
}

void hd_batch_close(hd_batch *b)
{
    hd_error why = {0};
    if (!b) return;
    hd_error_set(&why, HD_ERR_CANCELLED, -1, "the batch was closed");
    if (b->has_lock && b->has_changed) hd_batch_end_all(b, &why);
    hd_prefix_close(b->prefix);
    while (b->n_idle > 0) hd_session_close(b->sessions[--b->n_idle]);
    hd_memory_free(b->sessions);
    hd_memory_free(b->running);
    hd_memory_free(b->rows);
    hd_memory_free(b->asks);
    if (b->has_changed) pthread_cond_destroy(&b->changed);
    if (b->has_lock) pthread_mutex_destroy(&b->lock);
    hd_memory_free(b);
}

/* ---- the queue ---- */

/* The lock is held. */
static hd_status enqueue(hd_batch *b, hd_job *j, hd_error *err)
{
    if (b->is_dead) HD_FAIL(err, HD_ERR_DEVICE, "the engine is dead");
    if (b->stats.n_waiting == b->options.n_waiting) {
        hd_error_set(err, HD_ERR_LIMIT, 1, "all %d places to wait are taken", b->options.n_waiting);
        return HD_ERR_LIMIT;
    }
    j->ticket = ++b->n_tickets;
    if (b->last)
        b->last->next = j;
    else
        b->first = j;
    b->last = j;
    b->stats.n_waiting++;
    b->stats.n_requests++;
    pthread_cond_broadcast(&b->changed);
    return HD_OK;
}

hd_status hd_batch_submit(hd_batch *b, const hd_request *r, uint64_t *ticket, hd_error *err)
{
    hd_job *j = NULL;
    HD_TRY(hd_job_make(&j, b, r, err));
    pthread_mutex_lock(&b->lock);
    hd_status const s = enqueue(b, j, err);
    if (s == HD_OK && ticket) *ticket = j->ticket;
    pthread_mutex_unlock(&b->lock);
    if (s != HD_OK) hd_job_free(j);
    return s;
}

void hd_batch_cancel(hd_batch *b, uint64_t ticket)
{
    pthread_mutex_lock(&b->lock);
    hd_job *found = b->first;
    while (found && found->ticket != ticket) found = found->next;
    for (int32_t i = 0; i < b->stats.n_running && !found; i++)
        if (b->running[i]->ticket == ticket) found = b->running[i];
    if (found) {
        found->is_cancelled = true;
        b->has_cancelled = true;
        pthread_cond_broadcast(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
}

/* ---- waiting ---- */

/* The lock is held. */
static bool has_work(const hd_batch *b)
{
    return b->stats.n_running > 0 || b->first || b->is_woken || b->is_dead;
}

static struct timespec deadline(int32_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

void hd_batch_wait(hd_batch *b, int32_t ms)
{
    struct timespec const end = deadline(ms > 0 ? ms : 0);
    int                   failed = 0;
    pthread_mutex_lock(&b->lock);
    while (!has_work(b) && !failed)
        failed = ms < 0 ? pthread_cond_wait(&b->changed, &b->lock)
                        : pthread_cond_timedwait(&b->changed, &b->lock, &end);
    b->is_woken = false;
    pthread_mutex_unlock(&b->lock);
}

void hd_batch_wake(hd_batch *b)
{
    pthread_mutex_lock(&b->lock);
    b->is_woken = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

void hd_batch_stats_get(const hd_batch *b, hd_batch_stats *out)
{
    pthread_mutex_t *const lock = (pthread_mutex_t *)(uintptr_t)&b->lock;
    pthread_mutex_lock(lock);
    *out = b->stats;
    pthread_mutex_unlock(lock);
}
