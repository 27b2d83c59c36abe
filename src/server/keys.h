/* server/keys.h - who may ask, and who does
 *
 * Keys are kept as SHA-256 hashes and compared in constant time, all of them
 * each time, so that the time of an answer tells nothing. A key is known by the
 * first eight bytes of its hash: for shares, and in the log.
 *
 * Loop thread.
 */
#ifndef SL_SERVER_KEYS_H
#define SL_SERVER_KEYS_H

#include "server/message.h"

#define SL_KEYS_HASH 32

struct sl_keys {
    struct sl_buf hash; /* [n][SL_KEYS_HASH], no two alike */
    uint32_t n;         /* 0: everybody may ask */
};

/* Where keys come from: n texts, each of them keys separated by commas, and a
 * file, one key per line; blank lines and those that begin with # are nothing.
 * n may be 0 and file NULL. */
struct sl_keys_from {
    const char *const *text;
    uint32_t n;
    const char *file;
};

/* Replace the keys of *k, at first all zero, by those of `from`; on failure it
 * keeps what it had. Places that are given and hold no key are SL_EARG: everybody
 * could ask. */
int sl_keys_load(struct sl_keys *k, const struct sl_keys_from *from,
                 struct sl_err *err);
void sl_keys_deinit(struct sl_keys *k);

/* Whose request it is; 0: nobody's who has a key. All keys that it shows, as
 * `Authorization: Bearer KEY` and as `X-Api-Key: KEY`, must be one and the same:
 * a proxy in front may have looked at the other one. */
uint64_t sl_keys_find(const struct sl_keys *k, const struct sl_message *m);

/* Whose turn a request counts for: of this key, or, when that is 0, of the
 * network address `peer`. All of an IPv6 network of 64 bits are one. */
uint64_t sl_keys_client(uint64_t key, const char *peer);

#endif
