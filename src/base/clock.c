/* base/clock.c - time; see clock.h */
#include "base/clock.h"

uint64_t sl_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double sl_clock_s(uint64_t a, uint64_t b)
{
    return (double)(b - a) * 1e-9;
}
