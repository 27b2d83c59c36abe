/* engine/keep.c - where the state of a prompt is worth keeping
 *
 * A later prompt of the same conversation shares everything up to some turn:
 * the next question follows the whole of this prompt, but a reasoning model's
 * past thoughts are stripped, so the texts part right behind "assistant". Users
 * edit the middle, agents branch. All of them part at the beginning of a turn,
 * so that is where states are kept: always before the last two turns, and
 * before others that are far enough from the one before. Long stretches
 * without turns are cut too. "Far enough" spreads a prompt over a part of the
 * places that the cache has, so that one long history does not push out all
 * others.
 */
#include "base/mem.h"
#include "engine/gen.h"

#define MIN_SPACING 512u /* tokens; less is read again quickly. Chosen. */
#define SHARE 8          /* one prompt takes about 1/8 of the places */

/* Turns that begin behind `at`. */
static uint32_t turns_after(const struct sl_gen *g, uint32_t at)
{
    uint32_t n = 0;

    for (uint32_t i = at + 1; i < g->n_prompt; i++)
        n += g->tok[i] == g->e->turn_id;
    return n;
}

int sl_keep_plan(struct sl_gen *g, struct sl_err *err)
{
    uint32_t places = g->e->n_keep / SHARE + 1, spacing, last = 0;
    uint32_t late = 0; /* turns behind i */
    int rc;

    if (g->e->n_keep == 0)
        return 0;
    spacing = (uint32_t)sl_max(MIN_SPACING, g->n_prompt / places);
    late = turns_after(g, 0);
    rc = sl_mem_alloc(&g->cut, g->n_prompt / spacing + 3, sizeof(*g->cut),
                      "the cuts of a prompt", err);
    for (uint32_t i = 1; !rc && i < g->n_prompt; i++) {
        bool turn = g->tok[i] == g->e->turn_id;

        late -= turn;
        if ((turn && (late < 2 || i - last >= spacing)) ||
            i - last >= 2 * spacing) {
            g->cut[g->n_cut++] = i;
            last = i;
        }
    }
    return rc;
}
