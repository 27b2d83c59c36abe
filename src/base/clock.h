/* base/clock.h - time */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include "base/base.h"

uint64_t sl_clock_ns(void); /* monotonic */

/* Seconds from a to b, both from sl_clock_ns. */
double sl_clock_s(uint64_t a, uint64_t b);

#endif
