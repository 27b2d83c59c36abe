/* state/shelf.c - kept prefixes on a disk; see shelf.h
 *
 * Invariants:
 *   1. queue, index, stats and the flags are guarded by mu; the folder and its
 *      keys are the I/O thread's, but for those of a look-up.
 *   2. A prefix is in the queue, or is `writing`, or the I/O thread knows
 *      nothing of it.
 *   3. While load.state is ASKED the load belongs to the I/O thread, otherwise
 *      to the engine thread.
 *
 * The index is the list of states that the folder holds, sorted by length and
 * key. A look-up computes one digest for each length in it up to that of the
 * prompt, longest first: microseconds each, and no file is touched. Who looks
 * again, after a load that failed, goes on where the last look-up ended.
 */
#include "state/shelf.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "kern/kern.h"

#define QUEUE 32 /* prefixes; chosen, not measured */
/* Between the use of a page and of the next one, in their times. */
#define ORDER_NS 1000
#define TOO_SLOW "the disk is slower than what there is to write"

struct put {
    const struct sl_seq *q;
    const int32_t *tok;
    uint64_t salt;
};

enum load_state { NO_LOAD, ASKED, DONE };

struct load {
    enum load_state state;
    struct sl_seq *q;
    int32_t *tok;    /* [n], owned */
    uint32_t n, had; /* tokens; of them q had so many before */
    uint64_t salt;
    bool ok;
};

struct item {
    uint32_t n_tok;
    uint8_t key[SL_SHA256];
};

struct sl_shelf {
    struct sl_memory *mem; /* borrowed; read-only but for a load's own */
    struct sl_shelf_opts opts;
    struct sl_disk disk;         /* I/O thread */
    uint8_t (*chain)[SL_SHA256]; /* [max_tok / page + 1], look-ups */

    struct sl_mutex mu;
    struct sl_cond change; /* with mu: work, or none any more */
    /* Guarded by mu. */
    struct put queue[QUEUE]; /* oldest first */
    uint32_t n_queue;
    const struct sl_seq *writing;
    bool give_up; /* of `writing`: after this file */
    struct load load;
    bool stop_load; /* likewise */
    struct item *item; /* [n_item] by rising n_tok, then key */
    uint32_t n_item, cap_item;
    struct sl_shelf_stats stats;
    bool stop;
    uint64_t end_ns; /* with stop: when the queue is given up */

    struct sl_thread thread;
    bool started;
};

/* -------------------------------------------------------------- the index */

static int order(const struct item *a, uint32_t n_tok,
                 const uint8_t key[SL_SHA256])
{
    if (a->n_tok != n_tok)
        return a->n_tok < n_tok ? -1 : 1;
    return memcmp(a->key, key, SL_SHA256);
}

