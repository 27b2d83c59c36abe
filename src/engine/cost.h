/* engine/cost.h - what a step takes, as measured while serving
 *
 * The time of a step depends on its rows, and on how much context its rows look
 * back at. The table keeps one estimate for each of 1 to 16 rows, which drafting
 * has to tell apart, and per power of two beyond, corrected after every step;
 * and one rate for context. Each size stands for itself; what says something
 * about the machine is told to the others (pace.h). What was never measured is
 * predicted from what was, on the safe side: a step of twice the rows takes at
 * most twice the time.
 *
 * Engine thread only.
 */
#ifndef SL_ENGINE_COST_H
#define SL_ENGINE_COST_H

#include "base/base.h"

#define SL_COST_EXACT 16   /* rows up to which each has an estimate */
#define SL_COST_BUCKETS 35 /* then 32, 64, ... 2^23 rows */
#define SL_COST_MOST_ROWS (1u << 23)

struct sl_pace;

struct sl_cost {
    double step_s[SL_COST_BUCKETS]; /* without context; 0: unknown */
    double first_s[SL_COST_BUCKETS]; /* as it was proven, at level 1; 0: not yet */
    uint32_t n_seen[SL_COST_BUCKETS];
    uint64_t at[SL_COST_BUCKETS]; /* of n_learn, when it was seen last */
    uint64_t n_learn;
    double level[SL_COST_BUCKETS]; /* of the pace, when it was seen last */
    struct sl_pace *pace;         /* borrowed; NULL: no other tables */
    double context_s; /* per row and token that it looks back at; 0: unknown */
    uint32_t n_deep;  /* times that say something about it, and the mean square */
    double deep_sq;   /* of what their rows look back at */
};

/* What a step of n_row rows that look back at n_context tokens in all (summed
 * over the rows) will take, in seconds; 0 when nothing was measured yet. */
double sl_cost_predict(const struct sl_cost *c, uint32_t n_row,
                       uint64_t n_context);

/* The least rows of bucket i, where it has an estimate; else 0. */
uint32_t sl_cost_known(const struct sl_cost *c, uint32_t i);

/* Such a step took s seconds. */
void sl_cost_learn(struct sl_cost *c, uint32_t n_row, uint64_t n_context,
                   double s);

/* What such a step counts for where means are compared with what the table says:
 * s, or less when it was disturbed. */
double sl_cost_calm(const struct sl_cost *c, uint32_t n_row, uint64_t n_context,
                    double s);

/* The most rows, at least 1 and at most max_row, that fit into `limit_s` when
 * each looks back at `depth` tokens; max_row when nothing was measured yet. */
uint32_t sl_cost_rows(const struct sl_cost *c, double limit_s, uint64_t depth,
                      uint32_t max_row);

#endif
