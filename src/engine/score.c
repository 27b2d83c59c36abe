/* engine/score.c - how likely the model found the tokens of a prompt
 *
 * The logits behind every token of a long prompt are gigabytes, so they are made
 * for as many rows at a time as a step may have logits, and all that is kept of
 * them is the value of the token that did follow, its rank and the likeliest
 * ones. By D2 the bits are those of any other way to come by them.
 *
 * Behind row k of the prompt comes token k + 1; the first token has no value.
 * A generation that was preempted has its values already and reads in silence.
 */
#include "base/clock.h"
#include "engine/gen.h"

#define GAIN 0.2 /* part of the error by which the time is corrected; chosen */

/* Rows of this part whose logits are wanted. */
static uint32_t n_wanted(const struct sl_gen *g, const struct sl_part *p)
{
    uint32_t last = g->n_prompt - 1;

    if (!g->scores || g->n_known > g->n_prompt || g->seq->n_tok >= last)
        return 0;
    return (uint32_t)sl_min(p->firm, last - g->seq->n_tok);
}

/* What row `pos` says of the token behind it. */
static int score_row(struct sl_engine *e, struct sl_gen *g, uint32_t pos,
                     const float *logits)
{
    struct sl_logprob *top = g->score_top + (size_t)(pos + 1) * g->n_score_top;
    struct sl_draw d;
    int rc = sl_sampler_score(e->sampler, &d, &g->score_rank[pos + 1], logits,
                              g->tok[pos + 1], g->n_score_top, NULL);

    if (rc)
        return rc;
    g->score[pos + 1] = (struct sl_logprob){d.id, d.logprob};
    for (uint32_t i = 0; i < g->n_score_top; i++)
        top[i] = i < d.n_top
                     ? (struct sl_logprob){d.top_id[i], d.top_logprob[i]}
                     : (struct sl_logprob){.id = -1};
    return 0;
}

static void score_part(struct sl_engine *e, struct sl_gen *g, struct sl_part *p,
                       uint32_t n)
{
    for (uint32_t i = 0, some; i < n; i += some) {
        const float *logits;

        some = (uint32_t)sl_min(n - i, e->max_logit);
        for (uint32_t k = 0; k < some; k++)
            e->score_row[k] = p->row0 + i + k;
        logits = sl_head(e->model, e->score_row, some);
        for (uint32_t k = 0; k < some && !p->broken; k++)
            p->broken = score_row(e, g, g->seq->n_tok + i + k,
                                  logits +
                                      (size_t)k * e->weights->conf.vocab) != 0;
    }
}

bool sl_engine_score(struct sl_engine *e)
{
    uint64_t t0 = sl_clock_ns();
    uint32_t n_all = 0;
    double s;

    for (uint32_t i = 0; i < e->n_run; i++) {
        uint32_t n = n_wanted(e->run[i], &e->part[i]);

        if (n > 0)
            score_part(e, e->run[i], &e->part[i], n);
        n_all += n;
    }
    if (n_all == 0)
        return false;
    s = sl_clock_s(t0, sl_clock_ns()) / n_all;
    e->score_s += e->score_s > 0 ? GAIN * (s - e->score_s) : s;
    return true;
}
