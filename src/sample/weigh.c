/* sample/weigh.c - weights, their sums, and the walk to the drawn token (D4)
 *
 * The draw inverts the distribution function over rising ids:
 *
 *     w_i   = exp(z_i / T - max / T)         0 for what did not survive
 *     s_i   = sum of w from the start of i's block of 64 ids up to i, in order
 *     B_b   = s at the end of block b; P_b = P_(b-1) + B_(b-1), P_0 = 0
 *     R_i   = P_(block of i) + s_i           the running sum
 *     token = the first i with R_i > u * total, total = P behind the last block
 *
 * Everything is binary32, each operation rounded, so every machine draws the
 * same token. R never falls, and its value at the end of a block is the P of
 * the next, so the walk may skip whole blocks. A survivor that is missing and
 * one of weight 0 are the same, x + 0 = x, so lists and arrays give the same
 * bits. u <= 1 - 2^-24 gives u * total < total after rounding, so the walk
 * always ends.
 *
 * What the roundings cost: at most 64 additions in a block and 3,880 of blocks.
 * A block whose sum is below 2^-25 of the running sum may vanish, up to
 * 3,880 * 2^-25 = 1.2e-4 of the probability in the worst case imaginable; it is
 * in the far tail only, where u has no more digits either. Sums in double would
 * be as deterministic, but two formats in one contract are one too many.
 *
 * The blocks exist so that additions can overlap: eight blocks are summed side
 * by side, each in its own order.
 */
#include "sample/weigh.h"

#include "kern/math.h"

#define GROUP_BLOCKS 8 /* blocks that are summed side by side */
#define CHUNK (GROUP_BLOCKS * SL_RANK_BLOCK) /* fits the first cache twice */

/* Loops over a chunk. Where n is a constant after inlining, compilers use
 * vectors without being asked for more than -O2; it nearly always is. */
static inline void lower(float *w, size_t n, float by)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= by;
}

static inline void lowered(float *restrict w, const float *restrict z, size_t n,
                           float by)
{
    for (size_t i = 0; i < n; i++)
        w[i] = z[i] - by;
}

/* A NaN is below everything. */
static inline void cut(float *w, size_t n, float least)
{
    for (size_t i = 0; i < n; i++)
        w[i] = w[i] >= least ? w[i] : 0;
}

/* At most one chunk. */
static void drop(float *w, size_t n, float least)
{
    if (n == CHUNK)
        cut(w, CHUNK, least);
    else
        cut(w, n, least);
}

/* At most one chunk. */
static void weigh(const struct sl_kern *kern, float *restrict w,
                  const float *restrict z, size_t n, float top, float temp)
{
    if (temp != 1) {
        kern->div(w, z, temp, n);
        if (n == CHUNK)
            lower(w, CHUNK, top);
        else
            lower(w, n, top);
    } else if (n == CHUNK) { /* x / 1 = x */
        lowered(w, z, CHUNK, top);
    } else {
        lowered(w, z, n, top);
    }
    kern->exp(w, w, n);
}

void sl_weigh(const struct sl_kern *kern, float *restrict w,
              const float *restrict z, size_t n, float max, float temp,
              float least)
{
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t len = sl_min(CHUNK, n - at);

        weigh(kern, w + at, z + at, len, max / temp, temp);
        drop(w + at, len, least);
    }
}

/* GROUP_BLOCKS whole blocks; sum[b] is block b. */
static void sum_group(float *restrict sum, const float *restrict w)
{
    const size_t at = SL_RANK_BLOCK;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;

    for (size_t i = 0; i < SL_RANK_BLOCK; i++) {
        s0 += w[i];
        s1 += w[i + at];
        s2 += w[i + 2 * at];
        s3 += w[i + 3 * at];
        s4 += w[i + 4 * at];
        s5 += w[i + 5 * at];
        s6 += w[i + 6 * at];
        s7 += w[i + 7 * at];
    }
    sum[0] = s0;
    sum[1] = s1;
    sum[2] = s2;
    sum[3] = s3;
    sum[4] = s4;
    sum[5] = s5;
    sum[6] = s6;
    sum[7] = s7;
}

static float sum_block(const float *w, size_t n)
{
    float s = 0;

    for (size_t i = 0; i < n; i++)
        s += w[i];
    return s;
}

/* The sums of at most one chunk. NaN is looked for in the sums only: it is
 * rare, and then its block is done again without. */
static void sum_chunk(float *restrict sum, float *restrict w, size_t n)
{
    if (n == CHUNK)
        sum_group(sum, w);
    for (size_t b = 0; b * SL_RANK_BLOCK < n; b++) {
        float *wb = w + b * SL_RANK_BLOCK;
        size_t len = sl_min(SL_RANK_BLOCK, n - b * SL_RANK_BLOCK);

        if (n != CHUNK)
            sum[b] = sum_block(wb, len);
        if (sum[b] >= 0)
            continue;
        drop(wb, len, 0);
        sum[b] = sum_block(wb, len);
    }
}

float sl_weigh_sum(const struct sl_kern *kern, float *restrict w,
                   float *restrict sum, const float *restrict z, size_t n,
                   float max, float temp, float least)
{
    float total = 0;

    for (size_t at = 0; at < n; at += CHUNK) {
        size_t len = sl_min(CHUNK, n - at);

        weigh(kern, w + at, z + at, len, max / temp, temp);
        if (least > 0)
            drop(w + at, len, least);
        sum_chunk(sum + at / SL_RANK_BLOCK, w + at, len);
    }
    for (size_t b = 0; b * SL_RANK_BLOCK < n; b++)
        total += sum[b];
    return total;
}

int32_t sl_weigh_walk(const float *sum, const float *w, size_t n, float total,
                      float u)
{
    float target = u * total, before = 0, s = 0;
    size_t b = 0, i;

    /* The last block is not tested: the token is there if it is nowhere else.
     */
    for (; (b + 1) * SL_RANK_BLOCK < n && !(before + sum[b] > target); b++)
        before += sum[b];
    for (i = b * SL_RANK_BLOCK; i + 1 < n; i++) {
        s += w[i];
        if (before + s > target)
            break;
    }
    return (int32_t)i;
}

static int32_t block_of(const struct sl_list *l, size_t i)
{
    return l->id[i] / SL_RANK_BLOCK;
}

float sl_weigh_list_sum(const struct sl_list *l)
{
    float total = 0, s = 0;

    for (size_t i = 0; i < l->n; i++) {
        if (i > 0 && block_of(l, i) != block_of(l, i - 1)) {
            total += s;
            s = 0;
        }
        s += l->w[i];
    }
    return total + s;
}

size_t sl_weigh_list_walk(const struct sl_list *l, float total, float u)
{
    float target = u * total, before = 0, s = 0;
    size_t i;

    for (i = 0; i + 1 < l->n; i++) {
        if (i > 0 && block_of(l, i) != block_of(l, i - 1)) {
            before += s;
            s = 0;
        }
        s += l->w[i];
        if (before + s > target)
            break;
    }
    return i;
}
