/* server/trust.h - what an operator may change while the server runs: the keys
 * of those who may ask, and the certificate
 *
 * Both are read before either counts. Who changes both at once means them to
 * hold together, so that one which cannot be used leaves both as they were.
 *
 * Loop thread.
 */
#ifndef SL_SERVER_TRUST_H
#define SL_SERVER_TRUST_H

#include "server/keys.h"
#include "server/tls.h"

struct sl_trust {
    struct sl_keys keys;
    struct ssl_ctx_st *tls; /* NULL: no HTTPS */
};

struct sl_trust_from {
    struct sl_keys_from keys;
    const char *cert, *key; /* PEM files, or both NULL */
};

/* Replace what *t has, at first all zero; on failure it keeps all of it, and
 * the message names each part that cannot be used. */
int sl_trust_load(struct sl_trust *t, const struct sl_trust_from *from,
                  struct sl_err *err);
void sl_trust_deinit(struct sl_trust *t);

#endif
