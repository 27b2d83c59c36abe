/* engine/step.c - one step: admit, plan, forward, draw, commit
 *
 * Between steps the engine admits what waits, while a place and pages for the
 * tokens known so far are free. Answers grow, so pages can run short later:
 * then the last generation in the order of engine/queue.c is preempted. It goes
 * back to the head of those that are as urgent in the queue, with its tokens,
 * and reads them again when there is room. The first one always has all it
 * needs, because a request that could not run alone was refused when it was
 * submitted; so everybody finishes.
 *
 * Which rows run, and how many of prompts, is decided elsewhere
 * (engine/schedule.c).
 */
#include "base/clock.h"
#include "engine/gen.h"
#include "engine/schedule.h"
#include "sample/philox.h"
#include "sample/shape.h"

static bool is_cancelled(struct sl_gen *g)
{
    return atomic_load_explicit(&g->cancel, memory_order_relaxed);
}

static uint32_t n_left(const struct sl_gen *g)
{
    return g->n_known - g->seq->n_tok;
}

/* ------------------------------------------------------------ who may run */

static uint32_t pages_for(uint32_t n_tok)
{
    return (n_tok + SL_KV_PAGE - 1) / SL_KV_PAGE;
}

/* Pages that the running generations will take soon: for the tokens that they
 * know, and one more each. */
static uint32_t pages_claimed(const struct sl_engine *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < e->n_run; i++)
        n += pages_for(e->run[i]->n_known) + 1 - e->run[i]->seq->n_page;
    return n;
}

/* Pages for the tokens of g that it has none for, beside those of others. */
static bool has_room(struct sl_engine *e, const struct sl_gen *g)
{
    uint32_t need = pages_for(g->n_known) - g->seq->n_page;

    /* Alone it fits, to the last page. */
    if (e->n_run > 0)
        need += pages_claimed(e) + 1;
    while (need > e->mem->kv->n_free)
        if (!sl_prefix_evict(e->prefix))
            return false;
    return true;
}

/* A sequence that has read what is known of g. */
static int open_seq(struct sl_engine *e, struct sl_gen *g)
{
    return g->no_cache ? sl_seq_open(&g->seq, e->mem, NULL)
                       : sl_prefix_take(e->prefix, &g->seq, g->tok, g->n_known,
                                        g->salt, NULL);
}

enum admission { FULL, LATER, ADMITTED };

/* Start a waiting generation. FULL: nobody behind it can start either. */
static enum admission admit(struct sl_engine *e, struct sl_gen *g)
{
    if (e->n_run == e->opts.max_num_seqs)
        return FULL;
    if (sl_restore_waits(e, g) || sl_share_waits(e, g))
        return LATER;
    if (open_seq(e, g))
        return FULL;
    if (!has_room(e, g)) {
        sl_seq_close(&g->seq);
        return FULL;
    }
    if (sl_restore_start(e, g))
        return LATER;
    e->run[e->n_run++] = g;
    sl_lock(&g->mu);
    if (!g->admit_ns) {
        g->admit_ns = sl_clock_ns();
        g->n_cached = g->seq->n_tok;
        if (e->n_keep > 0 && !g->no_cache)
            sl_prefix_count(e->prefix, g->seq);
        sl_guess_init(&g->guess, &e->spec);
    }
    sl_unlock(&g->mu);
    return ADMITTED;
}

static void admit_waiting(struct sl_engine *e)
{
    enum admission how;

    e->now.n_deferred = 0;
    for (struct sl_gen *g = e->waiting.head; g; g = g->next)
        g->is_passed = false;
    for (struct sl_gen *g; (g = sl_queue_next(e)) != NULL;) {
        how = admit(e, g);
        if (how == FULL)
            break;
        if (how == ADMITTED)
            sl_gen_list_remove(&e->waiting, g);
        g->is_passed = true;
        e->now.n_deferred += how == LATER;
    }
    sl_queue_arrange(e);
}

/* Take generation i out of the running ones, keeping their order. */
static void drop(struct sl_engine *e, uint32_t i)
{
    e->n_run--;
    memmove(e->run + i, e->run + i + 1, (e->n_run - i) * sizeof(*e->run));
}

/* Its pages and its state are free at once; whom it belongs to hears of it when
 * end_all has told that they are. */
static void put_away(struct sl_gen_list *ended, struct sl_gen *g,
                     enum sl_finish why)
{
    sl_seq_close(&g->seq);
    g->why = why;
    sl_gen_list_push(ended, g);
}

