#include <string.h>

#include "base/json_write.h"
#include "tokenizer/parser.h"

/* A block is read symbol by symbol; everything read since the last complete invoke stays in
 * `raw`, so that a malformed or cut one can be handed out as it was written.  In reasoning a
 * block counts only when the output ends with it: then `raw` holds all of it and is read a
 * second time as content. */

#define MAX_WRAPPER_NAME 64 /* characters */

static void keep(hd_parser *p, unsigned char symbol) { hd_buffer_add(&p->raw, &symbol, 1); }

static void go(hd_parser *p, hd_parser_state state)
{
    p->state = state;
    p->n_bracket = 0;
    p->literal_at = 0;
    p->has_space = false;
    if (state != HD_BETWEEN_CALLS && state != HD_BETWEEN_PARAMETERS) hd_buffer_clear(&p->word);
}

static void begin(hd_parser *p, const char *bracket, hd_parser_state state)
{
    hd_buffer_clear(&p->raw);
    hd_buffer_add(&p->raw, "\n\n", (size_t)p->n_newlines);
    hd_buffer_text(&p->raw, bracket);
    keep(p, HD_SYMBOL_DSML);
    p->n_newlines = 0;
    go(p, state);
}

void hd_parser_begin_block(hd_parser *p)
{
    begin(p, "<", HD_IN_TAG);
    if (!p->is_open) p->n_wrappers = 0;
    p->has_opener = true;
    p->has_call = false;
    p->in_invoke = false;
}

void hd_parser_begin_close(hd_parser *p)
{
    begin(p, "</", HD_IN_CLOSE_TAG);
    p->has_opener = false;
}

void hd_parser_fail_block(hd_parser *p)
{
    if (p->is_reasoning) {
        hd_parser_write(p, HD_PARSE_REASONING, p->raw.data, p->raw.used);
        p->ignores_blocks = true;
        p->n_wrappers = 0;
        go(p, HD_IN_TEXT);
    } else {
        hd_parser_flush_tail(p);
        hd_parser_write(p, HD_PARSE_UNPARSED, p->raw.data, p->raw.used);
        go(p, HD_IN_UNPARSED);
    }
    p->is_open = false;
    hd_buffer_clear(&p->raw);
}

/* ---- words ---- */

/* Adds a symbol to the word, a control symbol by its spelling. */
static void add_to_word(hd_parser *p, unsigned char symbol)
{
    if (symbol >= HD_SYMBOL_EOS)
        hd_buffer_text(&p->word, hd_parser_spell(symbol));
    else
        hd_buffer_add(&p->word, &symbol, 1);
}

static bool word_is(const hd_parser *p, const char *text)
{
    return p->word.used == strlen(text) && memcmp(p->word.data, text, p->word.used) == 0;
}

/* Cuts `end` off the word, if it ends so. */
static bool cut_end(hd_parser *p, const char *end)
{
    size_t const n = strlen(end);
    if (p->word.used < n || memcmp(p->word.data + p->word.used - n, end, n) != 0) return false;
    p->word.used -= n;
    return true;
}

static size_t count_characters(const hd_parser *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->word.used; i++) n += (p->word.data[i] & 0xC0) != 0x80;
    return n;
}

/* Reads fixed text, symbol by symbol.  returns whether it is complete; fails the block when
 * something else comes */
static bool meets_literal(hd_parser *p, const char *literal, unsigned char symbol)
{
    if ((unsigned char)literal[p->literal_at] != symbol) {
        hd_parser_fail_block(p);
        return false;
    }
    return literal[++p->literal_at] == 0;
}

/* One space in front of a tag's name is how the sister dialect writes it. */
static bool is_name_space(hd_parser *p, unsigned char symbol)
{
    if (symbol != ' ' || p->has_space || p->word.used || p->literal_at) return false;
    return p->has_space = true;
}

/* ---- calls ---- */

static void begin_invoke(hd_parser *p)
{
    hd_buffer_clear(&p->name);
    hd_buffer_add(&p->name, p->word.data, p->word.used);
    hd_buffer_clear(&p->arguments);
    hd_buffer_text(&p->arguments, "{");
    json_object_put(p->parameters);
    p->parameters = json_object_new_object();
    if (!p->parameters) p->is_short_of_memory = true;
    p->in_invoke = true;
    go(p, HD_BETWEEN_PARAMETERS);
}

