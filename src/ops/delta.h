/* ops/delta.h - the gated delta rule over the rows of a step
 *
 * Yang, Kautz and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with
 * Delta Rule", 2024; as published in Qwen3.5. Rows run token by token (D2), and
 * a sequence's firm rows come before its tentative ones (D3).
 */
#ifndef SL_OPS_DELTA_H
#define SL_OPS_DELTA_H

#include "ops/run.h"

#define SL_CONV_PAST 3 /* inputs before the current one that a tap reaches */

/* One sequence's part of a step, one layer. Pending rows are tentative rows of
 * an earlier step that were accepted since; they are replayed first. */
struct sl_delta_seq {
    uint32_t row0, n_firm, n_tent; /* rows row0 .. row0 + n_firm + n_tent - 1 */
    uint32_t n_pend;
    const float *src_s; /* [n_val][val_dim / 16][key_dim][16]; NULL: zeros */
    float *dst_s;       /* may be src_s */
    const float *src_conv; /* [3][conv_dim], oldest first; NULL: zeros */
    float *dst_conv;       /* may be src_conv */
    /* [n_pend] rows of: */
    const float *pend_k;     /* [n_key * key_dim] */
    const float *pend_d;     /* [n_val * val_dim] */
    const float *pend_decay; /* [n_val] */
    const float *pend_u;     /* [conv_dim] */
    /* The same for the n_tent rows of this step, to be filled. */
    float *tent_k, *tent_d, *tent_decay, *tent_u;
};

struct sl_delta {
    uint32_t n_key, n_val, key_dim, val_dim;
    float eps;
    bool sigmoid_gate;  /* of the output norm; silu otherwise */
    const float *conv_w; /* per head of q, k, v in turn: [4][its width] */
    const float *a_neg, *dt; /* [n_val] */
    const float *norm;       /* [val_dim] */

    size_t n_row;
    const float *u; /* [n_row][conv_dim]: projected q, k, v */
    const float *z; /* [n_row][n_val * val_dim] */
    const float *a, *b; /* [n_row][n_val] */
    const struct sl_delta_seq *seq;
    size_t n_seq;
    const uint32_t *seq_of_row; /* [n_row] */

    float *o; /* out: [n_row][n_val * val_dim], normed and gated */

    /* Work space. */
    float *c;            /* n_row * conv_dim floats, laid out as delta.c says */
    float *decay, *beta; /* [n_row][n_val] */
    float *kq;           /* [n_row][n_key] */
    float *scratch;      /* [n_thread][key_dim * 16] */
};

static inline size_t sl_delta_conv_dim(const struct sl_delta *d)
{
    return 2 * (size_t)d->n_key * d->key_dim + (size_t)d->n_val * d->val_dim;
}

/* Run the layer: o is written, dst_s and dst_conv hold the state behind the
 * firm rows. With no rows at all this is a flush: pending rows are replayed
 * into dst. */
void sl_delta_run(const struct sl_run *r, const struct sl_delta *d);

#endif
