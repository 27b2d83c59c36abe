/* engine/draft_ngram.c - the text itself as a drafter; see ngram.h
 *
 * Looking costs next to nothing, so it is done in every round and the proposal
 * is known before anybody decides: it lies in draft[] already, and is dropped
 * when others draft.
 */
#include "engine/drafter.h"
#include "engine/gen.h"
#include "engine/ngram.h"

#define LONG_MATCH 8 /* tokens; counted apart from shorter ones. Chosen. */

static int open_index(struct sl_gen *g, struct sl_err *err)
{
    return sl_ngram_open(&g->ngram, g->n_prompt + g->max_out, err);
}

static void close_index(struct sl_gen *g)
{
    sl_ngram_close(&g->ngram);
}

static uint32_t look(struct sl_gen *g, uint32_t most, enum sl_odds_of *odds)
{
    uint32_t match, n = sl_ngram_find(g->ngram, g->tok, g->n_known, most,
                                      g->draft, &match);

    *odds = match < LONG_MATCH ? SL_ODDS_SHORT : SL_ODDS_LONG;
    return n;
}

const struct sl_drafter sl_draft_ngram = {
    .name = "ngram",
    .open = open_index,
    .close = close_index,
    .look = look,
};
