/* engine/cost.c - what a step takes, as measured while serving; see cost.h
 *
 *     time(rows, context) = step[rows] + context_s * context
 *
 * A measured step moves the estimates of the buckets around it, and the rate of
 * context slower, each by the share that it has in the step. They move by a part
 * of the error, small enough that one disturbed step does little, and large
 * enough that a machine that became slower is believed after some tens of steps. The first times of a size count
 * for more: they correct a figure that was measured in a hurry.
 */
#include "engine/pace.h"

#define GAIN 0.1 /* part of the error; chosen, not measured */
#define GAIN_LEAST 0.02 /* of a short step: there are many, and what disturbs them */
#define LONG_S 0.01     /* lasts longer than one; of all from here on GAIN. Chosen */
#define MANY 64  /* times of a size that are a plain mean, at most */
#define FIRST 16 /* of them, and all of short ones, correct what was measured at the
                    start, and say nothing about the machine. Chosen. */
#define FRESH 256 /* times of any size, for each that one was seen, after which it may
                    be wrong. Chosen. */
#define OUTLIER 2  /* a step that took so many times as long tells no more */
#define FIRST_CONTEXT 3   /* the first rate of context is the least of so many */
#define MANY_CONTEXT 200  /* and the next so many a plain mean; */
#define MOST_WEIGHT 2     /* of one against the mean. All chosen. */
#define DEEP 256 /* tokens a row looks back at before context can be told from
                    noise */

#define EXACT_BITS 4 /* SL_COST_EXACT is 2^4 */

static uint32_t bucket(uint32_t n_row)
{
    uint32_t i = SL_COST_EXACT - 1;

    if (n_row <= SL_COST_EXACT)
        return n_row > 0 ? n_row - 1 : 0;
    while (i + 1 < SL_COST_BUCKETS &&
           1u << (i + 1 - SL_COST_EXACT + EXACT_BITS + 1) <= n_row)
        i++;
    return i;
}

/* The least rows of bucket i. */
static double rows_of(uint32_t i)
{
    return i < SL_COST_EXACT ? i + 1
                             : 1u << (i - SL_COST_EXACT + EXACT_BITS + 1);
}

/* The last known bucket below i, and the first from i on; -1: none. */
static int known_below(const struct sl_cost *c, int i)
{
    while (--i >= 0 && c->step_s[i] <= 0)
        ;
    return i;
}

static int known_from(const struct sl_cost *c, int i)
{
    while (i < SL_COST_BUCKETS && c->step_s[i] <= 0)
        i++;
    return i < SL_COST_BUCKETS ? i : -1;
}

static double level_of(const struct sl_cost *c)
{
    return c->pace && c->pace->level > 0 ? c->pace->level : 1;
}

/* What bucket i took when it was seen last, at the level of now. */
static double now_s(const struct sl_cost *c, int i)
{
    double then = c->level[i] > 0 ? c->level[i] : 1;

    return c->step_s[i] * level_of(c) / then;
}

/* Was bucket i seen lately, for how often it was seen in all? */
static bool is_fresh(const struct sl_cost *c, int i)
{
    uint64_t n = c->n_seen[i] > 0 ? c->n_seen[i] : 1;

    return c->at[i] > 0 && c->n_learn - c->at[i] <= FRESH * n;
}

/* The estimate of a known bucket. What was not seen lately is never more than
 * proportional to the one before, as the rows could be run in parts: so a size
 * that was disturbed when it was measured is tried again. What was seen lately
 * stands for itself: the one before may be the one that is wrong. */
static double known_s(const struct sl_cost *c, int i)
{
    int before = known_below(c, i);
    double s = now_s(c, i), most;

    if (before < 0 || is_fresh(c, i))
        return s;
    most = now_s(c, before) * rows_of((uint32_t)i) / rows_of((uint32_t)before);
    return s < most ? s : most;
}

/* Between which known buckets n_row lies, and the share of the second. */
struct span {
    int lo, hi; /* -1: none */
    double share;
};

static struct span span_of(const struct sl_cost *c, uint32_t n_row)
{
    int i = (int)bucket(n_row);
    struct span s = {.lo = known_below(c, i + 1), .hi = known_from(c, i + 1)};
    double x0;

    if (s.lo < 0 || s.hi < 0)
        return s;
    x0 = rows_of((uint32_t)s.lo);
    s.share = (n_row - x0) / (rows_of((uint32_t)s.hi) - x0);
    return s;
}

/* Seconds of n_row rows without context. Between two buckets the time is
 * linear in rows; beyond the last known one it is proportional to rows. */
static double rows_s(const struct sl_cost *c, uint32_t n_row)
{
    struct span p;
    uint32_t i = bucket(n_row);

    if (i < SL_COST_EXACT && c->step_s[i] > 0 && n_row == i + 1)
        return known_s(c, (int)i); /* it is asked for often */
    p = span_of(c, n_row);
    if (p.lo < 0)
        return p.hi < 0 ? 0 : known_s(c, p.hi);
    if (p.hi < 0)
        return known_s(c, p.lo) * n_row / rows_of((uint32_t)p.lo);
    return (1 - p.share) * known_s(c, p.lo) + p.share * known_s(c, p.hi);
}

/* A step whose rows look back at `deep` tokens each took `off` seconds a row more
 * than was said, of which `part` was context. In the steps of one text rows and
 * their context grow hardly apart, so what one is said to take the other is not:
 * the rate moves slowly where it is a small part, or it would wander, and what is
 * said of all sizes that are not run with it. Deep rows tell more than others
 * (least mean squares). */
