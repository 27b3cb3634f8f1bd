#ifndef HD_SERVER_HTTP_TLS_H
#define HD_SERVER_HTTP_TLS_H

#include "base/status.h"

/* TLS 1.2 and 1.3 through OpenSSL, under the same buffers as plain connections. */

HD_BEGIN_C

struct bufferevent;
struct event_base;
struct ssl_ctx_st;

/* Reads a chain of certificates and its key, both PEM.
 * owns     *out is the caller's: hd_tls_close
 * returns  HD_ERR_IO or HD_ERR_FORMAT naming the file */
hd_status hd_tls_open(struct ssl_ctx_st **out, const char *certificate, const char *key,
                      hd_error *err);
void      hd_tls_close(struct ssl_ctx_st *tls);
/* Buffers over a socket that was just accepted, which they close; NULL when memory is short. */
struct bufferevent *hd_tls_accept(struct event_base *base, struct ssl_ctx_st *tls, int fd);
/* Tells the other side that nothing follows; plain buffers are left alone. */
void hd_tls_shut(struct bufferevent *buffers);

HD_END_C
#endif
