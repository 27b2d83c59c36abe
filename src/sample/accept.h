/* sample/accept.h - is a draft kept?
 *
 * Pure functions. Any thread.
 */
#ifndef SL_SAMPLE_ACCEPT_H
#define SL_SAMPLE_ACCEPT_H

#include "base/err.h"

enum sl_accept_rule {
    SL_ACCEPT_EXACT,   /* the text is that of plain decoding */
    SL_ACCEPT_LENIENT, /* lossy */
    SL_ACCEPT_RELAXED, /* lossy */
};

struct sl_accept_opts {
    enum sl_accept_rule rule;
    float lenience; /* lenient: lambda, 0 < lambda <= 1; 1 is exact */
    float relax;    /* relaxed: tau, 0 < tau <= 1 */
};

void sl_accept_opts_init(struct sl_accept_opts *o); /* exact, 1, 0.3 */
int sl_accept_opts_check(const struct sl_accept_opts *o, struct sl_err *err);

/* Does the rule need the probabilities and u2 of sl_accept? */
bool sl_accept_is_lossy(const struct sl_accept_opts *o);

/* a of D4: the probability with which a draft is kept whose probability is p
 * in a distribution whose largest is p_max. p <= a <= 1; a - p is the total
 * variation distance that the rule costs at this position. */
float sl_accept_prob(const struct sl_accept_opts *o, float p, float p_max);

/* True: emit the draft and go on to the next. False: emit the draw and stop.
 * u2 is a number of SL_STREAM_ACCEPT at the same position. Adds a - p to *tv,
 * accepted or not. p, p_max and u2 are not read under the exact rule. */
bool sl_accept(const struct sl_accept_opts *o, int32_t draft, int32_t draw,
               float p, float p_max, float u2, double *tv);

#endif
