#ifndef HD_SERVER_MAILBOX_H
#define HD_SERVER_MAILBOX_H

#include <pthread.h>

#include "base/memory.h"
#include "hadal_serve.h"

/* Notes from the threads that work to the one that runs the loop, in order. */

HD_BEGIN_C

struct hd_call;

typedef enum hd_note_kind {
    HD_NOTE_PREPARED, /* the call's request was submitted, answered or refused  */
    HD_NOTE_PROMPT,
    HD_NOTE_TOKEN,
    HD_NOTE_PARSE,
    HD_NOTE_END
} hd_note_kind;

/* A copy of an event; what `parse` points to lies behind the note. */
typedef struct hd_note {
    struct hd_note *next;
    struct hd_call *call;
    hd_note_kind    kind;
    int32_t         choice;
    bool            is_kept; /* belongs to the call, which frees it */
    union {
        hd_sampled     sampled;
        hd_parse_event parse;
        hd_answer_end  end;
    };
} hd_note;

typedef struct hd_mailbox {
    pthread_mutex_t lock;
    hd_note        *first, *last;
    int             fd; /* an eventfd, readable while there may be notes; -1: closed */
} hd_mailbox;

hd_status hd_mailbox_open(hd_mailbox *m, hd_error *err);
void      hd_mailbox_close(hd_mailbox *m); /* frees the notes that nobody took */
/* Takes the note over. */
void hd_mailbox_post(hd_mailbox *m, hd_note *note);
/* All notes so far, a list that is the caller's; NULL: none. */
hd_note *hd_mailbox_take(hd_mailbox *m);

/* A copy of a prompt, token or parse event; NULL when memory is short. */
hd_note *hd_note_copy(const hd_answer_event *e);
/* The event that the note is a copy of; borrowed from it. */
hd_answer_event hd_note_event(const hd_note *note);
void            hd_note_free(hd_note *note);

HD_END_C
#endif
