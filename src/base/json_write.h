#ifndef HD_BASE_JSON_WRITE_H
#define HD_BASE_JSON_WRITE_H

#include "base/memory.h"

HD_BEGIN_C

/* Adds text [bytes] as a JSON string with its quotes.  Escapes what JSON demands (quote,
 * backslash, below U+0020) and nothing else, as Python's json.dumps(ensure_ascii=False)
 * does; bytes that are not UTF-8 become U+FFFD, so the result is always strict JSON. */
void hd_json_write_string(hd_buffer *out, const char *text, size_t bytes);

HD_END_C
#endif
