/* server/keys.c - who may ask, and who does; see keys.h */

/* First: OpenSSL's headers use names that are banned behind base.h. */
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "server/keys.h"

#include <arpa/inet.h>
#include <strings.h>

static void hash(unsigned char out[SHA256_DIGEST_LENGTH], const char *s)
{
    SHA256((const unsigned char *)s, strlen(s), out);
}

uint32_t sl_keys_find(const char *const *key, uint32_t n,
                      const char *authorization, const char *api_key)
{
    unsigned char got[SHA256_DIGEST_LENGTH], want[SHA256_DIGEST_LENGTH];
    const char *given = api_key;
    uint32_t found = 0;

    if (authorization && !strncasecmp(authorization, "Bearer ", 7)) {
        given = authorization + 7;
        given += strspn(given, " ");
    }
    if (!given)
        return 0;
    hash(got, given);
    for (uint32_t i = 0; i < n; i++) {
        hash(want, key[i]);
        if (CRYPTO_memcmp(got, want, sizeof(got)) == 0)
            found = i + 1;
    }
    return found;
}

uint64_t sl_keys_client(uint32_t key, const char *peer)
{
    struct in6_addr v6;
    struct in_addr v4;
    uint64_t id = 0;

    if (key > 0)
        id = key;
    else if (inet_pton(AF_INET, peer, &v4) == 1)
        id = v4.s_addr;
    else if (inet_pton(AF_INET6, peer, &v6) != 1)
        id = 0;
    else if (IN6_IS_ADDR_V4MAPPED(&v6))
        memcpy(&id, v6.s6_addr + 12, 4);
    else
        memcpy(&id, v6.s6_addr, sizeof(id));
    return id;
}
