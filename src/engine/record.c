/* engine/record.c - what rounds gave; see record.h */
#include "engine/record.h"

void sl_record_pairs(struct sl_record *r, struct sl_sampler *s,
                     const struct sl_sample_opts *o, const struct sl_history *h,
                     const float *logits, size_t vocab, const int32_t *draft,
                     uint32_t n_draft, uint32_t pos)
{
    if (!r->pair || n_draft > r->max_pair - r->n_pair)
        return;
    for (uint32_t k = 0; k < n_draft; k++) {
        struct sl_pair *p = &r->pair[r->n_pair];
        struct sl_draw d;

        memcpy(r->row, logits + k * vocab, vocab * sizeof(*r->row));
        if (sl_sampler_draw(s, &d, r->row, o, h, draft, k, pos + k, NULL))
            return;
        *p = (struct sl_pair){.first = k == 0};
        p->p = sl_sampler_prob(s, draft[k], &p->max);
        r->n_pair++;
    }
}

void sl_record_round(struct sl_record *r, uint32_t n_draft, uint32_t n_right,
                     uint32_t n_tok, double round_s, double plan_s,
                     double experts)
{
    r->n_round++;
    r->n_tok += n_tok;
    r->round_s += round_s;
    r->plan_s += plan_s;
    r->experts += experts;
    for (uint32_t i = 0; i < n_draft; i++) {
        r->seen[i]++;
        r->right[i] += i < n_right;
    }
}

void sl_record_score(double *tokens, double *tv, const struct sl_record *r,
                     const struct sl_accept_opts *rule)
{
    double sum = 0, off = 0, judged = 0, reach = 1;

    for (uint32_t i = 0; i < r->n_pair; i++) {
        const struct sl_pair *p = &r->pair[i];
        double a = rule->rule == SL_ACCEPT_EXACT
                       ? (double)p->p
                       : (double)sl_accept_prob(rule, p->p, p->max);

        if (p->first)
            reach = 1;
        judged += reach;
        off += reach * (a - (double)p->p);
        reach *= a;
        sum += reach;
    }
    *tokens = r->n_round > 0 ? 1 + sum / (double)r->n_round : 1;
    *tv = judged > 0 ? off / judged : 0;
}
