/* sample/accept.c - is a draft kept?
 *
 * Exact (D4): the draft x is kept if it is the draw y. As y is a function of
 * the tokens before it, the seed and the position, the text is that of plain
 * decoding, token for token, and drafting can change nothing but the speed.
 *
 * The lossy rules raise the probability of keeping x from p, the target's, to
 * some a >= p. With y the draw, which is x with probability p already:
 *
 *     keep x if y = x, else if u2 < (a - p) / (1 - p), else emit y
 *
 *     P(x) = p + (1 - p) (a - p) / (1 - p) = a
 *     P(z) = p_z (1 - a) / (1 - p)             for the others
 *
 * so the distance in total variation from the target is a - p exactly. It is
 * added up per position and reported, so that nobody is lossy unknowingly.
 *
 *     lenient   a = p^lambda
 *     relaxed   a = 1 where p >= tau * p_max, else a = p
 *
 * lambda = 1 gives a = p without arithmetic, hence the bits of the exact rule.
 */
#include "sample/accept.h"

#include "kern/math.h"

#define RELAX_DEFAULT 0.3f /* D4 */

void sl_accept_opts_init(struct sl_accept_opts *o)
{
    *o = (struct sl_accept_opts){
        .rule = SL_ACCEPT_EXACT, .lenience = 1, .relax = RELAX_DEFAULT};
}

int sl_accept_opts_check(const struct sl_accept_opts *o, struct sl_err *err)
{
    /* Written so that a NaN fails. */
    if (!(o->lenience > 0 && o->lenience <= 1))
        return sl_fail(err, SL_EARG,
                       "a lenience of %g is not in (0, 1]; 1 is exact, smaller "
                       "accepts more",
                       (double)o->lenience);
    if (!(o->relax > 0 && o->relax <= 1))
        return sl_fail(err, SL_EARG,
                       "a relax threshold of %g is not in (0, 1]; smaller "
                       "accepts more, the default is 0.3",
                       (double)o->relax);
    return 0;
}

bool sl_accept_is_lossy(const struct sl_accept_opts *o)
{
    switch (o->rule) {
    case SL_ACCEPT_EXACT:
        return false;
    case SL_ACCEPT_LENIENT:
        return o->lenience < 1;
    case SL_ACCEPT_RELAXED:
        return true;
    }
    return false;
}

float sl_accept_prob(const struct sl_accept_opts *o, float p, float p_max)
{
    float a = p;

    if (!sl_accept_is_lossy(o) || !(p > 0)) /* 0 to any power is 0 */
        return p;
    if (o->rule == SL_ACCEPT_LENIENT)
        a = sl_exp(o->lenience * sl_ln(p));
    else if (p >= o->relax * p_max)
        a = 1;
    /* exp and ln may be off by two units in the last place. */
    if (a > 1)
        a = 1;
    return a > p ? a : p;
}

bool sl_accept(const struct sl_accept_opts *o, int32_t draft, int32_t draw,
               float p, float p_max, float u2, double *tv)
{
    float a;

    if (!sl_accept_is_lossy(o))
        return draft == draw;
    a = sl_accept_prob(o, p, p_max);
    *tv += (double)(a - p);
    if (draft == draw)
        return true;
    /* p = 1 leaves nothing to gain, and nothing to divide by. */
    return p < 1 && u2 < (a - p) / (1 - p);
}
