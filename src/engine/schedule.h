/* engine/schedule.h - which rows run now
 *
 * A pure function of what waits and of the budget, so that it can be tested a
 * million times a second.
 */
#ifndef SL_ENGINE_SCHEDULE_H
#define SL_ENGINE_SCHEDULE_H

#include "base/base.h"

/* One running sequence, oldest first. */
struct sl_sched_seq {
    uint32_t n_left; /* tokens that the model has not seen; at least 1 */
    bool decoding;   /* the prompt is behind it: n_left is 1 */
};

/* rows[i] = rows of seq[i] in this step, 0 for none. Every decoding sequence
 * gets its row first, so that nobody's answer stalls behind a long prompt; what
 * is left of max_row goes to prompts in order of arrival. Returns the sum. */
uint32_t sl_schedule_plan(const struct sl_sched_seq *seq, uint32_t n,
                          uint32_t max_row, uint32_t *rows);

#endif
