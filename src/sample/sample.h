/* sample/sample.h - logits to a token
 *
 * The draw at a position is a function of the logits, the options, the tokens
 * before it, the seed and the position, and of nothing else (D4). The order of
 * operations is vLLM's (serving.md 2.2): shape, allowed ids, bad words,
 * min_tokens, logit bias, penalties, temperature, min-p, top-k, top-p, draw. Formulas are
 * in sample.c.
 *
 * Engine thread only. Nothing here allocates after the _open calls.
 */
#ifndef SL_SAMPLE_SAMPLE_H
#define SL_SAMPLE_SAMPLE_H

#include "base/err.h"
#include "kern/kern.h"

struct sl_matcher;

struct sl_bias {
    int32_t id;
    float value; /* added to the raw logit; -100 to 100 */
};

/* A sequence of tokens whose last one may not follow the others. */
struct sl_bad_word {
    const int32_t *ids;
    uint32_t n;
};

/* Plain data. Pointers are borrowed for the life of the request. */
struct sl_sample_opts {
    float temperature; /* 0 is greedy and switches off top_p, top_k, min_p */
    float top_p;       /* 0 < p <= 1; 1 is off */
    int32_t top_k;     /* 0 and -1 are off */
    float min_p;       /* 0 is off */
    float presence, frequency; /* 0 is off */
    float repetition;          /* 1 is off */
    uint64_t seed;
    uint32_t choice; /* index of this choice of a request with n > 1 */
    const struct sl_bias *bias;
    uint32_t n_bias;
    const int32_t *allowed; /* NULL: all ids */
    uint32_t n_allowed;
    const struct sl_bad_word *bad;
    uint32_t n_bad;
    uint32_t min_tokens; /* end ids are masked until so many are generated */
    const int32_t *end;  /* ids that end the sequence */
    uint32_t n_end;
    bool never_end; /* end ids are masked whatever min_tokens says */
    struct sl_matcher *shape; /* NULL: free. It is where the text in front of
                                 the draw is; end ids may come where it may
                                 end (shape.h) */
    uint32_t n_logprob; /* alternatives wanted with raw log-probabilities */
    bool want_logprob;
};

void sl_sample_opts_init(struct sl_sample_opts *o); /* everything off, T 1 */

/* 0, or SL_EARG naming the first value out of the range of serving.md 2.2.
 * n_vocab: ids 0 to n_vocab - 1 can be drawn. */
int sl_sample_opts_check(const struct sl_sample_opts *o, uint32_t n_vocab,
                         struct sl_err *err);

/* The tokens of one sequence so far, with what the penalties need to know of
 * them. */
struct sl_history;
int sl_history_open(struct sl_history **out, uint32_t max_tok,
                    struct sl_err *err);
void sl_history_close(struct sl_history **h);
int sl_history_push(struct sl_history *h, const int32_t *ids, size_t n,
                    bool generated, struct sl_err *err);
size_t sl_history_n_out(const struct sl_history *h); /* generated tokens */

#define SL_MAX_LOGPROB 20

struct sl_draw {
    int32_t id;
    float logprob; /* raw: before masks, bias, penalties and temperature */
    uint32_t n_top;
    int32_t top_id[SL_MAX_LOGPROB]; /* by falling logprob, ties to lower id */
    float top_logprob[SL_MAX_LOGPROB];
};

/* Work space for one vocabulary; one per engine. */
struct sl_sampler;
int sl_sampler_open(struct sl_sampler **out, const struct sl_kern *kern,
                    uint32_t n_vocab, struct sl_err *err);
/* The same for rows of n_row logits, n_row >= n_vocab: those behind n_vocab
 * belong to no token and are never drawn, but they are a part of the model's
 * distribution, and so of raw log-probabilities. */
int sl_sampler_open_padded(struct sl_sampler **out, const struct sl_kern *kern,
                           uint32_t n_vocab, uint32_t n_row,
                           struct sl_err *err);
void sl_sampler_close(struct sl_sampler **s);

/* Draw the token at absolute position `pos` from `logits` [n_row], which is
 * used as work space and not preserved. The tokens before it are those of `h`
 * followed by the n_tent tentative ones (drafts), which count as generated.
 * Then *out is untouched: SL_EARG when the masks leave no token, SL_EFORMAT when
 * every logit that they leave is NaN. */
int sl_sampler_draw(struct sl_sampler *s, struct sl_draw *out, float *logits,
                    const struct sl_sample_opts *o, const struct sl_history *h,
                    const int32_t *tent, size_t n_tent, uint64_t pos,
                    struct sl_err *err);

/* The raw log-probabilities of `id`, which exists, and of the n_top likeliest
 * tokens, at most SL_MAX_LOGPROB, as a draw would give them. *rank is the
 * number of tokens that are at least as likely. `logits` [n_row] is kept.
 * SL_EFORMAT when every logit is NaN. */
int sl_sampler_score(struct sl_sampler *s, struct sl_draw *out, uint32_t *rank,
                     const float *logits, int32_t id, uint32_t n_top,
                     struct sl_err *err);

/* Of the distribution that the last successful draw was made from, after all
 * masks, penalties and truncation: the probability of `id`, and in *max the
 * largest. For the lossy rules of accept.h. Both 0 if there was no such draw.
 * After a greedy draw the drawn token has all. */
float sl_sampler_prob(const struct sl_sampler *s, int32_t id, float *max);

#endif
