/* engine/pace.c - did the machine become slower, or one kind of work?
 *
 * Of the last kinds of work that ran the movement of each is kept. The least of
 * these movements, if all are to one side, is told to every size of every table
 * that did not run lately, and taken off what the others still owe.
 */
#include "engine/pace.h"

#define LATELY 24 /* observations: some six rounds. Chosen. */
#define FADE 0.005 /* of a movement that nothing else made: it was its own. Chosen. */

void sl_pace_add(struct sl_pace *p, struct sl_cost *c)
{
    SL_CHECK(p->n_table < SL_PACE_TABLES);
    c->pace = p;
    c->kind0 = p->n_table * SL_COST_BUCKETS;
    p->table[p->n_table++] = c;
}

static bool is_late(const struct sl_pace *p, uint64_t at)
{
    return at > 0 && p->now - at <= LATELY;
}

/* The place of a kind, in that of the one that was seen longest ago. */
static uint32_t place_of(struct sl_pace *p, uint32_t kind)
{
    uint32_t old = 0;

    for (uint32_t i = 0; i < SL_PACE_KINDS; i++) {
        if (p->seen[i].at > 0 && p->seen[i].kind == kind) {
            if (!is_late(p, p->seen[i].at))
                p->seen[i].owed = 1;
            return i;
        }
        if (p->seen[i].at < p->seen[old].at)
            old = i;
    }
    p->seen[old].kind = kind;
    p->seen[old].owed = 1;
    return old;
}

/* What moved all alike. */
static double shared(const struct sl_pace *p)
{
    double up = 0, down = 0;

    for (uint32_t i = 0; i < SL_PACE_KINDS; i++) {
        double x = p->seen[i].owed;

        if (!is_late(p, p->seen[i].at))
            continue;
        up = up <= 0 || x < up ? x : up;
        down = x > down ? x : down;
    }
    return up > 1 ? up : down < 1 ? down : 1;
}

void sl_pace_saw(struct sl_pace *p, const struct sl_cost *c, uint32_t bucket,
                 double moved)
{
    uint32_t at = place_of(p, c->kind0 + bucket);
    double all;

    p->now++;
    p->seen[at].at = p->now;
    p->seen[at].owed *= moved;
    p->seen[at].owed += FADE * (1 - p->seen[at].owed);
    all = shared(p);
    if (all == 1)
        return;
    for (uint32_t i = 0; i < SL_PACE_KINDS; i++)
        p->seen[i].owed /= all;
    for (uint32_t t = 0; t < p->n_table; t++)
        for (uint32_t i = 0; i < SL_COST_BUCKETS; i++)
            if (!is_late(p, p->table[t]->at[i]))
                p->table[t]->step_s[i] *= all;
}
