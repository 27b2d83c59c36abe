/* engine/keep.c - where the state of a prompt is worth keeping
 *
 * A later prompt of the same conversation shares everything up to some turn:
 * the next question follows the whole of this prompt, but a reasoning model's
 * past thoughts are stripped, so the texts part right behind "assistant". Users
 * edit the middle, agents branch. All of them part at the beginning of a turn,
 * so that is where states are kept: before the last two turns in any case, and
 * before all others that are a page or more apart, as long as the cache has
 * places. A prompt with more turns than its share of the places spreads its
 * states evenly. Long stretches without turns are cut too, at a distance that
 * costs the reading nothing.
 *
 * A prompt that is known to have others like it (forks) is kept up to its last
 * token but one: the last is read by each, for its logits.
 *
 * A state close behind another is worth little by the measure of
 * state/prefix.c, so it is the first to go when others need the place.
 */
#include "base/mem.h"
#include "engine/gen.h"
#include "kern/kern.h"

#define STRETCH 1024u /* tokens without a turn. Chosen. */
#define SHARE 2       /* one prompt takes about half of the places */

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
    uint32_t places = g->e->n_keep / SHARE + 1, even, spacing, last = 0;
    uint32_t late; /* turns behind i */
    int rc;

    if (g->e->n_keep == 0)
        return 0;
    even = g->n_prompt / places;
    spacing = (uint32_t)sl_max(SL_KV_PAGE, even);
    late = turns_after(g, 0);
    rc = sl_mem_alloc(&g->cut, g->n_prompt / spacing + 4, sizeof(*g->cut),
                      "the cuts of a prompt", err);
    for (uint32_t i = 1; !rc && i < g->n_prompt; i++) {
        bool turn = g->tok[i] == g->e->turn_id;

        late -= turn;
        if ((turn && (late < 2 || i - last >= spacing)) ||
            i - last >= sl_max(STRETCH, 2 * even)) {
            g->cut[g->n_cut++] = i;
            last = i;
        }
    }
    if (!rc && g->forks && g->n_prompt > 1 && last != g->n_prompt - 1)
        g->cut[g->n_cut++] = g->n_prompt - 1;
    return rc;
}
