#include "server/http.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/http_tls.h"
#include "server/http_write.h"

/* How much of a next request is read while one is in hand; then the client waits. */
#define MAX_AHEAD ((size_t)64 * 1024)
/* How long a refused client is listened to, so that it reads the answer before the reset. */
#define LINGER_S 2

typedef enum phase {
    READING,   /* a request, or waiting for one          */
    ANSWERING, /* the exchange is the caller's           */
    FLUSHING,  /* the answer is complete, but not sent   */
    LINGERING  /* what the client still sends is dropped */
} phase;

struct hd_exchange {
    hd_http            *http;        /* borrowed */
    hd_exchange        *next, *prev; /* of the same http */
    struct bufferevent *buffers;     /* owned; with its socket */
    struct event       *deadline;    /* owned */
    hd_http_parser      parser;
    phase               phase;
    bool                is_streamed, is_kept;
    char                peer[64];
    void               *user;
};

struct hd_http {
    struct event_base     *base;     /* borrowed */
    struct evconnlistener *listener; /* owned    */
    struct event          *resume;   /* owned; listens again after there was no socket left */
    hd_http_options        options;
    hd_http_hooks          hooks;
    hd_exchange           *connections;
    int32_t                n_connections, n_busy;
    bool                   is_stopping;
};

/* ---- life of a connection ---- */

static void set_deadline(hd_exchange *x, int32_t seconds)
{
    struct timeval const t = {.tv_sec = seconds};
    event_add(x->deadline, &t);
}

static void set_phase(hd_exchange *x, phase next)
{
    x->http->n_busy += (next == ANSWERING) - (x->phase == ANSWERING);
    x->phase = next;
}

static void close_connection(hd_exchange *x)
{
    hd_http *const h = x->http;
    set_phase(x, LINGERING);
    if (x->prev)
        x->prev->next = x->next;
    else
        h->connections = x->next;
    if (x->next) x->next->prev = x->prev;
    h->n_connections--;
    event_free(x->deadline);
    hd_tls_shut(x->buffers);
    bufferevent_free(x->buffers);
    hd_http_parser_reset(&x->parser);
    hd_memory_free(x);
}

/* The other side left, or is to be left. */
static void drop(hd_exchange *x)
{
    if (x->phase == ANSWERING) x->http->hooks.on_gone(x->http->hooks.user, x);
    close_connection(x);
}

static size_t unsent(const hd_exchange *x)
{
    return evbuffer_get_length(bufferevent_get_output(x->buffers));
}

static void send_buffer(hd_exchange *x, hd_buffer *data)
{
    if (!data->failed) bufferevent_write(x->buffers, data->data, data->used);
    hd_buffer_free(data);
}

/* ---- reading ---- */

static void send_continue(hd_exchange *x)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    bufferevent_write(x->buffers, go_on, sizeof go_on - 1);
    x->parser.request.continues = false;
}

static void refuse(hd_exchange *x)
{
    hd_buffer      body = {0};
    hd_http *const h = x->http;
    int const      status = x->parser.status;
    h->hooks.on_broken(h->hooks.user, status, x->parser.why, &body);
    set_phase(x, ANSWERING);
    hd_exchange_reply(x, &(hd_http_reply){.status = status,
                                          .type = "application/json",
                                          .body = body.data,
                                          .body_bytes = body.used,
                                          .closes = true});
    hd_buffer_free(&body);
}

static void hand_over(hd_exchange *x)
{
    hd_http *const h = x->http;
    set_phase(x, ANSWERING);
    event_del(x->deadline);
    x->is_kept = x->parser.request.is_kept && !h->is_stopping;
    h->hooks.on_request(h->hooks.user, x);
}

/* Feeds what has come to the parser; a whole request goes to the caller, who may have answered it,
 * and let the connection go, when this returns. */
