/* engine/share.c - who waits for what another one is reading
 *
 * Choices of one request, parallel calls of an agent and users behind one
 * system prompt arrive together, before anything of them is kept. If all were
 * admitted at once, all would read the same. So a generation waits while
 * another reads the beginning that they share, and takes it over where its
 * state is kept: it has to wait no longer than reading it itself would take,
 * and the rows that it does not need go to others. Those behind it in the queue
 * are not held up.
 *
 * Nobody waits for what is not going to be kept, or for less than a page: then
 * the wait would cost more than it saves.
 */
#include "engine/gen.h"
#include "kern/kern.h"

/* Tokens that two prompts begin with. */
static uint32_t common(const struct sl_gen *a, const struct sl_gen *b)
{
    uint32_t n = (uint32_t)sl_min(a->n_prompt, b->n_prompt), i = 0;

    while (i < n && a->tok[i] == b->tok[i])
        i++;
    return i;
}

/* The last cut of `r` that it has not reached yet and that `g` can use; 0:
 * none. */
static uint32_t comes(const struct sl_gen *r, const struct sl_gen *g)
{
    uint32_t n, cut = 0;

    if (r->salt != g->salt || r->n_cut == 0 ||
        r->cut[r->n_cut - 1] <= r->seq->n_tok)
        return 0;
    /* The last token is always read. */
    n = (uint32_t)sl_min(common(r, g), g->n_known - 1);
    for (uint32_t i = 0; i < r->n_cut && r->cut[i] <= n; i++)
        cut = r->cut[i];
    return cut > r->seq->n_tok ? cut : 0;
}

bool sl_share_waits(const struct sl_engine *e, const struct sl_gen *g)
{
    uint32_t most = 0;

    if (g->no_cache || e->n_keep == 0)
        return false;
    for (uint32_t i = 0; i < e->n_run; i++)
        if (e->run[i]->max_out > 0) /* or it keeps nothing */
            most = (uint32_t)sl_max(most, comes(e->run[i], g));
    return most >= SL_KV_PAGE &&
           most >= SL_KV_PAGE +
                       sl_prefix_known(e->prefix, g->tok, g->n_known, g->salt);
}
