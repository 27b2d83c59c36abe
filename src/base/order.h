/* base/order.h - put indices in order
 *
 * A merge sort: stable, n log n at worst, and n when they are in order already.
 * libc's qsort is neither stable nor free of allocations.
 */
#ifndef SL_BASE_ORDER_H
#define SL_BASE_ORDER_H

#include "base/base.h"

/* Does a have to come before b? Equals are not before each other. */
typedef bool sl_before_fn(const void *ctx, uint32_t a, uint32_t b);

/* at[0..n); work has room for as many. */
void sl_order(uint32_t *at, uint32_t *work, uint32_t n, sl_before_fn *before,
              const void *ctx);

#endif
