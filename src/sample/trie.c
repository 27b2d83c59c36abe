/* sample/trie.c - the tokens of a vocabulary by their bytes; see trie.h */
#include "sample/trie.h"

#include "base/mem.h"
#include "base/utf8.h"

struct word {
    const char *p;
    uint32_t len;
    int32_t id;
};

static int by_bytes(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    int c = memcmp(x->p, y->p, sl_min(x->len, y->len));

    if (c)
        return c;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static size_t common(const struct word *a, const struct word *b)
{
    size_t n = sl_min(a->len, b->len), i = 0;

    while (i < n && a->p[i] == b->p[i])
        i++;
    return i;
}

static int take_nodes(struct sl_nodes *t, size_t n, struct sl_err *err)
{
    const char *what = "the tokens by their bytes";
    int rc = sl_mem_alloc(&t->byte, n, sizeof(*t->byte), what, err);

    if (!rc)
        rc = sl_mem_alloc(&t->depth, n, sizeof(*t->depth), what, err);
    if (!rc)
        rc = sl_mem_alloc(&t->id, n, sizeof(*t->id), what, err);
    if (!rc)
        rc = sl_mem_alloc(&t->end, n, sizeof(*t->end), what, err);
    return rc;
}

static void free_nodes(struct sl_nodes *t)
{
    sl_mem_free(t->byte);
    sl_mem_free(t->depth);
    sl_mem_free(t->id);
    sl_mem_free(t->end);
}

/* Add sorted words, all different; path[d] is the open node of depth d. */
static void add_words(struct sl_nodes *t, const struct word *w, size_t n,
                      uint32_t *path)
{
    size_t open = 0; /* nodes on the path */

    for (size_t i = 0; i < n; i++) {
        size_t same = i ? common(&w[i - 1], &w[i]) : 0;

        while (open > same)
            t->end[path[--open]] = t->n;
        for (; open < w[i].len; open++) {
            path[open] = t->n;
            t->byte[t->n] = (uint8_t)w[i].p[open];
            t->depth[t->n] = (uint16_t)open;
            t->id[t->n++] = -1;
        }
        t->id[path[open - 1]] = w[i].id;
    }
    while (open > 0)
        t->end[path[--open]] = t->n;
}

static int build(struct sl_nodes *t, const struct word *w, size_t n,
                 struct sl_err *err)
{
    uint32_t *path = NULL;
    size_t n_node = 0;
    int rc;

    for (size_t i = 0; i < n; i++)
        n_node += w[i].len - (i ? common(&w[i - 1], &w[i]) : 0);
    rc = sl_mem_alloc(&path, SL_TRIE_MAX_DEPTH, sizeof(*path),
                      "the tokens by their bytes", err);
    if (!rc)
        rc = take_nodes(t, n_node, err);
    if (!rc)
        add_words(t, w, n, path);
    sl_mem_free(path);
    return rc;
}

/* Of words with the same bytes the first stays. */
static size_t drop_equal(struct sl_trie *t, struct word *w, size_t n)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        if (k && w[k - 1].len == w[i].len &&
            !memcmp(w[k - 1].p, w[i].p, w[i].len))
            t->text[w[i].id] = NULL;
        else
            w[k++] = w[i];
    }
    return k;
}

/* Characters of a plain token; 0: it is not plain. */
static uint32_t plain_chars(const struct word *w)
{
    uint32_t n = 0;

    if (sl_utf8_valid(w->p, w->len) < w->len)
        return 0;
    for (uint32_t i = 0; i < w->len; i++) {
        uint8_t c = (uint8_t)w->p[i];

        if (c < 0x80 && !sl_trie_is_plain(c))
            return 0;
        n += (c & 0xc0) != 0x80;
    }
    return n <= SL_TRIE_PLAIN ? n : 0;
}

/* List the plain words by length, and keep the others in w[*n]. */
static int split(struct sl_trie *t, struct word *w, size_t *n,
                 struct sl_err *err)
{
    const char *what = "the tokens by their bytes";
    uint32_t at[SL_TRIE_PLAIN + 2] = {0};
    size_t k = 0;
    int rc = sl_mem_alloc(&t->plain, *n, sizeof(*t->plain), what, err);

    if (!rc)
        rc = sl_mem_alloc(&t->plain_bit, (size_t)t->n_vocab / 64 + 1,
                          sizeof(*t->plain_bit), what, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < *n; i++)
        at[plain_chars(&w[i]) + 1]++;
    at[1] = 0; /* those that are not plain */
    for (uint32_t c = 1; c <= SL_TRIE_PLAIN; c++) {
        at[c + 1] += at[c];
        t->n_plain[c] = at[c + 1];
    }
    for (size_t i = 0; i < *n; i++) {
        uint32_t c = plain_chars(&w[i]);

        if (!c) {
            w[k++] = w[i];
            continue;
        }
        t->plain[at[c]++] = w[i].id;
        t->plain_bit[w[i].id / 64] |= 1ull << w[i].id % 64;
    }
    *n = k;
    return 0;
}

int sl_trie_open(struct sl_trie **out, const char *const *text,
                 const uint32_t *len, uint32_t n_vocab, struct sl_err *err)
{
    const char *what = "the tokens by their bytes";
    struct sl_trie *t = NULL;
    struct word *w = NULL;
    size_t n = 0;
    int rc = sl_mem_alloc(&t, 1, sizeof(*t), what, err);

    if (rc)
        return rc;
    t->n_vocab = n_vocab;
    rc = sl_mem_alloc(&w, n_vocab, sizeof(*w), what, err);
    if (!rc)
        rc = sl_mem_alloc(&t->text, n_vocab, sizeof(*t->text), what, err);
    if (!rc)
        rc = sl_mem_alloc(&t->len, n_vocab, sizeof(*t->len), what, err);
    for (uint32_t i = 0; !rc && i < n_vocab; i++) {
        if (!text[i] || len[i] == 0 || len[i] > SL_TRIE_MAX_DEPTH)
            continue;
        t->text[i] = text[i];
        t->len[i] = len[i];
        w[n++] = (struct word){text[i], len[i], (int32_t)i};
    }
    if (!rc) {
        qsort(w, n, sizeof(*w), by_bytes);
        n = drop_equal(t, w, n);
        rc = build(&t->all, w, n, err);
    }
    if (!rc)
        rc = split(t, w, &n, err);
    if (!rc)
        rc = build(&t->rest, w, n, err);
    sl_mem_free(w);
    if (rc)
        sl_trie_close(&t);
    else
        *out = t;
    return rc;
}

void sl_trie_close(struct sl_trie **t)
{
    if (!*t)
        return;
    free_nodes(&(*t)->all);
    free_nodes(&(*t)->rest);
    sl_mem_free((*t)->plain);
    sl_mem_free((*t)->plain_bit);
    sl_mem_free((void *)(*t)->text);
    sl_mem_free((*t)->len);
    sl_mem_free(*t);
    *t = NULL;
}