/* Publish first: nobody who has an answer finds it among those that run. */
static void end_all(struct sl_engine *e, struct sl_gen_list *ended)
{
    sl_engine_publish(e);
    for (struct sl_gen *g; (g = sl_gen_list_pop(ended)) != NULL;)
        sl_gen_end(g, g->why);
}

/* Wherever in the queue they are: nobody waits for what nobody wants. */
static void drop_cancelled(struct sl_engine *e)
{
    struct sl_gen_list stay = {0}, ended = {0};

    for (struct sl_gen *g; (g = sl_gen_list_pop(&e->waiting)) != NULL;) {
        if (!is_cancelled(g)) {
            sl_gen_list_push(&stay, g);
            continue;
        }
        sl_restore_cancel(e, g);
        put_away(&ended, g, SL_FINISH_CANCEL);
    }
    e->waiting = stay;
    for (uint32_t i = e->n_run; i > 0; i--) {
        struct sl_gen *g = e->run[i - 1];

        if (!is_cancelled(g))
            continue;
        drop(e, i - 1);
        put_away(&ended, g, SL_FINISH_CANCEL);
    }
    if (ended.head)
        end_all(e, &ended);
}

static void preempt_last(struct sl_engine *e)
{
    struct sl_gen *g = e->run[--e->n_run];

    e->now.n_preempt++;
    sl_draft_forget(g);
    sl_seq_close(&g->seq);
    sl_gen_list_insert(&e->waiting, g, true);
}

/* ------------------------------------------------------------- what runs now */

/* What the rows of one sequence look back at, all together. */
static uint64_t context_of(const struct sl_gen *g, uint32_t rows)
{
    return (uint64_t)rows * (g->seq->n_tok + rows / 2);
}

/* Does a prompt want the logits of its rows? */
static bool scores(const struct sl_engine *e)
{
    for (uint32_t i = 0; i < e->n_run; i++)
        if (e->run[i]->scores && e->run[i]->n_known == e->run[i]->n_prompt)
            return true;
    return false;
}

/* Rows that take as long with their logits as `rows` take without. */
static uint32_t with_scores(const struct sl_engine *e, uint32_t rows)
{
    double row_s = sl_cost_predict(&e->cost, rows, 0) / rows;

    rows = (uint32_t)(rows * row_s / (row_s + e->score_s));
    return rows > 0 ? rows : 1;
}

/* Rows that n_prompt prompts may have beside n_dec decoding ones. */
static uint32_t prompt_rows(struct sl_engine *e, uint32_t n_dec,
                            uint64_t dec_context, uint32_t n_prompt,
                            uint64_t depth)
{
    uint32_t rows = sl_schedule_prompt_rows(&e->cost, e->stretch, n_dec,
                                            dec_context, n_prompt, depth,
                                            e->opts.max_num_batched_tokens);

    e->alone_s = n_dec > 0 && n_prompt > 0
                     ? sl_schedule_alone_s(&e->cost, n_dec, dec_context, n_prompt)
                     : 0;
    return scores(e) ? with_scores(e, rows) : rows;
}

/* Tokens after which g has to stop: the next cut, or all that it knows. */
static uint32_t next_stop(const struct sl_gen *g)
{
    for (uint32_t i = 0; i < g->n_cut; i++)
        if (g->cut[i] > g->seq->n_tok)
            return g->cut[i];
    return g->n_known;
}

static bool is_cut(const struct sl_gen *g)
{
    for (uint32_t i = 0; i < g->n_cut; i++)
        if (g->cut[i] == g->seq->n_tok)
            return true;
    return false;
}

/* Drafts of g that can be right: a shape may forbid one, and then all behind
 * it are for nothing. */
static uint32_t n_useful(const struct sl_gen *g)
{
    return g->sample.shape
               ? sl_matcher_n_fit(g->sample.shape, g->draft, g->n_draft)
               : g->n_draft;
}

/* The drafts that go into this step, after all firm rows have their place.
 * n_row: rows so far. */
static void plan_drafts(struct sl_engine *e, uint32_t n_row)
{
    uint32_t rows = e->opts.max_num_batched_tokens - n_row;
    uint32_t logits = e->max_logit - e->n_run;

    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_part *p = &e->part[i];

        *p = (struct sl_part){.firm = e->step_rows[i]};
        if (p->firm == n_left(e->run[i]))
            p->tent = (uint32_t)sl_min(n_useful(e->run[i]),
                                       sl_min(rows, logits));
        sl_speculate_verifies(&e->spec, &e->run[i]->guess, p->tent);
        rows -= p->tent;
        logits -= p->tent;
    }
}

