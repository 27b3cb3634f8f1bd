#include "tokenizer/python_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/utf8_scan.h"

/* json.dumps and repr() differ in words and strings, the spellings in numbers. */
typedef struct words {
    const char *null_word, *true_word, *false_word, *nan_word, *inf_word;
    void (*write_string)(hd_buffer *out, const char *text, size_t bytes);
} words;

typedef struct style {
    const words *w;
    hd_spelling  spelling;
} style;

/* ---- numbers ---- */

typedef struct decimal {
    char digits[24]; /* without point, no trailing zeros except "0"   */
    int  n;
    int  point; /* the value is 0.digits * 10^point                   */
} decimal;

/* The fewest digits that read back as `x`, finite and not negative. */
static decimal find_shortest(double x)
{
    decimal d = {0};
    char    text[40];
    for (int precision = 0; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, x);
        if (strtod(text, NULL) == x) break;
    }
    const char *p = text;
    for (; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') d.digits[d.n++] = *p; /* the point may be a comma */
    while (d.n > 1 && d.digits[d.n - 1] == '0') d.n--;
    d.point = (int)strtol(p + 1, NULL, 10) + 1;
    return d;
}

static void write_zeros(hd_buffer *out, int n)
{
    for (int i = 0; i < n; i++) hd_buffer_add(out, "0", 1);
}

static void write_exponent_form(hd_buffer *out, const decimal *d, hd_spelling spelling)
{
    int const exponent = d->point - 1, width = spelling == HD_SPELL_SERVICE ? 1 : 2;
    hd_buffer_add(out, d->digits, 1);
    if (d->n > 1) hd_buffer_printf(out, ".%.*s", d->n - 1, d->digits + 1);
    hd_buffer_printf(out, "e%c%0*d", exponent < 0 ? '-' : '+', width, abs(exponent));
}

static void write_point_form(hd_buffer *out, const decimal *d)
{
    if (d->point <= 0) {
        hd_buffer_text(out, "0.");
        write_zeros(out, -d->point);
        hd_buffer_add(out, d->digits, (size_t)d->n);
    } else if (d->point >= d->n) {
        hd_buffer_add(out, d->digits, (size_t)d->n);
        write_zeros(out, d->point - d->n);
        hd_buffer_text(out, ".0");
    } else
        hd_buffer_printf(out, "%.*s.%.*s", d->point, d->digits, d->n - d->point,
                         d->digits + d->point);
}

/* repr(float): the exponent form below 1e-4 and from 1e16 on. */
static void write_double(hd_buffer *out, double x, const style *s)
{
    if (isnan(x)) {
        hd_buffer_text(out, s->w->nan_word);
        return;
    }
    if (signbit(x)) hd_buffer_add(out, "-", 1);
    if (isinf(x)) {
        hd_buffer_text(out, s->w->inf_word);
        return;
    }
    decimal const d = find_shortest(fabs(x));
    if (d.point > 16 || d.point < (s->spelling == HD_SPELL_SERVICE ? -4 : -3))
        write_exponent_form(out, &d, s->spelling);
    else
        write_point_form(out, &d);
}

/* An integer that fits no machine integer; -0 is one of them. */
static void write_big(hd_buffer *out, const char *digits, double x, const style *s)
{
    if (s->spelling != HD_SPELL_PYTHON)
        write_double(out, x, s);
    else
        hd_buffer_text(out, strcmp(digits, "-0") == 0 ? "0" : digits);
}

static void write_integer(hd_buffer *out, const json_object *v)
{
    int64_t const i = json_object_get_int64(v);
    if (i == INT64_MAX)
        hd_buffer_printf(out, "%" PRIu64, json_object_get_uint64(v));
    else
        hd_buffer_printf(out, "%" PRId64, i);
}

/* ---- repr of strings ---- */

/* Above ASCII Python escapes what does not print.  The separators, format and private
 * characters; unassigned code points, which Python escapes as well, are left raw. */
static bool is_unprintable(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x7F, 0xA0},       {0xAD, 0xAD},       {0x600, 0x605},   {0x1680, 0x1680},
                  {0x180E, 0x180E},   {0x2000, 0x200F},   {0x2028, 0x202F}, {0x205F, 0x206F},
                  {0x3000, 0x3000},   {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB},
                  {0x40000, 0xE00FF}, {0xE01F0, 0x10FFFF}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return c < 0x20;
}

