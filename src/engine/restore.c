/* engine/restore.c - what the disk holds of a prompt
 *
 * A prompt that could run is looked up in the index of the shelf, which touches
 * no file. When the disk holds a page or more beyond what memory has, and loading
 * takes less time than reading, as far as both were measured (D7), the prompt
 * waits while the I/O thread fills pages and a state, or until it is its turn to
 * load; others pass it in the queue. Then these are a kept prefix like any
 * other, and the prompt is admitted in the usual way. A load that fails costs
 * that time and nothing else: the next shorter prefix is tried, and in the end
 * the tokens are read. A load ends when nobody wants it any more, or when those
 * that run need its pages.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sha256.h"
#include "engine/gen.h"
#include "kern/kern.h"
#include "model/packing.h"

/* Loads for one prompt: each that fails drops a prefix. Chosen. */
#define MAX_ASK 4
#define DEFAULT_BYTES ((uint64_t)10 << 30) /* chosen */
/* The end waits so long for what is still to be written: some gigabytes on any
 * disk that is worth it. Chosen. */
#define CLOSE_NS ((uint64_t)5 * 1000000000)
#define LEARN 0.25 /* weight of the last load. Chosen */
/* A disk that was slow is tried again after some prompts. Chosen. */
#define FORGET 0.9

/* I/O thread. */
static void on_loaded(void *ctx)
{
    struct sl_engine *e = ctx;

    sl_lock(&e->mu);
    e->loaded = true;
    sl_cond_wake_all(&e->work);
    sl_unlock(&e->mu);
}

/* A digest of all that keys, values and states depend on, but for the tokens:
 * weights, contracts, types, shapes, and who fills the drafters' planes. */
static bool identify(uint8_t out[SL_SHA256], const struct sl_engine *e,
                     const char *drafter)
{
    const struct sl_kv *kv = e->mem->kv;
    const struct sl_rec_shape *r = &e->mem->rec->shape;
    const uint32_t one = 1; /* the order of its bytes */
    uint8_t id[SL_SHA256] = {0};
    const uint64_t number[] = {SL_WIRE_VERSION,    SL_CONTRACT, e->opts.dummy,
                               (uint64_t)kv->type, SL_KV_PAGE,  kv->page_bytes,
                               kv->n_plane,        e->uses_mtp, r->n_layer,
                               r->n_key,           r->n_val,    r->key_dim,
                               r->val_dim};
    struct sl_sha256 s;

    if (!e->has_weights_id || (drafter && !sl_packing_folder_id(id, drafter)))
        return false;
    sl_sha256_init(&s);
    sl_sha256_add(&s, e->weights_id, sizeof(e->weights_id));
    sl_sha256_add(&s, id, sizeof(id));
    sl_sha256_add(&s, &one, sizeof(one));
    for (size_t i = 0; i < SL_COUNTOF(number); i++)
        sl_sha256_u64(&s, number[i]);
    for (uint32_t i = 0; i < kv->n_plane; i++) {
        sl_sha256_u64(&s, kv->plane[i].n_layer);
        sl_sha256_u64(&s, kv->plane[i].n_head);
        sl_sha256_u64(&s, kv->plane[i].dim);
    }
    return sl_sha256_end(&s, out);
}

int sl_restore_open(struct sl_engine *e, const char *drafter,
                    struct sl_err *err)
{
    struct sl_shelf_opts o = {.dir = e->opts.prefix_cache_dir,
                              .max_bytes = e->opts.prefix_cache_dir_bytes,
                              .wake = on_loaded,
                              .wake_ctx = e,
                              .close_ns = CLOSE_NS};
    int rc;

    if (!o.dir)
        return 0;
    if (e->n_keep == 0)
        return sl_fail(err, SL_ENOMEM,
                       "--prefix-cache-dir needs room for a kept prefix in "
                       "memory, which is %.2f GiB; raise --prefix-cache-gib",
                       (double)sl_rec_slot_bytes(&e->mem->rec->shape) / 0x1p30);
    if (!identify(o.model, e, drafter))
        return sl_fail(err, SL_EIO,
                       "--prefix-cache-dir: the files of the model cannot be "
                       "listed, so that it cannot be told from others");
    if (o.max_bytes == 0)
        o.max_bytes = DEFAULT_BYTES;
    rc = sl_shelf_open(&e->shelf, e->mem, &o, err);
    if (!rc)
        sl_prefix_set_shelf(e->prefix, e->shelf);
    return sl_wrap(err, rc, "--prefix-cache-dir");
}