static void plan(struct sl_engine *e)
{
    uint32_t n_dec = 0, n_prompt = 0, n_row;
    uint64_t context = 0, depth = 0;

    sl_tally_start(&e->tally);
    for (uint32_t i = 0; i < e->n_run; i++) {
        const struct sl_gen *g = e->run[i];

        e->sched[i].n_left = next_stop(g) - g->seq->n_tok;
        e->sched[i].n_all = n_left(g);
        /* Numbered as they come. */
        e->sched[i].client = sl_tally_at(&e->tally, g->client, 0)->index;
        e->sched[i].last = g->last_turn;
        if (e->sched[i].n_left == 1) {
            n_dec += 1 + g->n_draft;
            context += context_of(g, 1 + g->n_draft);
        } else {
            n_prompt++;
            depth = sl_max(depth, g->seq->n_tok);
        }
    }
    n_row = sl_schedule_plan(
        e->sched, e->n_run, e->opts.max_num_batched_tokens,
        prompt_rows(e, n_dec, context, n_prompt, depth), e->n_step + 1,
        e->step_rows, &e->sched_work);
    for (uint32_t i = 0; i < e->n_run; i++)
        e->run[i]->last_turn = e->sched[i].last;
    plan_drafts(e, n_row);
}

/* Room for the rows of generation i, at the cost of kept prefixes first, of a
 * load then, and of younger ones in the end. False when it was itself the
 * youngest. */
static bool begin(struct sl_engine *e, uint32_t i, const struct sl_part *p)
{
    while (sl_seq_begin(e->run[i]->seq, p->firm, p->tent, NULL)) {
        if (sl_prefix_evict(e->prefix) || sl_restore_give_up(e))
            continue;
        preempt_last(e);
        if (e->n_run <= i)
            return false;
    }
    return true;
}

/* Does a token follow the rows of this part? */
static bool draws(const struct sl_gen *g, const struct sl_part *p)
{
    return p->firm == n_left(g) && g->max_out > 0;
}

/* Lay out the rows that were planned; returns their context. */
static uint64_t build(struct sl_engine *e, struct sl_step *s)
{
    uint64_t context = 0;

    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];
        struct sl_part *p = &e->part[i];
        int32_t *tok = e->step_tok + s->n_row;

        if (p->firm == 0 || !begin(e, i, p))
            continue;
        memcpy(tok, g->tok + g->seq->n_tok, p->firm * sizeof(*tok));
        memcpy(tok + p->firm, g->draft, p->tent * sizeof(*tok));
        context += context_of(g, p->firm + p->tent);
        p->row0 = s->n_row;
        e->step_seq[s->n_seq++] = g->seq;
        s->n_row += p->firm + p->tent;
        for (uint32_t k = draws(g, p) ? p->tent + 1 : 0; k > 0; k--)
            e->logit_row[s->n_logit++] = s->n_row - k;
    }
    return context;
}

/* ---------------------------------------------------------------- its result */

/* The token that follows a row, drawn or forced. */
static int draw_one(struct sl_engine *e, struct sl_gen *g, struct sl_draw *d,
                    float *logits, struct sl_err *err)
{
    int32_t id = sl_gen_forced(g);
    uint32_t rank;

    if (id >= 0)
        return sl_sampler_score(e->sampler, d, &rank, logits, id,
                                g->sample.n_logprob, err);
    return sl_sampler_draw(e->sampler, d, logits, &g->sample, g->hist, NULL, 0,
                           g->n_known, err);
}

/* A lossy rule may put the draft in the place of what was drawn; not of what was
 * forced. Returns how many drafts were judged. */
static uint32_t judge(struct sl_engine *e, const struct sl_gen *g,
                      int32_t draft, struct sl_draw *d, double *tv)
{
    const struct sl_sample_opts *o = &g->sample;
    float max, p, u2;

    if (!sl_accept_is_lossy(&e->accept) || o->want_logprob ||
        o->temperature <= 0 || sl_gen_forced(g) >= 0)
        return 0;
    p = sl_sampler_prob(e->sampler, draft, &max);
    u2 = sl_philox_u(o->seed, o->choice, g->n_known, SL_STREAM_ACCEPT);
    if (sl_accept(&e->accept, draft, d->id, p, max, u2, tv))
        d->id = draft;
    return 1;
}

/* What became of the drafts of a round. */
struct fate {
    uint32_t n_tried, n_right; /* not tried: behind the end of the answer */
    uint32_t n_kept; /* committed: not one that was right and ended the answer,
                        as the last token of any answer is not */
    uint32_t n_lossy;
    double tv;
};

