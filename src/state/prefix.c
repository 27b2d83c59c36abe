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
    double age;     /* credit of the last one that was dropped */
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
        rc = sl_mem_alloc(&p->hash, (size_t)mem->max_tok + 1,
                          sizeof(*p->hash), "the prefix cache", err);
    if (rc)
        sl_prefix_close(&p);
    else
        *out = p;
    return rc;
}

static void drop(struct sl_prefix *p, uint32_t i)
{
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

int sl_prefix_take(struct sl_prefix *p, struct sl_seq **out,
                   const int32_t *tok, uint32_t n, uint64_t salt,
                   struct sl_err *err)
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

void sl_prefix_put(struct sl_prefix *p, struct sl_seq *q, const int32_t *tok,
                   uint64_t salt)
{
    uint32_t n = q->n_tok, had;
    struct entry *old, e = {.salt = salt};

    if (p->max_entry == 0 || n == 0)
        return;
    old = find(p, tok, n, salt);
    had = old ? old->seq->n_tok : 0;
    if (old && had == n) {
        old->credit = p->age + old->worth;
        return;
    }
    if (p->n_entry == p->max_entry)
        sl_prefix_evict(p);
    if (sl_mem_alloc(&e.tok, n, sizeof(*e.tok), "a prefix", NULL))
        return;
    /* A fork needs a page for the last tokens: older prefixes make room. */
    while (sl_seq_fork(&e.seq, q, NULL)) {
        if (sl_prefix_evict(p))
            continue;
        sl_mem_free(e.tok);
        return;
    }
    memcpy(e.tok, tok, n * sizeof(*tok));
    e.hash = p->hash[n]; /* find left it there */
    e.worth = (n - had) / (double)bytes_of(p, e.seq, had);
    e.credit = p->age + e.worth;
    p->entry[p->n_entry++] = e;
    p->stats.n_put++;
}

bool sl_prefix_evict(struct sl_prefix *p)
{
    uint32_t least = 0;

    if (p->n_entry == 0)
        return false;
    for (uint32_t i = 1; i < p->n_entry; i++)
        if (p->entry[i].credit < p->entry[least].credit)
            least = i;
    p->age = p->entry[least].credit;
    drop(p, least);
    p->stats.n_evict++;
    return true;
}

void sl_prefix_get_counts(const struct sl_prefix *p,
                          struct sl_prefix_stats *out)
{
    *out = p->stats;
    out->n_entry = p->n_entry;
    out->bytes = 0;
}

void sl_prefix_get_stats(const struct sl_prefix *p,
                         struct sl_prefix_stats *out)
{
    const struct sl_kv *kv = p->mem->kv;

    sl_prefix_get_counts(p, out);
    out->bytes = p->n_entry * sl_rec_slot_bytes(&p->mem->rec->shape);
    for (uint32_t i = 0; i < p->n_entry; i++)
        for (uint32_t k = 0; k < p->entry[i].seq->n_page; k++)
            out->bytes +=
                kv->page_bytes / kv->ref[p->entry[i].seq->page[k]];
}
