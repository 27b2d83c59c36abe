/* engine/schedule.h - which rows run now
 *
 * Pure functions of what waits and of the budget, so that they can be tested a
 * million times a second.
 */
#ifndef SL_ENGINE_SCHEDULE_H
#define SL_ENGINE_SCHEDULE_H

#include "base/err.h"
#include "engine/cost.h"

struct sl_sched_seq {
    uint32_t n_left; /* tokens that can go through now; at least 1 */
    uint32_t n_all;  /* tokens that the model has not seen; at least n_left */
    uint32_t client; /* whose it is; numbers from 0, none left out */
    uint64_t last;   /* the turn that was its own last; kept by the plan */
};

/* What one client has in a step, while it is planned. */
struct sl_sched_client {
    uint64_t want;               /* rows that it can use */
    uint64_t last;               /* the turn of one of its prompts */
    uint32_t rows, most;         /* that it has, and may have */
    uint32_t n_prompt, n_hungry; /* of its prompts: all, and that want more */
    uint32_t first;              /* of its sequences, in their order */
};

/* What a plan works with, for up to so many sequences. */
struct sl_sched_work {
    struct sl_sched_client *client;
    uint32_t *seq, *turn; /* [k]: the sequence, and the client, that are served
                             after k others */
    uint32_t *brief;      /* [k]: the sequence, k others have less to read */
    uint32_t *next;       /* [i]: the next one of the client of i */
    uint32_t *tmp;
};

int sl_sched_work_open(struct sl_sched_work *w, uint32_t n, struct sl_err *err);
void sl_sched_work_close(struct sl_sched_work *w);

/* rows[i] = rows of seq[i] in this step, 0 for none; returns the sum, which is
 * at most max_row.
 *
 * A sequence with one token left is decoding (or about to) and gets its row
 * first, so that nobody's answer stalls behind a long prompt. What is left of
 * max_row, but no more than max_prompt, goes to the prompts:
 *
 *   1. half of it in equal parts to the clients, and to the prompts of each, so
 *      that all move on;
 *   2. the rest to those with the least to read, as short questions should not
 *      wait for long documents; but to nobody more than twice an equal part;
 *   3. what nobody could take under these rules in equal parts to all.
 *
 * No client has more than twice its share, rounded down, or one row where that
 * is less, whatever its rows are for: its share is what it would have if all
 * rows of the plan were dealt in equal parts to the clients, and what one
 * cannot use to the others. (Drafts are no rows of the plan; they take what
 * room it leaves.) One that decodes more than that has rows for some of its
 * sequences, in turn.
 *
 * Where there are fewer rows than takers, it is the turn of who has waited
 * longest for one; rows that 2. gives are no turn. `turn`: above 0, and one
 * more with each step, so that nobody starves.
 *
 * Time: n log n, and n more for each round of 1. and 3., of which there are two
 * or three unless lengths are chosen to make them many. */
uint32_t sl_schedule_plan(struct sl_sched_seq *seq, uint32_t n,
                          uint32_t max_row, uint32_t max_prompt, uint64_t turn,
                          uint32_t *rows, struct sl_sched_work *w);

/* What a step beside n_prompt prompts would take without them, in seconds: of
 * n_dec decoding rows that look back at dec_context tokens in all, and of those
 * that all prompts but one are to become; else, where many prompts wait for few
 * answers, the few would end before others begin, and steps would stay small
 * for ever, which is slow for everybody. */
double sl_schedule_alone_s(const struct sl_cost *c, uint32_t n_dec,
                           uint64_t dec_context, uint32_t n_prompt);

/* Rows that n_prompt prompts may have together, at least 1, beside those n_dec;
 * `depth`: what each row of a prompt looks back at. Decided by time, not by a
 * count. While somebody's answer is running, a step takes by the table
 * `stretch` times sl_schedule_alone_s. While no answer is running, a fifth of a
 * second, so that a new request, or a cancelled one, does not wait long for the
 * step before; or, where that is longer, a few times what a step of one row
 * takes. */
uint32_t sl_schedule_prompt_rows(const struct sl_cost *c, double stretch,
                                 uint32_t n_dec, uint64_t dec_context,
                                 uint32_t n_prompt, uint64_t depth,
                                 uint32_t max_row);

/* The stretch to begin with, and the next one after a step with prompts beside
 * answers took took_s: so that one such step in a hundred takes more than twice
 * as long as alone_s, on a machine that is quiet and on one that is not. */
#define SL_STRETCH 1.6
double sl_schedule_stretch(double stretch, double took_s, double alone_s);

#endif
