#include "hadal.h"

#include <string.h>

#include "base/utf8_scan.h"

static const char replacement[3] = "\xEF\xBF\xBD"; /* U+FFFD */

static size_t put(char *out, const void *bytes, size_t n)
{
    memcpy(out, bytes, n);
    return n;
}

/* One byte more.  A byte that breaks off what is held makes one U+FFFD of that, as Unicode
 * recommends (maximal subparts) and Python's errors="replace" does, and starts anew. */
static size_t push_byte(hd_utf8_stream *s, unsigned char byte, char *out)
{
    const char *const held = (const char *)s->held;
    size_t            used = 0;
    s->held[s->n_held++] = byte;
    int n = hd_utf8_scan_measure(held, (size_t)s->n_held);
    if (n < 0 && s->n_held > 1) {
        used = put(out, replacement, sizeof replacement);
        s->held[0] = byte;
        s->n_held = 1;
        n = hd_utf8_scan_measure(held, 1);
    }
    if (n == 0) return used;
    used +=
        n > 0 ? put(out + used, held, (size_t)n) : put(out + used, replacement, sizeof replacement);
    s->n_held = 0;
    return used;
}

size_t hd_utf8_push(hd_utf8_stream *s, const char *in, size_t bytes, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char const byte = (unsigned char)in[i];
        if (byte < 0x80 && s->n_held == 0)
            out[used++] = in[i];
        else
            used += push_byte(s, byte, out + used);
    }
    return used;
}

size_t hd_utf8_flush(hd_utf8_stream *s, char *out)
{
    if (s->n_held == 0) return 0;
    s->n_held = 0;
    return put(out, replacement, sizeof replacement);
}
