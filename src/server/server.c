#include "server/server.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "server/http_tls.h"
#include "server/server_state.h"

/* ---- helpers ---- */

void hd_flag_raise(hd_flag *f) { __atomic_store_n(&f->is_set, 1, __ATOMIC_RELEASE); }

bool hd_flag_is_raised(const hd_flag *f)
{
    return __atomic_load_n(&f->is_set, __ATOMIC_ACQUIRE) != 0;
}

double hd_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill_random(void *out, size_t bytes)
{
    /* Up to 256 bytes are given whole once the system has started. */
    while (getrandom(out, bytes, 0) != (ssize_t)bytes) continue;
}

uint64_t hd_random(void)
{
    uint64_t n;
    fill_random(&n, sizeof n);
    return n;
}

void hd_make_id(char out[33])
{
    unsigned char bytes[16];
    fill_random(bytes, sizeof bytes);
    for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

/* ---- the thread that prepares ---- */

static hd_call *wait_for_call(hd_prep_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->is_closed) pthread_cond_wait(&q->has_some, &q->lock);
    hd_call *const c = q->first;
    if (c) q->first = c->prep.next;
    pthread_mutex_unlock(&q->lock);
    return c;
}

static void *prepare_all(void *server)
{
    hd_server *const s = server;
    for (hd_call *c; (c = wait_for_call(&s->queue));) hd_prep_run(c);
    return NULL;
}

static void close_queue(hd_prep_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->is_closed = true;
    pthread_cond_signal(&q->has_some);
    pthread_mutex_unlock(&q->lock);
}

/* ---- the engine's thread ---- */

/* The engine is dead: closing the batch ends what it held, each with its last event. */
static void die(hd_server *s, const hd_error *why)
{
    s->death = *why;
    hd_flag_raise(&s->has_died);
    hd_log_event(s, "dead", "%s", why->message);
    hd_server_stop(s);
}

static void *step_all(void *server)
{
    hd_server *const s = server;
    hd_error         err = {0};
    while (!hd_flag_is_raised(&s->is_ending)) {
        bool is_idle = false;
        if (hd_batch_step(s->batch, &is_idle, &err) != HD_OK) {
            die(s, &err);
            return NULL;
        }
        if (is_idle && !hd_flag_is_raised(&s->is_ending)) hd_batch_wait(s->batch, 1000);
    }
    return NULL;
}

/* ---- the loop's thread ---- */

static void on_notes(evutil_socket_t fd, short what, void *server)
{
    hd_server *const s = server;
    (void)fd, (void)what;
    for (hd_note *n = hd_mailbox_take(&s->mailbox), *next; n; n = next) {
        next = n->next;
        hd_call_take(n);
    }
}

static void fail_all(hd_server *s, const hd_api_error *e)
{
    for (hd_call *c = s->calls, *next; c; c = next) {
        next = c->next;
        hd_call_fail(c, e);
    }
}

static void end_all(hd_server *s)
{
    hd_api_error e;
    hd_api_fail(&e, 503, hd_api_type_of(503), "shutting_down", "the server stops");
    if (hd_flag_is_raised(&s->has_died)) hd_api_pass_on(&e, &s->death);
    fail_all(s, &e);
}

static void on_stop(evutil_socket_t fd, short what, void *server)
{
    hd_server *const s = server;
    uint64_t         n = 0;
    (void)what;
    if (read(fd, &n, sizeof n) < 0) return;
    s->n_stops += n > 1000 ? 1000 : (int32_t)n;
    if (s->stopped_s == 0) {
        s->stopped_s = hd_now();
        hd_log_event(s, "stopping", "%d requests in hand", s->n_calls);
        hd_http_stop(s->http);
    }
    if (s->n_stops > 1 || hd_flag_is_raised(&s->has_died)) end_all(s);
}

