#include "server/call.h"

#include <stdio.h>
#include <string.h>

#include "server/server_state.h"

/* Silence of a stream, in seconds, after which something that means nothing is said. */
#define SILENCE_S 5.0

/* ---- life ---- */

static void queue_call(hd_prep_queue *q, hd_call *c)
{
    pthread_mutex_lock(&q->lock);
    if (q->first)
        q->last->prep.next = c;
    else
        q->first = c;
    q->last = c;
    pthread_cond_signal(&q->has_some);
    pthread_mutex_unlock(&q->lock);
}

static void link_call(hd_server *s, hd_call *c)
{
    c->next = s->calls;
    if (c->next) c->next->prev = c;
    s->calls = c;
    s->n_calls++;
}

static void free_call(hd_call *c)
{
    hd_server *const s = c->server;
    if (c->prev)
        c->prev->next = c->next;
    else
        s->calls = c->next;
    if (c->next) c->next->prev = c->prev;
    s->n_calls--;
    hd_prep_free(&c->prep);
    hd_memory_free(c);
}

/* Everything was said, and the engine knows nothing of it any more. */
static void free_if_over(hd_call *c)
{
    bool const is_over = !c->x && c->is_prepared && c->n_ended == c->prep.n_parts;
    if (is_over && !c->is_busy) free_call(c);
}

void hd_call_start(hd_server *s, hd_exchange *x, const hd_route *route, const char *id)
{
    hd_call *const c = hd_memory_alloc(sizeof *c);
    if (!c) {
        hd_exchange_break(x);
        return;
    }
    *c = (hd_call){.server = s, .route = route, .x = x, .arrived_s = hd_now()};
    c->written_s = c->arrived_s;
    snprintf(c->id, sizeof c->id, "%s", id);
    snprintf(c->peer, sizeof c->peer, "%s", hd_exchange_peer(x));
    c->prep.body = hd_exchange_take_body(x);
    hd_exchange_set_user(x, c);
    link_call(s, c);
    queue_call(&s->queue, c);
}

/* The client has all that it gets. */
static void close_answer(hd_call *c, int status)
{
    c->x = NULL;
    c->status = status;
    hd_metrics_take_status(&c->server->metrics, status);
    hd_histogram_add(&c->server->metrics.whole_s, hd_now() - c->arrived_s);
    hd_log_call(c->server, c);
}

void hd_call_cancel(hd_call *c)
{
    c->is_cancelled = true;
    hd_batch *const b = c->server->batch; /* NULL once it is closed */
    for (int32_t i = 0; b && c->is_prepared && i < c->prep.n_parts; i++)
        hd_batch_cancel(b, c->prep.parts[i].ticket);
}

void hd_call_leave(hd_call *c)
{
    close_answer(c, 499);
    hd_call_cancel(c);
    free_if_over(c);
}

/* ---- answers that are whole ---- */

static void reply_response(hd_call *c, const hd_response *r)
{
    hd_exchange *const x = c->x;
    int const          status = r->status ? r->status : 200;
    close_answer(c, status);
    hd_dispatch_reply(c->server, x, c->id, r);
}

static void reply_error(hd_call *c, const hd_api_error *e)
{
    char        retry[48] = "";
    hd_response r = {.status = e->status, .fields = retry};
    if (e->retry_s) snprintf(retry, sizeof retry, "Retry-After: %d\r\n", e->retry_s);
    void (*const write)(hd_buffer *, const hd_api_error *, const char *) =
        c->route->api ? c->route->api->write_error : c->route->write_error;
    if (write)
        write(&r.body, e, c->id);
    else
        hd_api_write_error(&r.body, e);
    reply_response(c, &r);
    hd_buffer_free(&r.body);
}

static void reply_whole(hd_call *c)
{
    hd_response r = {0};
    c->route->api->write_whole(&c->prep.reply, &r.body);
    reply_response(c, &r);
    hd_buffer_free(&r.body);
}

/* ---- streams ---- */

/* returns  false when the client is gone, and with it the call's exchange */
static bool say(hd_call *c, hd_buffer *text)
{
    bool is_there = true;
    if (text->used) c->written_s = hd_now();
    if (text->used) is_there = hd_exchange_write(c->x, text->data, text->used);
    hd_buffer_free(text);
    return is_there;
}

