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

/* n is a constant where it matters: compilers then use vectors. */
static inline void lower(float *w, size_t n, float by)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= by;
}

/* A NaN is below everything. exp is never negative, so least = 0 changes only
 * NaN. */
static inline void drop(float *w, size_t n, float least)
{
    for (size_t i = 0; i < n; i++)
        w[i] = w[i] >= least ? w[i] : 0;
}

void sl_weigh(const struct sl_kern *kern, float *restrict w,
              const float *restrict z, size_t n, float max, float temp,
              float least)
{
    float top = max / temp;

    for (size_t at = 0; at < n; at += CHUNK) {
        size_t len = sl_min(CHUNK, n - at);
        float *dst = w + at;

        if (temp != 1)
            kern->div(dst, z + at, temp, len);
        else /* x / 1 = x */
            memcpy(dst, z + at, len * sizeof(*dst));
        if (len == CHUNK)
            lower(dst, CHUNK, top);
        else
            lower(dst, len, top);
        kern->exp(dst, dst, len);
        if (len == CHUNK)
            drop(dst, CHUNK, least);
        else
            drop(dst, len, least);
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

float sl_weigh_sum(float *restrict sum, const float *restrict w, size_t n)
{
    size_t n_block = (n + SL_RANK_BLOCK - 1) / SL_RANK_BLOCK, b = 0;
    float total = 0;

    for (; (b + GROUP_BLOCKS) * SL_RANK_BLOCK <= n; b += GROUP_BLOCKS)
        sum_group(sum + b, w + b * SL_RANK_BLOCK);
    for (; b < n_block; b++) {
        size_t end = sl_min(n, (b + 1) * SL_RANK_BLOCK);

        sum[b] = 0;
        for (size_t i = b * SL_RANK_BLOCK; i < end; i++)
            sum[b] += w[i];
    }
    for (b = 0; b < n_block; b++)
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
