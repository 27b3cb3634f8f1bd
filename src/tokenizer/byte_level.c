#include "tokenizer/byte_level.h"

#include "base/utf8_scan.h"
#include "tokenizer/utf8.h"

static bool stands_for_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

/* The byte that U+0100 + i stands for: 00-20, 7F-A0, AD in order. */
static int nth_other(uint32_t i)
{
    if (i < 0x21) return (int)i;
    if (i < 0x43) return (int)(i - 0x21 + 0x7F);
    return i == 0x43 ? 0xAD : -1;
}

int64_t hd_byte_level_decode(char *out, const char *text, size_t bytes)
{
    if (hd_utf8_scan_check(text, bytes) != bytes) return -1;
    int64_t n = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        uint32_t const c = hd_utf8_decode((const unsigned char *)text + at, &length);
        int const byte = stands_for_itself(c) ? (int)c : c >= 0x100 ? nth_other(c - 0x100) : -1;
        if (byte < 0) return -1;
        out[n++] = (char)byte;
    }
    return n;
}
