/* engine/speculate.h - how many drafts are worth their time
 *
 * A draft is kept if it is the token that would have been drawn anyway (D4), so
 * drafting never changes a text; it only costs or saves time. This decides how
 * deep to draft from what was measured: the time of steps by rows (cost.h), the
 * time of the drafter's passes, and how often drafts of each depth were right.
 *
 * Engine thread only; the decision is a pure function of the struct.
 */
#ifndef SL_ENGINE_SPECULATE_H
#define SL_ENGINE_SPECULATE_H

#include "engine/cost.h"

#define SL_MAX_DRAFT 7 /* tokens proposed at once */

struct sl_speculate {
    uint32_t fixed; /* depth asked for; 0: decide */
    /* Part of the drafts of depth i + 1 that were right, of those whose
     * predecessors were; and how many those were. */
    double right[SL_MAX_DRAFT];
    uint64_t n_seen[SL_MAX_DRAFT];
    struct sl_cost pass; /* one pass of the drafter, by rows */
    uint64_t n_round, n_draft, n_accept;
};

void sl_speculate_init(struct sl_speculate *s, uint32_t fixed);

/* The depth, 0 to SL_MAX_DRAFT, with the most tokens per second: n_seq
 * sequences draft it, in steps that have n_other rows besides. `step` is the
 * table of steps; context as in cost.h, for one row of each. */
uint32_t sl_speculate_depth(const struct sl_speculate *s,
                            const struct sl_cost *step, uint32_t n_seq,
                            uint32_t n_other, uint64_t n_context);

/* A round of one sequence: n_draft tokens were verified, the first n_accept
 * were right. */
void sl_speculate_learn(struct sl_speculate *s, uint32_t n_draft,
                        uint32_t n_accept);

#endif
