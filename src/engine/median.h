/* engine/median.h - the middle of some measurements */
#ifndef SL_ENGINE_MEDIAN_H
#define SL_ENGINE_MEDIAN_H

#include "base/base.h"

/* The middle one of n >= 1 values, which are put in order (insertion sort: n
 * is a handful). */
double sl_median(double *v, uint32_t n);

#endif
