/* kern/cpu.c - what this processor has
 *
 * The compiler's helper asks the processor and also whether the operating system
 * saves the wide registers; that is why it is used where it knows the name.
 */
#include "kern/kern.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Not a name that the helper of every compiler knows. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1;
}
#endif

unsigned sl_cpu_detect(void)
{
    unsigned cpu = 0;

#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        has_f16c())
        cpu |= SL_CPU_AVX2;
#endif
    return cpu;
}