/* Once a second, and more often while stopping. */
static void on_tick(evutil_socket_t fd, short what, void *server)
{
    hd_server *const s = server;
    double const     now = hd_now();
    (void)fd, (void)what;
    for (hd_call *c = s->calls, *next; c; c = next) {
        next = c->next;
        hd_call_keep_alive(c, now);
    }
    if (s->stopped_s == 0) return;
    if (now - s->stopped_s > s->options.grace_s) end_all(s);
    /* A dead engine lets go of nothing; its calls are freed at the end. */
    bool const has_calls = s->n_calls > 0 && !hd_flag_is_raised(&s->has_died);
    bool const is_late = now - s->stopped_s > s->options.grace_s + 5;
    if (!has_calls && (hd_http_n_connections(s->http) == 0 || is_late))
        event_base_loopbreak(s->base);
}

static void on_gone(void *server, hd_exchange *x)
{
    hd_call *const c = hd_exchange_user(x);
    (void)server;
    if (c) hd_call_leave(c);
}

/* ---- opening ---- */

static hd_status check_options(hd_server *s, hd_error *err)
{
    hd_server_options *const o = &s->options;
    if (!o->host) o->host = "127.0.0.1";
    if (!o->max_body_mib) o->max_body_mib = 32;
    if (!o->grace_s) o->grace_s = 30;
    if (!o->certificate != !o->key)
        HD_FAIL(err, HD_ERR_INVALID, "TLS wants a certificate and its key, both");
    s->gate.is_local = hd_gate_is_loopback(o->host);
    if (!s->gate.is_local && !o->keys_path && !o->is_open_to_all)
        HD_FAIL(err, HD_ERR_INVALID,
                "%s is not this machine alone: anyone could ask; give a file of keys, or say that "
                "no key is wanted",
                o->host);
    s->gate.origins = o->origins;
    s->gate.n_origins = o->n_origins;
    return HD_OK;
}

static void set_context(hd_server *s)
{
    hd_engine_info_get(s->options.engine, &s->info);
    s->context = (hd_ask_context){.tokenizer = hd_engine_tokenizer(s->options.engine),
                                  .model = s->options.model,
                                  .dialect = s->options.dialect,
                                  .bos = s->info.bos,
                                  .n_vocab = s->info.n_vocab,
                                  .max_tokens = s->info.max_tokens,
                                  .max_answers = 16,
                                  .default_temperature = s->options.temperature};
    s->started = (int64_t)time(NULL);
}

static hd_status open_events(hd_server *s, hd_error *err)
{
    struct timeval const tick = {.tv_usec = 250 * 1000};
    HD_TRY(hd_mailbox_open(&s->mailbox, err));
    s->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->stop_fd < 0) HD_FAIL(err, HD_ERR_IO, "no event file: %s", strerror(errno));
    s->base = event_base_new();
    if (!s->base) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the event loop");
    s->on_notes = event_new(s->base, s->mailbox.fd, EV_READ | EV_PERSIST, on_notes, s);
    s->on_stop = event_new(s->base, s->stop_fd, EV_READ | EV_PERSIST, on_stop, s);
    s->on_tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    if (!s->on_notes || !s->on_stop || !s->on_tick)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for events");
    event_add(s->on_notes, NULL);
    event_add(s->on_stop, NULL);
    event_add(s->on_tick, &tick);
    return HD_OK;
}

static hd_status open_http(hd_server *s, hd_error *err)
{
    const hd_server_options *const o = &s->options;
    hd_http_hooks const            hooks = {hd_dispatch, on_gone, hd_dispatch_broken, s};
    if (o->certificate) HD_TRY(hd_tls_open(&s->tls, o->certificate, o->key, err));
    hd_http_options const options = {.host = o->host,
                                     .port = o->port,
                                     .tls = s->tls,
                                     .max_body = (size_t)o->max_body_mib << 20,
                                     .max_connections = 1024,
                                     .max_unsent = (size_t)4 << 20,
                                     .head_s = 20,
                                     .body_s = 300,
                                     .idle_s = 75,
                                     .unread_s = 30};
    return hd_http_open(&s->http, s->base, &options, &hooks, err);
}

