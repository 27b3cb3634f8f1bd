#include "grammar/regex.h"

#include <string.h>

#include "base/utf8_scan.h"
#include "grammar/regex_class.h"

/* The pattern is read once and written into an NFA as it is read; what repeats is read again for
 * each time.
 *
 * Each state stands there three times, for where the text is: nothing of it has been read; some
 * of it; it must end here, because $ was met.  So ^ and $ are ordinary edges. */
enum { AT_START, AT_MIDDLE, AT_END, N_LAYERS };

#define MAX_GROUPS 100 /* within each other */
#define MAX_TIMES  100000u

typedef struct reader {
    const char   *text, *at, *end;
    hd_nfa        nfa;
    hd_char_class set; /* the class being read */
    int           depth;
    const char   *path;
    hd_error     *err;
} reader;

/* ---- errors ---- */

static hd_status fail_format(const reader *r, const char *what)
{
    HD_FAIL(r->err, HD_ERR_FORMAT, "%s: %s at character %td of the pattern", r->path, what,
            r->at - r->text);
}

static hd_status fail_unsupported(const reader *r, const char *what)
{
    HD_FAIL(r->err, HD_ERR_UNSUPPORTED, "%s: %s cannot be enforced in a pattern", r->path, what);
}

/* ---- layered states ---- */

static uint32_t new_state(reader *r)
{
    uint32_t const first = hd_nfa_state(&r->nfa);
    for (int i = 1; i < N_LAYERS; i++) hd_nfa_state(&r->nfa);
    return first;
}

static void skip(reader *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < N_LAYERS; i++) hd_nfa_skip(&r->nfa, from + i, to + i);
}

static void add_range(reader *r, uint32_t from, hd_char_range range, uint32_t to)
{
    hd_nfa_chars(&r->nfa, from + AT_START, range, 0, to + AT_MIDDLE);
    hd_nfa_chars(&r->nfa, from + AT_MIDDLE, range, 0, to + AT_MIDDLE);
}

static void add_set(reader *r, uint32_t from, uint32_t to)
{
    const hd_char_range *const ranges = (const hd_char_range *)(const void *)r->set.ranges.data;
    for (size_t i = 0; i < r->set.ranges.used / sizeof *ranges; i++)
        add_range(r, from, ranges[i], to);
}

static void add_start(reader *r, uint32_t from, uint32_t to)
{
    hd_nfa_skip(&r->nfa, from + AT_START, to + AT_START);
}

static void add_end(reader *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < N_LAYERS; i++) hd_nfa_skip(&r->nfa, from + i, to + AT_END);
}

/* ---- escapes ---- */

static bool has(const reader *r, char c) { return r->at < r->end && *r->at == c; }

static bool take(reader *r, char c)
{
    if (!has(r, c)) return false;
    r->at++;
    return true;
}

/* A character of the pattern itself, which is UTF-8. */
static uint32_t take_char(reader *r)
{
    int const      n = hd_utf8_scan_measure(r->at, (size_t)(r->end - r->at));
    uint32_t const c = hd_utf8_scan_decode(r->at, n);
    r->at += n;
    return c;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') return (c | 0x20) - 'a' + 10;
    return -1;
}

static bool take_hex(reader *r, int digits, uint32_t *out)
{
    *out = 0;
    if (r->end - r->at < digits) return false;
    for (int i = 0; i < digits; i++) {
        int const value = hex_value(r->at[i]);
        if (value < 0) return false;
        *out = *out * 16 + (uint32_t)value;
    }
    r->at += digits;
    return true;
}

static bool take_braced_hex(reader *r, uint32_t *out)
{
    *out = 0;
    const char *const first = r->at;
    while (r->at < r->end && hex_value(*r->at) >= 0 && *out <= HD_MAX_UNICODE)
        *out = *out * 16 + (uint32_t)hex_value(*r->at++);
    return r->at > first && *out <= HD_MAX_UNICODE && take(r, '}');
}

