/* engine/schedule.c - which rows run now; see schedule.h */
#include "engine/schedule.h"

/* A step of prompts alone. Chosen, not measured: short against the patience of a
 * user, long against the fixed cost of a step; which on a slow machine, or with
 * a large model, is itself longer than that, so that a few of it is the measure.
 */
#define STEP_S 0.25
#define STEP_STRETCH 4
#define DECODE_STRETCH 1.7 /* below 2, which is the promise, by what steps vary */
#define FIRST_ROWS 32      /* of a prompt, before anything was measured */

#define SHARES 2 /* equal parts that the shortest prompt may have at most */

/* One round: every prompt that wants more gets up to `part` rows. Returns what
 * remains of `left`. */
static uint32_t deal(const struct sl_sched_seq *seq, uint32_t n, uint32_t left,
                     uint32_t part, uint64_t turn, uint32_t *rows)
{
    for (uint32_t k = 0; k < n && left > 0; k++) {
        uint32_t i = (uint32_t)((turn + k) % n);
        uint32_t want = seq[i].n_left - rows[i];
        uint32_t got = (uint32_t)sl_min(sl_min(want, part), left);

        rows[i] += got;
        left -= got;
    }
    return left;
}

static uint32_t n_hungry(const struct sl_sched_seq *seq, uint32_t n,
                         const uint32_t *rows)
{
    uint32_t hungry = 0;

    for (uint32_t i = 0; i < n; i++)
        hungry += rows[i] < seq[i].n_left;
    return hungry;
}

/* `left` rows in equal parts; what a short prompt does not need goes to the
 * others. Each round satisfies a prompt or hands out everything. Returns what
 * nobody wants. */
static uint32_t deal_all(const struct sl_sched_seq *seq, uint32_t n,
                         uint32_t left, uint64_t turn, uint32_t *rows)
{
    uint32_t hungry;

    while (left > 0 && (hungry = n_hungry(seq, n, rows)) > 0)
        left = deal(seq, n, left, (uint32_t)sl_max(left / hungry, 1), turn,
                    rows);
    return left;
}

/* The prompt with the least to read of those below `most` rows; of equals, who
 * is first at `turn`. n when there is none. */
static uint32_t shortest(const struct sl_sched_seq *seq, uint32_t n,
                         uint32_t most, uint64_t turn, const uint32_t *rows)
{
    uint32_t best = n;

    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = (uint32_t)((turn + k) % n);

        if (rows[i] < sl_min(seq[i].n_left, most) &&
            (best == n || seq[i].n_all < seq[best].n_all))
            best = i;
    }
    return best;
}

/* Up to `most` rows in all for one after the other. */
static uint32_t deal_short(const struct sl_sched_seq *seq, uint32_t n,
                           uint32_t left, uint32_t most, uint64_t turn,
                           uint32_t *rows)
{
    while (left > 0) {
        uint32_t i = shortest(seq, n, most, turn, rows), got;

        if (i == n)
            break;
        got = (uint32_t)sl_min(sl_min(seq[i].n_left, most) - rows[i], left);
        rows[i] += got;
        left -= got;
    }
    return left;
}

uint32_t sl_schedule_plan(const struct sl_sched_seq *seq, uint32_t n,
                          uint32_t max_row, uint32_t max_prompt, uint64_t turn,
                          uint32_t *rows)
{
    uint32_t sum = 0, left, equal, most, hungry;

    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = (uint32_t)((turn + k) % n);

        rows[i] = seq[i].n_left == 1 && sum < max_row;
        sum += rows[i];
    }
    left = (uint32_t)sl_min(max_row - sum, max_prompt);
    hungry = n_hungry(seq, n, rows);
    if (hungry == 0)
        return sum;
    sum += left;
    most = SHARES * ((left + hungry - 1) / hungry);
    /* A single row goes in turn to all alike and to the shortest. */
    equal = (uint32_t)((left + turn % 2) / 2);
    left -= equal;
    left += deal_all(seq, n, equal, turn / 2, rows);
    left = deal_short(seq, n, left, most, turn / 2, rows);
    return sum - deal_all(seq, n, left, turn / 2, rows);
}

uint32_t sl_schedule_prompt_rows(const struct sl_cost *c, uint32_t n_dec,
                                 uint64_t dec_context, uint32_t n_prompt,
                                 uint64_t depth, uint32_t max_row)
{
    uint32_t soon = n_dec > 0 && n_prompt > 0 ? n_dec + n_prompt - 1 : n_dec;
    double now = sl_cost_predict(c, soon, dec_context);
    double limit = DECODE_STRETCH * now;
    uint32_t rows;

    if (now <= 0)
        return FIRST_ROWS;
    if (n_dec == 0) /* now is a step of one row */
        limit = STEP_STRETCH * now > STEP_S ? STEP_STRETCH * now : STEP_S;
    limit -= c->context_s * (double)dec_context;
    rows = sl_cost_rows(c, limit, depth, max_row);
    return rows > n_dec ? rows - n_dec : 1;
}
