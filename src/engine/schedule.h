/* engine/schedule.h - which rows run now
 *
 * A pure function of what waits and of the budget, so that it can be tested a
 * million times a second.
 */
#ifndef SL_ENGINE_SCHEDULE_H
#define SL_ENGINE_SCHEDULE_H

#include "base/base.h"

struct sl_sched_seq {
    uint32_t n_left; /* tokens that the model has not seen; at least 1 */
};

/* rows[i] = rows of seq[i] in this step, 0 for none; returns the sum, which is
 * at most max_row.
 *
 * A sequence with one token left is decoding (or about to) and gets its row
 * first, so that nobody's answer stalls behind a long prompt. What is left of
 * max_row, but no more than max_prompt, is shared by the prompts in equal
 * parts; what a short one does not need goes to the others. Whoever is at `turn`
 * (modulo n) is served first when there are fewer rows than prompts, so callers
 * that count up starve nobody. */
uint32_t sl_schedule_plan(const struct sl_sched_seq *seq, uint32_t n,
                          uint32_t max_row, uint32_t max_prompt, uint64_t turn,
                          uint32_t *rows);

#endif
