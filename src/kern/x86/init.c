/* kern/x86/init.c - what x86 processors can do better
 *
 * In ascending order of instruction set, so that each level overwrites the one
 * below it.
 */
#include "kern/kern.h"

void sl_kern_init_x86(struct sl_kern *k, unsigned cpu)
{
    (void)k;
    if (!(cpu & SL_CPU_AVX2))
        return;
}
