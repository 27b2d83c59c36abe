/* kern/wide/inline.h - what makes a loop over registers be registers */
#ifndef SL_KERN_WIDE_INLINE_H
#define SL_KERN_WIDE_INLINE_H

#include "base/base.h" /* a header is never empty */

#define SL_INLINE static inline __attribute__((always_inline))

/* Above a loop with a constant end over registers: they are registers only when
 * it is unrolled. The compilers name it differently, and it is of use nowhere
 * else (rule M4). */
#if defined(UNROLL) /* emulated: tests/kern/simde.h */
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#endif
