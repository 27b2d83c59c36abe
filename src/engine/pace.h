/* engine/pace.h - did the machine become slower, or only one kind of work?
 *
 * A step of one size that takes longer than its table says may be a slower
 * machine, and then everything that is not run now takes longer, too; or it is
 * that size alone, whose first figure was off, or whose weights no longer share
 * the cache with those of a drafter. One kind of work cannot tell. Two can: what
 * moved all that ran lately, and to the same side, moved the machine, by as much
 * as what moved least. Movements count from a fixed figure of each kind, its first
 * proven one, so noise does not add up; and the level is for what does not run: what
 * ran lately stands for itself.
 *
 * Engine thread.
 */
#ifndef SL_ENGINE_PACE_H
#define SL_ENGINE_PACE_H

#include "engine/cost.h"

#define SL_PACE_KINDS 8

struct sl_pace {
    uint64_t now; /* observations */
    struct {
        struct sl_cost *table;
        uint32_t bucket;
        uint64_t at; /* seen last; 0: never */
    } seen[SL_PACE_KINDS];
    double level; /* of times, 1 at first; 0: 1 */
};

/* The table's observations are heard from now on, and it follows the others. It
 * is borrowed, and may be copied. */
void sl_pace_add(struct sl_pace *p, struct sl_cost *c);

/* The estimate of size `bucket` is a new one. */
void sl_pace_saw(struct sl_pace *p, struct sl_cost *c, uint32_t bucket);

#endif
