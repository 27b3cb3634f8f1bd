#include "doctor/module_pattern.h"

#include <ctype.h>
#include <string.h>

/* An expression becomes a list of steps whose jumps are relative, so that a part can be moved to
 * make room in front of it.  Matching walks all ways at the same time (Thompson 1968). */

enum { IS_CHARACTER, IS_CHOICE, IS_START, IS_END, IS_DONE };

#define MAX_DEPTH 32 /* of groups */

typedef struct parser {
    hd_module_pattern *out;
    const char        *at;
    int                depth;
} parser;

static bool parse_choices(parser *p);

/* ---- steps ---- */

/* Makes room for a step at `where`. */
static hd_pattern_step *insert_step(parser *p, int32_t where, int8_t kind)
{
    hd_module_pattern *const m = p->out;
    if (m->n == HD_MAX_PATTERN) return NULL;
    memmove(m->steps + where + 1, m->steps + where, (size_t)(m->n - where) * sizeof m->steps[0]);
    m->n++;
    m->steps[where] = (hd_pattern_step){.kind = kind};
    return m->steps + where;
}

static hd_pattern_step *add_step(parser *p, int8_t kind) { return insert_step(p, p->out->n, kind); }

static bool add_choice(parser *p, int32_t where, int32_t first, int32_t second)
{
    hd_pattern_step *const s = insert_step(p, where, IS_CHOICE);
    if (!s) return false;
    s->first = (int16_t)first;
    s->second = (int16_t)second;
    return true;
}

static void add_to_set(uint8_t set[32], unsigned c) { set[c / 8] |= (uint8_t)(1u << c % 8); }

static bool is_in_set(const uint8_t set[32], unsigned c) { return set[c / 8] >> c % 8 & 1; }

/* ---- characters ---- */

static bool is_of_class(char name, unsigned c)
{
    switch (tolower((unsigned char)name)) {
    case 'd': return c >= '0' && c <= '9';
    case 's': return c == ' ' || (c >= '\t' && c <= '\r');
    default: return c < 128 && (isalnum((int)c) || c == '_');
    }
}

/* Behind a backslash: a class of characters, or one that would mean something else. */
static bool take_escape(parser *p, uint8_t set[32])
{
    char const name = *p->at;
    if (!name || (isalnum((unsigned char)name) && !strchr("dDwWsS", name))) return false;
    p->at++;
    for (unsigned c = 1; c < 256; c++) {
        bool const fits = isalpha((unsigned char)name)
                              ? is_of_class(name, c) == (islower((unsigned char)name) != 0)
                              : c == (unsigned char)name;
        if (fits) add_to_set(set, c);
    }
    return true;
}

/* One member of [...]: an escape, a character or a range. */
static bool take_member(parser *p, uint8_t set[32])
{
    if (*p->at == '\\') return p->at++, take_escape(p, set);
    unsigned const first = (unsigned char)*p->at++;
    unsigned       last = first;
    if (*p->at == '-' && p->at[1] && p->at[1] != ']') {
        last = (unsigned char)p->at[1];
        p->at += 2;
        if (last == '\\') return false;
    }
    for (unsigned c = first; c <= last; c++) add_to_set(set, c);
    return first <= last;
}

static bool take_set(parser *p, uint8_t set[32])
{
    bool const is_other = *p->at == '^';
    p->at += is_other;
    bool is_first = true;
    for (; *p->at && (*p->at != ']' || is_first); is_first = false)
        if (!take_member(p, set)) return false;
    if (*p->at++ != ']') return false;
    for (int i = 0; is_other && i < 32; i++) set[i] = (uint8_t)~set[i];
    return true;
}

static bool parse_character(parser *p)
{
    hd_pattern_step *const s = add_step(p, IS_CHARACTER);
    if (!s) return false;
    char const c = *p->at++;
    if (c == '\\') return take_escape(p, s->set);
    if (c == '[') return take_set(p, s->set);
    if (c == '.')
        memset(s->set, 0xFF, sizeof s->set);
    else
        add_to_set(s->set, (unsigned char)c);
    return true;
}

/* ---- the grammar ---- */

