#ifndef HD_SERVER_HTTP_WRITE_H
#define HD_SERVER_HTTP_WRITE_H

#include "server/http_parse.h"

/* The head of an answer, and the frames of one that is sent as it grows. */

HD_BEGIN_C

typedef struct hd_http_head {
    int         status;
    const char *type;    /* Content-Type; NULL: no body                              */
    const char *fields;  /* further fields, each with CRLF; NULL: none               */
    bool        is_kept; /* the connection stays open                                */
    bool        is_11;   /* of the client: 1.0 knows no chunks                       */
    bool        is_streamed;
    size_t      body_bytes; /* not streamed */
} hd_http_head;

const char *hd_http_reason(int status);
void        hd_http_write_head(hd_buffer *out, const hd_http_head *h);
/* A chunk; no bytes, no chunk, because an empty one would end the body. */
void hd_http_write_chunk(hd_buffer *out, const char *data, size_t bytes);
void hd_http_write_last_chunk(hd_buffer *out);

HD_END_C
#endif
