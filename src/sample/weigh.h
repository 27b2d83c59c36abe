/* sample/weigh.h - weights, their sums, and the walk to the drawn token (D4)
 */
#ifndef SL_SAMPLE_WEIGH_H
#define SL_SAMPLE_WEIGH_H

#include "kern/kern.h"
#include "sample/rank.h"

/* w[i] = exp(z[i] / temp - max / temp), 0 where that is below `least` or NaN.
 * max is the largest of z and finite; temp > 0; w may not be z. */
void sl_weigh(const struct sl_kern *kern, float *restrict w,
              const float *restrict z, size_t n, float max, float temp,
              float least);

/* The same, and the sums: sum[b] = sum over block b of w in rising order. The
 * return value is the total of the blocks in order. */
float sl_weigh_sum(const struct sl_kern *kern, float *restrict w,
                   float *restrict sum, const float *restrict z, size_t n,
                   float max, float temp, float least);

/* The first id whose running sum exceeds u * total, 0 <= u < 1, total > 0. */
int32_t sl_weigh_walk(const float *sum, const float *w, size_t n, float total,
                      float u);

/* The same on a list, where the ids that are missing have weight 0. The walk
 * gives an index of the list. */
float sl_weigh_list_sum(const struct sl_list *l);
size_t sl_weigh_list_walk(const struct sl_list *l, float total, float u);

#endif
