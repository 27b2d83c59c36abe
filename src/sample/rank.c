/* sample/rank.c - the likeliest tokens, without sorting
 *
 * A vocabulary has 248,320 rows, and sorting it takes longer than the rest of a
 * small model's step. Two ideas avoid it, both exact.
 *
 * Block maxima. One streaming pass keeps the largest value of every 64 ids. The
 * k-th largest of these 3,880 maxima is a value that at least k tokens reach,
 * so the best k are among the tokens that reach it, and they lie in few blocks.
 *
 * Cuts instead of sorted lists. Top-k and top-p both keep a prefix of the
 * order, and a prefix is a value and a number of ties. The value is found by
 * radix selection: floats are mapped to integers of the same order, and three
 * histograms, of their upper 11, next 11 and last 10 bits, home in on the
 * element at which the mass above reaches what is needed. Linear in n whatever
 * the values are; a quickselect or a heap has inputs that hurt it. For top-k an
 * element has mass 1; for top-p its weight in fixed point. Integers, because
 * their sum does not depend on the order of adding: the prefix is then the same
 * by any algorithm, and a flat distribution loses nothing to rounding. 2^40 for
 * 1 leaves 23 bits for the number of elements, and what it truncates is below
 * 2^-40 of the likeliest token.
 *
 * A short list has its cut from sorting it: the histograms alone, 40 KiB that
 * are cleared and looked through, cost as much as a hundred elements. Lists of
 * candidates are nearly always short, and so are the maxima of a small
 * vocabulary. It is the same prefix, as both are exact.
 *
 * -0 and +0 are equal and tie.
 */
#include "sample/rank.h"

#include <float.h>
#include <math.h>

#define LANES 16 /* maxima side by side, so that compilers use vectors */

/* Lists that are sorted: by insertion, which moves 8,128 elements at most. By
 * measurement a rising list of so many, the worst, is level with histograms. */
#define SHORT 128

/* `a > b ? a : b` never takes a NaN from the left, and m is none. */
static float block_max(const float *z)
{
    float t[LANES];

    for (int j = 0; j < LANES; j++) {
        float m = -INFINITY;

        m = z[j] > m ? z[j] : m;
        m = z[j + LANES] > m ? z[j + LANES] : m;
        m = z[j + 2 * LANES] > m ? z[j + 2 * LANES] : m;
        m = z[j + 3 * LANES] > m ? z[j + 3 * LANES] : m;
        t[j] = m;
    }
    for (int j = 0; j < LANES / 2; j++)
        t[j] = t[j] > t[j + 8] ? t[j] : t[j + 8];
    for (int j = 0; j < LANES / 4; j++)
        t[j] = t[j] > t[j + 4] ? t[j] : t[j + 4];
    t[0] = t[0] > t[2] ? t[0] : t[2];
    t[1] = t[1] > t[3] ? t[1] : t[3];
    return t[0] > t[1] ? t[0] : t[1];
}

_Static_assert(SL_RANK_BLOCK == 4 * LANES, "block_max reads four rows");

float sl_rank_max(float *restrict max, const float *restrict z, size_t n)
{
    size_t n_full = n / SL_RANK_BLOCK;
    float all = -INFINITY, m = -INFINITY;

    for (size_t b = 0; b < n_full; b++) {
        max[b] = block_max(z + b * SL_RANK_BLOCK);
        all = max[b] > all ? max[b] : all;
    }
    if (n % SL_RANK_BLOCK == 0)
        return all;
    for (size_t i = n_full * SL_RANK_BLOCK; i < n; i++)
        m = z[i] > m ? z[i] : m;
    max[n_full] = m;
    return m > all ? m : all;
}

/* An integer that orders like the float. */
static uint32_t key(float z)
{
    uint32_t u;

    z += 0.0f; /* -0 becomes +0 */
    memcpy(&u, &z, sizeof(u));
    return u >> 31 ? ~u : u | 0x80000000u;
}

static float unkey(uint32_t k)
{
    uint32_t u = k >> 31 ? k & 0x7fffffffu : ~k;
    float z;

    memcpy(&z, &u, sizeof(z));
    return z;
}

