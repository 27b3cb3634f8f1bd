#include "base/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/utf8_scan.h"

static void write_escape(hd_buffer *out, unsigned c)
{
    switch (c) {
    case '"': hd_buffer_text(out, "\\\""); break;
    case '\\': hd_buffer_text(out, "\\\\"); break;
    case '\n': hd_buffer_text(out, "\\n"); break;
    case '\r': hd_buffer_text(out, "\\r"); break;
    case '\t': hd_buffer_text(out, "\\t"); break;
    case '\b': hd_buffer_text(out, "\\b"); break;
    case '\f': hd_buffer_text(out, "\\f"); break;
    default: hd_buffer_printf(out, "\\u%04x", c); break;
    }
}

void hd_json_write_string(hd_buffer *out, const char *text, size_t bytes)
{
    hd_buffer_add(out, "\"", 1);
    size_t kept = 0, at = 0; /* text[kept, at) is still to be copied as it is */
    while (at < bytes) {
        unsigned const c = (unsigned char)text[at];
        int const      n = hd_utf8_scan_measure(text + at, bytes - at);
        if (n > 0 && c >= 0x20 && c != '"' && c != '\\') {
            at += (size_t)n;
            continue;
        }
        hd_buffer_add(out, text + kept, at - kept);
        if (n > 0)
            write_escape(out, c);
        else
            hd_buffer_text(out, "\xEF\xBF\xBD");
        at += n > 0 ? 1 : n < 0 ? (size_t)-n : bytes - at;
        kept = at;
    }
    hd_buffer_add(out, text + kept, at - kept);
    hd_buffer_add(out, "\"", 1);
}

/* No text ends with a bracket that opens or with a colon: strings end with their quote. */
static bool is_first(const hd_buffer *out)
{
    return out->used == 0 || strchr("{[:", out->data[out->used - 1]);
}

void hd_json_write_name(hd_buffer *out, const char *name)
{
    if (!is_first(out)) hd_buffer_text(out, ",");
    if (name) hd_buffer_printf(out, "\"%s\":", name);
}

void hd_json_write_open(hd_buffer *out, const char *name, char bracket)
{
    hd_json_write_name(out, name);
    hd_buffer_add(out, &bracket, 1);
}

void hd_json_write_text(hd_buffer *out, const char *name, const char *text)
{
    hd_json_write_name(out, name);
    if (text)
        hd_json_write_string(out, text, strlen(text));
    else
        hd_buffer_text(out, "null");
}

void hd_json_write_number(hd_buffer *out, const char *name, double x)
{
    hd_json_write_name(out, name);
    hd_buffer_printf(out, isfinite(x) ? "%.9g" : "null", x);
}

void hd_json_write_count(hd_buffer *out, const char *name, int64_t n)
{
    hd_json_write_name(out, name);
    hd_buffer_printf(out, "%" PRId64, n);
}

void hd_json_write_flag(hd_buffer *out, const char *name, bool is_true)
{
    hd_json_write_name(out, name);
    hd_buffer_text(out, is_true ? "true" : "false");
}
