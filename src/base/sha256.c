/* base/sha256.c - SHA-256; see sha256.h */
/* Before ours, which bans a name in it. */
#include <openssl/evp.h>

#include "base/sha256.h"

void sl_sha256_init(struct sl_sha256 *s)
{
    s->ctx = EVP_MD_CTX_new();
    s->bad = !s->ctx || EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) != 1;
}

void sl_sha256_add(struct sl_sha256 *s, const void *p, size_t n)
{
    s->bad = s->bad || EVP_DigestUpdate(s->ctx, p, n) != 1;
}

void sl_sha256_u64(struct sl_sha256 *s, uint64_t v)
{
    uint8_t b[8];

    for (size_t i = 0; i < sizeof(b); i++)
        b[i] = (uint8_t)(v >> 8 * i);
    sl_sha256_add(s, b, sizeof(b));
}

bool sl_sha256_end(struct sl_sha256 *s, uint8_t out[SL_SHA256])
{
    bool ok = !s->bad && EVP_DigestFinal_ex(s->ctx, out, NULL) == 1;

    EVP_MD_CTX_free(s->ctx);
    s->ctx = NULL;
    return ok;
}

bool sl_sha256_of(uint8_t out[SL_SHA256], const void *p, size_t n)
{
    struct sl_sha256 s;

    sl_sha256_init(&s);
    sl_sha256_add(&s, p, n);
    return sl_sha256_end(&s, out);
}