/* Writes the name that stands in the word.  Two values for one name cannot both be sent. */
static void begin_parameter(hd_parser *p)
{
    size_t const start = p->arguments.used + (p->arguments.used > 1 ? 2 : 0);
    if (p->arguments.used > 1) hd_buffer_text(&p->arguments, ", ");
    hd_json_write_string(&p->arguments, p->word.data, p->word.used);
    if (p->arguments.failed || p->is_short_of_memory) {
        p->is_short_of_memory = true;
        return;
    }
    const char *const key = p->arguments.data + start;
    if (json_object_object_get_ex(p->parameters, key, NULL)) {
        hd_parser_fail_block(p);
        return;
    }
    if (json_object_object_add(p->parameters, key, NULL) != 0) p->is_short_of_memory = true;
    hd_buffer_text(&p->arguments, ": ");
    go(p, HD_IN_PARAMETER_VALUE);
}

/* A value that claims to be JSON and is none is sent as a string: arguments stay valid. */
static void end_parameter(hd_parser *p)
{
    if (p->is_text || !hd_json_is_valid(p->word.data, p->word.used))
        hd_json_write_string(&p->arguments, p->word.data, p->word.used);
    else
        hd_buffer_add(&p->arguments, p->word.data, p->word.used);
    go(p, HD_BETWEEN_PARAMETERS);
}

static void end_invoke(hd_parser *p)
{
    hd_buffer_text(&p->arguments, "}");
    p->in_invoke = false;
    p->has_opener = false;
    if (p->is_reasoning) {
        p->has_call = true;
    } else {
        p->is_open = true;
        hd_parser_emit_call(p);
        hd_buffer_clear(&p->raw);
    }
    p->space_start = p->raw.used;
    go(p, HD_BETWEEN_CALLS);
}

/* ---- tags ---- */

static bool is_reserved(const hd_parser *p)
{
    return p->word.used == 0 || word_is(p, "invoke") || word_is(p, "parameter");
}

static void add_to_tag_name(hd_parser *p, unsigned char symbol)
{
    bool const is_name = symbol < HD_SYMBOL_EOS && symbol != '<' && symbol != '"' &&
                         symbol != '=' && !hd_parser_is_space(symbol);
    if (is_name) add_to_word(p, symbol);
    if (!is_name || count_characters(p) > MAX_WRAPPER_NAME) hd_parser_fail_block(p);
}

static void step_tag(hd_parser *p, unsigned char symbol)
{
    if (is_name_space(p, symbol)) return;
    if (hd_parser_is_space(symbol) && word_is(p, "invoke") && !p->in_invoke) {
        go(p, HD_IN_INVOKE_ATTRIBUTE);
    } else if (symbol == ' ' && word_is(p, "parameter") && p->in_invoke) {
        go(p, HD_IN_PARAMETER_ATTRIBUTE);
    } else if (symbol != '>') {
        add_to_tag_name(p, symbol);
    } else if (p->in_invoke || is_reserved(p)) {
        hd_parser_fail_block(p);
    } else {
        p->n_wrappers++;
        go(p, HD_BETWEEN_CALLS);
    }
}

/* Behind an empty block there is nothing to hand out; behind a call all was handed out. */
static void close_wrapper(hd_parser *p)
{
    if (p->n_wrappers > 0) p->n_wrappers--;
    if (p->n_wrappers == 0) {
        p->is_open = false;
        p->has_opener = false;
    }
    if (!p->is_reasoning && !p->has_opener) hd_buffer_clear(&p->raw);
    p->space_start = p->raw.used;
    go(p, p->n_wrappers == 0 ? HD_AFTER_BLOCK : HD_BETWEEN_CALLS);
}

static void step_close_tag(hd_parser *p, unsigned char symbol)
{
    if (is_name_space(p, symbol)) return;
    if (symbol != '>')
        add_to_tag_name(p, symbol);
    else if (is_reserved(p))
        hd_parser_fail_block(p);
    else
        close_wrapper(p);
}

static void step_invoke_attribute(hd_parser *p, unsigned char symbol)
{
    if (p->literal_at == 0 && hd_parser_is_space(symbol)) return;
    if (meets_literal(p, "name=\"", symbol)) go(p, HD_IN_INVOKE_NAME);
}

