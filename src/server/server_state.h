#ifndef HD_SERVER_SERVER_STATE_H
#define HD_SERVER_SERVER_STATE_H

#include <pthread.h>

#include "server/call.h"
#include "server/gate.h"
#include "server/metrics.h"
#include "server/server.h"

/* What the files of this folder share about the server that runs. */

HD_BEGIN_C

struct event;
struct event_base;

/* Set in one thread, once, and seen in others together with what was written before. */
typedef struct hd_flag {
    int is_set;
} hd_flag;
void hd_flag_raise(hd_flag *f);
bool hd_flag_is_raised(const hd_flag *f);

/* Calls that wait to be prepared, in order. */
typedef struct hd_prep_queue {
    pthread_mutex_t lock;
    pthread_cond_t  has_some;
    hd_call        *first, *last;
    bool            is_closed;
} hd_prep_queue;

struct hd_server {
    hd_server_options  options;
    hd_engine_info     info;
    hd_ask_context     context;
    hd_batch          *batch;    /* owned */
    hd_grammar_cache  *grammars; /* owned */
    hd_mailbox         mailbox;
    hd_prep_queue      queue;
    pthread_t          preparer, stepper;
    bool               has_preparer, has_stepper;
    hd_flag            is_ending; /* the engine's thread is to return */
    hd_flag            has_died;  /* the engine failed: nothing is answered any more */
    hd_error           death;     /* valid once has_died */
    struct event_base *base;      /* owned, as the events are */
    struct event      *on_notes, *on_tick, *on_stop;
    int                stop_fd; /* an eventfd that counts hd_server_stop */
    int32_t            n_stops;
    double             stopped_s; /* of hd_now; 0: not yet */
    struct ssl_ctx_st *tls;       /* owned */
    hd_http           *http;      /* owned */
    hd_gate            gate;
    hd_call           *calls; /* owned, until they end */
    int32_t            n_calls;
    hd_metrics         metrics;
    int64_t            started; /* seconds since 1970 */
    hd_buffer          line;    /* of the log, in the loop's thread */
};

/* Seconds of a clock that only goes forward. */
double hd_now(void);
/* An id of 32 hexadecimal digits that nobody can guess. */
void hd_make_id(char out[33]);
/* 64 bits that nobody can guess. */
uint64_t hd_random(void);

/* A line of the log about a call that ended. */
void hd_log_call(hd_server *s, const hd_call *c);
/* One about a request that became no call: refused, or answered at once. */
void hd_log_request(hd_server *s, const hd_exchange *x, const char *id, int status);
/* Anything else: a word and what there is to say. */
void hd_log_event(hd_server *s, const char *event, const char *fmt, ...) HD_PRINTF(3, 4);

/* The hook for whole requests: routes them. */
void hd_dispatch(void *server, hd_exchange *x);
/* The hook for what is no request. */
void hd_dispatch_broken(void *server, int status, const char *why, hd_buffer *body);
/* Answers an exchange with a body; `fields` as in hd_http_reply, besides those of every answer. */
void hd_dispatch_reply(hd_server *s, hd_exchange *x, const char *id, const hd_response *r);
/* The header fields of every answer to this exchange: its id and what its origin may see. */
void hd_dispatch_fields(hd_server *s, const hd_exchange *x, const char *id, hd_buffer *out);

HD_END_C
#endif
