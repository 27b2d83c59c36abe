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
 * linear in rows; beyond the last known one it is proportional to rows. */
static double rows_s(const struct sl_cost *c, uint32_t n_row)
{
    int lo = -1, hi = -1;
    uint32_t at = bucket(n_row);
    double x0, x1;

    for (int i = 0; i < SL_COST_BUCKETS; i++) {
        if (c->step_s[i] <= 0)
            continue;
        if (i <= (int)at)
            lo = i;
        else if (hi < 0)
            hi = i;
    }
    if (lo < 0)
        return hi < 0 ? 0 : c->step_s[hi];
    x0 = rows_of((uint32_t)lo);
    if (hi < 0)
        return c->step_s[lo] * (n_row > x0 ? (double)n_row / x0 : 1);
    x1 = rows_of((uint32_t)hi);
    return c->step_s[lo] +
           (c->step_s[hi] - c->step_s[lo]) * ((double)n_row - x0) / (x1 - x0);
}

double sl_cost_predict(const struct sl_cost *c, uint32_t n_row,
                       uint64_t n_context)
{
    return rows_s(c, n_row) + c->context_s * (double)n_context;
}

void sl_cost_learn(struct sl_cost *c, uint32_t n_row, uint64_t n_context,
                   double s)
{
    double *known = &c->step_s[bucket(n_row)];
    double context = c->context_s * (double)n_context, rate, part;

    if (n_row == 0 || s <= 0)
        return;
    if (*known <= 0) {
        *known = s > context ? s - context : s;
        return;
    }
    part = context / (context + rows_s(c, n_row));
    if (s > context)
        *known *= 1 + GAIN * (1 - part) * ((s - context) / rows_s(c, n_row) - 1);
    if (n_context / n_row < DEEP)
        return;
    rate = (s - rows_s(c, n_row)) / (double)n_context;
    rate = rate > 0 ? rate : 0;
    part = part > MIN_PART ? part : MIN_PART;
    c->context_s += c->context_s > 0 ? GAIN * part * (rate - c->context_s)
                                     : rate;
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
