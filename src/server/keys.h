/* server/keys.h - who may ask
 *
 * Keys are kept as SHA-256 hashes and compared in constant time, all of them
 * each time, so that the time of an answer tells nothing.
 */
#ifndef SL_SERVER_KEYS_H
#define SL_SERVER_KEYS_H

#include "base/err.h"

/* Is one of key[0..n) the bearer of `authorization` ("Bearer KEY", any case of
 * the word), or equal to `api_key`? Both may be NULL. */
bool sl_keys_allow(const char *const *key, uint32_t n,
                   const char *authorization, const char *api_key);

#endif
