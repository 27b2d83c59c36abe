/* engine/draft_mtp.c - the model's own draft head as a drafter; see model/mtp.h
 *
 * The head gets one row for each committed row of the target: its final hidden
 * row and the token behind it, which is always known after the draw. That keeps
 * its keys and values complete over prompts and answers, and the last of these
 * rows of a sequence is at the same time its first draft. Deeper drafts are
 * chained, one row per sequence and pass.
 *
 * While nobody wants its drafts, rows wait (ring.h) and are seen by the head in
 * one pass when they are wanted again. Of a prompt they are seen as soon as the
 * ring is full.
 *
 * Rows of a chain are written behind the committed ones and overwritten in the
 * next round.
 */
#include "base/clock.h"
#include "engine/drafter.h"
#include "engine/gen.h"
#include "model/mtp.h"

#define DEPTH 7 /* of a chain */

static int open_ring(struct sl_gen *g, struct sl_err *err)
{
    return sl_ring_open(&g->ring, &g->e->rings, g->e->weights->conf.hidden,
                        err);
}

static void close_ring(struct sl_gen *g)
{
    sl_ring_close(&g->ring);
}

static uint32_t look(struct sl_gen *g, uint32_t most, enum sl_odds_of *odds)
{
    (void)g;
    *odds = SL_ODDS_MTP;
    return (uint32_t)sl_min(most, DEPTH);
}

static uint32_t missed(const struct sl_gen *g)
{
    return sl_ring_n_near(&g->ring, sl_draft_is_idle(g->e, SL_BY_MTP));
}

/* Show the head the rows that wait; behind them lies position `end`. */
static void drain(struct sl_gen *g, uint32_t end)
{
    struct sl_ring *r = &g->ring;
    uint64_t t0 = sl_clock_ns();
    uint32_t pos = sl_ring_near(r, g->seq, SL_PLANE_MTP, end,
                                sl_draft_is_idle(g->e, SL_BY_MTP));
    struct sl_mtp_step s = {.seq = &g->seq,
                            .n_seq = 1,
                            .n = &r->n,
                            .pos = &pos,
                            .n_row = r->n,
                            .tok = g->tok + pos + 1,
                            .hidden = r->row};
    double took;

    if (r->n == 0)
        return;
    sl_mtp_forward(g->e->model, &s);
    took = sl_clock_s(t0, sl_clock_ns());
    sl_speculate_shown(&g->e->spec, SL_BY_MTP, r->n, took);
    g->e->pass_s += took;
    sl_ring_clear(r);
}

static void catch_up(struct sl_gen *g)
{
    if (sl_draft_is_idle(g->e, SL_BY_MTP))
        sl_ring_drop(&g->ring, g->seq, SL_PLANE_MTP);
    else
        drain(g, g->seq->n_tok);
}

static void forget(struct sl_gen *g)
{
    sl_ring_clear(&g->ring);
}

/* Rows of a prompt that the head is not to see: those before the last
 * mtp_prime. */
static uint32_t n_unprimed(const struct sl_gen *g, uint32_t pos, uint32_t n)
{
    uint32_t prime = g->e->opts.mtp_prime;
    uint32_t first = g->n_prompt > prime ? g->n_prompt - prime : 0;

    return first > pos ? (uint32_t)sl_min(first - pos, n) : 0;
}

/* Does the head have to see the newest n rows now, and those that waited before
 * them? */
static bool is_due(struct sl_gen *g, const float *rows, uint32_t n, bool now)
{
    bool idle = sl_draft_is_idle(g->e, SL_BY_MTP);

    if (!now && sl_ring_wait(&g->ring, g->seq, SL_PLANE_MTP, rows, n, idle))
        return false;
    drain(g, g->seq->n_tok - n);
    return now ||
           !sl_ring_wait(&g->ring, g->seq, SL_PLANE_MTP, rows, n, idle);
}

/* Add n rows of g to a pass. */
static void add_rows(struct sl_engine *e, struct sl_mtp_step *s,
                     struct sl_gen *g, const float *rows, uint32_t n)
{
    size_t h = e->weights->conf.hidden;
    uint32_t pos = g->seq->n_tok - n;