/* Behind \u: four digits, two escapes that are a pair of surrogates, or any number in braces. */
static hd_status take_unicode(reader *r, uint32_t *out)
{
    uint32_t low;
    if (take(r, '{')) {
        if (!take_braced_hex(r, out)) return fail_format(r, "no code point");
        return HD_OK;
    }
    if (!take_hex(r, 4, out)) return fail_format(r, "not four hexadecimal digits");
    if (*out < 0xD800 || *out > 0xDFFF) return HD_OK;
    bool const is_pair = *out < 0xDC00 && r->end - r->at >= 6 && memcmp(r->at, "\\u", 2) == 0;
    if (is_pair) r->at += 2;
    if (!is_pair || !take_hex(r, 4, &low) || low < 0xDC00 || low > 0xDFFF)
        return fail_format(r, "half a pair of surrogates");
    *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    return HD_OK;
}

/* A backslash was read: one character, in *out, or a named class, which is added to the set. */
static hd_status take_escape(reader *r, uint32_t *out, bool *is_class)
{
    static const char names[] = "tnvfr0", values[] = "\t\n\v\f\r";
    if (r->at == r->end) return fail_format(r, "nothing behind a backslash");
    *is_class = hd_char_class_add_named(&r->set, *r->at);
    if (*is_class) {
        r->at++;
        return HD_OK;
    }
    if (*r->at >= '1' && *r->at <= '9') return fail_unsupported(r, "a reference to a group");
    if (*r->at == 'k') return fail_unsupported(r, "a reference to a group");
    if (*r->at == 'p' || *r->at == 'P') return fail_unsupported(r, "a Unicode property");
    *out = take_char(r);
    const char *const name = *out && *out < 128 ? strchr(names, (int)*out) : NULL;
    if (*out == 'u') return take_unicode(r, out);
    if (*out == 'x' && !take_hex(r, 2, out))
        return fail_format(r, "not two hexadecimal digits");
    else if (*out == 'c' && r->at < r->end)
        *out = (uint32_t)*r->at++ & 31;
    else if (name)
        *out = (unsigned char)values[name - names];
    return HD_OK;
}

/* ---- classes ---- */

/* One end of a range.  is_class: it was a class, which is none: then "-" stands for itself. */
static hd_status take_class_char(reader *r, uint32_t *out, bool *is_class)
{
    *is_class = false;
    if (r->at == r->end) return fail_format(r, "a class without an end");
    if (!take(r, '\\')) {
        *out = take_char(r);
    } else if (take(r, 'b')) {
        *out = '\b';
    } else {
        return take_escape(r, out, is_class);
    }
    return HD_OK;
}

static hd_status take_class(reader *r)
{
    bool const is_negated = take(r, '^');
    hd_char_class_clear(&r->set);
    while (!take(r, ']')) {
        uint32_t lo = 0, hi = 0;
        bool     is_class, is_class_too = false;
        HD_TRY(take_class_char(r, &lo, &is_class));
        hi = lo;
        if (has(r, '-') && r->end - r->at > 1 && r->at[1] != ']') {
            r->at++;
            HD_TRY(take_class_char(r, &hi, &is_class_too));
            if (is_class || is_class_too) hd_char_class_add(&r->set, '-', '-');
            if (is_class && !is_class_too) hd_char_class_add(&r->set, hi, hi);
            if (is_class_too && !is_class) hd_char_class_add(&r->set, lo, lo);
            if (is_class || is_class_too) continue;
            if (hi < lo) return fail_format(r, "a range whose end comes first");
        }
        if (!is_class) hd_char_class_add(&r->set, lo, hi);
    }
    if (is_negated) hd_char_class_negate(&r->set);
    return HD_OK;
}

static void set_dot(reader *r)
{
    hd_char_class_clear(&r->set);
    hd_char_class_add(&r->set, '\n', '\n');
    hd_char_class_add(&r->set, '\r', '\r');
    hd_char_class_add(&r->set, 0x2028, 0x2029);
    hd_char_class_negate(&r->set);
}

/* ---- atoms ---- */

static hd_status read_choice(reader *r, uint32_t from, uint32_t to);

