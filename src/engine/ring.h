/* engine/ring.h - rows that a drafter has not seen yet
 *
 * What a step gave for committed tokens, newest last. It ends where the
 * committed tokens of its sequence end. Engine thread only; open in any.
 */
#ifndef SL_ENGINE_RING_H
#define SL_ENGINE_RING_H

#include "base/err.h"

/* Rows that may wait while nobody drafts: one pass over many is nearly as cheap
 * as over one. */
#define SL_DRAFT_RING 512

struct sl_ring {
    float *row; /* [SL_DRAFT_RING][width] */
    uint32_t n;
    size_t width;
};

int sl_ring_open(struct sl_ring *r, size_t width, struct sl_err *err);
void sl_ring_close(struct sl_ring *r);

/* Rounds of the batch without a use after which a drafter is off: then it sees
 * only what lies closest when it is tried again. Chosen, not measured. */
#define SL_DRAFT_IDLE 64
#define SL_DRAFT_NEAR 64 /* rows */

/* Forget all but the newest n rows. */
void sl_ring_trim(struct sl_ring *r, uint32_t n);

/* Add n rows; false, and nothing is done, when they do not fit. */
bool sl_ring_push(struct sl_ring *r, const float *rows, uint32_t n);

/* Add the newest of n rows, at the cost of the oldest that wait. */
void sl_ring_push_newest(struct sl_ring *r, const float *rows, uint32_t n);

#endif
