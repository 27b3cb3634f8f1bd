/* The thread that writes kept nodes, so that no pass waits for a disk. */
#include "engine/prefix_disk.h"

static void add_last(hd_kept **first, hd_kept **last, hd_kept *k)
{
    k->next = NULL;
    *(*first ? &(*last)->next : first) = k;
    *last = k;
}

/* The next to write; NULL: the end.  The lock is held. */
static hd_kept *next_of(hd_prefix_disk *d)
{
    while (!d->queue && !d->is_stopping) pthread_cond_wait(&d->changed, &d->mutex);
    hd_kept *const k = d->queue;
    if (k) d->queue = k->next;
    d->is_writing = k != NULL;
    return k;
}

static void *write_all(void *user)
{
    hd_prefix_disk *const d = user;
    hd_kept              *k;
    pthread_mutex_lock(&d->mutex);
    while ((k = next_of(d))) {
        hd_error why = {0};
        pthread_mutex_unlock(&d->mutex);
        bool const is_good = hd_kept_write(d, k, &why) == HD_OK;
        pthread_mutex_lock(&d->mutex);
        k->is_good = is_good;
        if (!is_good) d->error = why;
        add_last(&d->done, &d->done_end, k);
        d->is_writing = false;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->mutex);
    return NULL;
}

hd_status hd_prefix_writer_open(hd_prefix_disk *d, hd_error *err)
{
    d->has_mutex = pthread_mutex_init(&d->mutex, NULL) == 0;
    d->has_changed = pthread_cond_init(&d->changed, NULL) == 0;
    if (!d->has_mutex || !d->has_changed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a lock");
    d->has_thread = pthread_create(&d->thread, NULL, write_all, d) == 0;
    if (!d->has_thread) HD_FAIL(err, HD_ERR_LIMIT, "the system refuses a thread that writes");
    return HD_OK;
}

void hd_prefix_writer_close(hd_prefix_disk *d)
{
    if (d->has_thread) {
        pthread_mutex_lock(&d->mutex);
        d->is_stopping = true;
        pthread_cond_broadcast(&d->changed);
        pthread_mutex_unlock(&d->mutex);
        pthread_join(d->thread, NULL);
    }
    if (d->has_changed) pthread_cond_destroy(&d->changed);
    if (d->has_mutex) pthread_mutex_destroy(&d->mutex);
}

void hd_prefix_writer_add(hd_prefix_disk *d, hd_kept *k)
{
    pthread_mutex_lock(&d->mutex);
    add_last(&d->queue, &d->queue_end, k);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

hd_kept *hd_prefix_writer_take(hd_prefix_disk *d, bool waits, hd_error *why)
{
    pthread_mutex_lock(&d->mutex);
    while (waits && (d->queue || d->is_writing)) pthread_cond_wait(&d->changed, &d->mutex);
    hd_kept *const done = d->done;
    d->done = d->done_end = NULL;
    *why = d->error;
    d->error = (hd_error){0};
    pthread_mutex_unlock(&d->mutex);
    return done;
}
