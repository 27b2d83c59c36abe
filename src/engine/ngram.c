/* engine/ngram.c - drafts from the text itself; see ngram.h
 *
 * Two tables, for the last LONG and the last SHORT tokens: from a hash of them
 * to the place behind where they occurred last. Tables do not chain: a newer
 * place replaces an older one, of the same tokens or of others with the same
 * hash, so an entry is compared with the text before it is believed. A long
 * match is looked for first: it is right more often.
 *
 * A text of more tokens than a table has entries forgets some of its past;
 * nothing else happens.
 */
#include "engine/ngram.h"

#include "base/mem.h"

#define SHORT 3 /* tokens; two match by chance in most texts. Chosen. */
#define LONG 6
#define LOOK_BACK 16 /* tokens that are compared to tell how long a match is */
#define MAX_BITS 17  /* 2^17 places of 4 bytes, twice: 1 MiB. Chosen. */
#define MIN_BITS 6
#define MIX 0x9e3779b97f4a7c15u /* 2^64 / golden ratio (Knuth, TAOCP 6.4) */

struct sl_ngram {
    uint32_t bits;
    uint32_t *place[2]; /* [1 << bits] of SHORT and LONG; 0: none */
    uint32_t n_seen;    /* tokens of the text that are in the tables */
};

static const uint32_t width[2] = {SHORT, LONG};

int sl_ngram_open(struct sl_ngram **out, uint32_t max_tok, struct sl_err *err)
{
    struct sl_ngram *g = NULL;
    int rc = sl_mem_alloc(&g, 1, sizeof(*g), "an index of n-grams", err);

    if (rc)
        return rc;
    g->bits = MIN_BITS;
    while (g->bits < MAX_BITS && 1u << g->bits < max_tok)
        g->bits++;
    for (int i = 0; !rc && i < 2; i++)
        rc = sl_mem_alloc(&g->place[i], (size_t)1 << g->bits,
                          sizeof(*g->place[i]), "an index of n-grams", err);
    if (rc)
        sl_ngram_close(&g);
    else
        *out = g;
    return rc;
}

void sl_ngram_close(struct sl_ngram **pg)
{
    struct sl_ngram *g = *pg;

    if (!g)
        return;
    *pg = NULL;
    sl_mem_free(g->place[0]);
    sl_mem_free(g->place[1]);
    sl_mem_free(g);
}

/* Where the n tokens before `end` are looked up. */
static uint32_t slot(const struct sl_ngram *g, const int32_t *end, uint32_t n)
{
    uint64_t h = 0;

    for (uint32_t i = n; i > 0; i--)
        h = (h ^ (uint32_t)end[-(ptrdiff_t)i]) * MIX;
    return (uint32_t)(h >> (64 - g->bits));
}

/* Put every place before the end of the text into the tables. */
static void feed(struct sl_ngram *g, const int32_t *tok, uint32_t n)
{
    for (; g->n_seen < n; g->n_seen++)
        for (int i = 0; i < 2; i++)
            if (g->n_seen >= width[i])
                g->place[i][slot(g, tok + g->n_seen, width[i])] = g->n_seen;
}

/* How many tokens before a and b are the same, up to LOOK_BACK; a < b. */
static uint32_t common(const int32_t *tok, uint32_t a, uint32_t b)
{
    uint32_t n = 0;

    while (n < LOOK_BACK && n < a && tok[a - 1 - n] == tok[b - 1 - n])
        n++;
    return n;
}

uint32_t sl_ngram_find(struct sl_ngram *g, const int32_t *tok, uint32_t n,
                       uint32_t most, int32_t *draft, uint32_t *match)
{
    feed(g, tok, n); /* all places before n */
    *match = 0;
    for (int i = 1; i >= 0; i--) {
        uint32_t at;

        if (n < width[i])
            continue;
        at = g->place[i][slot(g, tok + n, width[i])];
        if (at == 0)
            continue;
        *match = common(tok, at, n);
        if (*match < width[i])
            continue;
        /* Behind the end of the text lies what has just been proposed. */
        for (uint32_t k = 0; k < most; k++)
            draft[k] = at + k < n ? tok[at + k] : draft[at + k - n];
        return most;
    }
    return 0;
}
