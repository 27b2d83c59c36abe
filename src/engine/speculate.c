/* engine/speculate.c - how many drafts are worth their time; see speculate.h
 *
 * With depth k a round of n sequences yields
 *
 *     tokens(k) = n (1 + r_1 + r_1 r_2 + ... + r_1 ... r_k)
 *
 * tokens and takes
 *
 *     time(k) = step(n (1 + k) + other rows) + k pass(n)
 *
 * where the first pass of the drafter also shows it the tokens of the round
 * before. The depth with the largest quotient wins.
 * (Leviathan et al., "Fast Inference from Transformers via Speculative
 * Decoding", 2023, with measured times.)
 *
 * Where depth 0 wins, every PROBE-th round drafts one token all the same, so
 * that a text that has become easier is noticed.
 */
#include "engine/speculate.h"

#define GAIN 0.05       /* of one round; chosen: some tens of rounds count */
#define FIRST_RIGHT 0.6 /* before anything is known: worth a try */
#define PROBE 32        /* rounds; a probe costs well below a step */

void sl_speculate_init(struct sl_speculate *s, uint32_t fixed)
{
    *s = (struct sl_speculate){.fixed = fixed};
    for (int i = 0; i < SL_MAX_DRAFT; i++)
        s->right[i] = FIRST_RIGHT;
}

uint32_t sl_speculate_depth(const struct sl_speculate *s,
                            const struct sl_cost *step, uint32_t n_seq,
                            uint32_t n_other, uint64_t n_context)
{
    double best = 0, tokens = 1, chain = 1;
    uint32_t depth = 0;

    if (s->fixed)
        return s->fixed;
    for (uint32_t k = 0; k <= SL_MAX_DRAFT; k++) {
        double pass = k * sl_cost_predict(&s->pass, n_seq, n_context);
        double time = pass + sl_cost_predict(step, n_seq * (1 + k) + n_other,
                                             n_context * (1 + k));

        if (k > 0) {
            chain *= s->right[k - 1];
            tokens += chain;
        }
        if (time <= 0) /* nothing was measured yet */
            return 1;
        if (tokens / time > best) {
            best = tokens / time;
            depth = k;
        }
    }
    if (depth == 0 && s->n_round % PROBE == PROBE - 1)
        return 1;
    return depth;
}

void sl_speculate_learn(struct sl_speculate *s, uint32_t n_draft,
                        uint32_t n_accept)
{
    s->n_round++;
    s->n_draft += n_draft;
    s->n_accept += n_accept;
    /* Behind the first wrong draft nothing can be said. The first rounds count
     * for more: a plain mean, with the guess as its first member. */
    for (uint32_t i = 0; i < n_draft && i <= n_accept; i++) {
        double gain = 1.0 / (double)(++s->n_seen[i] + 1);

        gain = gain > GAIN ? gain : GAIN;
        s->right[i] += gain * ((i < n_accept) - s->right[i]);
    }
}
