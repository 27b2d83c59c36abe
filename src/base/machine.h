/* base/machine.h - what this machine has
 *
 * For people (`sluice doctor`) and for sizing. Values that the system does not
 * tell are 0 or "". Any thread.
 */
#ifndef SL_BASE_MACHINE_H
#define SL_BASE_MACHINE_H

#include "base/err.h"

struct sl_machine {
    char cpu[128];   /* the maker's name of the processor */
    char isa[160];   /* instruction sets of interest, separated by a space */
    unsigned n_core; /* physical, that this process may use */
    unsigned n_cpu;  /* hardware threads, likewise */
    unsigned n_node; /* memory nodes (NUMA) */
    uint64_t cache_bytes; /* the largest cache */
    uint64_t mem_bytes;   /* of the machine */
    uint64_t free_bytes;  /* that a new process can have */
    uint64_t limit_bytes; /* of this process's group; 0: none */
    uint64_t n_huge_1g;   /* huge pages of 1 GiB that were reserved */
    char huge[64]; /* transparent huge pages: "always", "madvise", "never" */
};

int sl_machine_get(struct sl_machine *out, struct sl_err *err);

/* Bytes that could be allocated without swapping; 0 when unknown. */
uint64_t sl_machine_free_bytes(void);

/* 64 random bits from the system. */
uint64_t sl_machine_random(void);

/* What changes from minute to minute, beside every measurement; 0 where the
 * system does not tell. */
struct sl_machine_now {
    double mhz;     /* clock of the first core */
    double celsius; /* of its first sensor */
};

void sl_machine_now(struct sl_machine_now *out);

/* Bytes per second that n_thread threads (0: one per core) read from memory
 * together: the ceiling of decoding. Takes about half a second and `bytes`
 * bytes of memory, which should be many times the cache. */
int sl_machine_read_rate(double *out, unsigned n_thread, size_t bytes,
                         struct sl_err *err);

#endif
