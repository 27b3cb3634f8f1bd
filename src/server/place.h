#ifndef HD_SERVER_PLACE_H
#define HD_SERVER_PLACE_H

#include "base/json.h"
#include "server/api_error.h"

/* Where in a body something stands, for what is said about it: "messages[3].content[0].text". */

HD_BEGIN_C

typedef struct hd_place {
    char          path[96]; /* cut when it grows longer */
    size_t        used;
    hd_api_error *error; /* borrowed */
} hd_place;

/* Goes into a member or an entry; returns what hd_place_leave wants. */
size_t hd_place_member(hd_place *p, const char *name);
size_t hd_place_entry(hd_place *p, size_t index);
void   hd_place_leave(hd_place *p, size_t before);

/* 400 about the value at this place; returns HD_ERR_FORMAT. */
hd_status hd_place_refuse(const hd_place *p, const char *fmt, ...) HD_PRINTF(2, 3);
hd_status hd_place_wrong(const hd_place *p, const json_object *found, const char *wanted);

/* Members of the object at this place.  `text` wants a string. */
hd_status hd_place_text(hd_place *p, const json_object *v, const char *name, const char **text,
                        size_t *bytes);
/* Whether the object's `type` is this word. */
bool hd_place_is_type(const json_object *v, const char *type);
/* 400 that names the type, which is none of those wanted. */
hd_status hd_place_refuse_type(hd_place *p, const json_object *v, const char *wanted);

/* A value as compact JSON, numbers as they were spelled. */
void hd_place_write_value(hd_buffer *out, const json_object *v);
/* The member `tools` of a Chat Completions request, behind others: each of `tools`, which is NULL
 * or wanted to be a list, as `write` puts it. */
typedef hd_status hd_place_write_fn(hd_buffer *out, hd_place *p, const json_object *v);
hd_status         hd_place_write_tools(hd_buffer *out, hd_place *p, const json_object *tools,
                                       hd_place_write_fn *write);

HD_END_C
#endif
