/* engine/spec_log.c - drafting in the log; see spec_log.h */
#include "engine/spec_log.h"

#include "base/log.h"

void sl_spec_log_round(struct sl_spec_log *l, const struct sl_speculate *s,
                       uint32_t n_tok, uint32_t n_draft, double spent_s)
{
    double plain;

    if (l->every == 0)
        return;
    l->n_tok += n_tok;
    l->n_draft += n_draft;
    l->spent_s += spent_s;
    if (++l->n_round < l->every)
        return;
    plain = s->token_s > 0 ? 1 / s->token_s : 0;
    sl_log(SL_LOG_INFO,
           "speculation rounds=%u tokens=%llu drafts=%llu accepted=%llu "
           "tokens_per_s=%.1f plain_tokens_per_s=%.1f stops=%llu",
           l->n_round, (unsigned long long)l->n_tok,
           (unsigned long long)l->n_draft,
           (unsigned long long)(s->n_accept - l->n_accept),
           (double)l->n_tok / l->spent_s, plain,
           (unsigned long long)s->n_stop);
    *l = (struct sl_spec_log){.every = l->every, .n_accept = s->n_accept};
}
