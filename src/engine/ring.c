/* engine/ring.c - rows that a drafter has not seen yet; see ring.h */
#include "engine/ring.h"

#include "base/mem.h"

int sl_ring_open(struct sl_ring *r, size_t width, struct sl_err *err)
{
    *r = (struct sl_ring){.width = width};
    return sl_mem_alloc(&r->row, SL_DRAFT_RING, width * sizeof(*r->row),
                        "the rows for drafting", err);
}

void sl_ring_close(struct sl_ring *r)
{
    sl_mem_free(r->row);
    *r = (struct sl_ring){0};
}

void sl_ring_trim(struct sl_ring *r, uint32_t n)
{
    if (r->n <= n)
        return;
    memmove(r->row, r->row + (r->n - n) * r->width,
            n * r->width * sizeof(*r->row));
    r->n = n;
}

bool sl_ring_push(struct sl_ring *r, const float *rows, uint32_t n)
{
    if (n > SL_DRAFT_RING - r->n)
        return false;
    memcpy(r->row + r->n * r->width, rows, n * r->width * sizeof(*rows));
    r->n += n;
    return true;
}

void sl_ring_push_newest(struct sl_ring *r, const float *rows, uint32_t n)
{
    uint32_t half = SL_DRAFT_RING / 2;

    if (n > half) {
        rows += (n - half) * r->width;
        n = half;
    }
    /* Half at once, so that a row is moved once. */
    if (n > SL_DRAFT_RING - r->n)
        sl_ring_trim(r, SL_DRAFT_RING - half);
    sl_ring_push(r, rows, n);
}
