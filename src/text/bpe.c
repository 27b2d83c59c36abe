/* text/bpe.c - merging the bytes of one piece into tokens
 *
 * Byte pair encoding (Sennrich et al. 2016) as the reference does it: start
 * with single bytes; of all neighbours that merge take the pair with the
 * lowest rank, of equals the leftmost; repeat. With a linked list of symbols
 * and a heap of candidates a piece of n bytes takes O(n log n), so a megabyte
 * without a space is no attack.
 *
 * A candidate is not removed from the heap when one of its symbols changes; it
 * is recognised when its turn comes. The reference asks then whether the
 * symbols that now stand there merge into the *same token*, not whether they
 * are the same symbols. The difference shows in vocabularies where two merges
 * make one token: the pair may merge earlier than its own rank says. It is
 * kept, because ids must be equal.
 */
#include "text/bpe.h"

#include "base/mem.h"

#if SL_SMALL
#define FIRST_CAP 2
#else
#define FIRST_CAP 64
#endif
#define MAX_PIECE (INT32_MAX / 4) /* indices are int32_t */

void sl_bpe_deinit(struct sl_bpe *w)
{
    sl_mem_free(w->sym);
    sl_mem_free(w->heap);
    *w = (struct sl_bpe){0};
}

/* A merge removes one candidate and one symbol and adds two candidates, so
 * n symbols never have more than 3 n. */
static int reserve(struct sl_bpe *w, size_t n, struct sl_err *err)
{
    size_t cap = sl_max(FIRST_CAP, w->cap);
    int rc;

    if (n <= w->cap)
        return 0;
    if (n > MAX_PIECE)
        return sl_fail(err, SL_EARG,
                       "a word of %zu bytes is longer than %d; send shorter "
                       "text",
                       n, MAX_PIECE);
    while (cap < n)
        cap *= 2;
    rc = sl_mem_resize(&w->sym, cap, sizeof(*w->sym), "merging tokens", err);
    if (!rc)
        rc = sl_mem_resize(&w->heap, 3 * cap, sizeof(*w->heap),
                           "merging tokens", err);
    if (!rc)
        w->cap = cap;
    return rc;
}

static void sift_down(struct sl_bpe_cand *h, size_t n, size_t i)
{
    struct sl_bpe_cand x = h[i];

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= n)
            break;
        if (child + 1 < n && h[child + 1].key < h[child].key)
            child++;
        if (h[child].key >= x.key)
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = x;
}

static void push(struct sl_bpe *w, struct sl_bpe_cand x)
{
    size_t i = w->n_heap++;

    SL_ASSERT(w->n_heap <= 3 * w->cap);
    while (i > 0 && w->heap[(i - 1) / 2].key > x.key) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = x;
}

static struct sl_bpe_cand pop(struct sl_bpe *w)
{
    struct sl_bpe_cand top = w->heap[0];

    w->heap[0] = w->heap[--w->n_heap];
    sift_down(w->heap, w->n_heap, 0);
    return top;
}

/* The candidate of the symbols i and its next; false if they do not merge. */
static bool candidate(const struct sl_bpe *w, const struct sl_vocab *v,
                      int32_t i, struct sl_bpe_cand *out)
{
    int32_t next = w->sym[i].next;
    const struct sl_merge_slot *m;

    if (next < 0)
        return false;
    m = sl_vocab_merge(v, w->sym[i].id, w->sym[next].id);
    if (!m)
        return false;
    out->key = (uint64_t)m->rank << 32 | (uint32_t)i;
    out->id = m->id;
    return true;
}

static void start(struct sl_bpe *w, const struct sl_vocab *v, const char *piece,
                  size_t len)
{
    int32_t n = (int32_t)len;

    for (int32_t i = 0; i < n; i++)
        w->sym[i] = (struct sl_bpe_sym){
            .id = v->byte[(unsigned char)piece[i]],
            .prev = i - 1,
            .next = i + 1 < n ? i + 1 : -1,
        };
    w->n_heap = 0;
    for (int32_t i = 0; i < n; i++)
        if (candidate(w, v, i, &w->heap[w->n_heap]))
            w->n_heap++;
    for (size_t i = w->n_heap / 2; i-- > 0;)
        sift_down(w->heap, w->n_heap, i);
}

/* Join symbol i with its next, and offer what is new. */
static void join(struct sl_bpe *w, const struct sl_vocab *v, int32_t i,
                 int32_t id)
{
    struct sl_bpe_sym *s = &w->sym[i], *right = &w->sym[s->next];
    struct sl_bpe_cand c;

    s->id = id;
    s->next = right->next;
    right->merged = true;
    if (s->next >= 0)
        w->sym[s->next].prev = i;
    if (s->prev >= 0 && candidate(w, v, s->prev, &c))
        push(w, c);
    if (candidate(w, v, i, &c))
        push(w, c);
}

int sl_bpe_merge(struct sl_bpe *w, const struct sl_vocab *v, const char *piece,
                 size_t len, int32_t *out, size_t *n, struct sl_err *err)
{
    int rc = reserve(w, len, err);

    if (rc)
        return rc;
    start(w, v, piece, len);
    while (w->n_heap > 0) {
        struct sl_bpe_cand top = pop(w), now;
        int32_t i = (int32_t)(uint32_t)top.key;

        if (w->sym[i].merged || !candidate(w, v, i, &now) || now.id != top.id)
            continue;
        join(w, v, i, top.id);
    }
    *n = 0;
    for (int32_t i = len ? 0 : -1; i >= 0; i = w->sym[i].next)
        out[(*n)++] = w->sym[i].id;
    return 0;
}
