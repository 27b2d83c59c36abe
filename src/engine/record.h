/* engine/record.h - what rounds gave, for sluice bench speculate
 *
 * Counts of drafts by place, the time of rounds, and, where wanted, pairs: the
 * target's probability of each draft and of the likeliest token, also behind a
 * draft that was wrong, as every row was verified with the drafts before it. So
 * one recorded set can be scored under every rule.
 *
 * Engine thread while a generation runs; whoever waited for its end otherwise.
 */
#ifndef SL_ENGINE_RECORD_H
#define SL_ENGINE_RECORD_H

#include "engine/speculate.h"
#include "sample/accept.h"
#include "sample/sample.h"

struct sl_pair {
    float p, max; /* of the draft, of the likeliest token */
    bool first;   /* draft of its round */
};

struct sl_record {
    uint64_t n_round, n_tok;
    uint64_t seen[SL_MAX_DRAFT], right[SL_MAX_DRAFT]; /* drafts in this place
                                       that were verified; and kept */
    double round_s;       /* steps and drafters, of all rounds; of it */
    double plan_s;        /* deciding and keeping books of drafts */
    double experts;       /* of a layer that were read, of all rounds */
    struct sl_pair *pair; /* [max_pair], or NULL: not wanted */
    uint32_t n_pair, max_pair;
    float *row; /* [vocab] with pairs: work space */
};

/* n_draft drafts behind `pos` tokens, and the logits of their rows, which are
 * kept. */
void sl_record_pairs(struct sl_record *r, struct sl_sampler *s,
                     const struct sl_sample_opts *o, const struct sl_history *h,
                     const float *logits, size_t vocab, const int32_t *draft,
                     uint32_t n_draft, uint32_t pos);

/* A round gave n_tok tokens, of which n_right of its n_draft drafts; its step
 * read so many experts of a layer. */
void sl_record_round(struct sl_record *r, uint32_t n_draft, uint32_t n_right,
                     uint32_t n_tok, double round_s, double plan_s,
                     double experts);

/* The recorded pairs under a rule: tokens of a round, those without drafts
 * included, and the mean distance in total variation of a judged draft. */
void sl_record_score(double *tokens, double *tv, const struct sl_record *r,
                     const struct sl_accept_opts *rule);

#endif
