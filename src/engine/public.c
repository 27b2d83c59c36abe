/* engine/public.c - the parts of sluice.h that need no engine */
#include "sluice/sluice.h"

#include "base/mem.h"
#include "kern/kern.h"

void sl_free(void *p)
{
    sl_mem_free(p);
}

const char *sl_isa(uint32_t cpu_mask)
{
    struct sl_kern k;

    sl_kern_init(&k, cpu_mask);
    return k.isa;
}

const char *sl_version(void)
{
    return SL_VERSION;
}
