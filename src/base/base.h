/* base/base.h - what every file of Sluice may use
 *
 * Attributes, the three kinds of assert, and the functions nobody may call.
 * Compiler and platform differences end here and in base/os_*.
 */
#ifndef SL_BASE_BASE_H
#define SL_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/banned.h"

#define SL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SL_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define SL_COUNTOF(a) (sizeof(a) / sizeof((a)[0]))

/* Bytes in a cache line of the machines we run on; two threads never write
 * the same one. 128 because x86 fetches lines in pairs. */
#define SL_LINE 128

_Noreturn void sl_assert_fail(const char *cond, const char *file, int line);

/* Going on would write through a bad pointer: checked in every build. */
#define SL_CHECK(cond)                                                         \
    ((cond) ? (void)0 : sl_assert_fail(#cond, __FILE__, __LINE__))

/* The small-sizes build: pages, batches and buffers so tiny that every boundary
 * is crossed all the time (rule Q9). */
#ifndef SL_SMALL
#define SL_SMALL 0
#endif

/* An invariant of ours: checked in debug and test builds. */
#ifndef SL_DEBUG
#define SL_DEBUG 0
#endif
#if SL_DEBUG
#define SL_ASSERT(cond) SL_CHECK(cond)
#else
#define SL_ASSERT(cond) ((void)sizeof((cond) ? 1 : 0))
#endif

/* An impossible branch, marked for readers and for coverage. */
#define SL_NEVER(cond) (SL_DEBUG ? (SL_CHECK(!(cond)), false) : (cond))

static inline size_t sl_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t sl_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* n rounded up to a multiple of `to`. */
static inline size_t sl_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

#endif
