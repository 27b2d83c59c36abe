/* engine/draft_flash.c - a block drafter beside the target; see model/dflash.h
 *
 * Its keys and values come from the target's residuals (taps) of every committed
 * token, in one product for all sequences of the step. While nobody wants its
 * drafts, taps wait (ring.h) and are seen when the ring is full.
 *
 * One pass proposes a whole block; how much of it is verified is decided when it
 * is known how sure the drafter was (sl_speculate_cut).
 */
#include "base/clock.h"
#include "engine/drafter.h"
#include "engine/gen.h"

static size_t width(const struct sl_engine *e)
{
    return (size_t)e->flash_conf->n_tap * e->flash_conf->hidden;
}

static int open_ring(struct sl_gen *g, struct sl_err *err)
{
    return sl_ring_open(&g->taps, &g->e->tap_rings, width(g->e), err);
}

static void close_ring(struct sl_gen *g)
{
    sl_ring_close(&g->taps);
}

/* Is the context of g too long for the drafter? Once it is, it stays so, as it
 * only grows; and where it would be soon, the drafter does not begin. */
static bool is_far(struct sl_gen *g)
{
    const struct sl_engine_opts *o = &g->e->opts;
    uint32_t most = o->dflash_max_context;

    if (most == 0)
        return false;
    if (!g->began)
        most -= o->dflash_hysteresis;
    g->began = true;
    g->far |= g->seq->n_tok > most;
    return g->far;
}

static uint32_t look(struct sl_gen *g, uint32_t most, enum sl_odds_of *odds)
{
    uint32_t block = g->e->flash_conf->block;

    *odds = SL_ODDS_FLASH;
    /* The block lies behind the committed tokens, within the context. */
    if (is_far(g) || g->seq->n_tok + block > g->e->opts.max_model_len)
        return 0;
    return (uint32_t)sl_min(most, block - 1);
}

static uint32_t missed(const struct sl_gen *g)
{
    return sl_ring_n_near(&g->taps, sl_draft_is_idle(g->e, SL_BY_FLASH));
}

/* Show the drafter what waits; behind it lies position `end`. */
static void drain(struct sl_gen *g, uint32_t end)
{
    struct sl_ring *t = &g->taps;
    uint64_t t0 = sl_clock_ns();
    uint32_t pos = sl_ring_near(t, g->seq, g->e->flash_plane, end,
                                sl_draft_is_idle(g->e, SL_BY_FLASH));
    struct sl_flash_rows r = {.seq = &g->seq,
                              .n_seq = 1,
                              .n = &t->n,
                              .pos = &pos,
                              .n_row = t->n,
                              .taps = t->row};

    double took;

    if (t->n == 0)
        return;
    sl_flash_see(g->e->flash, g->e->model, &r);
    took = sl_clock_s(t0, sl_clock_ns());
    sl_speculate_shown(&g->e->spec, SL_BY_FLASH, t->n, took);
    g->e->pass_s += took;
    sl_ring_clear(t);
}

static void catch_up(struct sl_gen *g)
{
    if (sl_draft_is_idle(g->e, SL_BY_FLASH))
        sl_ring_drop(&g->taps, g->seq, g->e->flash_plane);
    else
        drain(g, g->seq->n_tok);
}

static void forget(struct sl_gen *g)
{
    sl_ring_clear(&g->taps);
}

/* The taps of n rows from row0 on, side by side, to `to`: the step has them
 * [tap][row][hidden]. */
static void collect(const struct sl_engine *e, float *to, uint32_t row0,
                    uint32_t n)
{
    size_t h = e->flash_conf->hidden;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t t = 0; t < e->flash_conf->n_tap; t++, to += h)
            memcpy(to, e->taps + ((size_t)t * e->step_n_row + row0 + i) * h,
                   h * sizeof(*to));
}

static bool drafts(const struct sl_gen *g)
{
    return g->by == SL_BY_FLASH && g->n_draft > 0;
}

