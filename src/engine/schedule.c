/* engine/schedule.c - which rows run now; see schedule.h */
#include "engine/schedule.h"

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

uint32_t sl_schedule_plan(const struct sl_sched_seq *seq, uint32_t n,
                          uint32_t max_row, uint32_t max_prompt, uint64_t turn,
                          uint32_t *rows)
{
    uint32_t sum = 0, left, hungry;

    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = (uint32_t)((turn + k) % n);

        rows[i] = seq[i].n_left == 1 && sum < max_row;
        sum += rows[i];
    }
    left = (uint32_t)sl_min(max_row - sum, max_prompt);
    sum += left;
    /* Each round satisfies a prompt or hands out everything. */
    while (left > 0 && (hungry = n_hungry(seq, n, rows)) > 0)
        left = deal(seq, n, left, (uint32_t)sl_max(left / hungry, 1), turn,
                    rows);
    return sum - left;
}
