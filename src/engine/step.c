/* engine/step.c - one step: plan, forward, draw, commit
 *
 * Between steps the engine admits what waits. A generation is admitted when a
 * place is free and the pages that it may ever need can be promised to it, so
 * that a running one never runs short.
 */
#include "base/clock.h"
#include "engine/gen.h"
#include "engine/schedule.h"

static bool is_cancelled(struct sl_gen *g)
{
    return atomic_load_explicit(&g->cancel, memory_order_relaxed);
}

/* Start the first waiting generation; false when it has to wait longer. */
static bool admit(struct sl_engine *e, struct sl_gen *g)
{
    if (e->n_run == e->opts.max_num_seqs ||
        e->n_page_promised + g->n_page > e->mem->kv->n_page)
        return false;
    if (sl_seq_open(&g->seq, e->mem, NULL))
        return false;
    e->n_page_promised += g->n_page;
    e->run[e->n_run++] = g;
    sl_lock(&g->mu);
    g->admit_ns = sl_clock_ns();
    sl_unlock(&g->mu);
    return true;
}

static void admit_waiting(struct sl_engine *e)
{
    while (e->waiting.head) {
        struct sl_gen *g = e->waiting.head;

        if (is_cancelled(g)) {
            sl_gen_list_pop(&e->waiting);
            sl_gen_end(g, SL_FINISH_CANCEL, NULL);
        } else if (admit(e, g)) {
            sl_gen_list_pop(&e->waiting);
        } else {
            break;
        }
    }
}

/* Take generation i out of the running ones, keeping their order. */
static void drop(struct sl_engine *e, uint32_t i)
{
    e->n_page_promised -= e->run[i]->n_page;
    e->n_run--;
    memmove(e->run + i, e->run + i + 1, (e->n_run - i) * sizeof(*e->run));
}

static void drop_cancelled(struct sl_engine *e)
{
    for (uint32_t i = e->n_run; i > 0; i--) {
        struct sl_gen *g = e->run[i - 1];

        if (!is_cancelled(g))
            continue;
        drop(e, i - 1);
        sl_gen_end(g, SL_FINISH_CANCEL, NULL);
    }
}

/* Tokens of g that the model has not seen: the prompt's, then the last one. */
static void copy_tokens(const struct sl_gen *g, int32_t *to, uint32_t n)
{
    if (g->seq->n_tok < g->n_prompt)
        memcpy(to, g->prompt + g->seq->n_tok, n * sizeof(*to));
    else
        to[0] = g->last;
}

static uint32_t plan(struct sl_engine *e)
{
    for (uint32_t i = 0; i < e->n_run; i++) {
        const struct sl_gen *g = e->run[i];
        bool decoding = g->seq->n_tok >= g->n_prompt;

        e->sched[i] = (struct sl_sched_seq){
            .n_left = decoding ? 1 : g->n_prompt - g->seq->n_tok,
            .decoding = decoding};
    }
    return sl_schedule_plan(e->sched, e->n_run, e->opts.max_num_batched_tokens,
                            e->step_rows);
}

/* Lay out the rows that were planned. */
static void build(struct sl_engine *e, struct sl_step *s)
{
    for (uint32_t i = 0; i < e->n_run; i++) {
        struct sl_gen *g = e->run[i];
        uint32_t n = e->step_rows[i];

        /* The pages were promised; a sequence that cannot go on is a bug. */
        if (n == 0 || sl_seq_begin(g->seq, n, 0, NULL)) {
            SL_CHECK(n == 0);
            continue;
        }
        copy_tokens(g, e->step_tok + s->n_row, n);
        e->step_seq[s->n_seq++] = g->seq;
        s->n_row += n;
        if (g->seq->n_tok + n >= g->n_prompt)
            e->logit_row[s->n_logit++] = s->n_row - 1;
    }
}

/* Draw the next token of g from its row of logits; as sl_gen_put. */
static enum sl_finish draw(struct sl_engine *e, struct sl_gen *g,
                           float *logits, struct sl_err *err)
{
    struct sl_draw d;

    if (sl_sampler_draw(e->sampler, &d, logits, &g->sample, g->hist, NULL, 0,
                        g->seq->n_tok, err))
        return SL_FINISH_ERROR;
    return sl_gen_put(g, &d, err);
}

/* Commit the rows of running generation i, and draw if its prompt is done. */
static enum sl_finish finish_rows(struct sl_engine *e, struct sl_gen *g,
                                  float **logits, struct sl_err *err)
{
    float *row = *logits;

    sl_seq_end(g->seq, 0);
    if (g->seq->n_tok < g->n_prompt)
        return SL_FINISH_NONE;
    *logits += e->weights->conf.vocab;
    return draw(e, g, row, err);
}

void sl_engine_step(struct sl_engine *e)
{
    struct sl_step s = {.seq = e->step_seq,
                        .tok = e->step_tok,
                        .logit_row = e->logit_row};
    struct sl_err err = {0};

    drop_cancelled(e);
    admit_waiting(e);
    if (e->n_run == 0 || plan(e) == 0)
        return;
    build(e, &s);
    sl_forward(e->model, &s);
    for (uint32_t i = 0, n = 0; i < e->n_run; n++) {
        struct sl_gen *g = e->run[i];
        enum sl_finish why = SL_FINISH_NONE;

        if (e->step_rows[n] > 0)
            why = finish_rows(e, g, &s.logits, &err);
        if (why == SL_FINISH_NONE) {
            i++;
            continue;
        }
        drop(e, i);
        sl_gen_end(g, why, why == SL_FINISH_ERROR ? &err : NULL);
    }
}
