/* engine/drafter.h - what the engine knows of who drafts
 *
 * A drafter proposes tokens; the ordinary step verifies them. Nothing that one
 * does can change a text (D4), so a drafter may be as wrong as it likes, and one
 * that fails simply proposes nothing.
 *
 * In every step, after the draws and before ended generations are taken out:
 * `look` of every drafter for each generation that may draft, then the decision
 * (speculate.h), then `run` of every drafter once. Engine thread only; nothing
 * allocates but open.
 */
#ifndef SL_ENGINE_DRAFTER_H
#define SL_ENGINE_DRAFTER_H

#include "engine/engine.h"

struct sl_drafter {
    const char *name;

    /* What a generation needs of this drafter, in the caller's thread, when it
     * is submitted; NULL: nothing. close gets whatever open left behind. */
    int (*open)(struct sl_gen *g, struct sl_err *err);
    void (*close)(struct sl_gen *g);

    /* How many drafts of at most `most` g could have now, and what is known of
     * their kind. */
    uint32_t (*look)(struct sl_gen *g, uint32_t most, enum sl_odds_of *odds);

    /* Rows that the drafter has to be shown before it can draft for g, besides
     * those of this step. NULL: none. */
    uint32_t (*missed)(const struct sl_gen *g);

    /* Take in what this step committed (e->part, e->hidden), and fill draft[]
     * of each generation whose `by` is this drafter: n_draft tokens, or fewer
     * and n_draft says how many. NULL: everything was done by look. */
    void (*run)(struct sl_engine *e);

    /* The state of g is about to be kept for others: what waits has to be in it,
     * or marked as missing. NULL: nothing waits. */
    void (*catch_up)(struct sl_gen *g);

    /* g loses its sequence and will begin anew. NULL: nothing to forget. */
    void (*forget)(struct sl_gen *g);
};

/* Has the drafter not been used for so long that its upkeep is not worth a
 * pass? */
bool sl_draft_is_idle(const struct sl_engine *e, enum sl_by by);

/* Is what generation i committed in this step for drafters? Of one that has ended
 * too when it is kept for others: they draft behind its last rows. */
bool sl_draft_takes(const struct sl_engine *e, uint32_t i);

/* No drafts for g behind this step after all, before any pass for it. */
void sl_draft_drop(struct sl_gen *g);

extern const struct sl_drafter sl_draft_ngram, sl_draft_mtp, sl_draft_flash;

#endif
