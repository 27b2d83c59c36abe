/* base/arena.c - memory that is freed as a whole; see arena.h */
#include "base/arena.h"

#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#define ALIGN 64 /* a cache line, and the widest vector */
#define RED 64   /* bytes nobody may touch between two objects */

int sl_arena_init(struct sl_arena *a, size_t cap, const char *what,
                  struct sl_err *err)
{
    void *p;
    int rc = sl_mem_map(&p, cap, what, err);

    if (rc)
        return rc;
    *a = (struct sl_arena){.base = p, .cap = cap};
    POISON(a->base, cap);
    return 0;
}

void sl_arena_deinit(struct sl_arena *a)
{
    if (!a->base)
        return;
    UNPOISON(a->base, a->cap);
    sl_mem_unmap(a->base, a->cap);
    *a = (struct sl_arena){0};
}

size_t sl_arena_cost(size_t bytes)
{
    return sl_round_up(bytes, ALIGN) + RED;
}

void *sl_arena_get(struct sl_arena *a, size_t bytes)
{
    unsigned char *p = a->base + a->used;

    if (a->failed || bytes > a->cap ||
        sl_arena_cost(bytes) > a->cap - a->used) {
        a->failed = true;
        return NULL;
    }
    a->used += sl_arena_cost(bytes);
    if (a->used > a->peak)
        a->peak = a->used;
    UNPOISON(p, bytes);
    return p;
}

size_t sl_arena_mark(const struct sl_arena *a)
{
    return a->used;
}

void sl_arena_reset(struct sl_arena *a, size_t mark)
{
    SL_ASSERT(mark <= a->used);
    POISON(a->base + mark, a->used - mark);
    a->used = mark;
    a->failed = false;
}

bool sl_arena_failed(const struct sl_arena *a)
{
    return a->failed;
}
