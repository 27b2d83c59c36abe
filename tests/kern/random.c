/* tests/kern/random.c - numbers for the kernel tester
 *
 * Each case starts from its own state, made of the seed, the entry and the
 * number of the case, so every level sees the same data and a case can be
 * repeated alone.
 */
#include <math.h>

#include "check.h"

/* splitmix64 (Steele, Lea and Flood 2014). */
uint64_t next_u64(struct check *c)
{
    uint64_t z = c->rng += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

size_t below(struct check *c, size_t n)
{
    return (size_t)(next_u64(c) % n);
}

bool one_in(struct check *c, size_t n)
{
    return below(c, n) == 0;
}

size_t any_size(struct check *c, size_t max)
{
    static const size_t edge[] = {0,  1,  2,  3,  7,  8,  9,   15,  16,
                                  17, 31, 32, 33, 63, 64, 127, 128, 129};

    if (one_in(c, 3))
        return sl_min(edge[below(c, SL_COUNTOF(edge))], max);
    if (one_in(c, 2))
        return below(c, sl_min(max, 40) + 1);
    return below(c, max + 1);
}

float uniform(struct check *c, float lo, float hi)
{
    float u = (float)(next_u64(c) >> 40) * 0x1p-24f;

    return lo + (hi - lo) * u;
}

/* Denormals, infinities, NaN, zeros, and one huge among small. */
static float any_bits(struct check *c)
{
    static const float special[] = {0.0f,     -0.0f,     INFINITY, -INFINITY,
                                    0x1p127f, -0x1p126f, 0x1p-149f};
    uint32_t u = (uint32_t)next_u64(c);
    float f;

    if (c->tiny) {
        f = uniform(c, 1e-30f, 2e-30f);
        return c->tiny == 2 || (c->tiny == 3 && one_in(c, 2)) ? -f : f;
    }
    if (one_in(c, 16))
        return special[below(c, SL_COUNTOF(special))];
    if (one_in(c, 32))
        return NAN;
    if (one_in(c, 2))
        return uniform(c, -1, 1);
    memcpy(&f, &u, sizeof(f));
    return f;
}

float any_float(struct check *c, enum fill f)
{
    float sum = 0;

    switch (f) {
    case FILL_UNIFORM:
        return uniform(c, -1, 1);
    case FILL_NORMAL: /* twelve uniforms: near enough */
        for (int i = 0; i < 12; i++)
            sum += uniform(c, -0.5f, 0.5f);
        return sum;
    case FILL_INT:
        return (float)(1 + below(c, 3)) * (one_in(c, 2) ? 1.0f : -1.0f);
    case FILL_BITS:
        return any_bits(c);
    case N_FILL:
        break;
    }
    return 0;
}