static void learn_context(struct sl_cost *c, double deep, double off,
                          double part)
{
    double gain = 1.0 / (c->n_deep + 1), rate = c->context_s + off / deep;
    bool first = c->n_deep < FIRST_CONTEXT;
    double weight;

    c->n_deep += c->n_deep < MANY_CONTEXT;
    c->deep_sq += gain * (deep * deep - c->deep_sq);
    if (first && c->n_deep > 1 && rate > c->context_s)
        return;
    weight = deep * deep / c->deep_sq;
    gain = gain > GAIN * part * part ? gain : GAIN * part * part;
    gain *= weight < MOST_WEIGHT ? weight : MOST_WEIGHT;
    c->context_s += (first ? 1 : gain) * (rate - c->context_s);
    c->context_s = c->context_s > 0 ? c->context_s : 0;
}

/* The first estimate of bucket i: a step of its n_row rows took s. */
static double first_s(const struct sl_cost *c, int i, uint32_t n_row, double s)
{
    int before = known_below(c, i);
    double x = rows_of((uint32_t)i), x0;

    if (before < 0)
        return s * x / n_row;
    x0 = rows_of((uint32_t)before);
    return now_s(c, before) +
           (s - now_s(c, before)) * (x - x0) / (n_row - x0);
}

uint32_t sl_cost_known(const struct sl_cost *c, uint32_t i)
{
    return c->step_s[i] > 0 ? (uint32_t)rows_of(i) : 0;
}

double sl_cost_predict(const struct sl_cost *c, uint32_t n_row,
                       uint64_t n_context)
{
    return rows_s(c, n_row) + c->context_s * (double)n_context;
}

/* Part of the error of a step that took s seconds instead of `want`. */
static double error_of(double s, double want)
{
    double ratio = s / want;

    ratio = ratio > OUTLIER ? OUTLIER : ratio;
    return ratio < 1.0 / OUTLIER ? 1.0 / OUTLIER - 1 : ratio - 1;
}

/* A bucket was seen, and what was said of it moves by part e. */
static void move(struct sl_cost *c, int i, double e)
{
    double level = level_of(c);

    c->step_s[i] = known_s(c, i) * (1 + e);
    c->level[i] = level;
    c->at[i] = c->n_learn;
    c->n_seen[i] += c->n_seen[i] < MANY;
    if (!c->pace)
        return;
    if (c->first_s[i] <= 0 &&
        c->n_seen[i] >= (c->step_s[i] < LONG_S ? MANY : FIRST))
        c->first_s[i] = c->step_s[i] / level;
    sl_pace_saw(c->pace, c, (uint32_t)i);
}

/* A size that was not believed any more is tried again, and took s: that tells
 * whether it was right. */
static void look_again(struct sl_cost *c, int i, double s)
{
    double was = now_s(c, i), most = known_s(c, i);

    if (was <= most)
        return;
    c->step_s[i] = s < most ? most : s < was ? s : was;
    c->level[i] = level_of(c);
    c->at[i] = c->n_learn;
}

/* How much is believed of a step that took s and was seen n times before. */
static double gain_of(uint32_t n, double s)
{
    double gain = 1.0 / (n + 2), least = GAIN * s / LONG_S;

    least = least < GAIN_LEAST ? GAIN_LEAST : least > GAIN ? GAIN : least;
    return gain > least ? gain : least;
}

/* A step of n_row rows took part e more than was said: each of the two buckets
 * moves as much as it has a share in it. */
static void correct(struct sl_cost *c, uint32_t n_row, double s, double e)
{
    struct span p = span_of(c, n_row);
    double lo = 1 - p.share, norm = lo * lo + p.share * p.share;

    e *= gain_of(c->n_seen[p.lo], s) / norm;
    move(c, p.lo, e * lo);
    if (p.hi >= 0 && p.share > 0)
        move(c, p.hi, e * p.share);
}

void sl_cost_learn(struct sl_cost *c, uint32_t n_row, uint64_t n_context,
                   double s)
{
    int i = (int)bucket(n_row);
    double context = c->context_s * (double)n_context, total, e;

    if (n_row == 0 || s <= 0)
        return;
    c->n_learn++;
    if (c->step_s[i] <= 0) {
        c->step_s[i] = first_s(c, i, n_row, s > context ? s - context : s);
        c->level[i] = level_of(c);
        c->at[i] = c->n_learn;
        move(c, i, 0);
        return;
    }
    if (n_row == (uint32_t)rows_of((uint32_t)i) && s > context)
        look_again(c, i, s - context);
    total = context + rows_s(c, n_row);
    e = error_of(s, total);
    if (s > context)
        correct(c, n_row, s, e);
    if (n_context / n_row >= DEEP)
        learn_context(c, (double)n_context / n_row,
                      (c->n_deep < FIRST_CONTEXT ? s - total : e * total) /
                          n_row,
                      context / total);
}

double sl_cost_calm(const struct sl_cost *c, uint32_t n_row, uint64_t n_context,
                    double s)
{
    double most = OUTLIER * sl_cost_predict(c, n_row, n_context);

    return most > 0 && s > most ? most : s;
}

uint32_t sl_cost_rows(const struct sl_cost *c, double limit_s, uint64_t depth,
                      uint32_t max_row)
{
    uint32_t lo = 1, hi = max_row;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;

        if (sl_cost_predict(c, mid, mid * depth) <= limit_s)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}
