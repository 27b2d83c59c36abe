/* engine/schedule.c - which rows run now; see schedule.h */
#include "engine/schedule.h"

uint32_t sl_schedule_plan(const struct sl_sched_seq *seq, uint32_t n,
                          uint32_t max_row, uint32_t *rows)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        rows[i] = seq[i].decoding && sum < max_row;
        sum += rows[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        if (seq[i].decoding)
            continue;
        rows[i] = (uint32_t)sl_min(seq[i].n_left, max_row - sum);
        sum += rows[i];
    }
    return sum;
}
