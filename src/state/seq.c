/* state/seq.c - what one sequence remembers; see seq.h
 *
 * Only full pages are shared. The last page of a fork is copied at once: it is
 * at most 64 positions, and copy-on-write would need a check in every step.
 */
#include "state/seq.h"

#include "base/mem.h"
#include "kern/kern.h"

int sl_memory_open(struct sl_memory **out, const struct sl_memory_opts *o,
                   struct sl_err *err)
{
    struct sl_memory *m = NULL;
    int rc = sl_mem_alloc(&m, 1, sizeof(*m), "the sequences", err);

    if (rc)
        return rc;
    m->max_tok = o->max_tok;
    m->n_seq = o->n_seq;
    rc = sl_kv_open(&m->kv, o->planes, o->n_plane, o->kv_type, o->n_page, err);
    if (!rc)
        rc = sl_rec_open(&m->rec, &o->rec, o->n_draft, o->n_slot, err);
    if (rc)
        sl_memory_close(&m);
    else
        *out = m;
    return rc;
}

void sl_memory_close(struct sl_memory **pm)
{
    struct sl_memory *m = *pm;

    if (!m)
        return;
    *pm = NULL;
    sl_kv_close(&m->kv);
    sl_rec_close(&m->rec);
    sl_mem_free(m);
}

static uint32_t pages_for(uint32_t n_tok)
{
    return (n_tok + SL_KV_PAGE - 1) / SL_KV_PAGE;
}

int sl_seq_open(struct sl_seq **out, struct sl_memory *m, struct sl_err *err)
{
    struct sl_seq *q = NULL;
    int rc;

    if (m->n_open == m->n_seq)
        return sl_fail(err, SL_EBUSY,
                       "all %u places for sequences are taken; wait, or raise "
                       "--max-num-seqs",
                       m->n_seq);
    rc = sl_mem_alloc(&q, 1, sizeof(*q), "a sequence", err);
    if (rc)
        return rc;
    rc = sl_mem_alloc(&q->page, pages_for(m->max_tok), sizeof(*q->page),
                      "a sequence's pages", err);
    if (rc) {
        sl_mem_free(q);
        return rc;
    }
    sl_rec_seq_init(&q->rec);
    m->n_open++;
    q->mem = m;
    *out = q;
    return 0;
}

void sl_seq_close(struct sl_seq **pq)
{
    struct sl_seq *q = *pq;

    if (!q)
        return;
    *pq = NULL;
    for (uint32_t i = 0; i < q->n_page; i++)
        sl_kv_release(q->mem->kv, q->page[i]);
    sl_rec_seq_deinit(q->mem->rec, &q->rec);
    q->mem->n_open--;
    sl_mem_free(q->page);
    sl_mem_free(q);
}

/* Give back pages beyond the first n. */
static void trim(struct sl_seq *q, uint32_t n)
{
    while (q->n_page > n)
        sl_kv_release(q->mem->kv, q->page[--q->n_page]);
}

int sl_seq_reserve(struct sl_seq *q, uint32_t n_pos, struct sl_err *err)
{
    struct sl_kv *kv = q->mem->kv;
    uint32_t had = q->n_page, want = pages_for(n_pos);

    while (q->n_page < want && sl_kv_take(kv, &q->page[q->n_page]))
        q->n_page++;
    if (q->n_page >= want)
        return 0;
    trim(q, had);
    return sl_fail(err, SL_EBUSY,
                   "the KV cache of %u pages is full; raise --kv-pool-tokens",
                   kv->n_page);
}

int sl_seq_begin(struct sl_seq *q, uint32_t n_firm, uint32_t n_tent,
                 struct sl_err *err)
{
    struct sl_memory *m = q->mem;
    uint32_t had = q->n_page;
    int rc;

    if (n_tent > m->rec->shape.max_tent ||
        (uint64_t)q->n_tok + n_firm + n_tent > m->max_tok)
        return sl_fail(err, SL_EARG,
                       "a step of %u + %u rows behind %u tokens passes the "
                       "limit of %u tokens",
                       n_firm, n_tent, q->n_tok, m->max_tok);
    rc = sl_seq_reserve(q, q->n_tok + n_firm + n_tent, err);
    if (rc)
        return rc;
    if (!sl_rec_begin(m->rec, &q->rec, n_tent)) {
        trim(q, had);
        return sl_fail(err, SL_EBUSY,
                       "all %u recurrent states are taken; wait, or raise "
                       "--prefix-cache-gib",
                       m->rec->n_slot);
    }
    q->n_firm = n_firm;
    q->n_tent = n_tent;
    return 0;
}

void sl_seq_end(struct sl_seq *q, uint32_t n_accept)
{
    SL_ASSERT(n_accept <= q->n_tent);
    sl_rec_end(q->mem->rec, &q->rec, n_accept);
    q->n_tok += q->n_firm + n_accept;
    q->n_firm = q->n_tent = 0;
}

void sl_seq_rest(struct sl_seq *q)
{
    trim(q, pages_for(q->n_tok));
    sl_rec_rest(q->mem->rec, &q->rec);
}

int sl_seq_fork(struct sl_seq **out, struct sl_seq *from, struct sl_err *err)
{
    struct sl_kv *kv = from->mem->kv;
    uint32_t full = from->n_tok / SL_KV_PAGE;
    struct sl_seq *q = NULL;
    int rc = sl_seq_open(&q, from->mem, err);

    SL_ASSERT(from->rec.n_pend == 0);
    if (rc)
        return rc;
    for (; q->n_page < full; q->n_page++) {
        q->page[q->n_page] = from->page[q->n_page];
        sl_kv_acquire(kv, q->page[q->n_page]);
    }
    if (from->n_tok % SL_KV_PAGE) {
        rc = sl_seq_reserve(q, from->n_tok, err);
        if (rc) {
            sl_seq_close(&q);
            return rc;
        }
        sl_kv_copy(kv, q->page[full], from->page[full]);
    }
    sl_rec_share(from->mem->rec, &q->rec, &from->rec);
    q->n_tok = from->n_tok;
    memcpy(q->from, from->from, sizeof(q->from));
    *out = q;
    return 0;
}
