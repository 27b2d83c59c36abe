/* bundle/address.h - addresses of the hub and of what it redirects to
 *
 * The rules of redirections are those of client.h. Any thread.
 */
#ifndef SL_BUNDLE_ADDRESS_H
#define SL_BUNDLE_ADDRESS_H

#include "base/buf.h"

#define SL_ADDRESS 8192 /* bytes of an address */

/* Add `s`, percent-encoded; '/' stays when `slashes`. */
void sl_address_encode(struct sl_buf *b, const char *s, bool slashes);

/* Loopback, private, link-local and the like: 4 or 16 bytes of an address. */
bool sl_address_is_private(const unsigned char *ip, size_t n);

/* The host part of an address is this machine, or not public. */
bool sl_address_private_host(const char *host);

/* The same scheme, host and port? */
bool sl_address_same_origin(const char *a, const char *b);

/* The host of an address, "" when it is none. */
bool sl_address_host(char out[256], const char *url);

/* Where a redirection leads: 0 with the address in `out`, SL_EFORMAT when it
 * breaks a rule. */
int sl_address_follow(char out[SL_ADDRESS], const char *from,
                      const char *location, const char *endpoint,
                      struct sl_err *err);

#endif