static void write_repr_escape(hd_buffer *out, uint32_t c)
{
    if (c == '\n' || c == '\r' || c == '\t')
        hd_buffer_printf(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else
        hd_buffer_printf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static void write_repr(hd_buffer *out, const char *text, size_t bytes)
{
    bool const has_single = memchr(text, '\'', bytes), has_double = memchr(text, '"', bytes);
    char const quote = has_single && !has_double ? '"' : '\'';
    hd_buffer_add(out, &quote, 1);
    for (size_t at = 0; at < bytes;) {
        int const      n = hd_utf8_scan_measure(text + at, bytes - at);
        size_t const   step = n > 0 ? (size_t)n : 1;
        uint32_t const c = hd_utf8_scan_decode(text + at, n > 0 ? n : 1);
        if (c == '\\' || c == (unsigned char)quote) hd_buffer_add(out, "\\", 1);
        if (is_unprintable(c))
            write_repr_escape(out, c);
        else
            hd_buffer_add(out, text + at, step);
        at += step;
    }
    hd_buffer_add(out, &quote, 1);
}

static const words json_words = {"null", "true", "false", "NaN", "Infinity", hd_json_write_string};
static const words repr_words = {"None", "True", "False", "nan", "inf", write_repr};

/* ---- values ---- */

static void write_value(hd_buffer *out, const json_object *v, const style *s);

static void write_list(hd_buffer *out, const json_object *v, const style *s)
{
    size_t const n = json_object_array_length(v);
    hd_buffer_add(out, "[", 1);
    for (size_t i = 0; i < n; i++) {
        if (i) hd_buffer_add(out, ", ", 2);
        write_value(out, json_object_array_get_idx(v, i), s);
    }
    hd_buffer_add(out, "]", 1);
}

static void write_object(hd_buffer *out, const json_object *v, const style *s)
{
    bool is_first = true;
    hd_buffer_add(out, "{", 1);
    json_object_object_foreach(v, key, value)
    {
        if (!is_first) hd_buffer_add(out, ", ", 2);
        is_first = false;
        s->w->write_string(out, key, strlen(key));
        hd_buffer_add(out, ": ", 2);
        write_value(out, value, s);
    }
    hd_buffer_add(out, "}", 1);
}

static void write_value(hd_buffer *out, const json_object *v, const style *s)
{
    const char *const big = hd_json_big_integer(v);
    if (big) {
        write_big(out, big, json_object_get_double(v), s);
        return;
    }
    const char *text;
    size_t      bytes;
    switch (json_object_get_type(v)) {
    case json_type_null: hd_buffer_text(out, s->w->null_word); break;
    case json_type_boolean:
        hd_buffer_text(out, json_object_get_boolean(v) ? s->w->true_word : s->w->false_word);
        break;
    case json_type_int: write_integer(out, v); break;
    case json_type_double: write_double(out, json_object_get_double(v), s); break;
    case json_type_string:
        text = hd_json_text(v, &bytes);
        s->w->write_string(out, text, bytes);
        break;
    case json_type_array: write_list(out, v, s); break;
    case json_type_object: write_object(out, v, s); break;
    }
}

void hd_python_write_json(hd_buffer *out, const json_object *v, hd_spelling spelling)
{
    write_value(out, v, &(style){&json_words, spelling});
}

void hd_python_write_str(hd_buffer *out, const json_object *v)
{
    size_t            bytes;
    const char *const text = hd_json_text(v, &bytes);
    if (text)
        hd_buffer_add(out, text, bytes);
    else
        write_value(out, v, &(style){&repr_words, HD_SPELL_PYTHON});
}

bool hd_python_is_true(const json_object *v)
{
    switch (json_object_get_type(v)) {
    case json_type_null: return false;
    case json_type_boolean: return json_object_get_boolean(v);
    case json_type_int: return json_object_get_int64(v) != 0;
    case json_type_double: return json_object_get_double(v) != 0;
    case json_type_string: return json_object_get_string_len(v) > 0;
    case json_type_array: return json_object_array_length(v) > 0;
    case json_type_object: return json_object_object_length(v) > 0;
    }
    return true;
}