static uint64_t mass_of(const float *w, size_t i)
{
    return w ? (uint64_t)(w[i] * (float)SL_RANK_ONE) : 1;
}

/* The order of z [n], n <= SHORT: keys above, indices below. */
static void sort_short(uint64_t *order, const float *z, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t x = (uint64_t)key(z[i]) << 32 | i;
        size_t at = i;

        for (; at > 0 && order[at - 1] < x; at--)
            order[at] = order[at - 1];
        order[at] = x;
    }
}

static struct sl_cut cut_short(const float *z, const float *w, size_t n,
                               uint64_t need)
{
    uint64_t order[SHORT], above = 0, mass;
    size_t end;

    sort_short(order, z, n);
    for (size_t i = 0; i < n; i = end, above += mass) {
        uint64_t one = mass_of(w, (uint32_t)order[i]);

        mass = 0;
        for (end = i; end < n && order[end] >> 32 == order[i] >> 32; end++)
            mass += mass_of(w, (uint32_t)order[end]);
        if (above + mass >= need)
            return (struct sl_cut){.z = unkey((uint32_t)(order[i] >> 32)),
                                   .n_tie = (need - above + one - 1) / one,
                                   .found = true};
    }
    return (struct sl_cut){.found = false};
}

struct sl_cut sl_rank_cut(struct sl_rank *r, const float *z, const float *w,
                          size_t n, uint64_t need)
{
    static const struct {
        unsigned shift, bits;
    } digit[] = {{21, 11}, {10, 11}, {0, 10}};
    uint32_t prefix = 0; /* of the element sought; the digits so far */
    uint64_t above = 0;  /* mass of greater prefixes */
    uint64_t one = 1;    /* mass of an element with the key sought */

    if (n <= SHORT)
        return cut_short(z, w, n, need);
    for (size_t d = 0; d < SL_COUNTOF(digit); d++) {
        unsigned shift = digit[d].shift, up = shift + digit[d].bits;
        uint32_t mask = (1u << digit[d].bits) - 1, at = mask;

        memset(r->mass, 0, (mask + 1) * sizeof(r->mass[0]));
        for (size_t i = 0; i < n; i++) {
            uint32_t k = key(z[i]);

            if ((uint64_t)k >> up == prefix)
                r->mass[k >> shift & mask] += mass_of(w, i);
        }
        while (at > 0 && above + r->mass[at] < need)
            above += r->mass[at--];
        if (above + r->mass[at] < need)
            return (struct sl_cut){.found = false};
        prefix = prefix << digit[d].bits | at;
    }
    for (size_t i = 0; w && i < n; i++)
        if (key(z[i]) == prefix) {
            one = mass_of(w, i);
            break;
        }
    return (struct sl_cut){.z = unkey(prefix),
                           .n_tie = (need - above + one - 1) / one,
                           .found = true};
}

void sl_rank_collect(struct sl_list *l, const float *z, const float *max,
                     size_t n, float t)
{
    size_t n_out = 0;

    if (!(t >= -FLT_MAX))
        t = -FLT_MAX; /* -inf is no candidate */
    for (size_t b = 0; b * SL_RANK_BLOCK < n; b++) {
        size_t end = sl_min(n, (b + 1) * SL_RANK_BLOCK);

        if (max[b] < t)
            continue;
        /* Written always, counted if it qualifies: no branch to mispredict. */
        for (size_t i = b * SL_RANK_BLOCK; i < end; i++) {
            l->id[n_out] = (int32_t)i;
            l->z[n_out] = z[i];
            n_out += z[i] >= t;
        }
    }
    l->n = n_out;
}

void sl_rank_keep(struct sl_list *l, struct sl_cut cut, bool weighed)
{
    size_t n = 0;

    if (!cut.found)
        return;
    for (size_t i = 0; i < l->n; i++) {
        bool tie = l->z[i] == cut.z;

        if (!(l->z[i] > cut.z) && !(tie && cut.n_tie > 0))
            continue;
        if (tie)
            cut.n_tie--;
        l->id[n] = l->id[i];
        l->z[n] = l->z[i];
        if (weighed)
            l->w[n] = l->w[i];
        n++;
    }
    l->n = n;
}
