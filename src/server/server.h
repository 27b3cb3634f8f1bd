#ifndef HD_SERVER_SERVER_H
#define HD_SERVER_SERVER_H

#include "hadal_serve.h"

/* The HTTP server of one engine.  Three threads: one for connections, one that prepares requests
 * (reads bodies, writes prompts, compiles grammars), one that runs the engine's passes. */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_server_options {
    hd_engine         *engine;            /* borrowed; no session may be open */
    hd_batch_options   batch;             /* its texts are borrowed */
    int32_t            n_sessions;        /* requests that run at once, for reports */
    const char        *host;              /* address to listen at; NULL: 127.0.0.1 */
    int32_t            port;              /* 0: any that is free */
    const char        *certificate, *key; /* PEM files; NULL: no TLS */
    const char        *keys_path;         /* file of keys, one a line; NULL: none is wanted */
    bool               is_open_to_all;    /* listens elsewhere than at loopback without keys */
    const char *const *origins;           /* [n_origins] of web pages that may ask; "*": any */
    int32_t            n_origins;
    const char        *model;        /* the name that it answers to */
    hd_dialect         dialect;      /* of prompts */
    float              temperature;  /* where a request names none */
    int32_t            max_body_mib; /* of a request; 0: 32 */
    int32_t            grace_s;      /* answers may take so long after a stop; 0: 30 */
    bool               logs_json;
    /* A finished line, without its end; from any of the threads. */
    void (*log)(void *user, const char *line);
    void *user;
} hd_server_options;

typedef struct hd_server hd_server;

/* Opens the batch and starts to listen.
 * returns  HD_ERR_IO, HD_ERR_FORMAT (key files), HD_ERR_INVALID (options that contradict) */
hd_status hd_server_open(hd_server **out, const hd_server_options *opt, hd_error *err);
/* Serves until hd_server_stop; answers in hand are finished first, for grace_s at most.
 * returns  HD_ERR_DEVICE when the engine died */
hd_status hd_server_run(hd_server *s, hd_error *err);
/* From any thread or signal handler.  A second call cancels what still runs. */
void    hd_server_stop(hd_server *s);
void    hd_server_close(hd_server *s); /* NULL is fine */
int32_t hd_server_port(const hd_server *s);

#ifdef __cplusplus
}
#endif
#endif