static void step_invoke_name(hd_parser *p, unsigned char symbol)
{
    if (symbol == HD_SYMBOL_DSML) {
        hd_parser_fail_block(p);
        return;
    }
    add_to_word(p, symbol);
    if (symbol != '>' || !cut_end(p, "\">")) return;
    if (p->word.used)
        begin_invoke(p);
    else
        hd_parser_fail_block(p);
}

static void step_parameter_name(hd_parser *p, unsigned char symbol)
{
    if (symbol == HD_SYMBOL_DSML) {
        hd_parser_fail_block(p);
        return;
    }
    add_to_word(p, symbol);
    if (symbol != '>') return;
    p->is_text = cut_end(p, "\" string=\"true\">");
    if (p->is_text || cut_end(p, "\" string=\"false\">")) begin_parameter(p);
}

/* The marker inside a value means that a closing tag was lost. */
static void step_parameter_value(hd_parser *p, unsigned char symbol)
{
    if (symbol != HD_SYMBOL_DSML) {
        add_to_word(p, symbol);
    } else if (cut_end(p, "</")) {
        p->state = HD_IN_PARAMETER_CLOSE;
        p->literal_at = 0;
        p->has_space = false;
    } else {
        hd_parser_fail_block(p);
    }
}

static void step_parameter_close(hd_parser *p, unsigned char symbol)
{
    if (symbol == ' ' && !p->has_space && p->literal_at == 0)
        p->has_space = true;
    else if (meets_literal(p, "parameter>", symbol))
        end_parameter(p);
}

static void step_invoke_close(hd_parser *p, unsigned char symbol)
{
    if (is_name_space(p, symbol)) return;
    if (meets_literal(p, "invoke>", symbol)) end_invoke(p);
}

/* ---- between tags ---- */

/* White space and the beginning of a tag.  returns false when something else comes */
static bool step_between(hd_parser *p, unsigned char symbol, hd_parser_state closing)
{
    if (p->n_bracket == 0 && hd_parser_is_space(symbol)) return true;
    if (p->n_bracket == 0 && symbol == '<') {
        p->n_bracket = 1;
    } else if (p->n_bracket == 1 && symbol == '/') {
        p->n_bracket = 2;
    } else if (p->n_bracket && symbol == HD_SYMBOL_DSML) {
        if (p->n_bracket == 1) p->has_opener = true;
        go(p, p->n_bracket == 1 ? HD_IN_TAG : closing);
    } else
        return false;
    return true;
}

/* Text behind a complete block or invoke: what was held is text as well, but newlines and a
 * bracket at its end may belong to another block. */
static void leave_block(hd_parser *p, unsigned char symbol)
{
    size_t  end = p->raw.used - (size_t)p->n_bracket;
    int32_t n = 0;
    while (n < 2 && end > p->space_start && p->raw.data[end - 1] == '\n') end--, n++;
    hd_parser_write_text(p, p->raw.data, end);
    hd_buffer_clear(&p->raw);
    p->state = HD_IN_TEXT;
    p->n_newlines = n;
    p->has_call = false;
    hd_parser_step_text(p, symbol);
}

static void step_between_calls(hd_parser *p, unsigned char symbol)
{
    bool const is_think = symbol == HD_SYMBOL_THINK || symbol == HD_SYMBOL_THINK_END;
    if (is_think && !p->has_opener) return;
    size_t const used = p->raw.used;
    keep(p, symbol);
    if (step_between(p, symbol, HD_IN_CLOSE_TAG)) return;
    if (p->has_opener) {
        hd_parser_fail_block(p);
        return;
    }
    p->raw.used = used;
    leave_block(p, symbol);
}

static void step_after_block(hd_parser *p, unsigned char symbol)
{
    if (symbol == HD_SYMBOL_THINK || symbol == HD_SYMBOL_THINK_END) return;
    if (hd_parser_is_space(symbol))
        keep(p, symbol);
    else
        leave_block(p, symbol);
}

