/* state/prefix.c - what was read once is not read again; see prefix.h
 *
 * Entries are a plain array: there are hundreds, not millions, because each
 * holds a recurrent state of some ten megabytes. A look-up hashes the prompt
 * once, keeping the hash behind every token, and compares each entry's hash at
 * the entry's length; tokens are compared before a match is believed.
 */
#include "state/prefix.h"

#include "base/mem.h"
#include "kern/kern.h"

struct entry {
    struct sl_seq *seq;
    int32_t *tok; /* [seq->n_tok] */
    uint64_t hash, salt;
    double worth;  /* tokens saved per byte */
    double credit; /* worth, plus the age of the cache when it was last used */
};

struct sl_prefix {
    struct sl_memory *mem; /* borrowed */
    struct entry *entry;   /* [max_entry] */
    uint32_t n_entry, max_entry;
    uint64_t *hash; /* [max_tok + 1] behind each token of the prompt at hand */
    uint32_t *n_hold;       /* [n_page] entries that a page belongs to */
    uint32_t n_held;        /* pages with one or more */
    struct sl_shelf *shelf; /* borrowed; NULL: memory only */
    double age;             /* credit of the last one that was dropped */
    struct sl_prefix_stats stats;
};

/* One step of a 64-bit multiply-and-mix hash. Equal hashes are checked, so it
 * needs to be fast, not strong. */
static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

int sl_prefix_open(struct sl_prefix **out, struct sl_memory *mem,
                   uint32_t max_entry, struct sl_err *err)
{
    struct sl_prefix *p = NULL;
    int rc = sl_mem_alloc(&p, 1, sizeof(*p), "the prefix cache", err);

    if (rc)
        return rc;
    p->mem = mem;
    p->max_entry = max_entry;
    rc = sl_mem_alloc(&p->entry, max_entry, sizeof(*p->entry),
                      "the prefix cache", err);
    if (!rc)
        rc = sl_mem_alloc(&p->hash, (size_t)mem->max_tok + 1, sizeof(*p->hash),
                          "the prefix cache", err);
    if (!rc)
        rc = sl_mem_alloc(&p->n_hold, mem->kv->n_page, sizeof(*p->n_hold),
                          "the prefix cache", err);
    if (rc)
        sl_prefix_close(&p);
    else
        *out = p;
    return rc;
}

void sl_prefix_set_shelf(struct sl_prefix *p, struct sl_shelf *shelf)
{
    p->shelf = shelf;
}

static void drop(struct sl_prefix *p, uint32_t i)
{
    const struct sl_seq *q = p->entry[i].seq;

    if (p->shelf)
        sl_shelf_forget(p->shelf, q);
    for (uint32_t k = 0; k < q->n_page; k++)
        p->n_held -= --p->n_hold[q->page[k]] == 0;
    sl_seq_close(&p->entry[i].seq);
    sl_mem_free(p->entry[i].tok);
    p->entry[i] = p->entry[--p->n_entry];
}

void sl_prefix_close(struct sl_prefix **pp)
{
    struct sl_prefix *p = *pp;

    if (!p)
        return;
    *pp = NULL;
    while (p->n_entry > 0)
        drop(p, p->n_entry - 1);
    sl_mem_free(p->entry);
    sl_mem_free(p->hash);
    sl_mem_free(p->n_hold);
    sl_mem_free(p);
}

static bool matches(const struct sl_prefix *p, const struct entry *e,
                    const int32_t *tok, uint32_t n, uint64_t salt)
{
    uint32_t len = e->seq->n_tok;

    return len <= n && e->salt == salt && e->hash == p->hash[len] &&
           memcmp(e->tok, tok, len * sizeof(*tok)) == 0;
}

/* The longest entry that is a prefix of tok[0..n), or NULL. */
static struct entry *find(struct sl_prefix *p, const int32_t *tok, uint32_t n,
                          uint64_t salt)
{
    struct entry *best = NULL;

    p->hash[0] = mix(1, salt);
    for (uint32_t i = 0; i < n; i++)
        p->hash[i + 1] = mix(p->hash[i], (uint32_t)tok[i]);
    for (uint32_t i = 0; i < p->n_entry; i++) {
        struct entry *e = &p->entry[i];

        if ((!best || e->seq->n_tok > best->seq->n_tok) &&
            matches(p, e, tok, n, salt))
            best = e;
    }
    return best;
}

int sl_prefix_take(struct sl_prefix *p, struct sl_seq **out, const int32_t *tok,
                   uint32_t n, uint64_t salt, struct sl_err *err)
{
    struct entry *e;

    /* The last token is always read: somebody wants its logits. */
    while (n > 0 && (e = find(p, tok, n - 1, salt)) != NULL) {
        e->credit = p->age + e->worth;
        if (sl_seq_fork(out, e->seq, err) == 0)
            return 0;
        /* A fork needs a page for the last tokens: others make room, and in
         * the end this one itself. */
        sl_prefix_evict(p);
    }
    return sl_seq_open(out, p->mem, err);
}

uint32_t sl_prefix_known(struct sl_prefix *p, const int32_t *tok, uint32_t n,
                         uint64_t salt)
{
    const struct entry *e = n > 0 ? find(p, tok, n - 1, salt) : NULL;

    return e ? e->seq->n_tok : 0;
}

