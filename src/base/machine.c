/* base/machine.c - what the system can tell of this machine; see machine.h */
#include "base/machine.h"

#include <sys/random.h>

#include "base/clock.h"

uint64_t sl_machine_free_bytes(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");

    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, "MemAvailable:", 13) != 0)
            continue;
        for (const char *p = line + 13; *p; p++)
            if (*p >= '0' && *p <= '9')
                kib = kib * 10 + (uint64_t)(*p - '0');
        break;
    }
    fclose(f);
    return kib * 1024;
}

uint64_t sl_machine_random(void)
{
    uint64_t v;

    /* Fails only before the system's pool is ready, early at boot. */
    if (getrandom(&v, sizeof(v), 0) != (ssize_t)sizeof(v))
        v = sl_clock_ns();
    return v;
}