/* Behind an opening parenthesis: what kind of group. */
static hd_status read_group(reader *r, uint32_t from, uint32_t to)
{
    if (take(r, '?') && !take(r, ':')) {
        bool const is_look_back = has(r, '<') && r->end - r->at > 1 && strchr("=!", r->at[1]);
        if (has(r, '=') || has(r, '!') || is_look_back)
            return fail_unsupported(r, "looking around");
        if (!take(r, '<')) return fail_format(r, "an unknown kind of group");
        while (r->at < r->end && *r->at != '>') r->at++;
        if (!take(r, '>')) return fail_format(r, "a group's name without an end");
    }
    if (++r->depth > MAX_GROUPS)
        HD_FAIL(r->err, HD_ERR_LIMIT, "%s: more than %d groups within each other", r->path,
                MAX_GROUPS);
    HD_TRY(read_choice(r, from, to));
    r->depth--;
    return take(r, ')') ? HD_OK : fail_format(r, "a group without an end");
}

static hd_status read_escape(reader *r, uint32_t from, uint32_t to)
{
    uint32_t c = 0;
    bool     is_class;
    if (has(r, 'b') || has(r, 'B')) return fail_unsupported(r, "a word boundary");
    hd_char_class_clear(&r->set);
    HD_TRY(take_escape(r, &c, &is_class));
    if (!is_class) hd_char_class_add(&r->set, c, c);
    add_set(r, from, to);
    return HD_OK;
}

static hd_status read_atom(reader *r, uint32_t from, uint32_t to)
{
    if (take(r, '(')) return read_group(r, from, to);
    if (take(r, '\\')) return read_escape(r, from, to);
    if (take(r, '[')) {
        HD_TRY(take_class(r));
        add_set(r, from, to);
    } else if (take(r, '.')) {
        set_dot(r);
        add_set(r, from, to);
    } else if (take(r, '^')) {
        add_start(r, from, to);
    } else if (take(r, '$')) {
        add_end(r, from, to);
    } else if (strchr("*+?{", *r->at)) {
        return fail_format(r, "nothing to repeat");
    } else {
        uint32_t const c = take_char(r);
        add_range(r, from, (hd_char_range){c, c}, to);
    }
    return HD_OK;
}

/* ---- repetition ---- */

typedef struct times {
    uint32_t min, max; /* max: UINT32_MAX, any number */
} times;

static bool take_number(reader *r, uint32_t *out)
{
    const char *const first = r->at;
    *out = 0;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && *out <= MAX_TIMES)
        *out = *out * 10 + (uint32_t)(*r->at++ - '0');
    return r->at > first;
}

static hd_status take_braces(reader *r, times *t)
{
    if (!take_number(r, &t->min)) return fail_format(r, "a brace without a number");
    t->max = t->min;
    if (take(r, ',') && !take_number(r, &t->max)) t->max = UINT32_MAX;
    if (t->min > MAX_TIMES || (t->max > MAX_TIMES && t->max != UINT32_MAX))
        HD_FAIL(r->err, HD_ERR_LIMIT, "%s: a repetition of more than %u times", r->path, MAX_TIMES);
    if (!take(r, '}') || t->max < t->min) return fail_format(r, "no numbers of times");
    return HD_OK;
}

/* Lazy ones match the same texts. */
static hd_status take_times(reader *r, times *t)
{
    if (take(r, '*'))
        *t = (times){0, UINT32_MAX};
    else if (take(r, '+'))
        *t = (times){1, UINT32_MAX};
    else if (take(r, '?'))
        *t = (times){0, 1};
    else if (take(r, '{'))
        HD_TRY(take_braces(r, t));
    else {
        *t = (times){1, 1};
        return HD_OK;
    }
    take(r, '?');
    return HD_OK;
}

/* Goes to the end of a class or a group, as far as there is one; what is wrong in it is found
 * when it is read. */
static void pass_class(reader *r)
{
    while (r->at < r->end && !take(r, ']')) r->at += *r->at == '\\' && r->end - r->at > 1 ? 2 : 1;
}

