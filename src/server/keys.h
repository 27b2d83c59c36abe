/* server/keys.h - who may ask, and who does
 *
 * Keys are kept as SHA-256 hashes and compared in constant time, all of them
 * each time, so that the time of an answer tells nothing.
 */
#ifndef SL_SERVER_KEYS_H
#define SL_SERVER_KEYS_H

#include "base/err.h"

/* The number from 1 of the one of key[0..n) that is the bearer of `authorization`
 * ("Bearer KEY", any case of the word), or equal to `api_key`; 0: none is. Both
 * may be NULL. */
uint32_t sl_keys_find(const char *const *key, uint32_t n,
                      const char *authorization, const char *api_key);

/* Whose turn a request counts for: of key number `key`, or, when that is 0, of the
 * network address `peer`. All of an IPv6 network of 64 bits are one. */
uint64_t sl_keys_client(uint32_t key, const char *peer);

#endif
