#include "base/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"

/* One word says it all: how many threads are inside the present run, whether it still takes
 * any, and its number.  Whoever comes late finds the run closed, so nobody waits for a thread
 * that the system did not let run. */
#define COUNT_MASK UINT64_C(0xFFFFFFFF)
#define OPEN       (UINT64_C(1) << 32)
#define NEXT_RUN   (UINT64_C(1) << 33)

#define SPINS       2000   /* some 50 us: longer than any step that one thread does alone */
#define LEAST_COST  131072 /* some 10 us: a part is worth handing over */
#define PARTS_EACH  8      /* parts a thread, so that one that lags holds up little */
#define STACK_BYTES ((size_t)2 << 20)
#define LINE        64

struct hd_team {
    alignas(LINE) _Atomic uint64_t state;
    alignas(LINE) _Atomic int64_t next; /* first item that nobody has taken */
    alignas(LINE) hd_work_fn *fn;       /* the run: written while it is closed */
    const void *ctx;
    int64_t     n, grain;
    alignas(LINE) atomic_int n_asleep;
    atomic_bool     is_closing;
    pthread_mutex_t lock; /* of sleeping and waking */
    pthread_cond_t  wake;
    int64_t         least_cost;
    int32_t         n_threads, n_started;

    const hd_topology *pin;      /* borrowed, or NULL */
    _Atomic int32_t    n_placed; /* of those started, where there is `pin` */
    pthread_t          threads[];
};

#if defined(__x86_64__) || defined(__i386__)
static void pause_briefly(void) { __builtin_ia32_pause(); }
#elif defined(__aarch64__)
static void pause_briefly(void) { __asm__ volatile("yield"); }
#else
static void pause_briefly(void) {}
#endif

static void take_parts(hd_team *t)
{
    int64_t const n = t->n, grain = t->grain;
    for (;;) {
        int64_t const begin = atomic_fetch_add_explicit(&t->next, grain, memory_order_relaxed);
        if (begin >= n) return;
        t->fn(t->ctx, begin, n - begin < grain ? n : begin + grain);
    }
}

/* Joins the present run unless it is closed or was joined before; *run is the last one joined. */
static bool join_run(hd_team *t, uint64_t *run)
{
    uint64_t s = atomic_load_explicit(&t->state, memory_order_relaxed);
    while ((s & OPEN) && s / NEXT_RUN != *run)
        if (atomic_compare_exchange_weak_explicit(&t->state, &s, s + 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
            *run = s / NEXT_RUN;
            take_parts(t);
            atomic_fetch_sub_explicit(&t->state, 1, memory_order_release);
            return true;
        }
    return false;
}

static bool is_wanted(hd_team *t, uint64_t run)
{
    uint64_t const s = atomic_load(&t->state);
    return ((s & OPEN) && s / NEXT_RUN != run) || atomic_load(&t->is_closing);
}

static void sleep_until_wanted(hd_team *t, uint64_t run)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->n_asleep, 1);
    while (!is_wanted(t, run)) pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->n_asleep, 1);
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *team)
{
    hd_team *const t = team;
    uint64_t       run = 0;
    if (t->pin) hd_topology_bind(t->pin, t->n_threads, atomic_fetch_add(&t->n_placed, 1) + 1);
    while (!atomic_load_explicit(&t->is_closing, memory_order_relaxed)) {
        int32_t spins = 0;
        while (spins < SPINS && !join_run(t, &run)) {
            pause_briefly();
            spins++;
        }
        if (spins == SPINS) sleep_until_wanted(t, run);
    }
    return NULL;
}

static void wake_all(hd_team *t)
{
    if (atomic_load(&t->n_asleep) == 0) return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static hd_status start_threads(hd_team *t, hd_error *err)
{
    pthread_attr_t attr;
    int            failed = 0;
    if (pthread_attr_init(&attr) != 0) HD_FAIL(err, HD_ERR_MEMORY, "no memory for threads");
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    while (t->n_started < t->n_threads - 1 && !failed) {
        failed = pthread_create(&t->threads[t->n_started], &attr, work, t);
        if (!failed) t->n_started++;
    }
    pthread_attr_destroy(&attr);
    if (failed)
        HD_FAIL(err, HD_ERR_LIMIT, "thread %d of %d: %s", t->n_started + 2, t->n_threads,
                strerror(failed));
    return HD_OK;
}

hd_status hd_team_open(hd_team **out, int32_t n_threads, const hd_topology *pin, hd_error *err)
{
    if (n_threads < 1 || n_threads > HD_MAX_THREADS)
        HD_FAIL(err, HD_ERR_INVALID, "%d threads: wanted 1 .. %d", n_threads, HD_MAX_THREADS);
    hd_team *const t = hd_memory_alloc(sizeof *t + (size_t)n_threads * sizeof t->threads[0]);
    if (!t) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d threads", n_threads);
    t->n_threads = n_threads;
    t->pin = pin;
    t->least_cost = LEAST_COST;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    hd_status const s = start_threads(t, err);
    if (s != HD_OK) {
        hd_team_close(t);
        return s;
    }
    *out = t;
    return HD_OK;
}

void hd_team_close(hd_team *t)
{
    if (!t) return;
    atomic_store(&t->is_closing, true);
    wake_all(t);
    for (int32_t i = 0; i < t->n_started; i++) pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    hd_memory_free(t);
}

hd_stream *hd_team_stream(hd_team *t) { return (hd_stream *)(void *)t; }

void hd_team_set_grain(hd_team *t, int64_t cost) { t->least_cost = cost > 0 ? cost : 1; }

/* Items of a part: enough to be worth it, few enough to share evenly, whole steps. */
static int64_t choose_grain(const hd_team *t, const hd_work *w)
{
    int64_t const cost = w->cost > 0 ? w->cost : 1;
    int64_t const share = w->n / ((int64_t)t->n_threads * PARTS_EACH) + 1;
    int64_t const least = t->least_cost / cost + 1;
    int64_t const grain = share > least ? share : least;
    return (grain + w->step - 1) / w->step * w->step;
}

static void open_run(hd_team *t)
{
    uint64_t const last = atomic_load_explicit(&t->state, memory_order_relaxed);
    atomic_store_explicit(&t->next, 0, memory_order_relaxed);
    atomic_store(&t->state, (last / NEXT_RUN + 1) * NEXT_RUN | OPEN);
    wake_all(t);
}

/* Every part is taken: nobody may join any more, and whoever did is about to leave. */
static void close_run(hd_team *t)
{
    uint64_t s = atomic_fetch_and_explicit(&t->state, ~OPEN, memory_order_acquire);
    for (int32_t spins = 0; s & COUNT_MASK; spins++) {
        if (spins < SPINS)
            pause_briefly();
        else
            sched_yield();
        s = atomic_load_explicit(&t->state, memory_order_acquire);
    }
}

void hd_team_run(hd_stream *stream, const hd_work *w, hd_work_fn *fn, const void *ctx)
{
    hd_team *const t = (hd_team *)(void *)stream;
    if (w->n <= 0) return;
    int64_t const grain = t && t->n_threads > 1 ? choose_grain(t, w) : w->n;
    if (grain >= w->n) {
        fn(ctx, 0, w->n);
        return;
    }
    t->fn = fn;
    t->ctx = ctx;
    t->n = w->n;
    t->grain = grain;
    open_run(t);
    take_parts(t);
    close_run(t);
}
