#ifndef HD_TOKENIZER_UTF8_H
#define HD_TOKENIZER_UTF8_H

#include "base/status.h"

HD_BEGIN_C

/* Decodes the character at s in text that was checked before; *bytes is its length.  Inline
 * because splitting spends its time here. */
static inline uint32_t hd_utf8_decode(const unsigned char *s, size_t *bytes)
{
    uint32_t const c = s[0];
    if (c < 0x80) {
        *bytes = 1;
        return c;
    }
    if (c < 0xE0) {
        *bytes = 2;
        return (c & 0x1F) << 6 | (s[1] & 0x3Fu);
    }
    if (c < 0xF0) {
        *bytes = 3;
        return (c & 0x0F) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
    }
    *bytes = 4;
    return (c & 0x07) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
}

HD_END_C
#endif
