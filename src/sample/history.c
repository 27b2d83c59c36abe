/* sample/history.c - which tokens a sequence holds, and how often
 *
 * Penalties touch the tokens that were seen and no others, so what is kept is
 * sparse: a dense list of distinct tokens with counts, in the order of first
 * occurrence, and an open-addressed table from id to list index beside it. A
 * dense array over the vocabulary would be a megabyte per sequence, to be
 * walked at every draw; rejected. The list is what a draw walks, the table what
 * a push asks.
 *
 * Generated tokens are kept in order as well: bad words are matched against
 * them.
 *
 * Tentative tokens (drafts) never come here. A draw lays them over the history
 * (sample.c), so nothing is rolled back when they are rejected.
 *
 * Invariants (sl_history_check verifies them):
 *   1. Every entry of the list is in the table once, and nothing else is.
 *   2. The table is a power of two and at most half full.
 *   3. The counts of the list add up to the number of generated tokens.
 *
 * Open takes all memory for max_tok tokens, so that the token loop allocates
 * nothing: 8 bytes an entry, 4 bytes a slot with two to four slots an entry, 4
 * bytes a generated token. What is never used is never touched.
 */
#include "sample/history.h"

#include "base/mem.h"

#define HASH 0x9e3779b9u   /* 2^32 / golden ratio: Knuth, TAOCP 6.4 */
#define MAX_TOK (1u << 28) /* so that slots fit 32 bits */

struct sl_history {
    struct sl_seen *seen;
    uint32_t n_seen;
    uint32_t *slot; /* [n_slot] list index + 1, or 0 */
    uint32_t n_slot;
    int32_t *out;
    uint32_t n_out;
    uint32_t n_tok, max_tok;
};

int sl_history_open(struct sl_history **out, uint32_t max_tok,
                    struct sl_err *err)
{
    const char *what = "the tokens of a sequence";
    struct sl_history *h = NULL;
    int rc;

    if (max_tok > MAX_TOK)
        return sl_fail(err, SL_EARG,
                       "a history of %u tokens is more than %u; lower the "
                       "context length",
                       max_tok, MAX_TOK);
    rc = sl_mem_alloc(&h, 1, sizeof(*h), "the history of a sequence", err);
    if (rc)
        return rc;
    h->max_tok = max_tok;
    rc = sl_mem_alloc(&h->seen, max_tok, sizeof(*h->seen), what, err);
    if (!rc)
        rc = sl_mem_alloc(&h->out, max_tok, sizeof(*h->out), what, err);
    for (h->n_slot = 2; h->n_slot / 2 < max_tok;)
        h->n_slot *= 2;
    if (!rc)
        rc = sl_mem_alloc(&h->slot, h->n_slot, sizeof(*h->slot), what, err);
    if (rc)
        sl_history_close(&h);
    else
        *out = h;
    return rc;
}

void sl_history_close(struct sl_history **h)
{
    if (!*h)
        return;
    sl_mem_free((*h)->seen);
    sl_mem_free((*h)->slot);
    sl_mem_free((*h)->out);
    sl_mem_free(*h);
    *h = NULL;
}

/* The slot that holds `id`, or the empty one where it belongs. The table is
 * never full, so the walk ends. */
static uint32_t *find(const struct sl_history *h, int32_t id)
{
    uint32_t mask = h->n_slot - 1;
    uint32_t x = (uint32_t)id * HASH;
    uint32_t i = (x ^ x >> 16) & mask;

    while (h->slot[i] && h->seen[h->slot[i] - 1].id != id)
        i = (i + 1) & mask;
    return &h->slot[i];
}

int sl_history_push(struct sl_history *h, const int32_t *ids, size_t n,
                    bool generated, struct sl_err *err)
{
    if (n > h->max_tok - h->n_tok)
        return sl_fail(err, SL_EARG,
                       "%zu tokens after %u are more than the context of %u "
                       "tokens",
                       n, h->n_tok, h->max_tok);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0)
            return sl_fail(err, SL_EARG, "token id %d is negative", ids[i]);
    for (size_t i = 0; i < n; i++) {
        uint32_t *slot = find(h, ids[i]);

        if (!*slot) {
            h->seen[h->n_seen] = (struct sl_seen){.id = ids[i]};
            *slot = ++h->n_seen;
        }
        if (generated) {
            h->seen[*slot - 1].n_out++;
            h->out[h->n_out++] = ids[i];
        }
    }
    h->n_tok += (uint32_t)n;
    return 0;
}

size_t sl_history_n_out(const struct sl_history *h)
{
    return h->n_out;
}

const struct sl_seen *sl_history_seen(const struct sl_history *h, size_t *n)
{
    *n = h->n_seen;
    return h->seen;
}

const struct sl_seen *sl_history_get(const struct sl_history *h, int32_t id)
{
    uint32_t at = h->n_slot ? *find(h, id) : 0;

    return at ? &h->seen[at - 1] : NULL;
}

const int32_t *sl_history_out(const struct sl_history *h)
{
    return h->out;
}

bool sl_history_check(const struct sl_history *h)
{
    uint32_t n_full = 0, n_out = 0;

    for (uint32_t i = 0; i < h->n_slot; i++)
        n_full += h->slot[i] != 0;
    for (uint32_t i = 0; i < h->n_seen; i++) {
        n_out += h->seen[i].n_out;
        if (*find(h, h->seen[i].id) != i + 1)
            return false;
    }
    return n_full == h->n_seen && n_out == h->n_out &&
           (h->n_slot & (h->n_slot - 1)) == 0 &&
           2 * (size_t)n_full <= h->n_slot && h->n_out <= h->n_tok &&
           h->n_tok <= h->max_tok;
}
