#include "tokenizer/parser.h"

#include <string.h>

#include "tokenizer/chat_tokens.h"

static const char *const spellings[] = {HD_TOKEN_EOS, HD_TOKEN_THINK, HD_TOKEN_THINK_END,
                                        HD_TOKEN_DSML};

const char *hd_parser_spell(unsigned char symbol) { return spellings[symbol - HD_SYMBOL_EOS]; }

bool hd_parser_is_space(unsigned char symbol)
{
    return symbol == ' ' || symbol == '\n' || symbol == '\r' || symbol == '\t';
}

const char *hd_finish_name(hd_finish f)
{
    static const char *const names[] = {"none", "stop", "length", "tool_calls"};
    return (size_t)f < sizeof names / sizeof names[0] ? names[f] : "unknown";
}

hd_status hd_parser_open(hd_parser **out, const hd_parser_options *opt, hd_error *err)
{
    if (!out || !opt || !opt->on_event || (opt->n_stop > 0 && !opt->stop))
        HD_FAIL(err, HD_ERR_INVALID, "parser: no options, callback or stop strings");
    hd_parser *const p = hd_memory_alloc(sizeof *p);
    if (!p) HD_FAIL(err, HD_ERR_MEMORY, "parser: out of memory");
    p->on_event = opt->on_event;
    p->user = opt->user;
    p->has_tools = opt->has_tools;
    p->is_reasoning =
        opt->start == HD_START_REASONING || opt->start == HD_START_REASONING_CONTINUATION;
    if (opt->start == HD_START_TOOL_CALLS && opt->has_tools) {
        p->state = HD_BETWEEN_CALLS;
        p->n_wrappers = 1;
        p->is_open = p->has_opener = true;
    }
    hd_status const status = hd_parser_copy_stops(p, opt, err);
    if (status == HD_OK)
        *out = p;
    else
        hd_parser_close(p);
    return status;
}

void hd_parser_close(hd_parser *p)
{
    if (!p) return;
    hd_buffer_free(&p->raw);
    hd_buffer_free(&p->word);
    hd_buffer_free(&p->name);
    hd_buffer_free(&p->arguments);
    hd_buffer_free(&p->out);
    hd_buffer_free(&p->tail);
    json_object_put(p->parameters);
    hd_pool_free(&p->pool);
    hd_memory_free(p);
}

bool hd_parser_is_done(const hd_parser *p) { return p->has_eos || p->is_stopped; }

/* ---- symbols ---- */

void hd_parser_step(hd_parser *p, unsigned char symbol)
{
    if (hd_parser_is_done(p) || p->is_short_of_memory) return;
    if (symbol == HD_SYMBOL_EOS) {
        p->has_eos = true;
    } else if (p->has_late_end || (symbol == HD_SYMBOL_THINK_END && p->is_reasoning)) {
        hd_parser_step_think_end(p, symbol);
    } else if (p->state == HD_IN_TEXT) {
        hd_parser_step_text(p, symbol);
    } else if (p->state == HD_IN_UNPARSED) {
        char const c = (char)symbol;
        hd_parser_write(p, HD_PARSE_UNPARSED, &c, 1);
    } else {
        hd_parser_step_block(p, symbol);
    }
}

/* Ordinary bytes: broken characters become U+FFFD, an incomplete one waits. */
static void step_bytes(hd_parser *p, const char *text, size_t bytes)
{
    enum { PIECE = 256 };
    char whole[3 * (PIECE + 3)];
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t const n = bytes - at < PIECE ? bytes - at : PIECE;
        size_t const used = hd_utf8_push(&p->utf8, text + at, n, whole);
        for (size_t i = 0; i < used; i++) hd_parser_step(p, (unsigned char)whole[i]);
    }
}

static void flush_utf8(hd_parser *p)
{
    char         whole[9];
    size_t const used = hd_utf8_flush(&p->utf8, whole);
    for (size_t i = 0; i < used; i++) hd_parser_step(p, (unsigned char)whole[i]);
}

static void step_control(hd_parser *p, int symbol)
{
    flush_utf8(p);
    hd_parser_step(p, (unsigned char)symbol);
}

/* ---- spelled control tokens ---- */

/* The symbol that text [n] spells; 0 when it spells none. */
static int find_symbol(const char *text, size_t n)
{
    for (int i = 0; i < HD_SYMBOL_END - HD_SYMBOL_EOS; i++)
        if (n == strlen(spellings[i]) && memcmp(text, spellings[i], n) == 0)
            return HD_SYMBOL_EOS + i;
    return 0;
}

