/* engine/oracle.c - a drafter that knows the answer; see oracle.h */
#include "engine/oracle.h"

#include "engine/gen.h"

/* Splitmix (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
 * Generators", 2014); 0 <= x < 1. */
static double next(uint64_t *s)
{
    uint64_t z = *s += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void replace(struct sl_engine *e, enum sl_by by)
{
    struct sl_oracle *o = e->oracle;

    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];
        uint32_t out = g->n_known - g->n_prompt;

        for (uint32_t k = 0; g->by == by && k < g->n_draft; k++) {
            int32_t id = out + k < o->n ? o->ids[out + k] : 0;

            if (next(&o->random) >= o->accept)
                id = (id + 1) % (int32_t)e->n_vocab;
            g->draft[k] = id;
        }
    }
}

static int open_mtp(struct sl_gen *g, struct sl_err *err)
{
    return sl_draft_mtp.open(g, err);
}

static void close_mtp(struct sl_gen *g)
{
    sl_draft_mtp.close(g);
}

static uint32_t look_mtp(struct sl_gen *g, uint32_t most, enum sl_odds_of *odds)
{
    return sl_draft_mtp.look(g, most, odds);
}

static void run_mtp(struct sl_engine *e)
{
    sl_draft_mtp.run(e);
    replace(e, SL_BY_MTP);
}

static void forget_mtp(struct sl_gen *g)
{
    sl_draft_mtp.forget(g);
}

static int open_flash(struct sl_gen *g, struct sl_err *err)
{
    return sl_draft_flash.open(g, err);
}

static void close_flash(struct sl_gen *g)
{
    sl_draft_flash.close(g);
}

static uint32_t look_flash(struct sl_gen *g, uint32_t most,
                           enum sl_odds_of *odds)
{
    return sl_draft_flash.look(g, most, odds);
}

static void run_flash(struct sl_engine *e)
{
    sl_draft_flash.run(e);
    replace(e, SL_BY_FLASH);
}

static void forget_flash(struct sl_gen *g)
{
    sl_draft_flash.forget(g);
}

const struct sl_drafter sl_oracle_mtp = {.name = "mtp, oracle",
                                         .open = open_mtp,
                                         .close = close_mtp,
                                         .look = look_mtp,
                                         .run = run_mtp,
                                         .forget = forget_mtp},
                        sl_oracle_flash = {.name = "dflash, oracle",
                                           .open = open_flash,
                                           .close = close_flash,
                                           .look = look_flash,
                                           .run = run_flash,
                                           .forget = forget_flash};
