/* kern/ref/peak.c - multiply-adds in plain C; see sl_peak_fn */
#include "kern/ref/ref.h"

enum { CHAINS = 8 }; /* additions do not wait for each other */

static uint64_t peak_int8(uint64_t n)
{
    volatile int8_t seed = 3; /* so that nothing is known before it runs */
    const int8_t w = seed;
    int32_t acc[CHAINS] = {0};
    uint64_t rounds = n / CHAINS + 1;

    for (uint64_t i = 0; i < rounds; i++)
        for (int c = 0; c < CHAINS; c++)
            acc[c] += w * (int8_t)(i + (unsigned)c);
    for (int c = 0; c < CHAINS; c++)
        seed = (int8_t)(seed ^ acc[c]);
    return rounds * CHAINS;
}

static uint64_t peak_fp32(uint64_t n)
{
    volatile float seed = 0.5f;
    const float w = seed;
    float acc[CHAINS] = {0};
    uint64_t rounds = n / CHAINS + 1;

    for (uint64_t i = 0; i < rounds; i++)
        for (int c = 0; c < CHAINS; c++)
            acc[c] = acc[c] * w + w;
    for (int c = 0; c < CHAINS; c++)
        seed = seed + acc[c];
    return rounds * CHAINS;
}

void sl_kern_init_ref_peak(struct sl_kern *k)
{
    k->peak_int8 = peak_int8;
    k->peak_fp32 = peak_fp32;
}