void sl_restore_close(struct sl_engine *e)
{
    if (e->prefix)
        sl_prefix_set_shelf(e->prefix, NULL);
    sl_shelf_close(&e->shelf);
}

/* Does loading n tokens take less than reading those behind the first `have`?
 * What was never measured does. */
static bool pays(struct sl_engine *e, uint32_t have, uint32_t n)
{
    uint64_t context = (uint64_t)(n - have) * (n + have) / 2;
    double read_s = sl_cost_predict(&e->cost, n - have, context);

    if (read_s <= 0 || e->disk_tok_s * n <= read_s)
        return true;
    e->disk_tok_s *= FORGET;
    return false;
}

/* Does the disk have a page of g or more beyond the `have` tokens in memory that
 * is worth to be loaded? If not, it is never asked again. */
static bool has_more(struct sl_engine *e, struct sl_gen *g, uint32_t have)
{
    /* What is longer failed, or was not there the first time. */
    uint32_t most = g->n_disk ? g->n_disk : g->n_known - 1;

    g->n_disk = sl_shelf_find(e->shelf, g->tok, most, have + SL_KV_PAGE,
                              g->salt);
    if (g->n_disk > 0 && !pays(e, have, g->n_disk))
        g->n_disk = 0;
    if (g->n_disk == 0)
        g->n_asked = MAX_ASK;
    return g->n_disk > 0;
}

/* For its load, or for its turn. */
bool sl_restore_waits(struct sl_engine *e, struct sl_gen *g)
{
    if (!e->loading || g->no_cache)
        return false;
    if (e->loads_for == g)
        return true;
    if (g->n_asked == MAX_ASK)
        return false;
    return g->n_disk > 0 ||
           has_more(e, g, sl_prefix_known(e->prefix, g->tok, g->n_known,
                                          g->salt));
}

bool sl_restore_start(struct sl_engine *e, struct sl_gen *g)
{
    struct sl_err err;

    if (!e->shelf || e->loading || g->no_cache || g->n_asked == MAX_ASK ||
        !has_more(e, g, g->seq->n_tok))
        return false;
    g->n_asked++;
    e->load_ns = sl_clock_ns();
    e->loading = !sl_shelf_load(e->shelf, g->seq, g->tok, g->n_disk, g->salt,
                                &err);
    if (e->loading)
        e->loads_for = g;
    else
        sl_log(SL_LOG_WARN, "event=prefix_load why=\"%s\"", err.msg);
    g->seq = NULL;
    return true; /* also without room: it is admitted in the next step */
}

static void learn(struct sl_engine *e, uint32_t n_tok)
{
    double s = (double)(sl_clock_ns() - e->load_ns) / 1e9 / n_tok;

    e->disk_tok_s = e->disk_tok_s > 0 ? e->disk_tok_s + LEARN * (s - e->disk_tok_s) : s;
}

void sl_restore_finish(struct sl_engine *e)
{
    struct sl_seq *q;
    int32_t *tok;
    uint64_t salt;

    if (!e->loading)
        return;
    if (sl_shelf_is_loading(e->shelf))
        return;
    e->loading = false;
    e->loads_for = NULL;
    if (!sl_shelf_loaded(e->shelf, &q, &tok, &salt))
        return;
    learn(e, q->n_tok);
    sl_prefix_give(e->prefix, q, tok, salt);
}

void sl_restore_cancel(struct sl_engine *e, const struct sl_gen *g)
{
    if (e->loads_for != g)
        return;
    e->loads_for = NULL;
    sl_shelf_stop_load(e->shelf, false);
}

/* Its pages are needed now. Whoever wants them may ask again. */
bool sl_restore_give_up(struct sl_engine *e)
{
    if (!e->loading)
        return false;
    sl_shelf_stop_load(e->shelf, true);
    sl_restore_finish(e);
    return true;
}
