/* sample/philox.c - random numbers that are a function, not a state
 *
 * Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As
 * Easy as 1, 2, 3", 2011: ten rounds of two 32 x 32 -> 64 bit products, which
 * turn a counter of 128 bits under a key of 64 into 128 bits that pass the
 * known test batteries. There is no state to save, to roll back when drafts
 * are rejected, or to hand over to another process: the number of a position
 * is computed from the position (D4).
 *
 * D4 names the key (seed, choice) and the counter (position, stream). Seed and
 * choice are 96 bits and the key has 64, so they are laid out as
 *
 *     key     = seed low, seed high
 *     counter = position low, position high, stream, choice
 *
 * Nothing is folded: different (seed, choice, position, stream) give different
 * inputs, and for a fixed key the function is a bijection.
 *
 * u takes the upper 24 bits of the first word, so that it is exact in binary32
 * and below 1. More bits would be wasted: the sums it is compared with are
 * binary32 too (weigh.c).
 */
#include "sample/philox.h"

#define N_ROUND 10

/* The multipliers and the Weyl constants (golden ratio, sqrt(3) - 1) of the
 * paper. */
#define MUL_0 0xd2511f53u
#define MUL_1 0xcd9e8d57u
#define WEYL_0 0x9e3779b9u
#define WEYL_1 0xbb67ae85u

void sl_philox(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int r = 0; r < N_ROUND; r++) {
        uint64_t a = (uint64_t)MUL_0 * c0, b = (uint64_t)MUL_1 * c2;

        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

float sl_philox_u(uint64_t seed, uint32_t choice, uint64_t pos,
                  enum sl_stream stream)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t ctr[4] = {(uint32_t)pos, (uint32_t)(pos >> 32),
                             (uint32_t)stream, choice};
    uint32_t x[4];

    sl_philox(x, ctr, key);
    return (float)(x[0] >> 8) * 0x1p-24f;
}
