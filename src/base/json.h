#ifndef HD_BASE_JSON_H
#define HD_BASE_JSON_H

#include <json-c/json.h>

#include "base/memory.h"

/* Reading JSON through json-c, with what it leaves open settled once: depth and size are
 * bounded before it runs, the text must be UTF-8, nothing may follow the value, and an
 * integer beyond 64 bits, which json-c would silently clamp, keeps its digits (see
 * hd_json_big_integer) or is refused. */

HD_BEGIN_C

#define HD_JSON_MAX_DEPTH 200

typedef enum hd_json_flags {
    HD_JSON_STRICT = 0, /* RFC 8259; integers beyond 64 bits are HD_ERR_FORMAT        */
    HD_JSON_PYTHON =
        1 << 0, /* also NaN, Infinity, -Infinity; big integers and -0 keep their digits */
    HD_JSON_UNIQUE = 1 << 1 /* a name twice in one object is HD_ERR_FORMAT; else the last wins */
} hd_json_flags;

/* Parses text [bytes].
 * owns     *out is the caller's: json_object_put
 * returns  HD_ERR_FORMAT with err->where the byte; `what` names the source in the message   */
hd_status hd_json_parse(json_object **out, const char *text, size_t bytes, unsigned flags,
                        const char *what, hd_error *err);
/* Whether text [bytes] is one JSON value as RFC 8259 has it, whatever the size of its numbers,
 * and nested no deeper than HD_JSON_MAX_DEPTH. */
bool hd_json_is_valid(const char *text, size_t bytes);
/* The digits of an integer that no int64_t or uint64_t holds, one beyond 64 bits or -0, as they
 * stood in a text read with HD_JSON_PYTHON; else NULL.  json_object_get_double has its value. */
const char *hd_json_big_integer(const json_object *v);
/* The text of a string, valid UTF-8 with a NUL behind it, which may also hold NULs; NULL for
 * any other value.  Borrowed from v; bytes may be NULL. */
const char *hd_json_text(const json_object *v, size_t *bytes);
/* Whether v is a string that spells `text`. */
bool hd_json_equals(const json_object *v, const char *text);
/* Member `name` of an object; NULL when it is missing or null, or v is no object. */
const json_object *hd_json_member(const json_object *v, const char *name);

HD_END_C
#endif
