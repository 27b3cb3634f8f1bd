#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *hd_status_name(hd_status s)
{
    static const char *const names[] = {"ok",     "invalid", "io",      "format",    "unsupported",
                                        "memory", "limit",   "numeric", "cancelled", "device"};
    return (size_t)s < sizeof names / sizeof names[0] ? names[s] : "unknown";
}

/* Cuts an incomplete last character, which vsnprintf may leave when the line is too long. */
static void drop_cut_character(char *s)
{
    size_t const len = strlen(s);
    size_t       i = len;
    while (i > 0 && ((unsigned char)s[i - 1] & 0xC0) == 0x80) i--;
    if (i == 0) return;
    unsigned const lead = (unsigned char)s[i - 1];
    size_t const   want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (len - (i - 1) < want) s[i - 1] = 0;
}

hd_status hd_error_set(hd_error *err, hd_status code, int64_t where, const char *fmt, ...)
{
    if (!err) return code;
    err->code = code;
    err->where = where;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, ap);
    va_end(ap);
    drop_cut_character(err->message);
    for (char *p = err->message; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F) *p = '?';
    return code;
}