static void begin_stream(hd_call *c, hd_buffer *out)
{
    hd_buffer fields = {0};
    c->has_begun = true;
    hd_buffer_text(&fields, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    hd_dispatch_fields(c->server, c->x, c->id, &fields);
    hd_exchange_begin(c->x, &(hd_http_reply){.status = 200,
                                             .type = "text/event-stream; charset=utf-8",
                                             .fields = fields.data});
    hd_buffer_free(&fields);
    c->route->api->begin(&c->prep.reply, out);
}

static void end_stream(hd_call *c)
{
    hd_exchange *const x = c->x;
    close_answer(c, 200);
    hd_exchange_end(x);
}

void hd_call_keep_alive(hd_call *c, double now)
{
    hd_buffer out = {0};
    if (!c->x || !c->is_prepared || !c->prep.ask.is_streamed || now - c->written_s < SILENCE_S)
        return;
    if (!c->has_begun) begin_stream(c, &out);
    hd_buffer_text(&out, c->route->api->keep_alive);
    say(c, &out);
}

void hd_call_fail(hd_call *c, const hd_api_error *e)
{
    hd_buffer out = {0};
    hd_call_cancel(c);
    if (!c->x) return;
    c->error = *e;
    if (!c->has_begun) {
        reply_error(c, e);
        return;
    }
    c->route->api->write_failure(&c->prep.reply, &out, e);
    hd_exchange *const x = c->x;
    if (!say(c, &out)) return;
    close_answer(c, e->status);
    hd_exchange_break(x);
}

static void stream_event(hd_call *c, int32_t choice, const hd_answer_event *e)
{
    hd_buffer     out = {0};
    hd_answers   *r = &c->prep.reply;
    bool const    is_last = r->n_ended == r->n;
    const hd_api *api = c->route->api;
    if (!c->has_begun) begin_stream(c, &out);
    api->event(r, choice, e, &out);
    if (is_last) api->finish(r, &out);
    if (out.failed) {
        hd_buffer_free(&out);
        hd_api_error error;
        hd_ask_fail_memory(&error);
        hd_call_fail(c, &error);
        return;
    }
    if (say(c, &out) && is_last) end_stream(c);
}

/* ---- notes ---- */

static void count_token(hd_call *c)
{
    double const      now = hd_now();
    hd_metrics *const m = &c->server->metrics;
    if (c->first_s == 0) {
        c->first_s = now;
        hd_histogram_add(&m->first_token_s, now - c->arrived_s);
    } else if (c->prep.reply.n == 1) {
        hd_histogram_add(&m->next_token_s, now - c->last_s);
    }
    c->last_s = now;
}

static void count_end(hd_call *c, int32_t choice, const hd_answer_end *end)
{
    const hd_choice *const told = &c->prep.reply.choices[choice];
    c->n_ended++;
    hd_metrics_take_end(&c->server->metrics, end, told->unparsed.used > 0);
}

static void take_event(hd_call *c, int32_t choice, const hd_answer_event *e)
{
    hd_api_error error;
    bool const   has_room = hd_answers_take(&c->prep.reply, choice, e);
    if (e->token) count_token(c);
    if (e->end) count_end(c, choice, e->end);
    if (!c->x) return;
    if (!has_room) {
        hd_ask_fail_memory(&error);
        hd_call_fail(c, &error);
    } else if (e->end && e->end->error.code != HD_OK) {
        hd_api_pass_on(&error, &e->end->error);
        hd_call_fail(c, &error);
    } else if (c->prep.ask.is_streamed) {
        stream_event(c, choice, e);
    } else if (c->prep.reply.n_ended == c->prep.reply.n) {
        reply_whole(c);
    }
}

static void take_note(hd_call *c, hd_note *note)
{
    hd_answer_event const e = hd_note_event(note);
    take_event(c, note->choice, &e);
    hd_note_free(note);
}

static void take_held(hd_call *c)
{
    for (hd_note *n = c->held, *next; n; n = next) {
        next = n->next;
        take_note(c, n);
    }
    c->held = NULL;
}

static void take_prepared(hd_call *c)
{
    c->is_prepared = true;
    if (c->is_cancelled) hd_call_cancel(c);
    if (!c->error.status) c->error = c->prep.error;
    if (c->x && c->error.status)
        reply_error(c, &c->error);
    else if (c->x && c->route->work)
        reply_response(c, &c->prep.response);
    take_held(c);
}

static void hold(hd_call *c, hd_note *note)
{
    note->next = NULL;
    if (c->held)
        c->last_held->next = note;
    else
        c->held = note;
    c->last_held = note;
}

void hd_call_take(hd_note *note)
{
    hd_call *const c = note->call;
    c->is_busy = true;
    if (note->kind == HD_NOTE_PREPARED)
        take_prepared(c);
    else if (c->is_prepared)
        take_note(c, note);
    else
        hold(c, note);
    c->is_busy = false;
    free_if_over(c);
}