static void read_some(hd_exchange *x)
{
    struct evbuffer *const in = bufferevent_get_input(x->buffers);
    bool const             was_fresh = hd_http_parser_is_fresh(&x->parser);
    hd_http_state const    before = x->parser.state;
    while (x->parser.state < HD_HTTP_WHOLE && evbuffer_get_length(in) > 0) {
        struct evbuffer_iovec piece;
        evbuffer_peek(in, -1, NULL, &piece, 1);
        evbuffer_drain(in, hd_http_parser_push(&x->parser, piece.iov_base, piece.iov_len));
    }
    if (x->parser.state == HD_HTTP_BROKEN) {
        refuse(x);
    } else if (x->parser.state == HD_HTTP_WHOLE) {
        hand_over(x);
    } else if (x->parser.state != HD_HTTP_IN_HEAD) {
        if (before == HD_HTTP_IN_HEAD) set_deadline(x, x->http->options.body_s);
        if (x->parser.request.continues) send_continue(x);
    } else if (was_fresh && !hd_http_parser_is_fresh(&x->parser)) {
        set_deadline(x, x->http->options.head_s);
    }
}

static void on_read(struct bufferevent *buffers, void *user)
{
    hd_exchange *const     x = user;
    struct evbuffer *const in = bufferevent_get_input(buffers);
    if (x->phase == READING) read_some(x);
    /* While answering, input stays where it is, up to the high-water mark. */
    else if (x->phase == LINGERING)
        evbuffer_drain(in, evbuffer_get_length(in));
}

static void on_event(struct bufferevent *buffers, short what, void *user)
{
    (void)buffers;
    hd_exchange *const x = user;
    bool const         has_answer = x->phase == READING || x->phase == FLUSHING;
    if (what & BEV_EVENT_CONNECTED) return; /* the TLS handshake is done */
    /* A client may have closed its half behind its last request. */
    if (what & BEV_EVENT_EOF && has_answer && unsent(x) > 0) {
        set_phase(x, FLUSHING);
        set_deadline(x, x->http->options.unread_s);
        return;
    }
    drop(x);
}

static void on_deadline(evutil_socket_t fd, short what, void *user)
{
    hd_exchange *const x = user;
    (void)fd, (void)what;
    if (x->phase == READING && !hd_http_parser_is_fresh(&x->parser)) {
        x->parser.status = 408;
        x->parser.why = "the request did not come in time";
        refuse(x);
        return;
    }
    close_connection(x);
}

/* ---- writing ---- */

