/* engine/draft.c - who drafts behind this step, and how much
 *
 * The frame around the drafters (drafter.h): ask each what it could do, decide,
 * let them work.
 */
#include "engine/drafter.h"
#include "engine/gen.h"

/* Does generation i draft behind this step? */
static bool wants_draft(const struct sl_engine *e, uint32_t i)
{
    const struct sl_gen *g = e->run[i];

    return e->part[i].why == SL_FINISH_NONE && e->part[i].firm > 0 &&
           g->may_draft && g->n_known == g->seq->n_tok + 1;
}

/* What generation g could draft: not behind its last token. */
static void make_bid(struct sl_engine *e, struct sl_gen *g,
                     struct sl_bid *bid)
{
    uint32_t left = g->n_prompt + g->max_out - g->n_known;
    uint32_t most = (uint32_t)sl_min(e->max_depth, left > 0 ? left - 1 : 0);

    *bid = (struct sl_bid){.guess = &g->guess, .left = left};
    for (int by = 0; by < SL_N_BY; by++) {
        const struct sl_drafter *d = e->drafter[by];

        if (!d || most == 0)
            continue;
        bid->most[by] = d->look(g, most, &bid->odds[by]);
        bid->missed[by] = d->missed ? d->missed(g) : 0;
    }
}

void sl_draft_drop(struct sl_gen *g)
{
    sl_speculate_dropped(&g->e->spec, &g->guess);
    g->n_draft = 0;
}

/* The decision, for a generation that has pages for it. */
static void take_bid(struct sl_gen *g, const struct sl_bid *bid)
{
    g->by = bid->by;
    g->odds = bid->odds[bid->by];
    g->n_draft = bid->depth;
    /* Behind the token that was drawn last: a draft takes no page that another
     * one would have to give. */
    if (bid->depth > 0 &&
        sl_seq_reserve(g->seq, g->seq->n_tok + 1 + bid->depth, NULL))
        sl_draft_drop(g);
}

static void decide(struct sl_engine *e)
{
    struct sl_crowd crowd = {.verify = &e->verify, .step = &e->cost};
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->n_run; i++) {
        if (wants_draft(e, i)) {
            make_bid(e, e->run[i], &e->bid[crowd.n++]);
            crowd.n_context += e->run[i]->seq->n_tok;
        } else if (e->part[i].why == SL_FINISH_NONE) {
            crowd.n_other++;
            crowd.n_row += e->part[i].firm;
        }
    }
    sl_speculate_plan(&e->spec, &crowd, e->bid,
                      e->max_logit - e->opts.max_num_seqs);
    for (uint32_t i = 0; i < e->n_run; i++) {
        e->run[i]->n_draft = 0;
        if (wants_draft(e, i))
            take_bid(e->run[i], &e->bid[n++]);
    }
}

bool sl_draft_is_idle(const struct sl_engine *e, enum sl_by by)
{
    return e->spec.n_plan - e->spec.last_use[by] > SL_DRAFT_IDLE;
}

bool sl_draft_takes(const struct sl_engine *e, uint32_t i)
{
    const struct sl_part *p = &e->part[i];
    const struct sl_gen *g = e->run[i];

    if (p->firm == 0 || !g->may_draft || p->why == SL_FINISH_ERROR)
        return false;
    /* Of a prompt that was only scored the token behind the last is unknown. */
    return p->why == SL_FINISH_NONE || (e->n_keep > 0 && g->max_out > 0);
}

/* What came up in prompts and answers comes up again. */
static void count_tokens(struct sl_engine *e)
{
    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];

        sl_draft_head_add(e->draft_head, g->tok + g->n_headed,
                          g->n_known - g->n_headed);
        g->n_headed = g->n_known;
    }
}

void sl_engine_draft(struct sl_engine *e)
{
    if (e->draft_head)
        count_tokens(e);
    decide(e);
    for (int by = 0; by < SL_N_BY; by++)
        if (e->drafter[by] && e->drafter[by]->run)
            e->drafter[by]->run(e);
}

int sl_draft_open(struct sl_gen *g, struct sl_err *err)
{
    int rc = 0;

    for (int by = 0; !rc && g->may_draft && by < SL_N_BY; by++)
        if (g->e->drafter[by] && g->e->drafter[by]->open)
            rc = g->e->drafter[by]->open(g, err);
    return rc;
}

void sl_draft_close(struct sl_gen *g)
{
    for (int by = 0; by < SL_N_BY; by++)
        if (g->e->drafter[by] && g->e->drafter[by]->close)
            g->e->drafter[by]->close(g);
}

/* No drafter has seen anything of g: whoever goes on from there has to know. */
static void mark_unseen(struct sl_seq *q)
{
    for (uint32_t i = SL_PLANE_TARGET + 1; i < q->mem->kv->n_plane; i++)
        q->from[i] = q->n_tok;
}

void sl_draft_catch_up(struct sl_gen *g)
{
    if (!g->may_draft)
        mark_unseen(g->seq);
    for (int by = 0; g->may_draft && by < SL_N_BY; by++)
        if (g->e->drafter[by] && g->e->drafter[by]->catch_up)
            g->e->drafter[by]->catch_up(g);
}

void sl_draft_forget(struct sl_gen *g)
{
    sl_speculate_verifies(&g->e->spec, &g->guess, 0);
    g->n_draft = 0;
    for (int by = 0; g->may_draft && by < SL_N_BY; by++)
        if (g->e->drafter[by] && g->e->drafter[by]->forget)
            g->e->drafter[by]->forget(g);
}
