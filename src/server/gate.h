#ifndef HD_SERVER_GATE_H
#define HD_SERVER_GATE_H

#include "server/api_error.h"
#include "server/http_parse.h"

/* Who may ask: keys, and web pages by their origin. */

HD_BEGIN_C

typedef struct hd_gate {
    hd_pool            pool; /* owned; the keys */
    const char       **keys; /* [n_keys] */
    int32_t            n_keys;
    const char *const *origins; /* [n_origins] borrowed; "*": any */
    int32_t            n_origins;
    bool               is_local; /* listens at loopback only */
} hd_gate;

/* Reads a file of keys: one a line; empty lines and such that begin with '#' do not count.
 * returns  HD_ERR_IO, HD_ERR_FORMAT (no key, or one with a space) */
hd_status hd_gate_read_keys(hd_gate *g, const char *path, hd_error *err);
void      hd_gate_close(hd_gate *g);
/* Whether the address is of this machine alone. */
bool hd_gate_is_loopback(const char *host);

/* Whether the request brings a key, `Authorization: Bearer KEY` or `x-api-key: KEY`, or none is
 * wanted; the time that it takes tells nothing about a key but its length. */
hd_status hd_gate_check_key(const hd_gate *g, const hd_http_request *r, hd_api_error *e);
/* Refuses a web page that is neither this server's own nor on the list, and, of a server that wants
 * no key, names that are not this machine's (pages that rebind their name). */
hd_status hd_gate_check_origin(const hd_gate *g, const hd_http_request *r, hd_api_error *e);
/* Adds the header fields that let the page at the request's origin read the answer. */
void hd_gate_write_fields(const hd_gate *g, const hd_http_request *r, hd_buffer *out);

HD_END_C
#endif
