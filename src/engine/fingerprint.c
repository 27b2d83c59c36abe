/* engine/fingerprint.c - what tells engines apart whose answers may differ
 *
 * An answer is a function of the request and of what is digested here (D2, D4):
 * the arithmetic, the weights and the tokenizer beside them, the types that
 * keys and values are kept in, the template, the defaults of sampling, and the
 * rule that keeps drafts. Threads, instruction sets, batches, caches and exact
 * drafting change nothing, and are left out. Another rule keeps what somebody
 * proposed: then who that is and how much he may propose is digested, too.
 */
#include "engine/engine.h"

#include "kern/kern.h"
#include "model/packing.h"

#define SHOWN 8 /* bytes of the digest; chosen: a name, not a proof */

static void add_float(struct sl_sha256 *s, float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    sl_sha256_u64(s, bits);
}

/* Who drafts, and how much. False when the files of the block drafter cannot be
 * listed. */
static bool add_drafting(struct sl_sha256 *s, const struct sl_engine *e,
                         const char *drafter)
{
    const struct sl_engine_opts *o = &e->opts;
    const uint64_t number[] = {
        (uint64_t)o->draft,    (uint64_t)o->drafter, (uint64_t)o->draft_weights,
        e->uses_mtp,           o->draft_depth,       o->mtp_prime,
        o->dflash_max_context, o->dflash_hysteresis};
    uint8_t id[SL_SHA256] = {0};

    if (drafter && !sl_packing_folder_id(id, drafter))
        return false;
    sl_sha256_add(s, id, sizeof(id));
    for (size_t i = 0; i < SL_COUNTOF(number); i++)
        sl_sha256_u64(s, number[i]);
    sl_sha256_u64(s, e->spec.ladder.n);
    for (uint32_t i = 0; i < e->spec.ladder.n; i++) {
        sl_sha256_u64(s, e->spec.ladder.rung[i].users);
        sl_sha256_u64(s, e->spec.ladder.rung[i].rows);
        sl_sha256_u64(s, (uint64_t)e->spec.ladder.rung[i].by);
    }
    add_float(s, o->spec_disable_ratio);
    return true;
}

void sl_engine_fingerprint(struct sl_engine *e, const char *drafter)
{
    const struct sl_conf *c = &e->weights->conf;
    const struct sl_defaults *d = &e->defaults;
    const uint64_t number[] = {SL_CONTRACT,
                               e->opts.dummy,
                               (uint64_t)e->opts.kv_type,
                               c->n_layer,
                               c->hidden,
                               e->n_vocab,
                               (uint64_t)d->top_k,
                               (uint64_t)e->opts.accept};
    const float real[] = {d->temperature,        d->top_p,
                          d->min_p,              d->repetition_penalty,
                          d->presence_penalty,   d->frequency_penalty,
                          e->opts.accept == SL_KEEP_LENIENT ? e->opts.lenience
                                                            : 0,
                          e->opts.accept == SL_KEEP_RELAXED
                              ? e->opts.relax_threshold
                              : 0};
    uint8_t digest[SL_SHA256];
    struct sl_sha256 s;
    const char *text;
    size_t len;

    if (!e->has_weights_id && !e->opts.dummy)
        return;
    sl_sha256_init(&s);
    sl_sha256_add(&s, SL_VERSION, sizeof(SL_VERSION));
    sl_sha256_add(&s, e->weights_id, sizeof(e->weights_id));
    for (size_t i = 0; i < SL_COUNTOF(number); i++)
        sl_sha256_u64(&s, number[i]);
    for (size_t i = 0; i < SL_COUNTOF(real); i++)
        add_float(&s, real[i]);
    text = sl_chat_template(&len, e);
    if (text)
        sl_sha256_add(&s, text, len);
    if (e->opts.accept != SL_KEEP_EXACT && !add_drafting(&s, e, drafter))
        return;
    if (!sl_sha256_end(&s, digest))
        return;
    snprintf(e->fingerprint, sizeof(e->fingerprint), "fp_");
    for (size_t i = 0; i < SHOWN; i++)
        snprintf(e->fingerprint + 3 + 2 * i, 3, "%02x", digest[i]);
}
