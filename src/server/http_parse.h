#ifndef HD_SERVER_HTTP_PARSE_H
#define HD_SERVER_HTTP_PARSE_H

#include "base/memory.h"

/* Bytes to requests of HTTP/1.1 (RFC 9112), pure and strict: what two readers could understand in
 * two ways is refused, so that no proxy in front sees other requests than we do. */

HD_BEGIN_C

enum {
    HD_HTTP_MAX_HEAD = 64 * 1024, /* bytes of a request's line and fields, of a body's trailers */
    HD_HTTP_MAX_FIELDS = 100
};

typedef enum hd_http_method {
    HD_HTTP_GET,
    HD_HTTP_HEAD,
    HD_HTTP_POST,
    HD_HTTP_DELETE,
    HD_HTTP_OPTIONS,
    HD_HTTP_OTHER /* well formed, but nothing that a route here takes */
} hd_http_method;
const char *hd_http_method_name(hd_http_method m);

/* Both texts end with NUL and are borrowed from the request. */
typedef struct hd_http_field {
    const char *name, *value;
} hd_http_field;

typedef struct hd_http_request {
    hd_http_method method;
    bool           is_11;     /* HTTP/1.1, else 1.0                           */
    bool           is_kept;   /* the connection may serve another request     */
    bool           continues; /* the client waits for 100 before it goes on   */
    const char    *path;      /* as it was sent, without the query            */
    const char    *query;     /* behind the '?'; "" when there is none        */
    hd_http_field  fields[HD_HTTP_MAX_FIELDS];
    int32_t        n_fields;
    hd_buffer      head; /* owned; what the texts above lie in */
    hd_buffer      body; /* owned                              */
} hd_http_request;

/* The value of a field; NULL when it is missing.  Of several the first. */
const char *hd_http_field_find(const hd_http_request *r, const char *name);

typedef enum hd_http_state {
    HD_HTTP_IN_HEAD,
    HD_HTTP_IN_BODY,
    HD_HTTP_IN_CHUNK_SIZE,
    HD_HTTP_IN_CHUNK,
    HD_HTTP_IN_CHUNK_END,
    HD_HTTP_IN_TRAILERS,
    HD_HTTP_WHOLE, /* the request is complete; what follows is the next one's */
    HD_HTTP_BROKEN /* `status` and `why` say what to answer before closing    */
} hd_http_state;

/* Zero-initialise, set max_body; hd_http_parser_reset between requests and at the end. */
typedef struct hd_http_parser {
    size_t          max_body; /* bytes */
    hd_http_state   state;
    int             status; /* BROKEN: 400, 413, 417, 431, 500, 501 or 505 */
    const char     *why;    /* BROKEN: one line                            */
    hd_http_request request;
    size_t          scanned; /* bytes of the head in which its end was looked for */
    size_t          left;    /* of the body, or of the chunk                      */
    hd_buffer       line;    /* owned; of a chunk's size, or trailers             */
    size_t          trailer_bytes;
} hd_http_parser;

/* Takes bytes and returns how many were used; all of them unless the request is whole or broken. */
size_t hd_http_parser_push(hd_http_parser *p, const char *data, size_t bytes);
/* Whether nothing of a request was seen yet. */
bool hd_http_parser_is_fresh(const hd_http_parser *p);
/* Frees the request and begins anew; max_body stays. */
void hd_http_parser_reset(hd_http_parser *p);

HD_END_C
#endif
