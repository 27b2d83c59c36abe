/* kern/cpu.c - what this processor has
 *
 * The compiler's helper asks the processor and also whether the operating
 * system saves the wide registers; that is why it is used instead of cpuid.
 */
#include "kern/kern.h"

unsigned sl_cpu_detect(void)
{
    unsigned cpu = 0;

#if defined(__x86_64__)
    __builtin_cpu_init();
    /* F16C has no name in the helper of every compiler we support, and no
     * processor has FMA and AVX2 without it. */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        cpu |= SL_CPU_AVX2;
#endif
    return cpu;
}
