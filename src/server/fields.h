#ifndef HD_SERVER_FIELDS_H
#define HD_SERVER_FIELDS_H

#include "base/json.h"
#include "server/api_error.h"

/* The JSON object that a request's body is, and its members with their types.  A member that is
 * null counts as missing.  Every getter leaves *out as it is when the member is missing. */

HD_BEGIN_C

typedef struct hd_fields {
    const char   *text; /* borrowed: the bytes as they came */
    size_t        bytes;
    json_object  *root; /* owned */
    hd_api_error *error;
} hd_fields;

/* Reads the text.  returns  HD_ERR_FORMAT with the byte where it stops being JSON */
hd_status hd_fields_open(hd_fields *b, const char *text, size_t bytes, hd_api_error *error);
void      hd_fields_close(hd_fields *b);

const json_object *hd_fields_find(const hd_fields *b, const char *name);
hd_status          hd_fields_bool(const hd_fields *b, const char *name, bool *out);
/* Whole numbers may be written as 7.0. */
hd_status hd_fields_integer(const hd_fields *b, const char *name, int64_t least, int64_t most,
                            int64_t *out);
hd_status hd_fields_real(const hd_fields *b, const char *name, double least, double most,
                         float *out);
/* Borrowed from the body. */
hd_status hd_fields_text(const hd_fields *b, const char *name, const char **out, size_t *bytes);
/* Index into `words`, which end with NULL. */
hd_status hd_fields_word(const hd_fields *b, const char *name, const char *const *words, int *out);

/* 400 "NAME: found int, wanted WANTED". */
hd_status hd_fields_wrong(const hd_fields *b, const char *path, const json_object *found,
                          const char *wanted);
/* A whole number that some value is; false when it is none. */
bool hd_json_whole(const json_object *v, int64_t *out);

/* Adds `"NAME": VALUE` of each of these members, with commas between and the bytes of the values as
 * they came, so that numbers, order and spelling stay.
 * names    [n] at most HD_FIELDS_MOST_COPIED */
#define HD_FIELDS_MOST_COPIED 16
hd_status hd_fields_copy(const hd_fields *b, const char *const *names, int32_t n, hd_buffer *out);
/* The bytes of one value, borrowed from the text; *bytes is 0 when it is missing. */
hd_status hd_fields_span(const hd_fields *b, const char *name, const char **text, size_t *bytes);

HD_END_C
#endif
