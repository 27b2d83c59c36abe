/* engine/stats.c - what the engine tells of itself
 *
 * The engine thread counts for itself and publishes a copy once a step, so that
 * whoever asks waits for no step, and no counter is seen to fall.
 */
#include "engine/gen.h"

_Static_assert(SL_STATS_BY == SL_DRAFTER_NONE + 1, "everybody has a counter");
_Static_assert(SL_STATS_DRAFT >= SL_MAX_DRAFT, "every draft has a counter");

void sl_engine_count_step(struct sl_engine *e, uint32_t n_row, double s)
{
    uint32_t i = 0;

    /* Borders 1, 8, 16, 32, ... */
    while (i + 1 < SL_STATS_ROWS && n_row > (i == 0 ? 1u : 4u << i))
        i++;
    e->now.step_rows[i]++;
    e->now.n_step++;
    e->now.n_row += n_row;
    e->now.step_s += s;
}

/* What the public face calls who drafts. */
static enum sl_draft_by name_of(enum sl_by by)
{
    static const enum sl_draft_by name[SL_N_BY] = {
        [SL_BY_NONE] = SL_DRAFTER_NONE,
        [SL_BY_NGRAM] = SL_DRAFTER_NGRAM,
        [SL_BY_MTP] = SL_DRAFTER_MTP,
        [SL_BY_FLASH] = SL_DRAFTER_DFLASH,
    };

    return name[by];
}

void sl_engine_count_round(struct sl_engine *e, enum sl_by by,
                           uint32_t n_draft, uint32_t n_accept)
{
    e->now.by_draft[name_of(by)] += n_draft;
    e->now.by_accept[name_of(by)] += n_accept;
    e->now.n_round += n_draft > 0;
    e->now.n_draft += n_draft;
    e->now.n_accept += n_accept;
    for (uint32_t i = 0; i < n_accept; i++)
        e->now.accept_at[i]++;
}

/* Who drafts for each sequence behind this step. */
static void tell_drafters(struct sl_engine *e)
{
    for (uint32_t i = 0; i < SL_STATS_SEQS; i++) {
        const struct sl_gen *g = i < e->n_run ? e->run[i] : NULL;

        e->now.depth[i] = g ? (uint8_t)g->n_draft : 0;
        e->now.by[i] =
            (uint8_t)name_of(e->now.depth[i] ? g->by : SL_BY_NONE);
    }
    e->now.n_stop = e->spec.n_stop;
}

static void tell_prefixes(const struct sl_engine *e,
                          struct sl_prefix_cache_stats *out)
{
    struct sl_prefix_stats p;
    struct sl_shelf_stats d = {0};

    sl_prefix_get_stats(e->prefix, &p);
    if (e->shelf)
        sl_shelf_get_stats(e->shelf, &d);
    *out = (struct sl_prefix_cache_stats){.n_kept = p.n_entry,
                                          .n_hit = p.n_hit,
                                          .n_miss = p.n_miss,
                                          .n_tok_hit = p.n_tok_hit,
                                          .n_put = p.n_put,
                                          .n_evict = p.n_evict,
                                          .page_bytes = p.page_bytes,
                                          .state_bytes = p.state_bytes,
                                          .on_disk = e->shelf != NULL,
                                          .n_disk = d.n_state,
                                          .disk_bytes = d.bytes,
                                          .n_disk_put = d.n_put,
                                          .n_disk_load = d.n_load,
                                          .n_disk_tok = d.n_tok_load,
                                          .n_disk_evict = d.n_evict,
                                          .n_disk_drop = d.n_drop};
}

void sl_engine_publish(struct sl_engine *e)
{
    const struct sl_kv *kv = e->mem->kv;

    tell_prefixes(e, &e->now.prefix);
    e->now.n_run = e->n_run;
    tell_drafters(e);
    e->now.kv_total = (uint64_t)kv->n_page * SL_KV_PAGE;
    e->now.kv_used = (uint64_t)(kv->n_page - kv->n_free) * SL_KV_PAGE;
    e->now.n_state = e->mem->rec->n_slot - e->mem->rec->n_free;
    e->now.n_state_max = e->mem->rec->n_slot;
    sl_lock(&e->mu);
    e->told = e->now;
    sl_unlock(&e->mu);
}

void sl_engine_stats(struct sl_engine *e, struct sl_engine_stats *out)
{
    sl_lock(&e->mu);
    *out = e->told;
    sl_unlock(&e->mu);
}
