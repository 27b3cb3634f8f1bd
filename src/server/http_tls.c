#include "server/http_tls.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

static hd_status fail(const char *path, const char *what, hd_error *err)
{
    char                reason[160] = "unknown reason";
    unsigned long const code = ERR_peek_last_error();
    bool const          is_missing = ERR_SYSTEM_ERROR(code) || ERR_GET_LIB(code) == ERR_LIB_SYS;
    if (code) ERR_error_string_n(code, reason, sizeof reason);
    ERR_clear_error();
    HD_FAIL(err, is_missing ? HD_ERR_IO : HD_ERR_FORMAT, "%s: cannot read a %s: %s", path, what,
            reason);
}

static hd_status read_files(SSL_CTX *tls, const char *certificate, const char *key, hd_error *err)
{
    if (SSL_CTX_use_certificate_chain_file(tls, certificate) != 1)
        return fail(certificate, "certificate", err);
    if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        return fail(key, "private key", err);
    if (SSL_CTX_check_private_key(tls) != 1)
        HD_FAIL(err, HD_ERR_FORMAT, "%s: not the key of %s", key, certificate);
    return HD_OK;
}

hd_status hd_tls_open(struct ssl_ctx_st **out, const char *certificate, const char *key,
                      hd_error *err)
{
    SSL_CTX *const tls = SSL_CTX_new(TLS_server_method());
    if (!tls) HD_FAIL(err, HD_ERR_MEMORY, "no memory for TLS");
    SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    hd_status const s = read_files(tls, certificate, key, err);
    if (s == HD_OK)
        *out = tls;
    else
        SSL_CTX_free(tls);
    return s;
}

void hd_tls_close(struct ssl_ctx_st *tls) { SSL_CTX_free(tls); }

struct bufferevent *hd_tls_accept(struct event_base *base, struct ssl_ctx_st *tls, int fd)
{
    SSL *const ssl = SSL_new(tls);
    if (!ssl) return NULL;
    struct bufferevent *const b = bufferevent_openssl_socket_new(
        base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (!b) {
        SSL_free(ssl);
        return NULL;
    }
    /* Many clients close without saying so; the framing of HTTP tells what is whole. */
    bufferevent_openssl_set_allow_dirty_shutdown(b, 1);
    return b;
}

void hd_tls_shut(struct bufferevent *buffers)
{
    SSL *const ssl = bufferevent_openssl_get_ssl(buffers);
    if (!ssl) return;
    if (SSL_is_init_finished(ssl)) SSL_shutdown(ssl);
    ERR_clear_error();
}
