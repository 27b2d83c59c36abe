/* ops/mul.h - matrix products
 *
 * Several products that are ready at the same time run as one parallel region
 * (the projections of a layer, the experts of a step), because every region
 * costs a barrier. Against quantised weights inputs are int8: each is converted
 * once, before the products that share it.
 */
#ifndef SL_OPS_MUL_H
#define SL_OPS_MUL_H

#include "ops/mat.h"
#include "ops/run.h"

struct sl_mul_job {
    const struct sl_mat *w;
    const float *x; /* [n_tok][ldx], w->cols used */
    size_t ldx, n_tok;
    float *y; /* [n_tok][ldy], w->rows written */
    size_t ldy;
    /* Private, filled by sl_mul_run. */
    size_t first_task, first_act, n_act;
    struct sl_qact q;
};

/* y = w x for every job. Jobs may have different inputs; outputs do not
 * overlap. */
void sl_mul_run(const struct sl_run *r, struct sl_mul_job *jobs, size_t n);

/* The same for products of one packed input, ldx = cols and ldy = rows: only w
 * and y of each job are read. */
void sl_mul_shared(const struct sl_run *r, struct sl_mul_job *jobs, size_t n,
                   const float *x, size_t n_tok);

/* One product whose rows are packed: ldx = cols, ldy = rows. The input goes
 * through the gather of `r`. */
void sl_mul_one(const struct sl_run *r, float *y, const struct sl_mat *w,
                const float *x, size_t n_tok);

/* y[t] = row ids[t] of w: the embedding. */
void sl_embed(const struct sl_run *r, float *y, const struct sl_mat *w,
              const int32_t *ids, size_t n_tok);

#endif
