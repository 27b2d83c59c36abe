/* kern/kern.c - filling the table
 *
 * The scalar entries first, all of them; then what the processor has and the
 * caller allows replaces its part. This is the only place that knows the
 * order, and after it nobody asks what the processor can do (rule K2).
 */
#include "kern/kern.h"

#include <string.h>

void sl_kern_init(struct sl_kern *k, unsigned mask)
{
    memset(k, 0, sizeof(*k)); /* the holes of the arrays by type stay NULL */
    sl_kern_init_ref(k);
#if defined(__x86_64__)
    sl_kern_init_x86(k, sl_cpu_detect() & mask);
#elif defined(__aarch64__)
    sl_kern_init_arm(k, sl_cpu_detect() & mask);
#else
    (void)mask;
#endif
}
