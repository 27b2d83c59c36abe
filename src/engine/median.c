/* engine/median.c - the middle of some measurements; see median.h */
#include "engine/median.h"

double sl_median(double *v, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        double x = v[i];
        uint32_t at = i;

        for (; at > 0 && v[at - 1] > x; at--)
            v[at] = v[at - 1];
        v[at] = x;
    }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
