#include "base/utf8_scan.h"

/* Length by lead byte and the range of the second byte, which excludes overlong forms,
 * surrogates and what lies above U+10FFFF (Unicode 15, table 3-7). */
static int read_lead(unsigned lead, unsigned *low, unsigned *high)
{
    *low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    if (lead >= 0xF0 && lead <= 0xF4) return 4;
    return 0;
}

int hd_utf8_scan_measure(const char *text, size_t bytes)
{
    if (bytes == 0) return 0;
    unsigned  low, high;
    int const n = read_lead((unsigned char)text[0], &low, &high);
    if (n == 0) return -1;
    for (int i = 1; i < n; i++) {
        if ((size_t)i >= bytes) return 0;
        unsigned const c = (unsigned char)text[i];
        if (c < low || c > high) return -i;
        low = 0x80, high = 0xBF;
    }
    return n;
}

uint32_t hd_utf8_scan_decode(const char *text, int n)
{
    static const unsigned char lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};

    uint32_t c = (unsigned char)text[0] & lead_bits[n];
    for (int i = 1; i < n; i++) c = c << 6 | ((unsigned char)text[i] & 0x3F);
    return c;
}

size_t hd_utf8_scan_check(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        int const n = hd_utf8_scan_measure(text + at, bytes - at);
        if (n <= 0) break;
        at += (size_t)n;
    }
    return at;
}
