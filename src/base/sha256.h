/* base/sha256.h - SHA-256 of bytes, through OpenSSL; one thread per context */
#ifndef SL_BASE_SHA256_H
#define SL_BASE_SHA256_H

#include "base/err.h"

#define SL_SHA256 32 /* bytes */

struct sl_sha256 {
    void *ctx; /* of the library; owned */
    bool bad;
};

/* The first failure sticks until the end (rule E6). */
void sl_sha256_init(struct sl_sha256 *s);
void sl_sha256_add(struct sl_sha256 *s, const void *p, size_t n);
void sl_sha256_u64(struct sl_sha256 *s, uint64_t v); /* little endian */

/* False when the library failed; ends s. */
bool sl_sha256_end(struct sl_sha256 *s, uint8_t out[SL_SHA256]);

/* All in one. */
bool sl_sha256_of(uint8_t out[SL_SHA256], const void *p, size_t n);

#endif