    memmove(e->hidden + s->n_row * h, rows, n * h * sizeof(*rows));
    memcpy(e->step_tok + s->n_row, g->tok + pos + 1, n * sizeof(*e->step_tok));
    e->step_seq[s->n_seq] = g->seq;
    e->draft_n[s->n_seq] = n;
    e->draft_pos[s->n_seq++] = pos;
    s->n_row += n;
}

/* Move the hidden rows of what was committed to the front, sequence by
 * sequence. A generation that drafts gets logits of its last row. */
static void gather(struct sl_engine *e, struct sl_mtp_step *s)
{
    size_t h = e->weights->conf.hidden;

    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];
        const struct sl_part *p = &e->part[i];
        const float *rows = e->hidden + p->row0 * h;
        bool now = g->by == SL_BY_MTP && g->n_draft > 0;
        uint32_t n = p->n_kept, skip;

        if (!sl_draft_takes(e, i))
            continue;
        skip = n_unprimed(g, g->seq->n_tok - n, n);
        n -= skip;
        if (skip > 0)
            g->seq->from[SL_PLANE_MTP] = g->seq->n_tok - n;
        if (n == 0 || !is_due(g, rows + skip * h, n, now)) {
            if (now)
                sl_draft_drop(g); /* there is no row to draft from */
            continue;
        }
        add_rows(e, s, g, rows + skip * h, n);
        if (now)
            e->logit_row[s->n_logit++] = s->n_row - 1;
    }
}

/* Propose the likeliest token of each row of logits as draft number k, and
 * prepare the rows of the next pass: those that draft deeper. */
static void propose(struct sl_engine *e, struct sl_mtp_step *s, uint32_t k)
{
    size_t h = e->weights->conf.hidden;
    const float *logits = s->logits, *y = s->y;
    uint32_t ld = e->weights->conf.vocab, n = e->n_vocab;

    if (s->head)
        n = ld = sl_draft_head_get(s->head)->rows;
    s->n_seq = s->n_row = s->n_logit = 0;
    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];
        float max;

        if (g->by != SL_BY_MTP || g->n_draft <= k)
            continue;
        g->draft[k] = (int32_t)e->kern.argmax(&max, logits, n);
        if (s->head)
            g->draft[k] = sl_draft_head_id(s->head, (uint32_t)g->draft[k]);
        logits += ld;
        y += h;
        if (g->n_draft == k + 1)
            continue;
        memmove(e->hidden + s->n_row * h, y - h, h * sizeof(*e->hidden));
        e->step_tok[s->n_row] = g->draft[k];
        e->step_seq[s->n_seq] = g->seq;
        e->draft_n[s->n_seq] = 1;
        e->draft_pos[s->n_seq++] = g->seq->n_tok + k;
        e->logit_row[s->n_logit++] = s->n_row++;
    }
}

static void run(struct sl_engine *e)
{
    struct sl_mtp_step s = {.seq = e->step_seq,
                            .n = e->draft_n,
                            .pos = e->draft_pos,
                            .tok = e->step_tok,
                            .hidden = e->hidden,
                            .y = e->hidden,
                            .head = e->draft_head,
                            .logit_row = e->logit_row};

    gather(e, &s);
    for (uint32_t k = 0; s.n_row > 0; k++) {
        uint64_t t0 = sl_clock_ns();
        uint32_t n_seq = s.n_logit, n_row = s.n_row;
        double took;

        sl_mtp_forward(e->model, &s);
        took = sl_clock_s(t0, sl_clock_ns());
        e->pass_s += took;
        /* A pass over a prompt says nothing about drafting. */
        if (n_seq > 0 && n_row <= n_seq * (SL_MAX_DRAFT + 1))
            sl_speculate_passed(&e->spec, SL_BY_MTP, n_seq, took);
        propose(e, &s, k);
    }
}

const struct sl_drafter sl_draft_mtp = {
    .name = "mtp",
    .open = open_ring,
    .close = close_ring,
    .look = look,
    .missed = missed,
    .run = run,
    .catch_up = catch_up,
    .forget = forget,
};
