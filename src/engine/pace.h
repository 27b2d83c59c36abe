/* engine/pace.h - did the machine become slower, or only one kind of work?
 *
 * A step of one size that takes longer than its table says may be a slower
 * machine, and then everything that is not run now takes longer, too; or it is
 * that size alone, whose first figure was off, or whose weights no longer share
 * the cache with those of a drafter. One kind of work cannot tell. Two can: what
 * moved all that ran lately, and to the same side, moved the machine, by as much
 * as what moved least.
 *
 * Engine thread.
 */
#ifndef SL_ENGINE_PACE_H
#define SL_ENGINE_PACE_H

#include "engine/cost.h"

#define SL_PACE_TABLES 6
#define SL_PACE_KINDS 8

struct sl_pace {
    struct sl_cost *table[SL_PACE_TABLES]; /* borrowed */
    uint32_t n_table;
    uint64_t now; /* observations */
    struct {
        uint32_t kind; /* table and size */
        uint64_t at;   /* seen last; 0: never */
        double owed;   /* moved by, less what was told to all */
    } seen[SL_PACE_KINDS];
};

/* The table's observations are heard from now on, and it follows the others. */
void sl_pace_add(struct sl_pace *p, struct sl_cost *c);

/* The estimate of size `bucket` moved by this factor. */
void sl_pace_saw(struct sl_pace *p, const struct sl_cost *c, uint32_t bucket,
                 double moved);

#endif
