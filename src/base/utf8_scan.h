#ifndef HD_BASE_UTF8_SCAN_H
#define HD_BASE_UTF8_SCAN_H

#include "base/status.h"

HD_BEGIN_C

/* Looks at the first character of text [bytes].
 * returns  1..4   a valid character of that many bytes
 *          0      nothing wrong yet, but the character is not complete (or bytes == 0)
 *          -1..-3 that many bytes can never become a character; one U+FFFD stands for them
 *                 (Unicode's "maximal subpart", what browsers and Python do)               */
int hd_utf8_scan_measure(const char *text, size_t bytes);
/* The code point of a valid character of n bytes, as measured. */
uint32_t hd_utf8_scan_decode(const char *text, int n);
/* The byte where text stops being UTF-8; `bytes` when it never does. */
size_t hd_utf8_scan_check(const char *text, size_t bytes);

HD_END_C
#endif
