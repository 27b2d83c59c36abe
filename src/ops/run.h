/* ops/run.h - what every operation needs: workers, kernels, other ranks
 *
 * Operations act on whole activations. An activation is a row-major array of
 * floats, one row per token of the step; `ld` is the distance of its rows in
 * elements. Each operation cuts itself into tiles over the pool, and each tile
 * is one kernel call; where the cuts lie never changes a value. Operations
 * cannot fail: sizes were checked when the model was opened.
 *
 * Engine thread only (the workers join inside).
 */
#ifndef SL_OPS_RUN_H
#define SL_OPS_RUN_H

#include "base/pool.h"
#include "kern/kern.h"

/* Make every rank's part of an input whole (D6): x is [n_tok, cols]. Returns
 * the whole input, valid until the next call. With one rank it is x itself. */
typedef const float *sl_gather_fn(void *ctx, const float *x, size_t n_tok,
                                  size_t cols);

/* Told of every product before it is made: x is [n_tok][ldx], of which the
 * columns of w are used. */
struct sl_mat;
typedef void sl_watch_fn(void *ctx, const struct sl_mat *w, const float *x,
                         size_t ldx, size_t n_tok);

/* Room for inputs as int8, when weights are quantised (kern.h, sl_qact). */
struct sl_act_space {
    int8_t *q;      /* [n] */
    float *scale;   /* [n / 32] */
    int16_t *sum;   /* [n / 16] */
    size_t n;       /* elements of all inputs of one sl_mul_run */
};

struct sl_run {
    struct sl_pool *pool;       /* borrowed */
    const struct sl_kern *kern; /* borrowed */
    struct sl_act_space act;    /* n = 0: no quantised weights */
    sl_gather_fn *gather;
    void *gather_ctx;
    sl_watch_fn *watch; /* NULL: nobody looks */
    void *watch_ctx;
};

/* One process: gather is the identity. */
void sl_run_init(struct sl_run *r, struct sl_pool *pool,
                 const struct sl_kern *kern);

#endif
