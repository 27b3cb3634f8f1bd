#include "tokenizer/parser.h"

/* Text may run into a block: up to two newlines and "<" in front of the marker belong to it,
 * so they are held until something else comes. */

static void write_byte(hd_parser *p, unsigned char symbol)
{
    char const c = (char)symbol;
    hd_parser_write_text(p, &c, 1);
}

static void release_newlines(hd_parser *p)
{
    hd_parser_write_text(p, "\n\n", (size_t)p->n_newlines);
    p->n_newlines = 0;
}

void hd_parser_release_held(hd_parser *p)
{
    release_newlines(p);
    hd_parser_write_text(p, "</", (size_t)p->n_bracket);
    p->n_bracket = 0;
}

static void hold_newline(hd_parser *p)
{
    if (p->n_bracket) hd_parser_release_held(p);
    if (p->n_newlines == 2)
        write_byte(p, '\n');
    else
        p->n_newlines++;
}

static void hold_bracket(hd_parser *p)
{
    if (p->n_bracket) hd_parser_release_held(p);
    p->n_bracket = 1;
}

static void meet_marker(hd_parser *p)
{
    bool const is_closing = p->n_bracket == 2 && p->is_open && !p->is_reasoning;
    if (is_closing) {
        release_newlines(p);
        hd_parser_begin_close(p);
    } else if (p->n_bracket == 1 && !p->ignores_blocks) {
        hd_parser_begin_block(p);
    } else {
        hd_parser_release_held(p);
        write_byte(p, HD_SYMBOL_DSML);
    }
}

void hd_parser_step_text(hd_parser *p, unsigned char symbol)
{
    if (symbol == HD_SYMBOL_THINK || symbol == HD_SYMBOL_THINK_END) return;
    if (!p->has_tools) {
        write_byte(p, symbol);
    } else if (symbol == '\n') {
        hold_newline(p);
    } else if (symbol == '<') {
        hold_bracket(p);
    } else if (symbol == '/' && p->n_bracket == 1) {
        p->n_bracket = 2;
    } else if (symbol == HD_SYMBOL_DSML) {
        meet_marker(p);
    } else {
        hd_parser_release_held(p);
        write_byte(p, symbol);
    }
}

void hd_parser_end_reasoning(hd_parser *p)
{
    if (p->state == HD_IN_TEXT)
        hd_parser_release_held(p);
    else
        hd_parser_fail_block(p);
    p->is_reasoning = false;
    p->ignores_blocks = false;
    p->state = HD_IN_TEXT;
}