static bool begins_symbol(const char *text, size_t n)
{
    for (int i = 0; i < HD_SYMBOL_END - HD_SYMBOL_EOS; i++)
        if (n <= strlen(spellings[i]) && memcmp(text, spellings[i], n) == 0) return true;
    return false;
}

/* Gives up the first n held bytes as ordinary ones. */
static void drop_spelling(hd_parser *p, size_t n)
{
    step_bytes(p, p->spelling, n);
    p->n_spelling -= n;
    memmove(p->spelling, p->spelling + n, p->n_spelling);
}

/* A spelling may begin inside a failed one, so the held bytes are given up one at a time. */
static void match_byte(hd_parser *p, char byte)
{
    p->spelling[p->n_spelling++] = byte;
    while (p->n_spelling && !begins_symbol(p->spelling, p->n_spelling)) drop_spelling(p, 1);
    int const symbol = find_symbol(p->spelling, p->n_spelling);
    if (symbol == 0) return;
    p->n_spelling = 0;
    step_control(p, symbol);
}

static bool may_begin_symbol(char byte) { return byte == '<' || byte == HD_TOKEN_DSML[0]; }

static void push_spelled(hd_parser *p, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes && !hd_parser_is_done(p);) {
        size_t end = at;
        while (p->n_spelling == 0 && end < bytes && !may_begin_symbol(text[end])) end++;
        step_bytes(p, text + at, end - at);
        if (end < bytes) match_byte(p, text[end++]);
        at = end;
    }
}

/* ---- input ---- */

static hd_status check_input(const hd_parser *p, const char *text, size_t bytes, hd_error *err)
{
    if (p->is_finished) HD_FAIL(err, HD_ERR_INVALID, "parser: text after the end");
    if (!text && bytes) HD_FAIL(err, HD_ERR_INVALID, "parser: no text");
    return HD_OK;
}

static hd_status give_out(hd_parser *p, hd_error *err)
{
    if (p->raw.failed || p->word.failed || p->tail.failed) p->is_short_of_memory = true;
    hd_parser_flush(p);
    if (p->is_short_of_memory) HD_FAIL(err, HD_ERR_MEMORY, "parser: out of memory");
    return HD_OK;
}

hd_status hd_parser_push_text(hd_parser *p, const char *text, size_t bytes, hd_error *err)
{
    HD_TRY(check_input(p, text, bytes, err));
    push_spelled(p, text, bytes);
    return give_out(p, err);
}

hd_status hd_parser_push_token(hd_parser *p, const char *text, size_t bytes, bool control,
                               hd_error *err)
{
    HD_TRY(check_input(p, text, bytes, err));
    drop_spelling(p, p->n_spelling);
    int const symbol = control ? find_symbol(text, bytes) : 0;
    if (symbol)
        step_control(p, symbol);
    else
        step_bytes(p, text, bytes);
    return give_out(p, err);
}

/* Gives up what was held for a spelling, but for the beginning of the marker: what that
 * means depends on the block around it. */
static size_t drop_to_marker(hd_parser *p)
{
    size_t const n = p->n_spelling, n_marker = strlen(HD_TOKEN_DSML);
    size_t       i = n > n_marker ? n - n_marker : 0;
    while (i < n && memcmp(p->spelling + i, HD_TOKEN_DSML, n - i) != 0) i++;
    drop_spelling(p, i);
    return p->n_spelling;
}

static void end_output(hd_parser *p)
{
    size_t const rest = drop_to_marker(p);
    flush_utf8(p);
    bool const is_behind_call =
        p->state == HD_BETWEEN_CALLS && !p->has_opener && p->n_bracket && !p->is_reasoning;
    if (!is_behind_call) {
        drop_spelling(p, p->n_spelling);
        flush_utf8(p);
    }
    hd_parser_end_block(p, p->spelling, is_behind_call ? rest : 0);
    if (p->state == HD_IN_TEXT) hd_parser_release_held(p);
    hd_parser_flush_tail(p);
}

hd_status hd_parser_finish(hd_parser *p, bool cut, hd_finish *finish, hd_error *err)
{
    HD_TRY(check_input(p, NULL, 0, err));
    p->is_finished = true;
    bool const ended = hd_parser_is_done(p);
    if (!p->is_stopped && !p->is_short_of_memory) end_output(p);
    HD_TRY(give_out(p, err));
    if (finish)
        *finish = cut && !ended && !p->is_stopped ? HD_FINISH_LENGTH
                  : p->n_calls                    ? HD_FINISH_TOOL_CALLS
                                                  : HD_FINISH_STOP;
    return HD_OK;
}
