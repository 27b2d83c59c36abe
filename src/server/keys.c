/* server/keys.c - who may ask; see keys.h */

/* First: OpenSSL's headers use names that are banned behind base.h. */
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "server/keys.h"

#include <strings.h>

static void hash(unsigned char out[SHA256_DIGEST_LENGTH], const char *s)
{
    SHA256((const unsigned char *)s, strlen(s), out);
}

bool sl_keys_allow(const char *const *key, uint32_t n,
                   const char *authorization, const char *api_key)
{
    unsigned char got[SHA256_DIGEST_LENGTH], want[SHA256_DIGEST_LENGTH];
    const char *given = api_key;
    bool ok = false;

    if (authorization && !strncasecmp(authorization, "Bearer ", 7)) {
        given = authorization + 7;
        given += strspn(given, " ");
    }
    if (!given)
        return false;
    hash(got, given);
    for (uint32_t i = 0; i < n; i++) {
        hash(want, key[i]);
        ok |= CRYPTO_memcmp(got, want, sizeof(got)) == 0;
    }
    return ok;
}
