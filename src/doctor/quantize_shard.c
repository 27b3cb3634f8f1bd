#include <pthread.h>
#include <string.h>

#include "base/file.h"
#include "doctor/quantize_parts.h"

#define COPY_BYTES ((size_t)4 << 20)

typedef struct shard_work {
    const hd_quantize    *q;
    const hd_shard_plan  *plan;
    hd_st_writer          writer;
    hd_quantize_progress *at;
    pthread_mutex_t       lock;   /* of progress and what follows */
    int64_t               failed; /* the first job that failed; n_jobs: none */
    hd_error              error;  /* its */
} shard_work;

static void on_part(void *user, int64_t bytes)
{
    shard_work *const w = user;
    pthread_mutex_lock(&w->lock);
    w->at->done += bytes;
    hd_log_progress(w->q->opt.log, "quantizing", w->at->done, w->at->total);
    pthread_mutex_unlock(&w->lock);
}

static hd_status copy_tensor(shard_work *w, const hd_tensor *t, int32_t slot, hd_error *err)
{
    for (size_t at = 0; at < t->st.bytes; at += COPY_BYTES) {
        size_t const n = t->st.bytes - at < COPY_BYTES ? t->st.bytes - at : COPY_BYTES;
        HD_TRY(hd_st_writer_put_part(&w->writer, slot, at, t->st.data + at, n, err));
        hd_file_release(t->st.data + at, n);
        on_part(w, (int64_t)n);
    }
    return HD_OK;
}

static hd_status do_job(shard_work *w, const hd_shard_job *j, hd_convert_room *room, hd_error *err)
{
    hd_convert_sink const sink = {&w->writer, j->slots, on_part, w};
    if (j->copy) return copy_tensor(w, j->copy, j->slots[0], err);
    return hd_quantize_matrix(w->q, j->conversion, room, &sink, err);
}

/* Of several failures the first one in the file is told, whatever the number of threads: jobs are
 * begun in that order. */
static bool run_job(void *user, void *room, int64_t i)
{
    shard_work *const w = user;
    hd_error          err = {0};
    pthread_mutex_lock(&w->lock);
    bool const is_late = w->failed < i;
    pthread_mutex_unlock(&w->lock);
    if (is_late || do_job(w, &w->plan->jobs[i], room, &err) == HD_OK) return true;
    pthread_mutex_lock(&w->lock);
    if (i < w->failed) {
        w->failed = i;
        w->error = err;
    }
    pthread_mutex_unlock(&w->lock);
    return false;
}

static hd_status run_jobs(shard_work *w, hd_error *err)
{
    void         *rooms[HD_AUDIT_MOST_THREADS] = {NULL};
    bool          is_ready = true;
    hd_audit_work work = {.run = run_job,
                          .user = w,
                          .rooms = rooms,
                          .n = w->plan->n_jobs,
                          .n_threads = w->q->n_threads};
    for (int32_t i = 0; i < work.n_threads; i++)
        is_ready = (rooms[i] = hd_convert_room_make()) != NULL && is_ready;
    bool const is_done = is_ready && hd_audit_work_run(&work);
    for (int32_t i = 0; i < work.n_threads; i++) hd_convert_room_free(rooms[i]);
    if (!is_ready) HD_FAIL(err, HD_ERR_MEMORY, "no memory to convert %s", w->plan->name);
    if (!is_done && err) *err = w->error;
    return is_done ? HD_OK : w->error.code;
}

static hd_status write_shard(shard_work *w, const char *path, hd_error *err)
{
    static const hd_st_meta meta = {"format", "pt"};
    hd_st_layout const      layout = {w->plan->tensors, w->plan->n_tensors, 1, &meta};
    HD_TRY(hd_st_writer_begin(&w->writer, path, &layout, err));
    hd_status const s = run_jobs(w, err);
    if (s == HD_OK) return hd_st_writer_commit(&w->writer, err);
    hd_st_writer_abort(&w->writer);
    return s;
}

hd_status hd_quantize_shard(const hd_quantize *q, const hd_shard_plan *p, hd_quantize_progress *at,
                            hd_error *err)
{
    char       path[HD_MAX_PATH];
    shard_work w = {.q = q, .plan = p, .at = at, .failed = p->n_jobs};
    HD_TRY(hd_quantize_path(path, q->model, p->name, err));
    pthread_mutex_init(&w.lock, NULL);
    hd_status const s = write_shard(&w, path, err);
    pthread_mutex_destroy(&w.lock);
    return s;
}
