/* sample/rank.h - the likeliest tokens, without sorting
 *
 * One order of tokens serves everything that ranks them: by falling value, of
 * equal ones the lower id first. NaN ranks nowhere.
 */
#ifndef SL_SAMPLE_RANK_H
#define SL_SAMPLE_RANK_H

#include "base/base.h"

#define SL_RANK_BLOCK 64 /* ids of one block; 64 b to 64 b + 63 (D4) */

/* Work space of sl_rank_cut. */
struct sl_rank {
    uint64_t mass[1 << 11];
};

/* A prefix of the order: all above z, and the first n_tie of those equal to
 * it. Not found: the whole has less mass than was asked for. */
struct sl_cut {
    float z;
    uint64_t n_tie;
    bool found;
};

/* Tokens by rising id. */
struct sl_list {
    int32_t *id;
    float *z, *w; /* value, weight */
    size_t n;
};

/* max[b] = largest of block b, -inf where there is none; the return value is
 * the largest of all. */
float sl_rank_max(float *restrict max, const float *restrict z, size_t n);

/* The smallest prefix of z [n], without NaN, whose mass reaches `need` > 0.
 * Without weights every element has mass 1, else element i floor(w[i] * 2^40),
 * 0 <= w <= 1, and equal z have equal w. n < 2^23. */
struct sl_cut sl_rank_cut(struct sl_rank *r, const float *z, const float *w,
                          size_t n, uint64_t need);

#define SL_RANK_ONE 0x1p40 /* the mass of w = 1 */

/* The finite values of z [n] that are at least t, into l->id and l->z, which
 * have room for n + 1. `max` as sl_rank_max left it. */
void sl_rank_collect(struct sl_list *l, const float *z, const float *max,
                     size_t n, float t);

/* Keep the prefix only; w moves along if `weighed`. */
void sl_rank_keep(struct sl_list *l, struct sl_cut cut, bool weighed);

#endif