void sl_prefix_count(struct sl_prefix *p, const struct sl_seq *q)
{
    p->stats.n_hit += q->n_tok > 0;
    p->stats.n_miss += q->n_tok == 0;
    p->stats.n_tok_hit += q->n_tok;
}

static size_t bytes_of(const struct sl_prefix *p, const struct sl_seq *q,
                       uint32_t n_shared_tok)
{
    uint32_t pages = q->n_page - n_shared_tok / SL_KV_PAGE;

    return sl_rec_slot_bytes(&p->mem->rec->shape) +
           pages * p->mem->kv->page_bytes;
}

/* The entry, complete but for its worth, is there from now on; `had` of its
 * tokens were before. */
static void insert(struct sl_prefix *p, struct entry *e, uint32_t had)
{
    e->hash = p->hash[e->seq->n_tok]; /* find left it there */
    e->worth = (e->seq->n_tok - had) / (double)bytes_of(p, e->seq, had);
    e->credit = p->age + e->worth;
    for (uint32_t k = 0; k < e->seq->n_page; k++)
        p->n_held += p->n_hold[e->seq->page[k]]++ == 0;
    p->entry[p->n_entry++] = *e;
    p->stats.n_put++;
}

/* Is tok[0..n) there already? Then it is as good as used; else *had says how
 * many of them are. */
static bool is_kept(struct sl_prefix *p, const int32_t *tok, uint32_t n,
                    uint64_t salt, uint32_t *had)
{
    struct entry *old = find(p, tok, n, salt);

    *had = old ? old->seq->n_tok : 0;
    if (*had != n)
        return false;
    old->credit = p->age + old->worth;
    return true;
}

/* Is what q has read worth an entry? Then there is a place for one, and *e has
 * its tokens. `had`: as of is_kept. */
static bool prepare(struct sl_prefix *p, struct entry *e, uint32_t *had,
                    const struct sl_seq *q, const int32_t *tok)
{
    uint32_t n = q->n_tok;

    if (p->max_entry == 0 || n == 0 || is_kept(p, tok, n, e->salt, had))
        return false;
    if (p->n_entry == p->max_entry)
        sl_prefix_evict(p);
    if (sl_mem_alloc(&e->tok, n, sizeof(*e->tok), "a prefix", NULL))
        return false;
    memcpy(e->tok, tok, n * sizeof(*tok));
    return true;
}

static void insert_new(struct sl_prefix *p, struct entry *e, uint32_t had)
{
    insert(p, e, had);
    /* Less than a page is read again as fast as a file is. */
    if (p->shelf && e->seq->n_tok >= SL_KV_PAGE)
        sl_shelf_put(p->shelf, e->seq, e->tok, e->salt);
}

void sl_prefix_put(struct sl_prefix *p, struct sl_seq *q, const int32_t *tok,
                   uint64_t salt)
{
    struct entry e = {.salt = salt};
    uint32_t had;

    if (!prepare(p, &e, &had, q, tok))
        return;
    /* A fork needs a page for the last tokens: older prefixes make room. */
    while (sl_seq_fork(&e.seq, q, NULL)) {
        if (sl_prefix_evict(p))
            continue;
        sl_mem_free(e.tok);
        return;
    }
    insert_new(p, &e, had);
}

void sl_prefix_put_last(struct sl_prefix *p, struct sl_seq **q,
                        const int32_t *tok, uint64_t salt)
{
    struct entry e = {.seq = *q, .salt = salt};
    uint32_t had;

    if (!prepare(p, &e, &had, *q, tok))
        return;
    *q = NULL;
    sl_seq_rest(e.seq);
    insert_new(p, &e, had);
}

void sl_prefix_give(struct sl_prefix *p, struct sl_seq *q, int32_t *tok,
                    uint64_t salt)
{
    struct entry e = {.seq = q, .tok = tok, .salt = salt};
    uint32_t had;

    if (p->max_entry == 0 || is_kept(p, tok, q->n_tok, salt, &had)) {
        sl_seq_close(&q);
        sl_mem_free(tok);
        return;
    }
    if (p->n_entry == p->max_entry)
        sl_prefix_evict(p);
    insert(p, &e, had);
}

/* The least valuable entry; one that is being written only when there is no
 * other, for that takes until its file is done. */
static uint32_t choose(const struct sl_prefix *p)
{
    const struct sl_seq *busy = p->shelf ? sl_shelf_writing(p->shelf) : NULL;
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < p->n_entry; i++)
        if (p->entry[i].seq != busy &&
            (least == UINT32_MAX ||
             p->entry[i].credit < p->entry[least].credit))
            least = i;
    return least == UINT32_MAX ? 0 : least;
}

bool sl_prefix_evict(struct sl_prefix *p)
{
    uint32_t least;

    if (p->n_entry == 0)
        return false;
    least = choose(p);
    p->age = p->entry[least].credit;
    drop(p, least);
    p->stats.n_evict++;
    return true;
}

void sl_prefix_get_stats(const struct sl_prefix *p, struct sl_prefix_stats *out)
{
    *out = p->stats;
    out->n_entry = p->n_entry;
    out->state_bytes = p->n_entry * sl_rec_slot_bytes(&p->mem->rec->shape);
    out->page_bytes = p->n_held * (uint64_t)p->mem->kv->page_bytes;
}
