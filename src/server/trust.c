/* server/trust.c - keys and certificate; see trust.h */
#include "server/trust.h"

/* What cannot be used, in one message. */
static int tell(struct sl_err *err, const struct sl_err *keys,
                const struct sl_err *tls)
{
    if (keys->code && tls->code)
        return sl_fail(err, keys->code, "%.490s; and %.490s", keys->msg,
                       tls->msg);
    if (!keys->code)
        keys = tls;
    return sl_fail(err, keys->code, "%s", keys->msg);
}

int sl_trust_load(struct sl_trust *t, const struct sl_trust_from *from,
                  struct sl_err *err)
{
    struct sl_trust new = {0};
    struct sl_err keys = {0}, tls = {0};
    int rc = sl_keys_load(&new.keys, &from->keys, &keys);

    if (from->cert && sl_tls_open(&new.tls, from->cert, from->key, &tls))
        rc = tls.code;
    if (rc) {
        sl_trust_deinit(&new);
        return tell(err, &keys, &tls);
    }
    sl_trust_deinit(t);
    *t = new;
    return 0;
}

void sl_trust_deinit(struct sl_trust *t)
{
    sl_keys_deinit(&t->keys);
    if (t->tls)
        sl_tls_close(&t->tls);
}
