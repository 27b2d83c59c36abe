/* bundle/digest.h - the two digests of a hub, bytes by bytes
 *
 * Large files have the sha256 of their content; small ones, kept in git, the
 * sha1 of "blob ", the size in decimal, a zero, and the content. One thread at
 * a time per digest.
 */
#ifndef SL_BUNDLE_DIGEST_H
#define SL_BUNDLE_DIGEST_H

#include "base/err.h"

#define SL_DIGEST_HEX 64 /* digits of the longer one */

enum sl_digest_kind { SL_DIGEST_SHA256, SL_DIGEST_GIT };

struct sl_digest {
    void *ctx; /* of the library; owned */
};

/* `size` is that of the content, for SL_DIGEST_GIT. */
int sl_digest_init(struct sl_digest *d, enum sl_digest_kind kind, uint64_t size,
                   struct sl_err *err);
void sl_digest_add(struct sl_digest *d, const void *p, size_t len);
/* The hexadecimal digits; ends d. */
void sl_digest_take(struct sl_digest *d, char hex[SL_DIGEST_HEX + 1]);
void sl_digest_deinit(struct sl_digest *d);

/* All in one. */
int sl_digest_bytes(char hex[SL_DIGEST_HEX + 1], enum sl_digest_kind kind,
                    const void *p, size_t len, struct sl_err *err);

/* 64 digits are a sha256, 40 a git one; false for anything else. */
bool sl_digest_kind(enum sl_digest_kind *out, const char *hex);

#endif
