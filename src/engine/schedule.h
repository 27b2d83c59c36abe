/* engine/schedule.h - which rows run now
 *
 * Pure functions of what waits and of the budget, so that they can be tested a
 * million times a second.
 */
#ifndef SL_ENGINE_SCHEDULE_H
#define SL_ENGINE_SCHEDULE_H

#include "engine/cost.h"

struct sl_sched_seq {
    uint32_t n_left; /* tokens that can go through now; at least 1 */
    uint32_t n_all;  /* tokens that the model has not seen; at least n_left */
};

/* rows[i] = rows of seq[i] in this step, 0 for none; returns the sum, which is
 * at most max_row.
 *
 * A sequence with one token left is decoding (or about to) and gets its row
 * first, so that nobody's answer stalls behind a long prompt. What is left of
 * max_row, but no more than max_prompt, goes to the prompts:
 *
 *   1. half of it in equal parts, so that every prompt moves on;
 *   2. the rest to those with the least to read, as short questions should not
 *      wait for long documents; but to nobody more than twice an equal part;
 *   3. what nobody could take under these rules in equal parts to all.
 *
 * Whoever is at `turn` is served first where there are fewer rows than takers,
 * so callers that count up starve nobody: while n and the budget stay, every
 * prompt has a row within 2 n turns, and every decoding one within n. */
uint32_t sl_schedule_plan(const struct sl_sched_seq *seq, uint32_t n,
                          uint32_t max_row, uint32_t max_prompt, uint64_t turn,
                          uint32_t *rows);

/* Rows that n_prompt prompts may have together, at least 1, beside n_dec decoding
 * rows that look back at dec_context tokens in all; `depth`: what each row of a
 * prompt looks back at. Decided by time, not by a count. While somebody's answer
 * is running, a step takes at most about twice what it would take without prompts
 * if all of them but one were answers already: else, where many prompts wait for
 * few answers, the few would end before others begin, and steps would stay small
 * for ever, which is slow for everybody. While no answer is running, a quarter of a
 * second, so that a new request, or a cancelled one, does not wait long for the
 * step before; or, where that is longer, a few times what a step of one row
 * takes. */
uint32_t sl_schedule_prompt_rows(const struct sl_cost *c, uint32_t n_dec,
                                 uint64_t dec_context, uint32_t n_prompt,
                                 uint64_t depth, uint32_t max_row);

#endif
