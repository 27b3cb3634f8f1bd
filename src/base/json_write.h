#ifndef HD_BASE_JSON_WRITE_H
#define HD_BASE_JSON_WRITE_H

#include "base/memory.h"

HD_BEGIN_C

/* Adds text [bytes] as a JSON string with its quotes.  Escapes what JSON demands (quote,
 * backslash, below U+0020) and nothing else, as Python's json.dumps(ensure_ascii=False)
 * does; bytes that are not UTF-8 become U+FFFD, so the result is always strict JSON. */
void hd_json_write_string(hd_buffer *out, const char *text, size_t bytes);

/* Each of the following adds a member to the object that is open at the end of out, or, where
 * `name` is NULL, an element to the list there.  Its comma comes by itself.  A name is taken as
 * it is: it must be plain ASCII. */

/* The value follows, which the caller writes. */
void hd_json_write_name(hd_buffer *out, const char *name);
/* Opens what `bracket` ('{' or '[') opens; the caller adds the closing one. */
void hd_json_write_open(hd_buffer *out, const char *name, char bracket);
/* null for NULL */
void hd_json_write_text(hd_buffer *out, const char *name, const char *text);
/* null for what JSON has no number for: infinities and NaN */
void hd_json_write_number(hd_buffer *out, const char *name, double x);
void hd_json_write_count(hd_buffer *out, const char *name, int64_t n);
void hd_json_write_flag(hd_buffer *out, const char *name, bool is_true);

HD_END_C
#endif
