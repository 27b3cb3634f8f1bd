#ifndef HD_SERVER_CALL_H
#define HD_SERVER_CALL_H

#include "server/grammar_cache.h"
#include "server/http.h"
#include "server/mailbox.h"
#include "server/route.h"

/* A request from its last byte to the end of its last answer.  It belongs to the loop's thread, but
 * for the time between hd_call_queue and the note HD_NOTE_PREPARED, when `prep` belongs to the
 * thread that prepares.  A client that leaves takes the exchange with it; the call stays until the
 * engine has let go of every part. */

HD_BEGIN_C

/* One of its answers, as the engine's thread sees it. */
typedef struct hd_part {
    struct hd_call *call;
    int32_t         choice;
    uint64_t        ticket; /* of hd_batch_submit */
    hd_note         end;    /* the last note, here so that it never lacks memory */
} hd_part;

typedef struct hd_prep {
    struct hd_call  *next;
    hd_buffer        body; /* owned; of the request */
    hd_ask           ask;
    hd_answers       reply;
    hd_held_grammar *grammar; /* held */
    hd_part         *parts;   /* [n_parts] owned; submitted */
    int32_t          n_parts;
    hd_response      response; /* of a route without answers */
    hd_api_error     error;    /* status 0: none             */
    hd_note          prepared; /* the note                   */
} hd_prep;

typedef struct hd_call {
    struct hd_call   *next, *prev; /* of the server's */
    struct hd_server *server;      /* borrowed */
    const hd_route   *route;
    hd_exchange      *x; /* NULL: answered, or the client left */
    char              id[33];
    char              peer[64];
    hd_prep           prep;
    hd_note          *held, *last_held; /* owned; notes that came before PREPARED */
    bool              is_prepared, has_begun, is_cancelled;
    bool              is_busy; /* a note is being taken: not to be freed meanwhile */
    hd_api_error      error;   /* status 0: none */
    int32_t           n_ended;
    int32_t           status;    /* that was answered; 0: none yet, 499: the client left */
    double            arrived_s; /* of hd_now */
    double            first_s;   /* of the first token; 0: none yet */
    double            last_s;    /* of the last token */
    double            written_s; /* when the stream said something last */
} hd_call;

/* A whole request of a route that reads a body; takes the exchange over. */
void hd_call_start(struct hd_server *s, hd_exchange *x, const hd_route *route, const char *id);
/* A note about it, which is freed. */
void hd_call_take(hd_note *note);
/* The client left. */
void hd_call_leave(hd_call *c);
/* Nobody waits any longer: ends what the engine still does for it. */
void hd_call_cancel(hd_call *c);
/* Says something when the stream was silent for a while. */
void hd_call_keep_alive(hd_call *c, double now);
/* Ends it with an error, as far as its client can still be told. */
void hd_call_fail(hd_call *c, const hd_api_error *e);

/* In the thread that prepares: everything up to the submission; posts HD_NOTE_PREPARED. */
void hd_prep_run(hd_call *c);
void hd_prep_free(hd_prep *p);

HD_END_C
#endif
