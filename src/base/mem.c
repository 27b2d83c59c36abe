/* base/mem.c - the one way to memory; see mem.h */
#include "base/mem.h"

#include <stdatomic.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

/* A request's larger buffers are some hundred KiB; a system call for each is
 * little beside an answer. Chosen. */
#define OWN_PAGES ((int)64 << 10)
#define ARENAS 2 /* one thread allocates and another frees: pools of their own
                    would only grow. Chosen. */

static _Atomic uint64_t n_alloc;
static _Atomic uint64_t n_live; /* blocks that are not freed */
static _Atomic uint64_t fail_at; /* value of n_alloc that fails; 0 = none */

uint64_t sl_mem_count(void)
{
    return atomic_load_explicit(&n_alloc, memory_order_relaxed);
}

uint64_t sl_mem_live(void)
{
    return atomic_load_explicit(&n_live, memory_order_relaxed);
}

static void count_live(uint64_t more)
{
    atomic_fetch_add_explicit(&n_live, more, memory_order_relaxed);
}

void sl_mem_fail_nth(uint64_t n)
{
    uint64_t at = n ? sl_mem_count() + n : 0;

    atomic_store_explicit(&fail_at, at, memory_order_relaxed);
}

/* Count one allocation; true if it is to fail. */
static bool count_fails(void)
{
    uint64_t n =
        atomic_fetch_add_explicit(&n_alloc, 1, memory_order_relaxed) + 1;

    return n == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

static int no_memory(struct sl_err *err, const char *what, size_t n,
                     size_t size)
{
    return sl_fail(err, SL_ENOMEM,
                   "%s needs %zu x %zu bytes and the system has no more "
                   "memory to give",
                   what, n, size);
}

int sl_mem_alloc(void *out, size_t n, size_t size, const char *what,
                 struct sl_err *err)
{
    size_t bytes;
    void *p = NULL;

    if (!count_fails() && sl_mul_size(&bytes, n, size))
        p = calloc(bytes ? bytes : 1, 1);
    if (!p)
        return no_memory(err, what, n, size);
    count_live(1);
    memcpy(out, &p, sizeof(p));
    return 0;
}

int sl_mem_resize(void *ptr, size_t n, size_t size, const char *what,
                  struct sl_err *err)
{
    size_t bytes;
    bool is_new;
    void *p;

    memcpy(&p, ptr, sizeof(p));
    is_new = !p;
    if (count_fails() || !sl_mul_size(&bytes, n, size))
        return no_memory(err, what, n, size);
    p = realloc(p, bytes ? bytes : 1);
    if (!p)
        return no_memory(err, what, n, size);
    count_live(is_new);
    memcpy(ptr, &p, sizeof(p));
    return 0;
}

void sl_mem_free(void *p)
{
    if (p)
        count_live((uint64_t)-1);
    free(p);
}

int sl_mem_map(void *out, size_t bytes, const char *what, struct sl_err *err)
{
    void *p = MAP_FAILED;

    if (!count_fails())
        p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return no_memory(err, what, bytes, 1);
    /* Advice only: without huge pages everything is the same, but slower. */
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    memcpy(out, &p, sizeof(p));
    return 0;
}

void sl_mem_unmap(void *p, size_t bytes)
{
    if (p)
        (void)munmap(p, bytes ? bytes : 1);
}

void sl_mem_forget(void *p, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)p + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)p + bytes) / page * page;

    if (from < to)
        (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

void sl_mem_give_back(void)
{
#if defined(__GLIBC__)
    /* Set, the threshold stays where it is: by itself it rises to what was
     * freed, and then blocks that are reserved for the worst case are taken from
     * the heap and cleared, which touches all of them. */
    (void)mallopt(M_MMAP_THRESHOLD, OWN_PAGES);
    (void)mallopt(M_ARENA_MAX, ARENAS);
#endif
}

int sl_mem_dup(char **out, const char *s, size_t len, struct sl_err *err)
{
    char *p;
    int rc = sl_mem_alloc(&p, len + 1, 1, "a string", err);

    if (rc)
        return rc;
    if (len)
        memcpy(p, s, len);
    *out = p;
    return 0;
}

bool sl_mul_size(size_t *out, size_t a, size_t b)
{
    size_t v;

    if (__builtin_mul_overflow(a, b, &v))
        return false;
    *out = v;
    return true;
}

bool sl_add_size(size_t *out, size_t a, size_t b)
{
    size_t v;

    if (__builtin_add_overflow(a, b, &v))
        return false;
    *out = v;
    return true;
}
