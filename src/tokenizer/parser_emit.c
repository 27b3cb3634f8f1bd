#include "tokenizer/parser.h"

#include <string.h>

#include "base/utf8_scan.h"

static void note_failure(hd_parser *p, const hd_buffer *b)
{
    if (b->failed) p->is_short_of_memory = true;
}

void hd_parser_flush(hd_parser *p)
{
    note_failure(p, &p->out);
    if (p->out.used && !p->is_short_of_memory) {
        hd_parse_event const event = {
            .kind = p->out_kind, .text = p->out.data, .text_bytes = p->out.used};
        p->on_event(p->user, &event);
    }
    hd_buffer_clear(&p->out);
}

static void add(hd_parser *p, hd_parse_kind kind, const char *text, size_t bytes)
{
    if (bytes == 0) return;
    if (p->out_kind != kind) hd_parser_flush(p);
    p->out_kind = kind;
    hd_buffer_add(&p->out, text, bytes);
}

/* ---- stop strings ---- */

/* Knuth-Morris-Pratt, one byte further.  returns whether the whole string was met */
static bool advance_stop(hd_stop_string *s, char byte)
{
    while (s->matched > 0 && s->text[s->matched] != byte) s->matched = s->border[s->matched - 1];
    if (s->text[s->matched] == byte) s->matched++;
    return s->matched == s->bytes;
}

/* Holds back the longest end of the content that a stop string begins with.  Of strings that
 * end at the same byte the longest wins; the first to end wins over all. */
static void add_content_byte(hd_parser *p, char byte)
{
    size_t longest = 0, held = 0;
    hd_buffer_add(&p->tail, &byte, 1);
    for (int32_t i = 0; i < p->n_stops; i++) {
        hd_stop_string *const s = &p->stops[i];
        if (advance_stop(s, byte) && s->bytes > longest) longest = s->bytes;
        if (s->matched > held) held = s->matched;
    }
    note_failure(p, &p->tail);
    if (p->is_short_of_memory) return;
    size_t const keep = longest ? longest : held;
    size_t const give = p->tail.used - keep;
    add(p, HD_PARSE_CONTENT, p->tail.data, give);
    if (give) memmove(p->tail.data, p->tail.data + give, keep);
    p->tail.used = keep;
    if (longest) p->is_stopped = true;
}

int32_t hd_parser_stop_index(const hd_parser *p)
{
    int32_t met = -1;
    for (int32_t i = 0; i < p->n_stops && p->is_stopped; i++) {
        const hd_stop_string *const s = &p->stops[i];
        if (s->matched == s->bytes && (met < 0 || s->bytes > p->stops[met].bytes)) met = i;
    }
    return met;
}

static void add_content(hd_parser *p, const char *text, size_t bytes)
{
    if (p->n_stops == 0) {
        add(p, HD_PARSE_CONTENT, text, bytes);
        return;
    }
    for (size_t i = 0; i < bytes && !p->is_stopped; i++) add_content_byte(p, text[i]);
}

void hd_parser_flush_tail(hd_parser *p)
{
    if (!p->is_stopped) add(p, HD_PARSE_CONTENT, p->tail.data, p->tail.used);
    hd_buffer_clear(&p->tail);
    for (int32_t i = 0; i < p->n_stops; i++) p->stops[i].matched = 0;
}

static void find_borders(hd_stop_string *s)
{
    for (size_t i = 1, n = 0; i < s->bytes; i++) {
        while (n > 0 && s->text[n] != s->text[i]) n = s->border[n - 1];
        if (s->text[n] == s->text[i]) n++;
        s->border[i] = n;
    }
}

hd_status hd_parser_copy_stops(hd_parser *p, const hd_parser_options *opt, hd_error *err)
{
    if (opt->n_stop < 0) HD_FAIL(err, HD_ERR_INVALID, "parser: %d stop strings", opt->n_stop);
    p->stops = hd_pool_alloc(&p->pool, (size_t)opt->n_stop * sizeof *p->stops);
    if (!p->stops) HD_FAIL(err, HD_ERR_MEMORY, "parser: out of memory for stop strings");
    for (int32_t i = 0; i < opt->n_stop; i++) {
        hd_stop_string *const s = &p->stops[i];
        s->bytes = strlen(opt->stop[i]);
        /* A stop string of whole characters can only match at whole characters. */
        if (s->bytes == 0 || hd_utf8_scan_check(opt->stop[i], s->bytes) != s->bytes)
            HD_FAIL(err, HD_ERR_INVALID, "parser: stop string %d is empty or not UTF-8", i);
        s->text = hd_pool_copy(&p->pool, opt->stop[i], s->bytes);
        s->border = hd_pool_alloc(&p->pool, s->bytes * sizeof *s->border);
        if (!s->text || !s->border)
            HD_FAIL(err, HD_ERR_MEMORY, "parser: out of memory for stop strings");
        find_borders(s);
    }
    p->n_stops = opt->n_stop;
    return HD_OK;
}

/* ---- symbols to text ---- */

static void write_run(hd_parser *p, hd_parse_kind kind, const char *text, size_t bytes)
{
    if (kind == HD_PARSE_CONTENT)
        add_content(p, text, bytes);
    else
        add(p, kind, text, bytes);
}

void hd_parser_write(hd_parser *p, hd_parse_kind kind, const char *symbols, size_t n)
{
    bool const drops = kind != HD_PARSE_UNPARSED;
    size_t     kept = 0; /* symbols[kept, i) is still to be written */
    for (size_t i = 0; i < n; i++) {
        unsigned char const c = (unsigned char)symbols[i];
        if (c < HD_SYMBOL_EOS) continue;
        write_run(p, kind, symbols + kept, i - kept);
        kept = i + 1;
        if (drops && (c == HD_SYMBOL_THINK || c == HD_SYMBOL_THINK_END)) continue;
        const char *const spelling = hd_parser_spell(c);
        write_run(p, kind, spelling, strlen(spelling));
    }
    if (kept < n) write_run(p, kind, symbols + kept, n - kept);
}

void hd_parser_write_text(hd_parser *p, const char *symbols, size_t n)
{
    hd_parser_write(p, p->is_reasoning ? HD_PARSE_REASONING : HD_PARSE_CONTENT, symbols, n);
}

void hd_parser_emit_call(hd_parser *p)
{
    hd_parser_flush_tail(p);
    hd_parser_flush(p);
    note_failure(p, &p->name);
    note_failure(p, &p->arguments);
    if (p->is_short_of_memory) return;
    hd_parse_event const event = {.kind = HD_PARSE_CALL,
                                  .text = p->arguments.data,
                                  .text_bytes = p->arguments.used,
                                  .name = p->name.data,
                                  .name_bytes = p->name.used,
                                  .index = p->n_calls++};
    p->on_event(p->user, &event);
}
