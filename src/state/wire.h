/* state/wire.h - keys, values and states as bytes
 *
 * A record is a head and a payload. There are two kinds: a full page, and the
 * state behind some token with the page that this token left unfinished. The
 * pages of a prefix and one state are all that a sequence remembers.
 *
 *   offset  size
 *   0       8     "SLUICEKV"
 *   8       4     version of this format
 *   12      4     kind: 1 page, 2 state
 *   16      32    model: a digest of whatever the values depend on
 *   48      32    key: a digest of the model, the salt and the tokens up to the
 *                 end of the record
 *   80      4     tokens up to there
 *   84      4     zero
 *   88      32    of each of eight planes, 4 bytes: positions before this one
 *                 were not filled
 *   120     8     bytes of the payload
 *   128     96    zero
 *   224     32    SHA-256 of the 224 bytes before and of the payload
 *   256           payload: a page as state/kv.h has it; or the floats of a slot
 *                 (state/recurrent.h), then the unfinished page, if there is
 * one
 *
 * Numbers are little endian; keys, values and states are as the machine has
 * them, which the digest of the model covers. Whoever reads knows from the
 * tokens which key and how many bytes to expect, and takes nothing else.
 */
#ifndef SL_STATE_WIRE_H
#define SL_STATE_WIRE_H

#include "base/sha256.h"
#include "state/kv.h"

#define SL_WIRE_VERSION 1
#define SL_WIRE_HEAD 256 /* bytes */

enum sl_wire_kind { SL_WIRE_PAGE = 1, SL_WIRE_STATE = 2 };

struct sl_wire {
    enum sl_wire_kind kind;
    uint8_t model[SL_SHA256], key[SL_SHA256];
    uint32_t n_tok;
    uint32_t from[SL_KV_MAX_PLANE];
    uint64_t bytes; /* of the payload */
};

/* A payload lies in at most two pieces. */
#define SL_WIRE_PARTS 2
struct sl_wire_part {
    void *p;
    size_t n;
};

/* The head of a record with this payload; false when there is no memory. */
bool sl_wire_put(unsigned char head[SL_WIRE_HEAD], const struct sl_wire *w,
                 const struct sl_wire_part *part, uint32_t n_part);

/* The head of a record that should be `want`: kind, model, key, n_tok and bytes
 * are compared, from is filled in. SL_EFORMAT when it is another. */
int sl_wire_get(struct sl_wire *want, const void *head, size_t len,
                struct sl_err *err);

/* Is the payload behind this head the one that was written? */
bool sl_wire_ok(const unsigned char head[SL_WIRE_HEAD],
                const struct sl_wire_part *part, uint32_t n_part);

/* The keys of the records of a sequence of tokens. `chain` goes from page to
 * page: begin, then one page of SL_KV_PAGE tokens after the other, each time
 * the key of that page; a state has the key of its last full page and of the
 * n < SL_KV_PAGE tokens behind it. False when there is no memory. */
bool sl_wire_begin(uint8_t chain[SL_SHA256], const uint8_t model[SL_SHA256],
                   uint64_t salt);
bool sl_wire_page(uint8_t chain[SL_SHA256], const int32_t *tok);
bool sl_wire_state(uint8_t key[SL_SHA256], const uint8_t chain[SL_SHA256],
                   const int32_t *tok, uint32_t n);

#endif
