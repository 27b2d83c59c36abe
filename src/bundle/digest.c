/* bundle/digest.c - the two digests of a hub; see digest.h */
/* Before our own: it declares parameters called rand, which is banned here. */
#include <openssl/evp.h>

#include "bundle/digest.h"

#include "bundle/name.h"

int sl_digest_init(struct sl_digest *d, enum sl_digest_kind kind, uint64_t size,
                   struct sl_err *err)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    char head[40];
    int n;

    d->ctx = NULL;
    if (!c || EVP_DigestInit_ex(
                  c, kind == SL_DIGEST_SHA256 ? EVP_sha256() : EVP_sha1(),
                  NULL) != 1) {
        EVP_MD_CTX_free(c);
        return sl_fail(err, SL_ENOMEM, "no memory is left for a digest");
    }
    d->ctx = c;
    if (kind == SL_DIGEST_GIT) {
        n = snprintf(head, sizeof(head), "blob %llu", (unsigned long long)size);
        sl_digest_add(d, head, (size_t)n + 1);
    }
    return 0;
}

void sl_digest_add(struct sl_digest *d, const void *p, size_t len)
{
    (void)EVP_DigestUpdate(d->ctx, p, len);
}

void sl_digest_take(struct sl_digest *d, char hex[SL_DIGEST_HEX + 1])
{
    static const char digit[] = "0123456789abcdef";
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    (void)EVP_DigestFinal_ex(d->ctx, raw, &n);
    for (unsigned i = 0; i < n && i < SL_DIGEST_HEX / 2; i++) {
        hex[2 * i] = digit[raw[i] >> 4];
        hex[2 * i + 1] = digit[raw[i] & 15];
    }
    hex[2 * sl_min(n, SL_DIGEST_HEX / 2)] = 0;
    sl_digest_deinit(d);
}

void sl_digest_deinit(struct sl_digest *d)
{
    EVP_MD_CTX_free(d->ctx);
    d->ctx = NULL;
}

int sl_digest_bytes(char hex[SL_DIGEST_HEX + 1], enum sl_digest_kind kind,
                    const void *p, size_t len, struct sl_err *err)
{
    struct sl_digest d;
    int rc = sl_digest_init(&d, kind, len, err);

    if (rc)
        return rc;
    sl_digest_add(&d, p, len);
    sl_digest_take(&d, hex);
    return 0;
}

bool sl_digest_kind(enum sl_digest_kind *out, const char *hex)
{
    size_t n = strlen(hex);

    if ((n != SL_NAME_SHA256 && n != SL_NAME_COMMIT) || !sl_name_is_hex(hex, n))
        return false;
    *out = n == SL_NAME_SHA256 ? SL_DIGEST_SHA256 : SL_DIGEST_GIT;
    return true;
}