/* Draw behind the last firm row of g, and behind each draft that turned out to
 * be what was drawn. */
static void draw_all(struct sl_engine *e, struct sl_gen *g, struct sl_part *p,
                     float *logits, struct fate *f, struct sl_err *err)
{
    struct sl_draw d;

    for (uint32_t k = 0; k <= p->tent; k++) {
        int rc = draw_one(e, g, &d, logits + (size_t)k * e->weights->conf.vocab,
                          err);

        if (!rc && k < p->tent)
            f->n_lossy += judge(e, g, g->draft[k], &d, &f->tv);
        p->why = rc ? SL_FINISH_ERROR : sl_gen_put(g, &d, err);
        if (p->why == SL_FINISH_ERROR || k == p->tent || d.id != g->draft[k])
            break;
        f->n_right++;
        if (p->why != SL_FINISH_NONE) {
            f->n_tried = f->n_right;
            break;
        }
        f->n_kept++;
    }
}

/* Draw, and let all who count drafts know. */
static void draw_rows(struct sl_engine *e, struct sl_gen *g, struct sl_part *p,
                      float *logits, struct sl_err *err)
{
    bool is_answer = g->n_known > g->n_prompt; /* no prompt in these rows */
    struct fate f = {.n_tried = p->tent};

    if (e->record)
        sl_record_pairs(e->record, e->sampler, &g->sample, g->hist, logits,
                        e->weights->conf.vocab, g->draft, p->tent, g->n_known);
    draw_all(e, g, p, logits, &f, err);
    p->n_kept = p->firm + f.n_kept;
    sl_speculate_learn(&e->spec, &g->guess, g->odds, f.n_tried, f.n_right);
    if (g->by == SL_BY_FLASH)
        sl_speculate_sure(&e->spec, g->sure, f.n_tried, f.n_right);
    sl_engine_count_round(e, g->by, p->tent, f.n_right);
    if (e->record && is_answer && p->firm == 1)
        sl_record_round(e->record, p->tent, f.n_right, 1 + f.n_kept, e->round_s,
                        e->draft_s - e->pass_s, sl_model_experts(e->model));
    e->now.tv += f.tv;
    e->now.n_judged += f.n_lossy;
    sl_lock(&g->mu);
    g->n_round++;
    g->n_drafted += p->tent;
    g->n_accepted += f.n_right;
    g->tv += f.tv;
    g->n_judged += f.n_lossy;
    g->plain_s = e->spec.token_s;
    g->round_s += e->round_s;
    sl_unlock(&g->mu);
}

/* Commit the rows of g, and draw if they were the last that it knew. */
static void finish_rows(struct sl_engine *e, struct sl_gen *g,
                        struct sl_part *p, float **logits)
{
    struct sl_err err = {0};

    if (p->firm == 0)
        return;
    p->n_kept = p->firm;
    if (draws(g, p)) {
        if (!p->broken)
            draw_rows(e, g, p, *logits, &err);
        *logits += (size_t)(1 + p->tent) * e->weights->conf.vocab;
    } else if (p->firm == n_left(g)) {
        p->why = SL_FINISH_LENGTH; /* only the prompt was wanted */
    }
    if (p->broken) {
        p->why = SL_FINISH_ERROR;
        (void)sl_fail(&err, SL_EFORMAT,
                      "every logit behind a token of the prompt is NaN; check "
                      "the model's weights");
    }
    if (p->why == SL_FINISH_ERROR) { /* its own, also when others fail, too */
        sl_lock(&g->mu);
        g->err = err;
        sl_unlock(&g->mu);
    }
    sl_seq_end(g->seq, p->n_kept - p->firm);
}

/* Keep the state of g for prompts that begin with the same tokens. One that has
 * ended leaves its sequence there. */
static void keep(struct sl_engine *e, struct sl_gen *g, bool ended)
{
    struct sl_step flush = {.seq = &g->seq, .n_seq = 1};

    if (e->n_keep == 0)
        return;
    sl_draft_catch_up(g);
    /* Accepted drafts are not in the recurrent state yet. */
    if (g->seq->rec.n_pend > 0) {
        if (sl_seq_begin(g->seq, 0, 0, NULL))
            return;
        sl_forward(e->model, &flush);
        sl_seq_end(g->seq, 0);
    }
    if (ended)
        sl_prefix_put_last(e->prefix, &g->seq, g->tok, g->salt);
    else
        sl_prefix_put(e->prefix, g->seq, g->tok, g->salt);
}

