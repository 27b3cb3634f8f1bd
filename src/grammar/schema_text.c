#include <string.h>

#include "base/utf8_scan.h"
#include "grammar/regex.h"
#include "grammar/schema_format.h"
#include "grammar/schema_value.h"
#include "tokenizer/chat_tokens.h"

static hd_char_range const any_char = {0, HD_MAX_UNICODE};

/* ---- languages ---- */

/* Replaces *d by its texts that `other` has as well, or has not. */
static hd_status narrow(hd_compiler *c, hd_dfa *d, const hd_dfa *other, hd_dfa_op op,
                        const char *path)
{
    hd_dfa          out = {0};
    hd_status const status = hd_dfa_combine(&out, d, other, op, path, c->err);
    hd_dfa_free(d);
    *d = out;
    return status;
}

static hd_status add_pattern(hd_compiler *c, hd_dfa *d, bool *is_any, const char *pattern,
                             size_t bytes, const char *path)
{
    hd_dfa    one = {0};
    hd_status status = hd_regex_make(&one, pattern, bytes, path, c->err);
    if (status == HD_OK && *is_any) {
        *d = one;
        *is_any = false;
        return HD_OK;
    }
    if (status == HD_OK) status = narrow(c, d, &one, HD_DFA_BOTH, path);
    hd_dfa_free(&one);
    return status;
}

hd_status hd_text_language(hd_compiler *c, const hd_parts *p, hd_dfa *out, bool *is_any)
{
    *is_any = true;
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const schema = hd_part_json(c, p, i);
        const char *const        path = hd_compiler_schema(c, p->part[i].schema)->path;
        size_t                   bytes;
        const char *const        pattern = hd_json_text(hd_json_member(schema, "pattern"), &bytes);
        const char *const        format = hd_json_text(hd_json_member(schema, "format"), NULL);
        const char *const        known = format ? hd_format_pattern(format) : NULL;
        if (pattern) HD_TRY(add_pattern(c, out, is_any, pattern, bytes, path));
        if (known) HD_TRY(add_pattern(c, out, is_any, known, strlen(known), path));
    }
    return HD_OK;
}

/* Texts of min..max characters. */
static hd_status make_lengths(hd_compiler *c, uint32_t min, uint32_t max, hd_dfa *out,
                              const char *path)
{
    hd_nfa   n = {0};
    uint32_t at = HD_NFA_START;
    hd_nfa_begin(&n);
    for (uint32_t i = 0; !n.is_full && (i < min || (max != HD_COUNT_ANY && i < max)); i++) {
        uint32_t const next = hd_nfa_state(&n);
        if (i >= min) hd_nfa_skip(&n, at, HD_NFA_END);
        hd_nfa_chars(&n, at, any_char, 0, next);
        at = next;
    }
    if (max == HD_COUNT_ANY) hd_nfa_chars(&n, at, any_char, 0, at);
    hd_nfa_skip(&n, at, HD_NFA_END);
    hd_status const status = hd_dfa_make(out, &n, path, c->err);
    hd_nfa_free(&n);
    return status;
}

static hd_status narrow_to_lengths(hd_compiler *c, hd_dfa *d, uint32_t min, uint32_t max,
                                   const char *path)
{
    hd_dfa    lengths = {0};
    hd_status status = HD_OK;
    if (min == 0 && max == HD_COUNT_ANY) return HD_OK;
    status = make_lengths(c, min, max, &lengths, path);
    if (status == HD_OK) status = narrow(c, d, &lengths, HD_DFA_BOTH, path);
    hd_dfa_free(&lengths);
    return status;
}

/* ---- JSON strings ---- */

/* How JSON has to write a control character: a letter behind a backslash, or \u00XX. */
static void embed_control(hd_nfa *n, uint32_t from, uint32_t c, uint32_t to)
{
    static const char names[] = "btn\0fr"; /* 8.. */
    char              text[8] = "\\u00";
    uint32_t const    low = c & 15;
    if (c >= 8 && c <= 13 && names[c - 8]) {
        text[1] = names[c - 8];
        hd_nfa_text(n, from, text, 2, to);
        return;
    }
    text[4] = (char)('0' + (c >> 4));
    text[5] = (char)(low < 10 ? '0' + low : 'a' + low - 10);
    hd_nfa_text(n, from, text, 6, to);
}

/* An edge over bytes of a text, as JSON writes them. */
static void embed_edge(hd_nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to)
{
    for (; lo < 0x20 && lo <= hi; lo++) embed_control(n, from, lo, to);
    while (lo <= hi) {
        uint32_t end = lo; /* behind the bytes that stand for themselves */
        while (end <= hi && end != '"' && end != '\\') end++;
        if (end > lo) hd_nfa_range(n, from, lo, end - 1, to);
        char const escape[] = {'\\', (char)end};
        if (end <= hi) hd_nfa_text(n, from, escape, 2, to);
        lo = end + 1;
    }
}

