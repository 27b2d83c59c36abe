/* state/prefix.h - what was read once is not read again
 *
 * The cache holds sequences that stand still: the tokens of a prefix, its pages
 * (full ones shared with whoever reads on) and the recurrent state behind it. A
 * new prompt that begins with such a prefix continues a fork of it. Because a
 * state does not depend on how it was computed (D2), the continuation has the
 * bits of a cold run; there is nothing to be careful about.
 *
 * Unlike keys and values, a recurrent state cannot be cut, so a prefix helps
 * only up to a token at which somebody stopped to keep it. Where that is worth
 * while is the caller's choice (engine/step.c).
 *
 * Which one to give up: GreedyDual-Size (Cao and Irani, "Cost-Aware WWW Proxy
 * Caching Algorithms", 1997). An entry's worth is the time it saves per byte it
 * holds, and ages as others are dropped. Time is counted in tokens: what a
 * token takes to read is much the same for all of them, and a measured time
 * would make the choice depend on how busy the machine was.
 *
 * With a shelf (shelf.h) every prefix is written to a disk, too, and what the
 * disk gives back is put here.
 *
 * Engine thread only.
 */
#ifndef SL_STATE_PREFIX_H
#define SL_STATE_PREFIX_H

#include "state/shelf.h"

struct sl_prefix;

struct sl_prefix_stats {
    uint64_t n_hit, n_miss, n_put, n_evict;
    uint64_t n_tok_hit; /* tokens that were not read again */
    uint32_t n_entry;
    uint64_t state_bytes, page_bytes; /* held; what several share counts once */
};

/* At most max_entry prefixes; `mem` is borrowed. Its n_seq and n_slot must
 * leave room for them. */
int sl_prefix_open(struct sl_prefix **out, struct sl_memory *mem,
                   uint32_t max_entry, struct sl_err *err);

/* Write what is put here to `shelf` (borrowed until close) as well. */
void sl_prefix_set_shelf(struct sl_prefix *p, struct sl_shelf *shelf);
void sl_prefix_close(struct sl_prefix **p);

/* A sequence that has read as much of tok[0..n) as anybody has, but not all of
 * it; an empty one when nothing fits. Prefixes of another salt do not match.
 * SL_EBUSY as sl_seq_open; the caller owns *out. */
int sl_prefix_take(struct sl_prefix *p, struct sl_seq **out, const int32_t *tok,
                   uint32_t n, uint64_t salt, struct sl_err *err);

/* How many of tok[0..n) it would have read. */
uint32_t sl_prefix_known(struct sl_prefix *p, const int32_t *tok, uint32_t n,
                         uint64_t salt);

/* `q` was taken and is used: a hit, or a miss when it is empty. */
void sl_prefix_count(struct sl_prefix *p, const struct sl_seq *q);

/* Keep what q has read: tok[0..q->n_tok). It has no pending rows. Others are
 * dropped when the cache is full. Nothing happens when it is there already, or
 * there is no memory. */
void sl_prefix_put(struct sl_prefix *p, struct sl_seq *q, const int32_t *tok,
                   uint64_t salt);

/* The same of a sequence that nobody reads on: it becomes the cache's, without a
 * copy of its last page, and *q NULL. When nothing is kept it stays the
 * caller's. */
void sl_prefix_put_last(struct sl_prefix *p, struct sl_seq **q,
                        const int32_t *tok, uint64_t salt);

/* The same of a sequence that becomes the cache's, as do its tokens, and that
 * the shelf has already. */
void sl_prefix_give(struct sl_prefix *p, struct sl_seq *q, int32_t *tok,
                    uint64_t salt);

/* Give up the least valuable prefix; false when there is none. */
bool sl_prefix_evict(struct sl_prefix *p);

void sl_prefix_get_stats(const struct sl_prefix *p,
                         struct sl_prefix_stats *out);

#endif
