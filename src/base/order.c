/* base/order.c - put indices in order; see order.h */
#include "base/order.h"

/* at[lo..mid) and at[mid..hi) are in order, and then all of it. */
static void merge(uint32_t *at, uint32_t *work, uint32_t lo, uint32_t mid,
                  uint32_t hi, sl_before_fn *before, const void *ctx)
{
    uint32_t i = 0, n = mid - lo, k = mid, to = lo;

    if (!before(ctx, at[mid], at[mid - 1]))
        return;
    memcpy(work, at + lo, n * sizeof(*at));
    while (i < n && k < hi)
        at[to++] = before(ctx, at[k], work[i]) ? at[k++] : work[i++];
    memcpy(at + to, work + i, (n - i) * sizeof(*at));
}

void sl_order(uint32_t *at, uint32_t *work, uint32_t n, sl_before_fn *before,
              const void *ctx)
{
    for (uint32_t len = 1; len < n; len *= 2)
        for (uint32_t lo = 0; lo + len < n; lo += 2 * len)
            merge(at, work, lo, lo + len, (uint32_t)sl_min(lo + 2 * len, n),
                  before, ctx);
}