void hd_text_embed(hd_nfa *n, const hd_dfa *d, uint32_t from, uint32_t to)
{
    uint32_t const open = '"', base = n->n;
    for (uint32_t i = 0; i < d->n; i++) hd_nfa_state(n);
    if (n->is_full || n->heads.failed) return;
    hd_nfa_range(n, from, open, open, base);
    for (uint32_t i = 0; i < d->n; i++) {
        const hd_dfa_state *const s = hd_dfa_states(d) + i;
        if (s->accepts) hd_nfa_range(n, base + i, open, open, to);
        for (uint32_t k = 0; k < s->n; k++) {
            const hd_dfa_edge *const e = hd_dfa_edges(d) + s->first + k;
            embed_edge(n, base + i, e->lo, e->hi, base + e->to);
        }
    }
}

static void add_hex(hd_nfa *n, uint32_t from, const char *digits, uint32_t to)
{
    for (; *digits; digits++)
        hd_nfa_range(n, from, (unsigned char)*digits, (unsigned char)*digits, to);
}

#define HEX "0123456789abcdefABCDEF"

/* Four digits, of a code point that is no surrogate or of a pair of surrogates. */
static void add_unicode_escape(hd_nfa *n, uint32_t from, uint32_t to)
{
    uint32_t s[9];
    for (int i = 0; i < 9; i++) s[i] = hd_nfa_state(n);
    add_hex(n, from, "0123456789abcefABCEF", s[0]); /* the first digit is not D */
    add_hex(n, s[0], HEX, s[1]);
    add_hex(n, from, "dD", s[2]);
    add_hex(n, s[2], "01234567", s[1]);
    add_hex(n, s[1], HEX, s[3]);
    add_hex(n, s[3], HEX, to);
    add_hex(n, s[2], "89abAB", s[4]);
    add_hex(n, s[4], HEX, s[5]);
    add_hex(n, s[5], HEX, s[6]);
    hd_nfa_text(n, s[6], "\\u", 2, s[7]);
    add_hex(n, s[7], "dD", s[8]);
    uint32_t const low = hd_nfa_state(n), last = hd_nfa_state(n);
    add_hex(n, s[8], "cdefCDEF", low);
    add_hex(n, low, HEX, last);
    add_hex(n, last, HEX, to);
}

/* Any string: characters as they are or in any way that JSON has to escape them. */
static void write_json_text(hd_nfa *n)
{
    uint32_t const      body = hd_nfa_state(n), escape = hd_nfa_state(n), unicode = hd_nfa_state(n);
    hd_char_range const plain[] = {{' ', '!'}, {'#', '['}, {']', HD_MAX_UNICODE}};
    hd_nfa_text(n, HD_NFA_START, "\"", 1, body);
    for (int i = 0; i < 3; i++) hd_nfa_chars(n, body, plain[i], HD_EDGE_COUNT, body);
    hd_nfa_edge_add(n, body,
                    &(hd_nfa_edge){.lo = '\\', .hi = '\\', .to = escape, .flags = HD_EDGE_COUNT});
    add_hex(n, escape, "\"\\/bfnrt", body);
    add_hex(n, escape, "u", unicode);
    add_unicode_escape(n, unicode, body);
    hd_nfa_edge_add(
        n, body, &(hd_nfa_edge){.lo = '"', .hi = '"', .to = HD_NFA_END, .flags = HD_EDGE_ENOUGH});
}

/* ---- raw text ---- */

/* Texts with the tag in them that would end a raw text. */
static hd_status make_closing(hd_compiler *c, hd_dfa *out)
{
    hd_nfa    n = {0};
    hd_buffer tag = {0};
    hd_status status = HD_ERR_MEMORY;
    hd_nfa_begin(&n);
    uint32_t const behind = hd_nfa_state(&n);
    hd_buffer_printf(&tag, "</" HD_TOKEN_DSML "%s>", c->markup->parameter);
    hd_nfa_chars(&n, HD_NFA_START, any_char, 0, HD_NFA_START);
    if (!tag.failed) {
        hd_nfa_text(&n, HD_NFA_START, tag.data, tag.used, behind);
        hd_nfa_chars(&n, behind, any_char, 0, behind);
        hd_nfa_skip(&n, behind, HD_NFA_END);
        status = hd_dfa_make(out, &n, c->root_path, c->err);
    } else
        hd_compiler_fail_memory(c);
    hd_buffer_free(&tag);
    hd_nfa_free(&n);
    return status;
}

/* Any text, with `flags` on the first byte of each character. */
static hd_status make_any(hd_compiler *c, uint32_t flags, hd_dfa *out)
{
    hd_nfa n = {0};
    hd_nfa_begin(&n);
    uint32_t const at = hd_nfa_state(&n);
    hd_nfa_skip(&n, HD_NFA_START, at);
    hd_nfa_chars(&n, at, any_char, flags, at);
    hd_nfa_skip(&n, at, HD_NFA_END);
    hd_status const status = hd_dfa_make(out, &n, c->root_path, c->err);
    hd_nfa_free(&n);
    return status;
}

/* Takes out of a language what would end the raw text that it stands in. */
static hd_status without_closing(hd_compiler *c, hd_dfa *d)
{
    hd_dfa    closing = {0};
    hd_status status = make_closing(c, &closing);
    if (status == HD_OK) status = narrow(c, d, &closing, HD_DFA_MINUS, c->root_path);
    hd_dfa_free(&closing);
    return status;
}

