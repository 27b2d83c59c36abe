/* ops/moe.h - mixture of experts
 *
 * Shazeer et al. 2017 with the choices of Qwen3.5: softmax over all experts,
 * the n_used largest renormalised, one shared expert behind a gate.
 */
#ifndef SL_OPS_MOE_H
#define SL_OPS_MOE_H

#include "ops/mat.h"
#include "ops/run.h"

struct sl_moe {
    uint32_t n_expert, n_used;
    const struct sl_mat *router;       /* [n_expert, hidden] */
    const struct sl_mlp_w *expert;    /* [n_expert] */
    const struct sl_mlp_w *shared;    /* NULL: none */
    const struct sl_mat *shared_gate;  /* [1, hidden] */

    size_t n_row;
    const float *x; /* [n_row][hidden] */
    float *y;       /* [n_row][hidden], written */

    /* Work space. A slot is one (row, rank) pair, sorted by expert. */
    float *logit;        /* [n_row][n_expert] */
    float *weight;       /* [n_row][n_used], by rank */
    uint32_t *pick;      /* [n_row][n_used] expert ids, by rank */
    uint32_t *slot;      /* [n_row][n_used] slot of each pick */
    uint32_t *first;     /* [n_expert + 1] first slot of each expert */
    float *xs;           /* [n_row * n_used][hidden] gathered rows */
    float *gate, *up;    /* [n_row * n_used][expert width] */
    float *ys;           /* [n_row * n_used][hidden] */
    float *shared_gate_y; /* [n_row] */
    float *sg, *su;      /* [n_row][shared width] */
    float *sy;           /* [n_row][hidden] */
    struct sl_mul_job *job; /* [2 * n_expert + 3] */
};

/* y = sum over ranks of weight * expert(x), in rank order from 0 with one fma
 * each, then fma(sigmoid(shared_gate), shared(x), y).
 *
 * Contract of the router: logits l; the n_used largest, ties to the lower
 * expert, are the ranks in falling order; with m the largest, e_i = exp(l_i -
 * m), weight_i = e_i / (e_1 + ... + e_n summed in rank order). (Softmax over
 * all and then renormalised is the same in real arithmetic.) */
void sl_moe_run(const struct sl_run *r, const struct sl_moe *m);

#endif
