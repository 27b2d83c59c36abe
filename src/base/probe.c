/* base/probe.c - how fast memory is read right now; see probe.h */
#include "base/probe.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"

#define CHUNK ((size_t)1 << 18) /* words of one task: 2 MiB, a huge page */
#define CHUNK_BYTES (CHUNK * sizeof(uint64_t))

struct sl_probe {
    struct sl_pool *pool;
    uint64_t *p; /* [n * CHUNK] */
    size_t n;
    _Atomic uint64_t sum; /* so that nobody removes the reading */
};

static void read_chunk(void *ctx, size_t i, unsigned w)
{
    struct sl_probe *pr = ctx;
    const uint64_t *p = pr->p + i * CHUNK;
    /* Four, so that additions do not wait. Adding is cheaper than reading. */
    uint64_t a = 0, b = 0, c = 0, d = 0;

    (void)w;
    for (size_t k = 0; k < CHUNK; k += 8) {
        a += p[k] + p[k + 4];
        b += p[k + 1] + p[k + 5];
        c += p[k + 2] + p[k + 6];
        d += p[k + 3] + p[k + 7];
    }
    pr->sum += a + b + c + d;
}

static void fill_chunk(void *ctx, size_t i, unsigned w)
{
    struct sl_probe *pr = ctx;

    /* Written, so that it is memory and not the shared page of zeros. */
    memset(pr->p + i * CHUNK, (int)w + 1, CHUNK_BYTES);
}

int sl_probe_open(struct sl_probe **out, struct sl_pool *pool, size_t bytes,
                  struct sl_err *err)
{
    struct sl_probe *p = NULL;
    int rc = sl_mem_alloc(&p, 1, sizeof(*p), "the bandwidth probe", err);

    if (rc)
        return rc;
    p->pool = pool;
    p->n = sl_max(bytes / CHUNK_BYTES, 1);
    rc = sl_mem_map(&p->p, p->n * CHUNK_BYTES, "the bandwidth probe", err);
    if (rc) {
        sl_mem_free(p);
        return rc;
    }
    sl_pool_run(pool, fill_chunk, p, p->n);
    *out = p;
    return 0;
}

void sl_probe_close(struct sl_probe **p)
{
    if (!*p)
        return;
    sl_mem_unmap((*p)->p, (*p)->n * CHUNK_BYTES);
    sl_mem_free(*p);
    *p = NULL;
}

double sl_probe_read(struct sl_probe *p)
{
    uint64_t t0 = sl_clock_ns();

    sl_pool_run(p->pool, read_chunk, p, p->n);
    return (double)(p->n * CHUNK_BYTES) / sl_clock_s(t0, sl_clock_ns());
}
