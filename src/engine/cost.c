/* engine/cost.c - what a step takes, as measured while serving; see cost.h
 *
 *     time(rows, context) = step[rows] + context_s * context
 *
 * A measured step moves the estimate of its bucket and the rate of context, each
 * by the share that it has in the step: a step that is all rows says nothing
 * about context. They move by a part of the error, small enough that one
 * disturbed step does little, and large enough that a machine that became
 * slower is believed after some tens of steps.
 */
#include "engine/cost.h"

#define GAIN 0.1 /* part of the error; chosen, not measured */
#define SHARED 0.5 /* of a correction goes to all sizes: what is not run now would
                      seem faster than what is, on a machine that became slower
                      for all of them. Chosen. */
#define OUTLIER 2  /* a step that took so many times as long tells no more */
#define MIN_PART 0.02 /* so that a rate near zero can grow again */
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

/* Seconds of n_row rows without context. Between two buckets the time is
 * linear in rows; beyond the last known one it is proportional to rows. And it is
 * never more than proportional to the bucket before, as the rows could be run in
 * parts: so that a size that was disturbed when it was measured is tried again. */
static double rows_s(const struct sl_cost *c, uint32_t n_row)
{
    int lo = (int)bucket(n_row), hi = lo + 1, before;
    double x0, x1, s;

    while (lo >= 0 && c->step_s[lo] <= 0)
        lo--;
    while (hi < SL_COST_BUCKETS && c->step_s[hi] <= 0)
        hi++;
    if (lo < 0)
        return hi < SL_COST_BUCKETS ? c->step_s[hi] : 0;
    x0 = rows_of((uint32_t)lo);
    s = c->step_s[lo];
    for (before = lo - 1; before >= 0 && c->step_s[before] <= 0;)
        before--;
    if (before >= 0 &&
        s > c->step_s[before] * x0 / rows_of((uint32_t)before))
        s = c->step_s[before] * x0 / rows_of((uint32_t)before);
    if (n_row <= x0)
        return s;
    if (hi == SL_COST_BUCKETS)
        return s * n_row / x0;
    x1 = rows_of((uint32_t)hi);
    return s + (c->step_s[hi] - s) * (n_row - x0) / (x1 - x0);
}

double sl_cost_predict(const struct sl_cost *c, uint32_t n_row,
                       uint64_t n_context)
{
    return rows_s(c, n_row) + c->context_s * (double)n_context;
}

void sl_cost_scale(struct sl_cost *c, double factor)
{
    for (int i = 0; i < SL_COST_BUCKETS; i++)
        c->step_s[i] *= factor;
}

/* Part of the error of a step that took s seconds instead of `want`. */
static double error_of(double s, double want)
{
    double ratio = s / want;

    ratio = ratio > OUTLIER ? OUTLIER : ratio;
    return ratio < 1.0 / OUTLIER ? 1.0 / OUTLIER - 1 : ratio - 1;
}

double sl_cost_learn(struct sl_cost *c, uint32_t n_row, uint64_t n_context,
                   double s)
{
    double *known = &c->step_s[bucket(n_row)];
    double context = c->context_s * (double)n_context, rate, part, all = 1;

    if (n_row == 0 || s <= 0)
        return 1;
    if (*known <= 0) {
        *known = s > context ? s - context : s;
        return 1;
    }
    part = context / (context + rows_s(c, n_row));
    if (s > context) {
        double e = GAIN * (1 - part) * error_of(s - context, rows_s(c, n_row));

        all = 1 + SHARED * e;
        *known *= 1 + (1 - SHARED) * e;
        sl_cost_scale(c, all);
    }
    if (n_context / n_row < DEEP)
        return all;
    rate = (s - rows_s(c, n_row)) / (double)n_context;
    rate = rate > 0 ? rate : 0;
    part = part > MIN_PART ? part : MIN_PART;
    c->context_s += c->context_s > 0 ? GAIN * part * (rate - c->context_s)
                                     : rate;
    return all;
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