static void pass_group(reader *r)
{
    int depth = 0;
    do {
        if (take(r, '\\'))
            r->at += r->at < r->end;
        else if (take(r, '['))
            pass_class(r);
        else {
            depth += (*r->at == '(') - (*r->at == ')');
            r->at++;
        }
    } while (depth > 0 && r->at < r->end);
}

/* Goes to the end of the atom that begins here. */
static hd_status pass_atom(reader *r)
{
    uint32_t c;
    bool     is_class;
    if (has(r, '('))
        pass_group(r);
    else if (take(r, '['))
        pass_class(r);
    else if (take(r, '\\') && !has(r, 'b') && !has(r, 'B'))
        HD_TRY(take_escape(r, &c, &is_class));
    else
        take_char(r);
    return HD_OK;
}

static hd_status repeat_atom(reader *r, const char *atom, uint32_t *from)
{
    uint32_t const to = new_state(r);
    r->at = atom;
    HD_TRY(read_atom(r, *from, to));
    *from = to;
    return HD_OK;
}

static hd_status read_term(reader *r, uint32_t from, uint32_t to)
{
    const char *const atom = r->at;
    times             t;
    HD_TRY(pass_atom(r));
    HD_TRY(take_times(r, &t));
    const char *const behind = r->at;
    for (uint32_t i = 0; i < t.min && !r->nfa.is_full; i++) HD_TRY(repeat_atom(r, atom, &from));
    if (t.max == UINT32_MAX) {
        uint32_t const loop = new_state(r);
        uint32_t       last = loop;
        skip(r, from, loop);
        HD_TRY(repeat_atom(r, atom, &last));
        skip(r, last, loop);
        from = loop;
    } else {
        for (uint32_t i = t.min; i < t.max && !r->nfa.is_full; i++) {
            skip(r, from, to);
            HD_TRY(repeat_atom(r, atom, &from));
        }
    }
    skip(r, from, to);
    r->at = behind;
    return HD_OK;
}

static hd_status read_sequence(reader *r, uint32_t from, uint32_t to)
{
    while (r->at < r->end && *r->at != '|' && *r->at != ')' && !r->nfa.is_full) {
        uint32_t const next = new_state(r);
        HD_TRY(read_term(r, from, next));
        from = next;
    }
    skip(r, from, to);
    return HD_OK;
}

static hd_status read_choice(reader *r, uint32_t from, uint32_t to)
{
    do {
        HD_TRY(read_sequence(r, from, to));
    } while (take(r, '|'));
    return HD_OK;
}

/* ---- the whole ---- */

/* Any text may stand in front and behind. */
static hd_status read_pattern(reader *r)
{
    hd_char_range const any = {0, HD_MAX_UNICODE};
    uint32_t const      front = new_state(r), from = new_state(r), to = new_state(r);
    hd_nfa_skip(&r->nfa, HD_NFA_START, front);
    add_range(r, front, any, front);
    skip(r, front, from);
    HD_TRY(read_choice(r, from, to));
    if (r->at < r->end && !r->nfa.is_full) return fail_format(r, "a parenthesis too many");
    add_range(r, to, any, to);
    for (uint32_t i = 0; i < N_LAYERS; i++) hd_nfa_skip(&r->nfa, to + i, HD_NFA_END);
    if (r->set.ranges.failed)
        HD_FAIL(r->err, HD_ERR_MEMORY, "%s: no memory for the pattern", r->path);
    return HD_OK;
}

hd_status hd_regex_make(hd_dfa *out, const char *pattern, size_t bytes, const char *path,
                        hd_error *err)
{
    reader r = {.text = pattern, .at = pattern, .end = pattern + bytes, .path = path, .err = err};
    hd_nfa_begin(&r.nfa);
    hd_status status = read_pattern(&r);
    if (status == HD_OK) status = hd_dfa_make(out, &r.nfa, path, err);
    hd_nfa_free(&r.nfa);
    hd_char_class_free(&r.set);
    return status;
}
