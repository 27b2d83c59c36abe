/* server/tls.h - TLS, which is OpenSSL's
 *
 * A context is made once from the files of the operator and used by every
 * connection. TLS 1.2 and up, HTTP/1.1 only.
 */
#ifndef SL_SERVER_TLS_H
#define SL_SERVER_TLS_H

#include "base/err.h"

struct bufferevent;
struct event_base;
struct ssl_ctx_st;

/* PEM files: the certificate with its chain, and its key. The caller closes
 * *out. Loop thread. */
int sl_tls_open(struct ssl_ctx_st **out, const char *cert, const char *key,
                struct sl_err *err);
void sl_tls_close(struct ssl_ctx_st **t);

/* A bufferevent that answers the handshake on fd and owns it; NULL when there
 * is no memory, and fd is still the caller's. */
struct bufferevent *sl_tls_accept(struct ssl_ctx_st *t, struct event_base *base,
                                  int fd);

/* Did the handshake fail because the client does not know that it should do
 * one: it sent a request in the clear? Ask once, after the event of an error. */
bool sl_tls_met_http(struct bufferevent *bev);

/* Tell the other side that nothing follows; it goes straight to the kernel, so
 * the output of bev must be empty. False when there is no room: try again. */
bool sl_tls_bye(struct bufferevent *bev);

#endif