/* Take the ended generations out, and keep what is worth keeping: not a prompt
 * that only was to be scored, which no draft head has seen. */
static void settle(struct sl_engine *e)
{
    struct sl_gen_list ended = {0};

    for (uint32_t i = 0, n = 0; i < e->n_run; n++) {
        const struct sl_part *p = &e->part[n];
        struct sl_gen *g = e->run[i];

        if (p->why != SL_FINISH_ERROR && g->max_out > 0 &&
            (p->why != SL_FINISH_NONE || (p->firm > 0 && is_cut(g))))
            keep(e, g, p->why != SL_FINISH_NONE);
        if (p->why == SL_FINISH_NONE) {
            i++;
            continue;
        }
        drop(e, i);
        put_away(&ended, g, p->why);
    }
    end_all(e, &ended);
}

/* Tell the controller what this round took, when it held no prompts: with the
 * drafts of the step it verified, and those made for the next, which are about
 * as many. A step that was disturbed says nothing about drafts: the table that it
 * is held against leaves it out, too. */
static void guard(struct sl_engine *e, const struct sl_step *s,
                  uint64_t context, double step_s, double draft_s)
{
    double spent_s =
        sl_cost_calm(&e->verify, s->n_row, context, step_s) + draft_s;
    uint32_t n_seq = 0, n_tok = 0;

    for (uint32_t i = 0; i < e->n_run; i++) {
        const struct sl_part *p = &e->part[i];

        if (p->firm > 1)
            return;
        n_seq += p->firm;
        n_tok += p->n_kept;
    }
    if (n_tok > 0)
        sl_spec_log_round(&e->spec_log, &e->spec, n_tok, s->n_row - n_seq,
                          step_s + draft_s);
    if (n_seq > 0 && n_tok > 0)
        sl_speculate_guard(&e->spec, s->n_row - n_seq, n_tok, spent_s,
                           sl_cost_predict(&e->verify, n_seq,
                                           context * n_seq / s->n_row) /
                               n_seq);
}

/* A step took so long. The first that reads mapped weights brings them in,
 * which says nothing about the next. */
static void learn(struct sl_engine *e, const struct sl_step *st,
                  uint64_t context, double s)
{
    bool touched = e->touched;

    e->touched = true;
    if (!touched)
        return;
    if (e->alone_s > 0)
        e->stretch = sl_schedule_stretch(e->stretch, s, e->alone_s);
    sl_cost_learn(&e->cost, st->n_row, context, s);
    if (st->n_logit == st->n_row)
        sl_cost_learn(&e->verify, st->n_row, context, s);
}

/* Let the drafters work behind a step that took so long. Draws are left out:
 * they take as long for each token without drafts. */
static void draft(struct sl_engine *e, const struct sl_step *s,
                  uint64_t context, double step_s)
{
    uint64_t t0 = sl_clock_ns();
    double draft_s;

    e->pass_s = 0;
    sl_engine_draft(e);
    draft_s = sl_clock_s(t0, sl_clock_ns());
    e->draft_s = draft_s;
    e->now.draft_s += draft_s;
    sl_speculate_earn(&e->spec, step_s, e->pass_s);
    guard(e, s, context, step_s, draft_s);
}

void sl_engine_step(struct sl_engine *e)
{
    struct sl_step s = {.seq = e->step_seq,
                        .tok = e->step_tok,
                        .logit_row = e->logit_row,
                        .hidden = e->uses_mtp ? e->hidden : NULL};
    uint64_t t0, context;
    double took;

    drop_cancelled(e);
    sl_restore_finish(e);
    admit_waiting(e);
    if (e->n_run == 0) {
        sl_engine_publish(e);
        return;
    }
    plan(e);
    context = build(e, &s);
    if (e->flash) {
        s.tap = e->flash_conf->tap;
        s.n_tap = e->flash_conf->n_tap;
        s.tap_out = e->taps;
        e->step_n_row = s.n_row;
    }
    t0 = sl_clock_ns();
    sl_forward(e->model, &s);
    took = sl_clock_s(t0, sl_clock_ns());
    learn(e, &s, context, took);
    e->round_s = took + e->draft_s;
    e->n_step++;
    sl_engine_count_step(e, s.n_row, took);
    if (sl_engine_score(e))
        s.logits = sl_head(e->model, s.logit_row, s.n_logit);
    for (uint32_t i = 0; i < e->n_run; i++)
        finish_rows(e, e->run[i], &e->part[i], &s.logits);
    sl_gen_tell(e->run, e->n_run);
    if (e->drafts)
        draft(e, &s, context, took);
    settle(e);
}
