#ifndef HD_SERVER_HTTP_H
#define HD_SERVER_HTTP_H

#include "server/http_parse.h"

/* Connections and what passes over them, on libevent's buffers and timers; one thread, the one that
 * runs the loop.  Its own evhttp is not used: it stops reading once a request is whole, so that a
 * client that leaves is noticed at the next write only, and it takes requests that can be read in
 * two ways. */

HD_BEGIN_C

struct event_base;
struct ssl_ctx_st;

/* A request and its answer, from the last byte of the one to the last byte of the other. */
typedef struct hd_exchange hd_exchange;

typedef struct hd_http_hooks {
    /* A whole request; it is answered now or later. */
    void (*on_request)(void *user, hd_exchange *x);
    /* The client left, or reads too slowly, before the answer was complete: x is gone. */
    void (*on_gone)(void *user, hd_exchange *x);
    /* A request that is none: adds the body of its refusal, JSON, to `body`. */
    void (*on_broken)(void *user, int status, const char *why, hd_buffer *body);
    void *user;
} hd_http_hooks;

typedef struct hd_http_options {
    const char        *host; /* address or name to listen at */
    int32_t            port; /* 0: any that is free          */
    struct ssl_ctx_st *tls;  /* borrowed; NULL: none         */
    size_t             max_body;
    int32_t            max_connections;
    size_t             max_unsent; /* bytes of a stream that a client may be behind        */
    int32_t            head_s;     /* a request's head must be there within this time      */
    int32_t            body_s;     /* its body                                             */
    int32_t            idle_s;     /* between requests of a connection                     */
    int32_t            unread_s;   /* a client that takes nothing for so long has left     */
} hd_http_options;

typedef struct hd_http hd_http;

/* Starts listening.  `options` and `hooks` are copied, but for what they point to.
 * returns  HD_ERR_IO naming the address and the system's reason */
hd_status hd_http_open(hd_http **out, struct event_base *base, const hd_http_options *options,
                       const hd_http_hooks *hooks, hd_error *err);
/* Takes no more connections; requests that are there go on, and idle connections close. */
void    hd_http_stop(hd_http *h);
void    hd_http_close(hd_http *h); /* all connections too; calls no hook; NULL is fine */
int32_t hd_http_port(const hd_http *h);
int32_t hd_http_n_connections(const hd_http *h);
int32_t hd_http_n_busy(const hd_http *h); /* connections with a request in hand */

const hd_http_request *hd_exchange_request(const hd_exchange *x);
/* The body, which is the caller's from now on. */
hd_buffer   hd_exchange_take_body(hd_exchange *x);
const char *hd_exchange_peer(const hd_exchange *x); /* "127.0.0.1:4711" */
/* What belongs to this exchange: the caller's own. */
void  hd_exchange_set_user(hd_exchange *x, void *user);
void *hd_exchange_user(const hd_exchange *x);

typedef struct hd_http_reply {
    int         status;
    const char *type;   /* Content-Type; NULL: no body           */
    const char *fields; /* further ones, each with CRLF; or NULL */
    const char *body;
    size_t      body_bytes;
    bool        closes; /* the connection, afterwards */
} hd_http_reply;

/* The whole answer; x is gone then. */
void hd_exchange_reply(hd_exchange *x, const hd_http_reply *reply);
/* An answer in pieces: its head, pieces, its end, after which x is gone. */
void hd_exchange_begin(hd_exchange *x, const hd_http_reply *head);
/* returns  false when the client was too far behind: on_gone was called */
bool hd_exchange_write(hd_exchange *x, const char *data, size_t bytes);
void hd_exchange_end(hd_exchange *x);
/* Ends the answer so that the client sees that it is not whole; x is gone then. */
void hd_exchange_break(hd_exchange *x);

HD_END_C
#endif
