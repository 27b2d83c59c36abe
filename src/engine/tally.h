/* engine/tally.h - how many of each client
 *
 * Counted anew whenever it is asked for, in linear time: clients are found by
 * a hash of their numbers in a table that is twice as large as what it holds.
 * Beginning anew costs nothing, as slots know from which time they are. Engine
 * thread.
 */
#ifndef SL_ENGINE_TALLY_H
#define SL_ENGINE_TALLY_H

#include "base/err.h"

struct sl_tally_slot {
    uint64_t client;
    int32_t priority;
    uint32_t time;
    uint32_t index; /* in the order in which they came, from 0 */
    uint32_t n;     /* the caller's */
};

struct sl_tally {
    struct sl_tally_slot *slot; /* [n_slot], a power of two */
    uint32_t n_slot, time;
    uint32_t n; /* that came since start */
};

/* For at most n at a time. */
int sl_tally_open(struct sl_tally *t, uint32_t n, struct sl_err *err);
void sl_tally_close(struct sl_tally *t);

/* Forget all. */
void sl_tally_start(struct sl_tally *t);

/* The slot of these two, new with n = 0 or as it was. */
struct sl_tally_slot *sl_tally_at(struct sl_tally *t, uint64_t client,
                                  int32_t priority);

/* Its n; 0 when it did not come. */
uint32_t sl_tally_n(const struct sl_tally *t, uint64_t client,
                    int32_t priority);

#endif
