/* engine/draft.c - the draft head beside the target
 *
 * After every step the head gets one row for each committed row of it: the
 * target's final hidden row and the token behind it, which is always known by
 * then. That keeps its keys and values complete over prompts and answers, and
 * the last of these rows of a sequence is at the same time its first draft.
 * Deeper drafts are chained, one row per sequence and pass.
 *
 * While drafting does not pay, rows wait in a ring and are seen by the head in
 * one pass, when the ring is full or drafting returns; so being off costs next
 * to nothing, and nothing is ever missing.
 *
 * Rows of a chain are written behind the committed ones and overwritten in the
 * next round.
 */
#include "base/clock.h"
#include "engine/gen.h"
#include "model/mtp.h"

/* Does generation i draft behind this step? */
static bool wants_draft(const struct sl_engine *e, uint32_t i)
{
    const struct sl_gen *g = e->run[i];

    return e->part[i].why == SL_FINISH_NONE && e->part[i].firm > 0 &&
           g->may_draft && g->n_known == g->seq->n_tok + 1;
}

/* Drafts that generation g can use: not behind its last token, and with pages
 * for them. */
static uint32_t room_for(struct sl_gen *g, uint32_t depth)
{
    uint32_t left = g->n_prompt + g->max_out - g->n_known;

    depth = (uint32_t)sl_min(depth, left > 0 ? left - 1 : 0);
    if (depth > 0 && sl_seq_reserve(g->seq, g->seq->n_tok + depth, NULL))
        return 0;
    return depth;
}

/* How deep this round drafts. */
static uint32_t choose_depth(const struct sl_engine *e)
{
    uint32_t n_seq = 0, n_other = 0;
    uint64_t context = 0;

    for (uint32_t i = 0; i < e->n_run; i++) {
        if (wants_draft(e, i)) {
            n_seq++;
            context += e->run[i]->seq->n_tok;
        } else if (e->part[i].why == SL_FINISH_NONE) {
            n_other++;
        }
    }
    return n_seq ? sl_speculate_depth(&e->spec, &e->cost, n_seq, n_other,
                                      context)
                 : 0;
}

void sl_draft_catch_up(struct sl_gen *g)
{
    uint32_t pos = g->seq->n_tok - g->n_ring;
    struct sl_mtp_step s = {.seq = &g->seq,
                            .n_seq = 1,
                            .n = &g->n_ring,
                            .pos = &pos,
                            .n_row = g->n_ring,
                            .tok = g->tok + pos + 1,
                            .hidden = g->ring};

    if (g->n_ring > 0)
        sl_mtp_forward(g->e->model, &s);
    g->n_ring = 0;
}

/* Let n rows wait; false when they do not fit. */
static bool put_off(struct sl_gen *g, const float *rows, uint32_t n, size_t h)
{
    if (n > SL_DRAFT_RING - g->n_ring)
        return false;
    memcpy(g->ring + g->n_ring * h, rows, n * h * sizeof(*rows));
    g->n_ring += n;
    return true;
}

/* Rows that the head has to see now: rows of generation i's part, behind those
 * that waited. False when they can wait, too. */
static bool is_due(struct sl_engine *e, uint32_t i, const float *rows)
{
    struct sl_gen *g = e->run[i];
    uint32_t n = e->part[i].n_kept;
    size_t h = e->weights->conf.hidden;

    if (g->n_draft == 0 && put_off(g, rows, n, h))
        return false;
    /* The rows that wait lie before this part, which is committed already. */
    if (g->n_ring > 0) {
        g->seq->n_tok -= n;
        sl_draft_catch_up(g);
        g->seq->n_tok += n;
    }
    return g->n_draft > 0 || !put_off(g, rows, n, h);
}

/* Move the hidden rows of what was committed to the front, sequence by
 * sequence. A generation that drafts gets logits of its last row, and n_draft
 * says how many it will have. */
static void gather(struct sl_engine *e, struct sl_mtp_step *s, uint32_t depth)
{
    size_t h = e->weights->conf.hidden;

    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];
        const struct sl_part *p = &e->part[i];
        const float *rows = e->hidden + p->row0 * h;
        uint32_t pos;

        g->n_draft = 0;
        if (p->firm == 0 || p->why != SL_FINISH_NONE || !g->may_draft)
            continue;
        if (wants_draft(e, i))
            g->n_draft = room_for(g, depth);
        if (!is_due(e, i, rows))
            continue;
        pos = g->seq->n_tok - p->n_kept;
        memmove(e->hidden + s->n_row * h, rows,
                p->n_kept * h * sizeof(*rows));
        memcpy(e->step_tok + s->n_row, g->tok + pos + 1,
               p->n_kept * sizeof(*e->step_tok));
        e->step_seq[s->n_seq] = g->seq;
        e->draft_n[s->n_seq] = p->n_kept;
        e->draft_pos[s->n_seq++] = pos;
        s->n_row += p->n_kept;
        if (g->n_draft > 0)
            e->logit_row[s->n_logit++] = s->n_row - 1;
    }
}

/* Propose the likeliest token of each row of logits as draft number k, and
 * prepare the rows of the next pass: those that draft deeper. */
static void propose(struct sl_engine *e, struct sl_mtp_step *s, uint32_t k)
{
    size_t h = e->weights->conf.hidden;
    const float *logits = s->logits;
    uint32_t from = 0;

    s->n_seq = s->n_row = s->n_logit = 0;
    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];
        float max;

        if (g->n_draft <= k)
            continue;
        g->draft[k] = (int32_t)e->kern.argmax(&max, logits, e->n_vocab);
        logits += e->weights->conf.vocab;
        from++;
        if (g->n_draft == k + 1)
            continue;
        memmove(e->hidden + s->n_row * h, s->y + e->step_rows[from - 1] * h,
                h * sizeof(*e->hidden));
        e->step_tok[s->n_row] = g->draft[k];
        e->step_seq[s->n_seq] = g->seq;
        e->draft_n[s->n_seq] = 1;
        e->draft_pos[s->n_seq++] = g->seq->n_tok + k;
        e->logit_row[s->n_logit++] = s->n_row++;
    }
}

void sl_engine_draft(struct sl_engine *e)
{
    uint32_t depth = choose_depth(e);
    struct sl_mtp_step s = {.seq = e->step_seq,
                            .n = e->draft_n,
                            .pos = e->draft_pos,
                            .tok = e->step_tok,
                            .hidden = e->hidden,
                            .y = e->hidden,
                            .logit_row = e->logit_row};

    gather(e, &s, depth);
    for (uint32_t k = 0; s.n_row > 0; k++) {
        uint64_t t0 = sl_clock_ns();
        uint32_t n_seq = s.n_logit, n_row = s.n_row;

        sl_mtp_forward(e->model, &s);
        /* A pass over a prompt says nothing about drafting. */
        if (n_seq > 0 && n_row <= n_seq * (SL_MAX_DRAFT + 1))
            sl_cost_learn(&e->spec.pass, n_seq, 0,
                          sl_clock_s(t0, sl_clock_ns()));
        /* Which rows of y the logits belong to. */
        memcpy(e->step_rows, e->logit_row, s.n_logit * sizeof(*e->step_rows));
        propose(e, &s, k);
    }
}
