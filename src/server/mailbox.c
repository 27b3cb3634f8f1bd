#include "server/mailbox.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

hd_status hd_mailbox_open(hd_mailbox *m, hd_error *err)
{
    *m = (hd_mailbox){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (m->fd < 0) HD_FAIL(err, HD_ERR_IO, "no event file: %s", strerror(errno));
    pthread_mutex_init(&m->lock, NULL);
    return HD_OK;
}

void hd_mailbox_close(hd_mailbox *m)
{
    if (m->fd < 0) return;
    for (hd_note *n = hd_mailbox_take(m), *next; n; n = next) {
        next = n->next;
        hd_note_free(n);
    }
    close(m->fd);
    m->fd = -1;
    pthread_mutex_destroy(&m->lock);
}

void hd_mailbox_post(hd_mailbox *m, hd_note *note)
{
    uint64_t const one = 1;
    note->next = NULL;
    pthread_mutex_lock(&m->lock);
    bool const was_empty = !m->first;
    if (was_empty)
        m->first = note;
    else
        m->last->next = note;
    m->last = note;
    /* A full counter still wakes, and nothing else can fail. */
    if (was_empty && write(m->fd, &one, sizeof one) < 0) errno = 0;
    pthread_mutex_unlock(&m->lock);
}

hd_note *hd_mailbox_take(hd_mailbox *m)
{
    uint64_t count;
    pthread_mutex_lock(&m->lock);
    if (read(m->fd, &count, sizeof count) < 0) errno = 0; /* nothing to read is fine */
    hd_note *const first = m->first;
    m->first = NULL;
    m->last = NULL;
    pthread_mutex_unlock(&m->lock);
    return first;
}

/* ---- notes ---- */

static hd_note *copy_parse(const hd_parse_event *p)
{
    size_t bytes = 0;
    if (!hd_size_add(p->text_bytes, p->name_bytes, &bytes) ||
        !hd_size_add(bytes, sizeof(hd_note), &bytes))
        return NULL;
    hd_note *const n = hd_memory_alloc(bytes);
    if (!n) return NULL;
    char *const text = (char *)(n + 1), *const name = text + p->text_bytes;
    n->kind = HD_NOTE_PARSE;
    n->parse = *p;
    n->parse.text = text;
    n->parse.name = name;
    if (p->text_bytes) memcpy(text, p->text, p->text_bytes);
    if (p->name_bytes) memcpy(name, p->name, p->name_bytes);
    return n;
}

hd_note *hd_note_copy(const hd_answer_event *e)
{
    if (e->parse) return copy_parse(e->parse);
    hd_note *const n = hd_memory_alloc(sizeof *n);
    if (!n) return NULL;
    n->kind = e->token ? HD_NOTE_TOKEN : HD_NOTE_PROMPT;
    n->sampled = e->token ? *e->token : *e->prompt;
    return n;
}

hd_answer_event hd_note_event(const hd_note *n)
{
    hd_answer_event e = {0};
    switch (n->kind) {
    case HD_NOTE_PROMPT: e.prompt = &n->sampled; break;
    case HD_NOTE_TOKEN: e.token = &n->sampled; break;
    case HD_NOTE_PARSE: e.parse = &n->parse; break;
    case HD_NOTE_END: e.end = &n->end; break;
    case HD_NOTE_PREPARED: break;
    }
    return e;
}

void hd_note_free(hd_note *n)
{
    if (!n->is_kept) hd_memory_free(n);
}