void hd_parser_step_block(hd_parser *p, unsigned char symbol)
{
    if (p->state == HD_AFTER_BLOCK || p->state == HD_BETWEEN_CALLS) {
        (p->state == HD_AFTER_BLOCK ? step_after_block : step_between_calls)(p, symbol);
        return;
    }
    keep(p, symbol);
    switch (p->state) {
    case HD_BETWEEN_PARAMETERS:
        if (!step_between(p, symbol, HD_IN_INVOKE_CLOSE)) hd_parser_fail_block(p);
        break;
    case HD_IN_TAG: step_tag(p, symbol); break;
    case HD_IN_CLOSE_TAG: step_close_tag(p, symbol); break;
    case HD_IN_INVOKE_ATTRIBUTE: step_invoke_attribute(p, symbol); break;
    case HD_IN_INVOKE_NAME: step_invoke_name(p, symbol); break;
    case HD_IN_INVOKE_CLOSE: step_invoke_close(p, symbol); break;
    case HD_IN_PARAMETER_ATTRIBUTE:
        if (meets_literal(p, "name=\"", symbol)) go(p, HD_IN_PARAMETER_NAME);
        break;
    case HD_IN_PARAMETER_NAME: step_parameter_name(p, symbol); break;
    case HD_IN_PARAMETER_VALUE: step_parameter_value(p, symbol); break;
    case HD_IN_PARAMETER_CLOSE: step_parameter_close(p, symbol); break;
    default: break;
    }
}

/* ---- the end ---- */

static bool is_all_space(const hd_buffer *b)
{
    for (size_t i = 0; i < b->used; i++)
        if (!hd_parser_is_space((unsigned char)b->data[i])) return false;
    return true;
}

/* The output ended with a complete block inside the reasoning: </think> was forgotten. */
static void read_again(hd_parser *p)
{
    hd_buffer  raw = p->raw;
    bool const has_eos = p->has_eos;
    p->raw = (hd_buffer){0};
    p->is_reasoning = p->has_eos = false;
    p->n_wrappers = 0;
    go(p, HD_IN_TEXT);
    for (size_t i = 0; i < raw.used; i++) hd_parser_step(p, (unsigned char)raw.data[i]);
    p->has_eos = has_eos;
    hd_buffer_free(&raw);
    hd_parser_end_block(p, NULL, 0);
}

/* Whether the reasoning ends with a block that would count if the output ended here. */
static bool is_complete(const hd_parser *p)
{
    bool const is_closed = p->state == HD_AFTER_BLOCK || (p->state == HD_BETWEEN_CALLS &&
                                                          p->n_wrappers == 0 && p->n_bracket == 0);
    return is_closed && p->has_call && !p->has_opener;
}

static void end_in_reasoning(hd_parser *p)
{
    p->has_late_end = false;
    if (is_complete(p))
        read_again(p);
    else
        hd_parser_fail_block(p);
}

/* Behind a complete block </think> may be late: the model called and only then ended its
 * reasoning.  So it counts as white space until something else follows; `word` holds the
 * white space that then begins the content. */
void hd_parser_step_think_end(hd_parser *p, unsigned char symbol)
{
    if (!p->has_late_end && is_complete(p)) {
        p->has_late_end = true;
        hd_buffer_clear(&p->word);
    } else if (!p->has_late_end) {
        hd_parser_end_reasoning(p);
    } else if (hd_parser_is_space(symbol)) {
        add_to_word(p, symbol);
    } else if (symbol != HD_SYMBOL_THINK && symbol != HD_SYMBOL_THINK_END) {
        hd_buffer space = p->word;
        p->word = (hd_buffer){0};
        p->has_late_end = false;
        hd_parser_end_reasoning(p);
        for (size_t i = 0; i < space.used; i++) hd_parser_step(p, (unsigned char)space.data[i]);
        hd_buffer_free(&space);
        hd_parser_step(p, symbol);
    }
}

void hd_parser_end_block(hd_parser *p, const char *rest, size_t bytes)
{
    if (p->state == HD_IN_TEXT || p->state == HD_IN_UNPARSED) return;
    /* Behind a call "<" may have begun its closing wrapper, "<｜DS" cannot. */
    bool const is_cut_opener = p->n_bracket == 1 && bytes > 0;
    bool const is_cut_closing =
        p->state == HD_AFTER_BLOCK || p->state == HD_BETWEEN_CALLS || p->state == HD_IN_CLOSE_TAG;
    hd_buffer_add(&p->raw, rest, bytes);
    if (p->is_reasoning) {
        end_in_reasoning(p);
    } else if ((is_cut_closing && !p->has_opener && !is_cut_opener) || is_all_space(&p->raw)) {
        hd_buffer_clear(&p->raw);
    } else
        hd_parser_fail_block(p);
}
