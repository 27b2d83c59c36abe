/* engine/ring.h - rows that a drafter has not seen yet
 *
 * What a step gave for committed tokens, newest last, while nobody wants the
 * drafter's drafts: one pass over many rows is nearly as cheap as over one, so
 * they wait. It ends where the committed tokens of its sequence end. A drafter
 * that is idle is not worth a pass: then the oldest rows are dropped instead,
 * and what was dropped is a gap that the drafter does not look behind
 * (sl_seq.from), never read again.
 *
 * A ring is large, and page faults, and unmapping beside a running thread, cost more
 * than the copies. So a new one has the memory of one that was closed, with its
 * pages; it is not cleared.
 *
 * Engine thread only; open and close in any.
 */
#ifndef SL_ENGINE_RING_H
#define SL_ENGINE_RING_H

#include "base/thread.h"
#include "state/seq.h"

#define SL_DRAFT_RING 512 /* rows that may wait */
/* Decisions without a use after which a drafter is idle; and the rows that it is
 * shown when it is tried again. Chosen, not measured. */
#define SL_DRAFT_IDLE 64
#define SL_DRAFT_NEAR 32

/* Memory of rings of one width that were closed: as many as run at once, not as
 * many as may wait. */
struct sl_ring_store {
    struct sl_mutex mu;
    float *spare; /* guarded by mu; begins with the address of the next */
    uint32_t n_spare, max_spare; /* guarded by mu */
};

void sl_ring_store_init(struct sl_ring_store *s, uint32_t max_spare);
void sl_ring_store_deinit(struct sl_ring_store *s);

struct sl_ring {
    struct sl_ring_store *from; /* borrowed */
    float *row; /* [SL_DRAFT_RING][width] */
    uint32_t n;
    uint32_t first; /* the oldest, where n == SL_DRAFT_NEAR of an idle drafter go
                       around; else 0 */
    size_t width;
};

int sl_ring_open(struct sl_ring *r, struct sl_ring_store *from, size_t width,
                 struct sl_err *err);
void sl_ring_close(struct sl_ring *r);

/* Let n rows wait, the newest of q. False, and nothing is done, when the ring is
 * full and should be shown first; never when the drafter is idle, whose plane it
 * is. */
bool sl_ring_wait(struct sl_ring *r, struct sl_seq *q, uint32_t plane,
                  const float *rows, uint32_t n, bool idle);

/* The same for a caller that writes the rows itself, to where this says: of the n
 * newest ones the last *n. NULL: it is full. */
float *sl_ring_room(struct sl_ring *r, struct sl_seq *q, uint32_t plane,
                    uint32_t *n, bool idle);

/* Rows that would be shown now. */
uint32_t sl_ring_n_near(const struct sl_ring *r, bool idle);

/* The rows that wait are about to be shown, and behind them lies position `end`
 * of q: an idle drafter is shown the nearest ones. Returns the position of the
 * first, and they lie in their order from r->row on. */
uint32_t sl_ring_near(struct sl_ring *r, struct sl_seq *q, uint32_t plane,
                      uint32_t end, bool idle);

/* They were shown, or are of a sequence that begins anew. */
void sl_ring_clear(struct sl_ring *r);

/* Forget all rows, which ended where q ends. */
void sl_ring_drop(struct sl_ring *r, struct sl_seq *q, uint32_t plane);

#endif