/* Of the first item that is not before this one. */
static uint32_t place_of(const struct sl_shelf *s, uint32_t n_tok,
                         const uint8_t key[SL_SHA256])
{
    uint32_t lo = 0, hi = s->n_item;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (order(&s->item[mid], n_tok, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool is_at(const struct sl_shelf *s, uint32_t i, uint32_t n_tok,
                  const uint8_t key[SL_SHA256])
{
    return i < s->n_item && order(&s->item[i], n_tok, key) == 0;
}

/* Room for one more item. Only the I/O thread changes the list, so it may look
 * at it without the lock. */
static bool grow(struct sl_shelf *s)
{
    uint32_t cap = s->cap_item ? 2 * s->cap_item : 256;
    struct item *more, *old = s->item;

    if (s->n_item < s->cap_item)
        return true;
    if (sl_mem_alloc(&more, cap, sizeof(*more), "prefixes", NULL))
        return false;
    if (old)
        memcpy(more, old, s->n_item * sizeof(*more));
    sl_lock(&s->mu);
    s->item = more;
    s->cap_item = cap;
    sl_unlock(&s->mu);
    sl_mem_free(old);
    return true;
}

/* struct sl_disk_fn: without memory it is not found, and read again. */
static void add_item(void *ctx, const uint8_t key[SL_SHA256], uint32_t n_tok)
{
    struct sl_shelf *s = ctx;
    uint32_t i = place_of(s, n_tok, key);

    if (is_at(s, i, n_tok, key) || !grow(s))
        return;
    sl_lock(&s->mu);
    memmove(s->item + i + 1, s->item + i, (s->n_item - i) * sizeof(*s->item));
    s->item[i].n_tok = n_tok;
    memcpy(s->item[i].key, key, SL_SHA256);
    s->n_item++;
    sl_unlock(&s->mu);
}

static void remove_item(void *ctx, const uint8_t key[SL_SHA256], uint32_t n_tok)
{
    struct sl_shelf *s = ctx;
    uint32_t i;

    sl_lock(&s->mu);
    i = place_of(s, n_tok, key);
    if (is_at(s, i, n_tok, key)) {
        s->n_item--;
        memmove(s->item + i, s->item + i + 1,
                (s->n_item - i) * sizeof(*s->item));
    }
    sl_unlock(&s->mu);
}

/* ------------------------------------------------------ what a record holds */

static uint32_t n_full(uint32_t n_tok)
{
    return n_tok / SL_KV_PAGE;
}

static void page_part(struct sl_wire_part *part, const struct sl_shelf *s,
                      uint32_t page)
{
    const struct sl_kv *kv = s->mem->kv;

    *part =
        (struct sl_wire_part){kv->base + page * kv->page_bytes, kv->page_bytes};
}

/* The page i of q, whose key is `chain`. */
static void page_record(struct sl_wire *w, struct sl_wire_part *part,
                        const struct sl_shelf *s, const struct sl_seq *q,
                        uint32_t i, const uint8_t chain[SL_SHA256])
{
    *w = (struct sl_wire){.kind = SL_WIRE_PAGE,
                          .n_tok = (i + 1) * SL_KV_PAGE,
                          .bytes = s->mem->kv->page_bytes};
    memcpy(w->key, chain, SL_SHA256);
    memcpy(w->from, q->from, sizeof(w->from));
    page_part(part, s, q->page[i]);
}

/* The state in `slot` behind n_tok tokens. Returns the number of parts. */
static uint32_t state_record(struct sl_wire *w,
                             struct sl_wire_part part[SL_WIRE_PARTS],
                             const struct sl_shelf *s, const struct sl_seq *q,
                             uint32_t slot, uint32_t n_tok)
{
    const struct sl_rec *r = s->mem->rec;
    uint32_t n = 1;

    *w = (struct sl_wire){.kind = SL_WIRE_STATE, .n_tok = n_tok};
    memcpy(w->from, q->from, sizeof(w->from));
    part[0].p = r->slot + slot * r->slot_floats;
    part[0].n = r->slot_floats * sizeof(*r->slot);
    if (n_tok % SL_KV_PAGE)
        page_part(&part[n++], s, q->page[n_full(n_tok)]);
    for (uint32_t i = 0; i < n; i++)
        w->bytes += part[i].n;
    return n;
}

/* --------------------------------------------------------------- reading */

/* Where a plane was not filled in the record, it is not in the sequence. */
static void take_from(struct sl_seq *q, const struct sl_wire *w, uint32_t first)
{
    for (uint32_t i = 0; i < q->mem->kv->n_plane; i++)
        if (w->from[i] > first)
            q->from[i] =
                (uint32_t)sl_max(q->from[i], sl_min(w->from[i], w->n_tok));
}

static bool is_unwanted(struct sl_shelf *s)
{
    bool yes;

    sl_lock(&s->mu);
    yes = s->stop_load;
    sl_unlock(&s->mu);
    return yes;
}

/* A page that is damaged is removed by reading it, so the rest is looked at,
 * too: it is written anew with the next prefix. Behind any other failure only
 * the digests go on, to that of the state. */
static int read_pages(struct sl_shelf *s, struct load *l,
                      uint8_t chain[SL_SHA256], struct sl_wire *state,
                      struct sl_err *err)
{
    uint32_t full = n_full(l->n);
    struct sl_wire_part part;
    struct sl_wire w;
    int64_t now = sl_file_now();
    int rc = 0, one = 0;

    for (uint32_t i = 0; i < full; i++) {
        if (!sl_wire_page(chain, l->tok + i * SL_KV_PAGE))
            return sl_fail(err, SL_ENOMEM, "no memory for a digest");
        if (one && one != SL_EFORMAT)
            continue;
        if (is_unwanted(s)) {
            rc = one = SL_ECANCEL;
            continue;
        }
        page_record(&w, &part, s, l->q, i, chain);
        (void)sl_disk_use(&s->disk, &w, now - i * (int64_t)ORDER_NS);
        if (i < n_full(l->had))
            continue;
        one = sl_disk_read(&s->disk, &w, &part, 1, rc ? NULL : err);
        rc = rc ? rc : one;
        take_from(l->q, &w, i * SL_KV_PAGE);
    }
    if (!sl_wire_state(state->key, chain, l->tok + full * SL_KV_PAGE,
                       l->n - full * SL_KV_PAGE))
        return sl_fail(err, SL_ENOMEM, "no memory for a digest");
    return rc;
}

static int read_all(struct sl_shelf *s, struct load *l, struct sl_err *err)
{
    uint8_t chain[SL_SHA256];
    struct sl_wire_part part[SL_WIRE_PARTS];
    struct sl_wire w;
    uint32_t full = n_full(l->n);
    uint32_t n_part = state_record(&w, part, s, l->q, l->q->rec.dst, l->n);
    int rc;

    if (!sl_wire_begin(chain, s->disk.model, l->salt))
        return sl_fail(err, SL_ENOMEM, "no memory for a digest");
    rc = read_pages(s, l, chain, &w, err);
    if (!rc && is_unwanted(s))
        rc = SL_ECANCEL;
    if (!rc)
        rc = sl_disk_read(&s->disk, &w, part, n_part, err);
    if (rc == SL_ECANCEL)
        return rc;
    /* What fails now may be read later, or by others; it is in the index again
     * when it is written again. */
    if (rc)
        remove_item(s, w.key, l->n);
    if (rc == SL_ENOTFOUND || rc == SL_EFORMAT)
        sl_disk_remove(&s->disk, &w);
    if (rc)
        return rc;
    take_from(l->q, &w, full * SL_KV_PAGE);
    (void)sl_disk_use(&s->disk, &w, sl_file_now() - full * (int64_t)ORDER_NS);
    return 0;
}

static void read_load(struct sl_shelf *s)
{
    struct load *l = &s->load;
    struct sl_err err = {0};
    int rc = read_all(s, l, &err);

    /* A file that is gone made room, perhaps just now, or for another server. */
    if (rc && rc != SL_ECANCEL)
        sl_log(rc == SL_ENOTFOUND ? SL_LOG_INFO : SL_LOG_WARN,
               "event=prefix_dropped tokens=%u why=\"%s\"", l->n, err.msg);
    sl_lock(&s->mu);
    l->ok = rc == 0;
    l->state = DONE;
    s->stats.n_drop += rc && rc != SL_ENOTFOUND && rc != SL_ECANCEL;
    s->stats.n_load += rc == 0;
    s->stats.n_tok_load += rc == 0 ? l->n - l->had : 0;
    s->stats.bytes = s->disk.bytes;
    sl_cond_wake_all(&s->change);
    sl_unlock(&s->mu);
    s->opts.wake(s->opts.wake_ctx);
}

/* --------------------------------------------------------------- writing */

/* mu is held. */
static bool is_late(const struct sl_shelf *s)
{
    return s->stop && sl_clock_ns() >= s->end_ns;
}

/* Before each file: somebody may wait for a load, or for this to end. */
static bool goes_on(struct sl_shelf *s)
{
    bool yes;

    sl_lock(&s->mu);
    yes = !s->give_up && s->load.state != ASKED && !is_late(s);
    sl_unlock(&s->mu);
    return yes;
}

static int write_record(struct sl_shelf *s, struct sl_wire *w,
                        const struct sl_wire_part *part, uint32_t n_part,
                        int64_t used_ns, struct sl_err *err)
{
    if (!goes_on(s))
        return SL_ECANCEL;
    if (sl_disk_use(&s->disk, w, used_ns))
        return 0;
    return sl_disk_write(&s->disk, w, part, n_part, used_ns, remove_item, s,
                         err);
}

static int write_all(struct sl_shelf *s, const struct put *p,
                     struct sl_err *err)
{
    uint32_t n = p->q->n_tok, full = n_full(n), n_part;
    int64_t now = sl_file_now();
    struct sl_wire_part part[SL_WIRE_PARTS], page;
    uint8_t chain[SL_SHA256];
    struct sl_wire state, w;
    bool ok = sl_wire_begin(chain, s->disk.model, p->salt);
    int rc = 0;

    n_part = state_record(&state, part, s, p->q, p->q->rec.slot, n);
    if (full * (SL_WIRE_HEAD + (uint64_t)s->mem->kv->page_bytes) +
            SL_WIRE_HEAD + state.bytes > sl_disk_most(&s->disk))
        return sl_fail(err, SL_ENOSPACE,
                       "its files pass the limit; raise "
                       "--prefix-cache-dir-gib");
    for (uint32_t i = 0; ok && !rc && i < full; i++) {
        ok = sl_wire_page(chain, p->tok + i * SL_KV_PAGE);
        page_record(&w, &page, s, p->q, i, chain);
        rc = write_record(s, &w, &page, 1, now - i * (int64_t)ORDER_NS, err);
    }
    if (rc)
        return rc;
    ok = ok && sl_wire_state(state.key, chain, p->tok + full * SL_KV_PAGE,
                             n - full * SL_KV_PAGE);
    if (!ok)
        return sl_fail(err, SL_ENOMEM, "no memory for a digest");
    rc = write_record(s, &state, part, n_part, now - full * (int64_t)ORDER_NS,
                      err);
    if (!rc)
        add_item(s, state.key, n);
    return rc;
}

static void log_unwritten(uint32_t n_tok, const char *why)
{
    sl_log(SL_LOG_WARN,
           "event=prefix_dropped tokens=%u why=\"not written: %s\"", n_tok, why);
}

/* mu is held, and there is room. */
static void put_first(struct sl_shelf *s, const struct put *p)
{
    memmove(s->queue + 1, s->queue, s->n_queue++ * sizeof(*p));
    s->queue[0] = *p;
}

static void write_put(struct sl_shelf *s, const struct put *p)
{
    struct sl_err err = {0};
    uint32_t n = p->q->n_tok;
    int rc = write_all(s, p, &err);

    sl_lock(&s->mu);
    if (rc == SL_ECANCEL && !s->give_up) {
        if (s->n_queue == QUEUE)
            rc = sl_fail(&err, SL_EBUSY, TOO_SLOW);
        else
            put_first(s, p);
    }
    s->stats.n_put += rc == 0;
    s->stats.n_drop += rc && rc != SL_ECANCEL;
    s->stats.bytes = s->disk.bytes;
    s->stats.n_evict = s->disk.n_evict;
    s->writing = NULL;
    s->give_up = false;
    sl_cond_wake_all(&s->change);
    sl_unlock(&s->mu);
    if (rc && rc != SL_ECANCEL)
        log_unwritten(n, err.msg);
}

/* ------------------------------------------------------------ the thread */

enum work { LOAD, PUT, END };

/* What to do next; *p is taken out of the queue. Sleeps while there is nothing. */
static enum work next_work(struct sl_shelf *s, struct put *p)
{
    enum work w = END;

    sl_lock(&s->mu);
    while (!s->stop && s->n_queue == 0 && s->load.state != ASKED)
        sl_cond_wait(&s->change, &s->mu);
    if (s->load.state == ASKED) {
        w = LOAD;
    } else if (s->n_queue > 0 && !is_late(s)) {
        w = PUT;
        *p = s->queue[0];
        s->writing = p->q;
        memmove(s->queue, s->queue + 1, --s->n_queue * sizeof(*p));
    }
    sl_unlock(&s->mu);
    return w;
}

static void *shelf_main(void *arg)
{
    struct sl_shelf *s = arg;
    enum work w;
    struct put p;

    while ((w = next_work(s, &p)) != END)
        if (w == LOAD)
            read_load(s);
        else
            write_put(s, &p);
    return NULL;
}

int sl_shelf_open(struct sl_shelf **out, struct sl_memory *mem,
                  const struct sl_shelf_opts *opts, struct sl_err *err)
{
    struct sl_shelf *s = NULL;
    int rc = sl_mem_alloc(&s, 1, sizeof(*s), "the prefixes on disk", err);

    if (rc)
        return rc;
    s->mem = mem;
    s->opts = *opts;
    sl_mutex_init(&s->mu, SL_RANK_SHELF);
    sl_cond_init(&s->change);
    rc = sl_mem_alloc(&s->chain, n_full(mem->max_tok) + 1, sizeof(*s->chain),
                      "the prefixes on disk", err);
    if (!rc)
        rc = sl_disk_open(&s->disk, opts->dir, opts->max_bytes, opts->model,
                          add_item, s, err);
    s->stats.bytes = s->disk.bytes;
    if (!rc)
        rc = sl_thread_start(&s->thread, shelf_main, s, "prefix-io", err);
    s->started = rc == 0;
    if (rc)
        sl_shelf_close(&s);
    else
        *out = s;
    return rc;
}

/* The load that was done, or (`any`) the one that nobody will do; its sequence
 * is in a step whose rows are its tokens. */
static struct load end_load(struct sl_shelf *s, bool any)
{
    struct load l = {0};

    sl_lock(&s->mu);
    if (s->load.state == DONE || any) {
        l = s->load;
        s->load = (struct load){0};
    }
    sl_unlock(&s->mu);
    if (l.q)
        sl_seq_end(l.q, 0);
    if (!l.ok) {
        sl_seq_close(&l.q);
        sl_mem_free(l.tok);
    }
    return l;
}

void sl_shelf_close(struct sl_shelf **ps)
{
    struct sl_shelf *s = *ps;
    struct load l;

    if (!s)
        return;
    *ps = NULL;
    if (s->started) {
        sl_lock(&s->mu);
        s->stop = s->stop_load = true;
        s->end_ns = sl_clock_ns() + s->opts.close_ns;
        sl_cond_wake_all(&s->change);
        sl_unlock(&s->mu);
        sl_thread_join(&s->thread);
    }
    if (s->n_queue > 0)
        sl_log(SL_LOG_WARN,
               "event=prefix_dropped prefixes=%u why=\"not written: the disk is "
               "too slow to wait for it at the end\"",
               s->n_queue);
    l = end_load(s, true);
    if (l.ok) {
        sl_seq_close(&l.q);
        sl_mem_free(l.tok);
    }
    sl_disk_close(&s->disk);
    sl_mem_free(s->item);
    sl_mem_free(s->chain);
    sl_cond_deinit(&s->change);
    sl_mutex_deinit(&s->mu);
    sl_mem_free(s);
}

/* ------------------------------------------------------------ engine thread */

void sl_shelf_put(struct sl_shelf *s, const struct sl_seq *q,
                  const int32_t *tok, uint64_t salt)
{
    uint32_t n_lost = 0; /* tokens of the oldest */

    sl_lock(&s->mu);
    if (s->n_queue == QUEUE) {
        n_lost = s->queue[0].q->n_tok;
        s->stats.n_drop++;
        memmove(s->queue, s->queue + 1, --s->n_queue * sizeof(*s->queue));
    }
    s->queue[s->n_queue++] = (struct put){.q = q, .tok = tok, .salt = salt};
    sl_cond_wake_all(&s->change);
    sl_unlock(&s->mu);
    if (n_lost > 0)
        log_unwritten(n_lost, TOO_SLOW);
}

void sl_shelf_forget(struct sl_shelf *s, const struct sl_seq *q)
{
    uint32_t n = 0;

    sl_lock(&s->mu);
    for (uint32_t i = 0; i < s->n_queue; i++)
        if (s->queue[i].q != q)
            s->queue[n++] = s->queue[i];
    s->n_queue = n;
    while (s->writing == q) {
        s->give_up = true;
        sl_cond_wait(&s->change, &s->mu);
    }
    sl_unlock(&s->mu);
}

const struct sl_seq *sl_shelf_writing(struct sl_shelf *s)
{
    const struct sl_seq *q;

    sl_lock(&s->mu);
    q = s->writing;
    sl_unlock(&s->mu);
    return q;
}

/* The greatest length in the index that is at most n, or 0. */
static uint32_t next_length(struct sl_shelf *s, uint32_t n)
{
    const uint8_t before_all[SL_SHA256] = {0};
    uint32_t end, len;

    sl_lock(&s->mu);
    end = place_of(s, n + 1, before_all);
    len = end > 0 ? s->item[end - 1].n_tok : 0;
    sl_unlock(&s->mu);
    return len;
}

static bool has_item(struct sl_shelf *s, uint32_t n_tok,
                     const uint8_t key[SL_SHA256])
{
    bool yes;

    sl_lock(&s->mu);
    yes = is_at(s, place_of(s, n_tok, key), n_tok, key);
    sl_unlock(&s->mu);
    return yes;
}

uint32_t sl_shelf_find(struct sl_shelf *s, const int32_t *tok, uint32_t n,
                       uint32_t least, uint64_t salt)
{
    uint8_t key[SL_SHA256];
    uint32_t len;
    bool ok = sl_wire_begin(s->chain[0], s->opts.model, salt);

    n = (uint32_t)sl_min(n, s->mem->max_tok);
    for (uint32_t i = 0; ok && i < n_full(n); i++) {
        memcpy(s->chain[i + 1], s->chain[i], SL_SHA256);
        ok = sl_wire_page(s->chain[i + 1], tok + i * SL_KV_PAGE);
    }
    for (; ok && (len = next_length(s, n)) >= least; n = len - 1) {
        uint32_t at = n_full(len) * SL_KV_PAGE;

        ok = sl_wire_state(key, s->chain[n_full(len)], tok + at, len - at);
        if (ok && has_item(s, len, key))
            return len;
    }
    return 0;
}

int sl_shelf_load(struct sl_shelf *s, struct sl_seq *q, const int32_t *tok,
                  uint32_t n, uint64_t salt, struct sl_err *err)
{
    struct load l = {
        .state = ASKED, .q = q, .n = n, .had = q->n_tok, .salt = salt};
    int rc = sl_mem_alloc(&l.tok, n, sizeof(*tok), "a prefix", err);

    if (!rc)
        rc = sl_seq_begin(q, n - q->n_tok, 0, err);
    if (rc) {
        sl_mem_free(l.tok);
        sl_seq_close(&q);
        return rc;
    }
    memcpy(l.tok, tok, n * sizeof(*tok));
    sl_lock(&s->mu);
    SL_ASSERT(s->load.state == NO_LOAD);
    s->load = l;
    s->stop_load = false;
    sl_cond_wake_all(&s->change);
    sl_unlock(&s->mu);
    return 0;
}

bool sl_shelf_is_loading(struct sl_shelf *s)
{
    bool yes;

    sl_lock(&s->mu);
    yes = s->load.state == ASKED;
    sl_unlock(&s->mu);
    return yes;
}

void sl_shelf_stop_load(struct sl_shelf *s, bool wait)
{
    sl_lock(&s->mu);
    s->stop_load = true;
    while (wait && s->load.state == ASKED)
        sl_cond_wait(&s->change, &s->mu);
    sl_unlock(&s->mu);
}

bool sl_shelf_loaded(struct sl_shelf *s, struct sl_seq **q, int32_t **tok,
                     uint64_t *salt)
{
    struct load l = end_load(s, false);

    *q = l.ok ? l.q : NULL;
    *tok = l.ok ? l.tok : NULL;
    *salt = l.salt;
    return l.ok;
}

void sl_shelf_get_stats(struct sl_shelf *s, struct sl_shelf_stats *out)
{
    sl_lock(&s->mu);
    *out = s->stats;
    out->n_state = s->n_item;
    sl_unlock(&s->mu);
}
