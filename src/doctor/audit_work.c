#include <pthread.h>
#include <stdatomic.h>

#include "doctor/audit_parts.h"

#define SWEEP_BYTES ((int64_t)256 << 20)

typedef struct shared {
    const hd_audit_work *work;
    atomic_llong         next;
    atomic_bool          has_failed;
} shared;

typedef struct worker {
    shared   *all;
    void     *room;
    pthread_t thread;
} worker;

static void *run_worker(void *user)
{
    const worker *const        w = user;
    const hd_audit_work *const work = w->all->work;
    for (int64_t i; (i = atomic_fetch_add(&w->all->next, 1)) < work->n;)
        if (!work->run(work->user, w->room, i)) atomic_store(&w->all->has_failed, true);
    return NULL;
}

void hd_audit_sweep_add(hd_audit_sweep *s, int64_t bytes)
{
    int64_t const before = __atomic_fetch_add(&s->read, bytes, __ATOMIC_RELAXED);
    if (before / SWEEP_BYTES == (before + bytes) / SWEEP_BYTES) return;
    for (int i = 0; i < 2; i++)
        if (s->of[i]) hd_checkpoint_release(s->of[i]);
}

/* A thread that cannot be started leaves its share to the others. */
bool hd_audit_work_run(const hd_audit_work *w)
{
    shared  all = {.work = w};
    worker  workers[HD_AUDIT_MOST_THREADS];
    int32_t n = 1;
    atomic_init(&all.next, 0);
    atomic_init(&all.has_failed, false);
    workers[0] = (worker){.all = &all, .room = w->rooms[0]};
    for (int32_t i = 1; i < w->n_threads && i < HD_AUDIT_MOST_THREADS; i++) {
        workers[n] = (worker){.all = &all, .room = w->rooms[i]};
        if (pthread_create(&workers[n].thread, NULL, run_worker, &workers[n]) == 0) n++;
    }
    run_worker(&workers[0]);
    for (int32_t i = 1; i < n; i++) pthread_join(workers[i].thread, NULL);
    return !atomic_load(&all.has_failed);
}