static hd_status open_all(hd_server *s, hd_error *err)
{
    HD_TRY(check_options(s, err));
    set_context(s);
    if (s->options.keys_path) HD_TRY(hd_gate_read_keys(&s->gate, s->options.keys_path, err));
    HD_TRY(hd_grammar_cache_open(&s->grammars, s->context.tokenizer, err));
    HD_TRY(open_events(s, err));
    HD_TRY(open_http(s, err));
    return hd_batch_open(&s->batch, s->options.engine, &s->options.batch, err);
}

hd_status hd_server_open(hd_server **out, const hd_server_options *opt, hd_error *err)
{
    hd_server *const s = hd_memory_alloc(sizeof *s);
    if (!s) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the server");
    s->options = *opt;
    s->mailbox.fd = -1;
    s->stop_fd = -1;
    pthread_mutex_init(&s->queue.lock, NULL);
    pthread_cond_init(&s->queue.has_some, NULL);
    hd_status const status = open_all(s, err);
    if (status == HD_OK)
        *out = s;
    else
        hd_server_close(s);
    return status;
}

int32_t hd_server_port(const hd_server *s) { return hd_http_port(s->http); }

/* ---- running ---- */

static hd_status start_threads(hd_server *s, hd_error *err)
{
    s->has_preparer = pthread_create(&s->preparer, NULL, prepare_all, s) == 0;
    s->has_stepper = s->has_preparer && pthread_create(&s->stepper, NULL, step_all, s) == 0;
    if (!s->has_stepper) HD_FAIL(err, HD_ERR_MEMORY, "the system gives no thread");
    return HD_OK;
}

static void stop_threads(hd_server *s)
{
    close_queue(&s->queue);
    if (s->has_preparer) pthread_join(s->preparer, NULL);
    hd_flag_raise(&s->is_ending);
    if (s->has_stepper) {
        hd_batch_wake(s->batch);
        pthread_join(s->stepper, NULL);
    }
    s->has_preparer = false;
    s->has_stepper = false;
}

hd_status hd_server_run(hd_server *s, hd_error *err)
{
    hd_status status = start_threads(s, err);
    if (status == HD_OK) event_base_dispatch(s->base);
    stop_threads(s);
    if (status == HD_OK && hd_flag_is_raised(&s->has_died)) {
        *err = s->death;
        status = err->code;
    }
    return status;
}

void hd_server_stop(hd_server *s)
{
    uint64_t const one = 1;
    int const      kept = errno;
    if (write(s->stop_fd, &one, sizeof one) < 0) errno = kept;
}

/* ---- closing ---- */

/* What the batch still held it has let go of, and told so. */
static void close_calls(hd_server *s)
{
    if (s->http) hd_http_close(s->http);
    for (hd_call *c = s->calls; c; c = c->next) c->x = NULL;
    if (s->mailbox.fd >= 0) on_notes(-1, 0, s);
    while (s->calls) {
        hd_call *const c = s->calls;
        s->calls = c->next;
        hd_prep_free(&c->prep);
        hd_memory_free(c);
    }
}

void hd_server_close(hd_server *s)
{
    if (!s) return;
    stop_threads(s);
    hd_batch_close(s->batch);
    s->batch = NULL;
    close_calls(s);
    hd_mailbox_close(&s->mailbox);
    if (s->on_notes) event_free(s->on_notes);
    if (s->on_stop) event_free(s->on_stop);
    if (s->on_tick) event_free(s->on_tick);
    if (s->base) event_base_free(s->base);
    if (s->stop_fd >= 0) close(s->stop_fd);
    hd_tls_close(s->tls);
    hd_grammar_cache_close(s->grammars);
    hd_gate_close(&s->gate);
    hd_buffer_free(&s->line);
    pthread_mutex_destroy(&s->queue.lock);
    pthread_cond_destroy(&s->queue.has_some);
    hd_memory_free(s);
}
