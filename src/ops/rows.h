/* ops/rows.h - operations on each row by itself
 *
 * All activations here are packed: ld = width.
 */
#ifndef SL_OPS_ROWS_H
#define SL_OPS_ROWS_H

#include "ops/run.h"

/* y = norm(x) * w, each row of n; see sl_rmsnorm_fn. */
void sl_rmsnorm(const struct sl_run *r, float *y, const float *x,
                const float *w, size_t n_tok, size_t n, float eps);

/* x += y */
void sl_add(const struct sl_run *r, float *x, const float *y, size_t n_tok,
            size_t n);

/* g = silu(g) * u */
void sl_silu_mul(const struct sl_run *r, float *g, const float *u,
                 size_t n_tok, size_t n);

#endif