static bool parse_group(parser *p)
{
    p->at++;
    if (*p->at == '?') {
        if (p->at[1] != ':') return false; /* looks ahead, names, flags */
        p->at += 2;
    }
    if (++p->depth > MAX_DEPTH || !parse_choices(p) || *p->at != ')') return false;
    p->depth--;
    p->at++;
    return true;
}

static bool parse_atom(parser *p)
{
    switch (*p->at) {
    case '(': return parse_group(p);
    case '^': return p->at++, add_step(p, IS_START) != NULL;
    case '$': return p->at++, add_step(p, IS_END) != NULL;
    case '*':
    case '+':
    case '?':
    case '{': return false;
    default: return parse_character(p);
    }
}

/* An atom [begin, n) that may be left out or come again. */
static bool parse_repeat(parser *p, int32_t begin)
{
    char const    sign = *p->at++;
    int32_t const n = p->out->n - begin;
    if (*p->at == '?') p->at++; /* lazy: the same names fit */
    if (*p->at && strchr("*+?{", *p->at)) return false;
    if (sign == '+') return add_choice(p, p->out->n, -n, 1);
    if (!add_choice(p, begin, 1, sign == '*' ? n + 2 : n + 1)) return false;
    return sign == '?' || add_choice(p, p->out->n, -(n + 1), -(n + 1));
}

static bool parse_sequence(parser *p)
{
    while (*p->at && *p->at != '|' && *p->at != ')') {
        int32_t const begin = p->out->n;
        if (!parse_atom(p)) return false;
        if (*p->at == '{') return false;
        if (*p->at && strchr("*+?", *p->at) && !parse_repeat(p, begin)) return false;
    }
    return true;
}

/* first | rest: a choice in front, and behind the first a jump over the rest. */
static bool parse_choices(parser *p)
{
    int32_t const begin = p->out->n;
    if (!parse_sequence(p)) return false;
    if (*p->at != '|') return true;
    p->at++;
    int32_t const n = p->out->n - begin;
    if (!add_choice(p, begin, 1, n + 2) || !add_choice(p, p->out->n, 0, 0)) return false;
    int32_t const jump = p->out->n - 1;
    if (!parse_choices(p)) return false;
    hd_pattern_step *const s = p->out->steps + jump;
    s->first = s->second = (int16_t)(p->out->n - jump);
    return true;
}

bool hd_module_pattern_parse(hd_module_pattern *out, const char *expression)
{
    parser p = {out, expression, 0};
    out->n = 0;
    return parse_choices(&p) && *p.at == '\0' && add_step(&p, IS_DONE) != NULL;
}

/* ---- matching ---- */

/* Steps that may come next. */
typedef struct places {
    int16_t list[HD_MAX_PATTERN];
    bool    has[HD_MAX_PATTERN];
    int32_t n;
} places;

static void add_place(places *at, int32_t step)
{
    if (at->has[step]) return;
    at->has[step] = true;
    at->list[at->n++] = (int16_t)step;
}

/* Follows choices until characters are wanted; returns whether the pattern is done. */
static bool follow(const hd_module_pattern *p, places *at, bool is_start, bool is_end)
{
    for (int32_t i = 0; i < at->n; i++) { /* it grows */
        int32_t const                step = at->list[i];
        const hd_pattern_step *const s = p->steps + step;
        if (s->kind == IS_DONE) return true;
        if ((s->kind == IS_START && is_start) || (s->kind == IS_END && is_end))
            add_place(at, step + 1);
        if (s->kind != IS_CHOICE) continue;
        add_place(at, step + s->first);
        add_place(at, step + s->second);
    }
    return false;
}

bool hd_module_pattern_fits(const hd_module_pattern *p, const char *name)
{
    places now = {.n = 0};
    add_place(&now, 0);
    for (const char *c = name; !follow(p, &now, c == name, *c == '\0'); c++) {
        places next = {.n = 0};
        for (int32_t i = 0; *c && i < now.n; i++) {
            const hd_pattern_step *const s = p->steps + now.list[i];
            if (s->kind == IS_CHARACTER && is_in_set(s->set, (unsigned char)*c))
                add_place(&next, now.list[i] + 1);
        }
        if (next.n == 0) return false;
        now = next;
    }
    return true;
}
