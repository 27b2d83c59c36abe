/* server/tls.c - TLS; see tls.h */

/* First: OpenSSL's headers use names that are banned behind base.h. */
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "server/tls.h"

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>

static int no_file(struct sl_err *err, const char *what, const char *path)
{
    char why[200] = "";

    ERR_error_string_n(ERR_get_error(), why, sizeof(why));
    return sl_fail(err, SL_EARG, "the TLS %s '%.300s' cannot be used: %s; it "
                                 "must be a PEM file",
                   what, path, why);
}

/* Of what the client offers only HTTP/1.1 is spoken. */
static int choose(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                  const unsigned char *in, unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *got = NULL;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&got, out_len, ours, sizeof(ours) - 1, in,
                              in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = got;
    return SSL_TLSEXT_ERR_OK;
}

int sl_tls_open(struct ssl_ctx_st **out, const char *cert, const char *key,
                struct sl_err *err)
{
    SSL_CTX *t = SSL_CTX_new(TLS_server_method());
    int rc = 0;

    if (!t)
        return sl_fail(err, SL_ENOMEM, "no memory is left for TLS");
    SSL_CTX_set_min_proto_version(t, TLS1_2_VERSION);
    SSL_CTX_set_options(t, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_alpn_select_cb(t, choose, NULL);
    if (SSL_CTX_use_certificate_chain_file(t, cert) != 1)
        rc = no_file(err, "certificate", cert);
    else if (SSL_CTX_use_PrivateKey_file(t, key, SSL_FILETYPE_PEM) != 1)
        rc = no_file(err, "key", key);
    else if (SSL_CTX_check_private_key(t) != 1)
        rc = sl_fail(err, SL_EARG,
                     "the TLS key '%.300s' does not belong to the certificate "
                     "'%.300s'",
                     key, cert);
    if (rc) {
        /* What is left would be taken for an error of the next connection. */
        ERR_clear_error();
        SSL_CTX_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void sl_tls_close(struct ssl_ctx_st **t)
{
    SSL_CTX_free(*t);
    *t = NULL;
}

struct bufferevent *sl_tls_accept(struct ssl_ctx_st *t, struct event_base *base,
                                  int fd)
{
    SSL *ssl = SSL_new(t);
    struct bufferevent *bev = NULL;

    if (ssl)
        bev = bufferevent_openssl_socket_new(base, fd, ssl,
                                             BUFFEREVENT_SSL_ACCEPTING,
                                             BEV_OPT_CLOSE_ON_FREE);
    if (bev)
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    else
        SSL_free(ssl);
    return bev;
}

bool sl_tls_met_http(struct bufferevent *bev)
{
    unsigned long e;
    bool met = false;

    while ((e = bufferevent_get_openssl_error(bev)))
        met |= ERR_GET_LIB(e) == ERR_LIB_SSL &&
               (ERR_GET_REASON(e) == SSL_R_HTTP_REQUEST ||
                ERR_GET_REASON(e) == SSL_R_HTTPS_PROXY_REQUEST);
    return met;
}

bool sl_tls_bye(struct bufferevent *bev)
{
    SSL *ssl = bufferevent_openssl_get_ssl(bev);
    bool again;

    /* One whose handshake did not end, or failed, has nothing to end. */
    if (!SSL_is_init_finished(ssl))
        return true;
    ERR_clear_error();
    again = SSL_get_error(ssl, SSL_shutdown(ssl)) == SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
    return !again;
}
