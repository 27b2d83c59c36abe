/* engine/pace.c - did the machine become slower, or one kind of work?
 *
 * The level is the least movement of the kinds that ran lately, if all are to one
 * side. Every figure is read at the level of now (cost.c). A size alone that
 * stays changed makes the level move less than the machine, never more.
 */
#include "engine/pace.h"

#define NOISE 0.12 /* a level so near to 1 is that of fixed figures, which are not
                      better known themselves. Chosen. */
#define LATELY 24 /* observations: some six rounds. Chosen. */

void sl_pace_add(struct sl_pace *p, struct sl_cost *c)
{
    c->pace = p;
}

static bool is_late(const struct sl_pace *p, uint64_t at)
{
    return at > 0 && p->now - at <= LATELY;
}

/* The place of a kind, or that of the one that was seen longest ago. */
static uint32_t place_of(const struct sl_pace *p, const struct sl_cost *c,
                         uint32_t bucket)
{
    uint32_t old = 0;

    for (uint32_t i = 0; i < SL_PACE_KINDS; i++) {
        if (p->seen[i].table == c && p->seen[i].bucket == bucket)
            return i;
        if (p->seen[i].at < p->seen[old].at)
            old = i;
    }
    return old;
}

/* What moved all alike. */
static double shared(const struct sl_pace *p)
{
    double up = 0, down = 0;

    for (uint32_t i = 0; i < SL_PACE_KINDS; i++) {
        const struct sl_cost *c = p->seen[i].table;
        double x;

        if (!is_late(p, p->seen[i].at) || c->first_s[p->seen[i].bucket] <= 0)
            continue;
        x = c->step_s[p->seen[i].bucket] / c->first_s[p->seen[i].bucket];
        up = up <= 0 || x < up ? x : up;
        down = x > down ? x : down;
    }
    return up > 1 + NOISE ? up : down < 1 - NOISE && down > 0 ? down : 1;
}

void sl_pace_saw(struct sl_pace *p, struct sl_cost *c, uint32_t bucket)
{
    uint32_t at = place_of(p, c, bucket);

    p->now++;
    p->seen[at].table = c;
    p->seen[at].bucket = bucket;
    p->seen[at].at = p->now;
    p->level = shared(p);
    /* What they took is in their figures already. Were they moved by the level,
     * which is theirs, they would move it again, and so on. */
    for (uint32_t i = 0; i < SL_PACE_KINDS; i++)
        if (is_late(p, p->seen[i].at))
            p->seen[i].table->level[p->seen[i].bucket] = p->level;
}