/* Where the length matters, what ends the text is a call: it does not count. */
static hd_status write_raw_text(hd_compiler *c, bool is_counted)
{
    hd_dfa    any = {0};
    uint32_t  close = 0;
    hd_status status = make_any(c, is_counted ? HD_EDGE_COUNT : 0, &any);
    if (status == HD_OK) status = without_closing(c, &any);
    if (status == HD_OK && is_counted) status = hd_compiler_rule(c, HD_RULE_CLOSE, NULL, 0, &close);
    if (status == HD_OK) {
        uint32_t const end = hd_nfa_state(&c->nfa);
        hd_dfa_embed(&any, &c->nfa, HD_NFA_START, end);
        if (is_counted)
            hd_nfa_edge_add(&c->nfa, end,
                            &(hd_nfa_edge){.lo = HD_LABEL_CALL + close,
                                           .hi = HD_LABEL_CALL + close,
                                           .to = HD_NFA_END,
                                           .flags = HD_EDGE_ENOUGH});
        else
            hd_nfa_text(&c->nfa, end, "</", 2, HD_NFA_END);
    }
    hd_dfa_free(&any);
    return status;
}

hd_status hd_text_rule(hd_compiler *c, hd_rule_kind kind, const uint32_t *key)
{
    if (kind == HD_RULE_RAW) return write_raw_text(c, key[0] > 0 || key[1] != HD_COUNT_ANY);
    write_json_text(&c->nfa);
    return HD_OK;
}

/* ---- values ---- */

static hd_status write_language(hd_compiler *c, hd_dfa *d, hd_spot s)
{
    if (s.form == HD_FORM_BARE) hd_dfa_embed(d, &c->nfa, s.from, s.to);
    if (s.form == HD_FORM_JSON) hd_text_embed(&c->nfa, d, s.from, s.to);
    if (s.form != HD_FORM_RAW) return HD_OK;
    uint32_t const end = hd_nfa_state(&c->nfa);
    HD_TRY(without_closing(c, d));
    hd_dfa_embed(d, &c->nfa, s.from, end);
    hd_nfa_text(&c->nfa, end, "</", 2, s.to);
    return HD_OK;
}

hd_status hd_text_write(hd_compiler *c, const hd_parts *p, hd_spot s)
{
    const char *const path = hd_parts_path(c, p);
    uint32_t const    key[] = {hd_parts_count(c, p, "minLength", false, 0),
                               hd_parts_count(c, p, "maxLength", true, HD_COUNT_ANY)};
    hd_dfa            d = {0};
    bool              is_any;
    uint32_t          rule;
    if (key[1] < key[0]) return HD_OK;
    hd_status status = hd_text_language(c, p, &d, &is_any);
    if (status == HD_OK && is_any && s.form == HD_FORM_BARE) {
        status = make_any(c, 0, &d);
        is_any = false;
    }
    if (status == HD_OK && !is_any) status = narrow_to_lengths(c, &d, key[0], key[1], path);
    if (status == HD_OK && !is_any) status = write_language(c, &d, s);
    hd_dfa_free(&d);
    if (status != HD_OK || !is_any) return status;
    hd_rule_kind const kind = s.form == HD_FORM_RAW ? HD_RULE_RAW : HD_RULE_TEXT;
    HD_TRY(hd_compiler_rule(c, kind, key, 2, &rule));
    hd_nfa_call(&c->nfa, s.from, rule, s.to);
    return HD_OK;
}

/* Texts of constants, and any that the other keywords allow, as raw text up to its end. */
hd_status hd_text_all(hd_compiler *c, const hd_parts *p, hd_dfa *out)
{
    hd_nfa const kept = c->nfa; /* of the rule that is being written */
    hd_status    status;
    c->nfa = (hd_nfa){0};
    hd_nfa_begin(&c->nfa);
    status = hd_value_write(
        c, p, (hd_spot){HD_NFA_START, HD_NFA_END, .types = HD_TYPE_TEXT, .form = HD_FORM_BARE});
    if (status == HD_OK) status = hd_dfa_make(out, &c->nfa, hd_parts_path(c, p), c->err);
    hd_nfa_free(&c->nfa);
    c->nfa = kept;
    return status;
}

static uint32_t count_characters(const char *text, size_t bytes)
{
    uint32_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

hd_status hd_text_fits(hd_compiler *c, const hd_parts *p, const json_object *v, bool *fits)
{
    size_t            bytes;
    const char *const text = hd_json_text(v, &bytes);
    uint32_t const    n = count_characters(text, bytes);
    hd_dfa            d = {0};
    bool              is_any;
    hd_status const   status = hd_text_language(c, p, &d, &is_any);
    if (status == HD_OK)
        *fits = n >= hd_parts_count(c, p, "minLength", false, 0) &&
                n <= hd_parts_count(c, p, "maxLength", true, HD_COUNT_ANY) &&
                (is_any || hd_dfa_matches(&d, text, bytes));
    hd_dfa_free(&d);
    return status;
}