/* The answer is complete: on with the next request, or close. */
static void finish_answer(hd_exchange *x)
{
    bool const is_broken = x->parser.state == HD_HTTP_BROKEN || x->parser.status != 0;
    hd_http_parser_reset(&x->parser);
    x->user = NULL;
    x->is_streamed = false;
    if (x->is_kept && !x->http->is_stopping) {
        set_phase(x, READING);
        set_deadline(x, x->http->options.idle_s);
        /* From the loop, not from here, so that pipelined requests do not nest. */
        if (evbuffer_get_length(bufferevent_get_input(x->buffers)) > 0)
            bufferevent_trigger(x->buffers, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
        return;
    }
    set_phase(x, FLUSHING);
    if (is_broken) set_phase(x, LINGERING);
    set_deadline(x, is_broken ? LINGER_S : x->http->options.unread_s);
    if (unsent(x) == 0) bufferevent_trigger(x->buffers, EV_WRITE, BEV_TRIG_DEFER_CALLBACKS);
}

/* All was handed to the system. */
static void on_written(struct bufferevent *buffers, void *user)
{
    hd_exchange *const x = user;
    if (unsent(x) > 0) return;
    if (x->phase == FLUSHING)
        close_connection(x);
    else if (x->phase == LINGERING)
        shutdown(bufferevent_getfd(buffers), SHUT_WR);
}

static hd_http_head make_head(const hd_exchange *x, const hd_http_reply *r)
{
    return (hd_http_head){.status = r->status,
                          .type = r->type,
                          .fields = r->fields,
                          .is_kept = x->is_kept,
                          .is_11 = x->parser.request.is_11,
                          .is_streamed = x->is_streamed,
                          .body_bytes = r->body_bytes};
}

static bool wants_body(const hd_exchange *x) { return x->parser.request.method != HD_HTTP_HEAD; }

void hd_exchange_reply(hd_exchange *x, const hd_http_reply *reply)
{
    hd_buffer out = {0};
    if (reply->closes || x->http->is_stopping) x->is_kept = false;
    hd_http_head const head = make_head(x, reply);
    hd_http_write_head(&out, &head);
    if (wants_body(x)) hd_buffer_add(&out, reply->body, reply->body_bytes);
    if (out.failed) x->is_kept = false;
    send_buffer(x, &out);
    finish_answer(x);
}

void hd_exchange_begin(hd_exchange *x, const hd_http_reply *reply)
{
    hd_buffer out = {0};
    x->is_streamed = true;
    /* Without chunks only the end of the connection is the end of the body. */
    if (!x->parser.request.is_11) x->is_kept = false;
    hd_http_head const head = make_head(x, reply);
    hd_http_write_head(&out, &head);
    send_buffer(x, &out);
}

bool hd_exchange_write(hd_exchange *x, const char *data, size_t bytes)
{
    hd_buffer out = {0};
    if (!wants_body(x)) return true;
    if (x->parser.request.is_11)
        hd_http_write_chunk(&out, data, bytes);
    else
        hd_buffer_add(&out, data, bytes);
    bool const is_lost = out.failed || unsent(x) + out.used > x->http->options.max_unsent;
    send_buffer(x, &out);
    if (is_lost) drop(x);
    return !is_lost;
}

void hd_exchange_end(hd_exchange *x)
{
    hd_buffer out = {0};
    if (x->parser.request.is_11 && wants_body(x)) hd_http_write_last_chunk(&out);
    send_buffer(x, &out);
    finish_answer(x);
}

void hd_exchange_break(hd_exchange *x)
{
    x->is_kept = false;
    finish_answer(x);
}

/* ---- the exchange ---- */

const hd_http_request *hd_exchange_request(const hd_exchange *x) { return &x->parser.request; }

hd_buffer hd_exchange_take_body(hd_exchange *x)
{
    hd_buffer const body = x->parser.request.body;
    x->parser.request.body = (hd_buffer){0};
    return body;
}

const char *hd_exchange_peer(const hd_exchange *x) { return x->peer; }
void        hd_exchange_set_user(hd_exchange *x, void *user) { x->user = user; }
void       *hd_exchange_user(const hd_exchange *x) { return x->user; }

/* ---- accepting ---- */

static void name_peer(hd_exchange *x, const struct sockaddr *address, int bytes)
{
    char host[46] = "?", port[8] = "?";
    getnameinfo(address, (socklen_t)bytes, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    size_t used = 0;
    for (const char *c = host; *c && used + 10 < sizeof x->peer; c++) x->peer[used++] = *c;
    x->peer[used++] = ':';
    for (const char *c = port; *c && used + 1 < sizeof x->peer; c++) x->peer[used++] = *c;
    x->peer[used] = 0;
}

static void set_socket(evutil_socket_t fd)
{
    int const on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static bool open_buffers(hd_exchange *x, evutil_socket_t fd)
{
    hd_http *const       h = x->http;
    struct timeval const unread = {.tv_sec = h->options.unread_s};
    x->buffers = h->options.tls ? hd_tls_accept(h->base, h->options.tls, fd)
                                : bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
    x->deadline = event_new(h->base, -1, 0, on_deadline, x);
    if (!x->buffers || !x->deadline) return false;
    bufferevent_setcb(x->buffers, on_read, on_written, on_event, x);
    bufferevent_setwatermark(x->buffers, EV_READ, 0, MAX_AHEAD);
    bufferevent_set_timeouts(x->buffers, NULL, &unread);
    bufferevent_enable(x->buffers, EV_READ | EV_WRITE);
    return true;
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                      int bytes, void *user)
{
    (void)listener;
    hd_http *const     h = user;
    hd_exchange *const x =
        h->n_connections < h->options.max_connections ? hd_memory_alloc(sizeof *x) : NULL;
    if (!x) {
        evutil_closesocket(fd);
        return;
    }
    x->http = h;
    x->parser.max_body = h->options.max_body;
    set_socket(fd);
    if (!open_buffers(x, fd)) {
        if (x->buffers)
            bufferevent_free(x->buffers);
        else
            evutil_closesocket(fd);
        if (x->deadline) event_free(x->deadline);
        hd_memory_free(x);
        return;
    }
    name_peer(x, address, bytes);
    x->next = h->connections;
    if (x->next) x->next->prev = x;
    h->connections = x;
    h->n_connections++;
    set_deadline(x, h->options.head_s);
}

/* No socket is left: trying at once again would only burn the processor. */
static void on_accept_error(struct evconnlistener *listener, void *user)
{
    hd_http *const       h = user;
    struct timeval const pause = {.tv_usec = 200 * 1000};
    evconnlistener_disable(listener);
    event_add(h->resume, &pause);
}

static void on_resume(evutil_socket_t fd, short what, void *user)
{
    hd_http *const h = user;
    (void)fd, (void)what;
    if (h->listener && !h->is_stopping) evconnlistener_enable(h->listener);
}

/* ---- listening ---- */

static hd_status find_address(const hd_http_options *o, struct addrinfo **out, hd_error *err)
{
    char                  port[16];
    struct addrinfo const hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    evutil_snprintf(port, sizeof port, "%d", o->port);
    int const failure = getaddrinfo(o->host, port, &hints, out);
    if (failure) HD_FAIL(err, HD_ERR_IO, "cannot listen at %s: %s", o->host, gai_strerror(failure));
    return HD_OK;
}

static hd_status start_listening(hd_http *h, hd_error *err)
{
    struct addrinfo *list = NULL;
    HD_TRY(find_address(&h->options, &list, err));
    h->listener =
        evconnlistener_new_bind(h->base, on_accept, h, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE,
                                SOMAXCONN, list->ai_addr, (int)list->ai_addrlen);
    int const failure = errno;
    freeaddrinfo(list);
    if (!h->listener)
        HD_FAIL(err, HD_ERR_IO, "cannot listen at %s port %d: %s", h->options.host, h->options.port,
                strerror(failure));
    evconnlistener_set_error_cb(h->listener, on_accept_error);
    return HD_OK;
}

hd_status hd_http_open(hd_http **out, struct event_base *base, const hd_http_options *options,
                       const hd_http_hooks *hooks, hd_error *err)
{
    hd_http *const h = hd_memory_alloc(sizeof *h);
    if (!h) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the HTTP server");
    h->base = base;
    h->options = *options;
    h->hooks = *hooks;
    h->resume = event_new(base, -1, 0, on_resume, h);
    hd_status const s = h->resume ? start_listening(h, err)
                                  : hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for a timer");
    if (s == HD_OK)
        *out = h;
    else
        hd_http_close(h);
    return s;
}

void hd_http_stop(hd_http *h)
{
    h->is_stopping = true;
    if (h->listener) evconnlistener_free(h->listener);
    h->listener = NULL;
    for (hd_exchange *x = h->connections, *next; x; x = next) {
        next = x->next;
        if (x->phase != READING) continue;
        if (unsent(x) > 0)
            set_phase(x, FLUSHING);
        else
            close_connection(x);
    }
}

void hd_http_close(hd_http *h)
{
    if (!h) return;
    while (h->connections) close_connection(h->connections);
    if (h->listener) evconnlistener_free(h->listener);
    if (h->resume) event_free(h->resume);
    hd_memory_free(h);
}

int32_t hd_http_port(const hd_http *h)
{
    struct sockaddr_storage a;
    socklen_t               bytes = sizeof a;
    char                    port[8];
    if (!h->listener ||
        getsockname(evconnlistener_get_fd(h->listener), (struct sockaddr *)&a, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&a, bytes, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0)
        return 0;
    return (int32_t)strtol(port, NULL, 10);
}

int32_t hd_http_n_connections(const hd_http *h) { return h->n_connections; }
int32_t hd_http_n_busy(const hd_http *h) { return h->n_busy; }
