#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json_write.h"
#include "server/server_state.h"

/* One line a request, as key=value or JSON; nothing of what was asked or answered. */

/* ---- lines ---- */

typedef struct line {
    hd_buffer *out;
    bool       is_json;
} line;

static void write_name(line *l, const char *name)
{
    if (l->is_json)
        hd_buffer_printf(l->out, "%s\"%s\":", l->out->used ? "," : "{", name);
    else
        hd_buffer_printf(l->out, "%s%s=", l->out->used ? " " : "", name);
}

/* A word with spaces or quotes is quoted in either form. */
static void write_word(line *l, const char *name, const char *word)
{
    write_name(l, name);
    if (l->is_json || !*word || strpbrk(word, " \"\\=\t"))
        hd_json_write_string(l->out, word, strlen(word));
    else
        hd_buffer_text(l->out, word);
}

static void write_number(line *l, const char *name, long long n)
{
    write_name(l, name);
    hd_buffer_printf(l->out, "%lld", n);
}

static void write_seconds(line *l, const char *name, double seconds)
{
    write_name(l, name);
    hd_buffer_printf(l->out, "%.6f", seconds);
}

static line begin_line(hd_server *s, hd_buffer *out, const char *event)
{
    struct timespec t;
    struct tm       utc;
    char            text[64];
    line            l = {out, s->options.logs_json};
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &utc);
    size_t const n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, sizeof text - n, ".%03ldZ", t.tv_nsec / 1000000);
    write_word(&l, "time", text);
    write_word(&l, "event", event);
    return l;
}

static void end_line(hd_server *s, line *l)
{
    if (l->is_json) hd_buffer_text(l->out, "}");
    if (!l->out->failed && s->options.log) s->options.log(s->options.user, l->out->data);
    hd_buffer_clear(l->out);
}

/* ---- what is told ---- */

static void write_counts(line *l, const hd_call *c)
{
    const hd_answers *const r = &c->prep.reply;
    if (!c->is_prepared || !r->choices) return;
    hd_answers_usage const u = hd_answers_count(r);
    write_number(l, "prompt", u.n_prompt);
    write_number(l, "cached", u.n_cached);
    write_number(l, "new", u.n_new);
    write_number(l, "reasoning", u.n_reasoning);
    if (r->n > 0 && r->choices[0].has_ended) {
        const hd_answer_end *const e = &r->choices[0].end;
        if (e->finish != HD_FINISH_NONE) write_word(l, "finish", hd_finish_name(e->finish));
        if (e->blank != HD_BLANK_NO) write_word(l, "blank", hd_blank_name(e->blank));
        write_seconds(l, "wait_s", e->wait_s);
    }
    if (c->first_s > 0) write_seconds(l, "first_s", c->first_s - c->arrived_s);
}

void hd_log_call(hd_server *s, const hd_call *c)
{
    line l = begin_line(s, &s->line, "request");
    write_word(&l, "id", c->id);
    write_word(&l, "peer", c->peer);
    write_word(&l, "path", c->route->path);
    write_number(&l, "status", c->status);
    if (c->route->api && c->is_prepared)
        write_word(&l, "stream", c->prep.ask.is_streamed ? "yes" : "no");
    write_counts(&l, c);
    write_seconds(&l, "total_s", hd_now() - c->arrived_s);
    if (c->error.status) write_word(&l, "error", c->error.message);
    end_line(s, &l);
}

void hd_log_request(hd_server *s, const hd_exchange *x, const char *id, int status)
{
    const hd_http_request *const r = hd_exchange_request(x);
    line                         l = begin_line(s, &s->line, "request");
    write_word(&l, "id", id);
    write_word(&l, "peer", hd_exchange_peer(x));
    write_word(&l, "method", hd_http_method_name(r->method));
    write_word(&l, "path", r->path);
    write_number(&l, "status", status);
    end_line(s, &l);
}

void hd_log_event(hd_server *s, const char *event, const char *fmt, ...)
{
    va_list   ap;
    char      text[512];
    hd_buffer out = {0};
    line      l = begin_line(s, &out, event);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    write_word(&l, "message", text);
    end_line(s, &l);
    hd_buffer_free(&out);
}