/* Let the taps of generation i wait, unless there is no room. */
static bool lets_wait(struct sl_engine *e, uint32_t i)
{
    struct sl_gen *g = e->run[i];
    const struct sl_part *p = &e->part[i];
    uint32_t n = p->n_kept;
    float *to = sl_ring_room(&g->taps, g->seq, e->flash_plane, &n,
                             sl_draft_is_idle(e, SL_BY_FLASH));

    if (to)
        collect(e, to, p->row0 + p->n_kept - n, n);
    return to != NULL;
}

static void see(struct sl_engine *e)
{
    struct sl_flash_rows r = {.seq = e->step_seq,
                              .n = e->draft_n,
                              .pos = e->draft_pos,
                              .taps = e->flash_in};
    uint32_t n_seq = 0;
    uint64_t t0;

    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];
        const struct sl_part *p = &e->part[i];

        if (!sl_draft_takes(e, i) || (!drafts(g) && lets_wait(e, i)))
            continue;
        collect(e, e->flash_in + r.n_row * width(e), p->row0, p->n_kept);
        drain(g, g->seq->n_tok - p->n_kept);
        e->step_seq[n_seq] = g->seq;
        e->draft_n[n_seq] = p->n_kept;
        e->draft_pos[n_seq++] = g->seq->n_tok - p->n_kept;
        r.n_row += p->n_kept;
    }
    r.n_seq = n_seq;
    t0 = sl_clock_ns();
    sl_flash_see(e->flash, e->model, &r);
    e->pass_s += sl_clock_s(t0, sl_clock_ns());
}

/* Block i is for g: as much of it as is worth verifying, and as there is room
 * for. */
static void take(struct sl_engine *e, struct sl_gen *g, uint32_t i)
{
    uint32_t each = e->flash_conf->block - 1, most = (uint32_t)sl_min(each, g->n_draft);

    memcpy(g->draft, e->flash_draft + (size_t)i * each,
           most * sizeof(*g->draft));
    memcpy(g->sure, e->flash_sure + (size_t)i * each, most * sizeof(*g->sure));
    g->n_draft = sl_speculate_cut(&e->spec, &e->verify, &g->guess, g->sure,
                                  most, g->n_draft, e->n_run, g->seq->n_tok);
}

static void propose(struct sl_engine *e)
{
    uint32_t each = e->flash_conf->block - 1, n = 0, deepest = 0;
    struct sl_flash_blocks b = {.seq = e->step_seq,
                                .anchor = e->flash_anchor,
                                .n_vocab = e->n_vocab,
                                .head = e->draft_head,
                                .sure = e->flash_sure,
                                .draft = e->flash_draft};
    uint64_t t0 = sl_clock_ns();
    double took;

    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];

        if (!drafts(g))
            continue;
        if (sl_seq_reserve(g->seq, g->seq->n_tok + each + 1, NULL)) {
            sl_draft_drop(g);
            continue;
        }
        e->step_seq[b.n_seq] = g->seq;
        e->flash_anchor[b.n_seq++] = g->tok[g->n_known - 1];
        deepest = (uint32_t)sl_max(deepest, g->n_draft);
    }
    /* Where it was told how many, the rest of the block is for nothing. */
    if (sl_speculate_is_told(&e->spec))
        b.n_draft = (uint32_t)sl_min(deepest, each);
    if (b.n_seq == 0)
        return;
    sl_flash_draft(e->flash, e->model, &b);
    took = sl_clock_s(t0, sl_clock_ns());
    e->pass_s += took;
    sl_speculate_passed(&e->spec, SL_BY_FLASH, b.n_seq, took);
    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];

        if (drafts(g))
            take(e, g, n++);
    }
}

static void run(struct sl_engine *e)
{
    see(e);
    propose(e);
}

const struct sl_drafter sl_draft_flash = {
    .name = "dflash",
    .open = open_ring,
    .close = close_ring,
    .look = look,
    .missed = missed,
    .run = run,
    .catch_up = catch_up,
    .forget = forget,
};
