/* base/arena.h - memory that is freed as a whole
 *
 * One reservation, given out from the front. Marks nest like a stack:
 *
 *     size_t mark = sl_arena_mark(a);
 *     float *x = sl_arena_get(a, n * sizeof(*x));
 *     sl_arena_reset(a, mark);
 *
 * The first request that does not fit makes the arena stick (rule E6): it
 * returns NULL from then on, and sl_arena_failed says so once at the end.
 * Objects are aligned to 64 bytes; under AddressSanitizer red zones lie
 * between them and what was reset is poisoned. One thread at a time.
 */
#ifndef SL_BASE_ARENA_H
#define SL_BASE_ARENA_H

#include "base/err.h"

struct sl_arena {
    unsigned char *base;
    size_t cap, used, peak;
    bool failed;
};

int sl_arena_init(struct sl_arena *a, size_t cap, const char *what,
                  struct sl_err *err);
void sl_arena_deinit(struct sl_arena *a);

/* `bytes` bytes, not cleared, until the arena is reset to an older mark. */
void *sl_arena_get(struct sl_arena *a, size_t bytes);
size_t sl_arena_mark(const struct sl_arena *a);
void sl_arena_reset(struct sl_arena *a, size_t mark);
bool sl_arena_failed(const struct sl_arena *a);

/* Bytes that an object of `bytes` takes from an arena; for sizing one. */
size_t sl_arena_cost(size_t bytes);

#endif
