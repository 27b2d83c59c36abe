/* model/layers.h - the layers that networks of this family are made of
 *
 * Private to model/: an open model with its work space, and one function per
 * sublayer. Each reads the normed rows in work.h and leaves its output in
 * work.y, both [n_row][hidden]; who calls it does the norm and the residual.
 */
#ifndef SL_MODEL_LAYERS_H
#define SL_MODEL_LAYERS_H

#include "base/arena.h"
#include "model/qwen35.h"
#include "ops/attend.h"
#include "ops/delta.h"
#include "ops/moe.h"

/* Shapes: R rows, H hidden, others as in struct sl_conf. */
struct sl_work {
    float *x, *h, *y; /* [R][H] */
    float *pair;      /* [R][2 H], with an MTP head */
    uint32_t *seq_of_row;
    struct sl_attend_seq *attend_seq; /* [max_seq] */
    struct sl_delta_seq *delta_seq;
    /* attention */
    float *qg, *k, *v, *q, *acc, *ml, *attn, *part, *attn_scratch;
    /* DeltaNet */
    float *u, *z, *a, *b, *c, *decay, *beta, *kq, *o, *delta_scratch;
    /* MLP */
    float *gate, *up;
    /* experts */
    float *logit, *weight, *xs, *egate, *eup, *ys, *shared_gate, *sy;
    uint32_t *pick, *slot, *first;
    struct sl_mul_job *job;
    struct sl_act_space act; /* lent to the run */
    /* head */
    float *last; /* [max_logit][H] */
    float *logits; /* [max_logit][vocab] */
};

struct sl_model {
    const struct sl_weights *w;
    const struct sl_mtp_w *mtp; /* that of w, or a copy */
    const struct sl_conf *c;
    struct sl_model_opts opts;
    struct sl_run run;
    float *inv_freq; /* [rot_dim / 2] */
    struct sl_arena arena;
    struct sl_work work;
    uint32_t n_moe, n_expert; /* layers of the last step that chose experts, and
                                 how many they used of them, in all */
};

/* Blocks of attention whose results are held at a time, per worker: enough to
 * keep all busy, and below a megabyte each. Chosen, not measured. */
#define SL_PARTS_PER_THREAD 8

/* The rows of a step, as the sublayers need them. attend_seq, delta_seq and
 * seq_of_row of the work space have been filled. */
struct sl_rows {
    size_t n_row;
    uint32_t n_seq;
    const struct sl_kv *kv;
};

/* Attention with output gate over layer `layer` of a plane of the pages. */
void sl_layer_attention(struct sl_model *m, const struct sl_rows *r,
                        const struct sl_attn_w *w, uint32_t plane,
                        uint32_t layer);

/* The same in two halves, for rows of which some are only to be remembered. First
 * keys and values of all rows go to the pages, and n_ask rows, at `ask`, get
 * queries; then attend_seq and seq_of_row are those of the latter. */
void sl_layer_keys(struct sl_model *m, const struct sl_rows *r,
                   const struct sl_attn_w *w, uint32_t plane, uint32_t layer,
                   const float *ask, size_t n_ask);
void sl_layer_asked(struct sl_model *m, const struct sl_rows *r,
                    const struct sl_attn_w *w, uint32_t plane, uint32_t layer);

/* Gated DeltaNet; delta_seq has this layer's states. */
void sl_layer_delta(struct sl_model *m, const struct sl_rows *r,
                    const struct sl_lin_w *w);

/* Gated MLP, or experts, as the layer is. */
void sl_layer_mlp(struct sl_model *m, const struct sl_rows *r,
                  const struct sl_layer_w *w);

/* Cut the work space out of m->arena, which has sl_model_work_bytes. */
void sl_work_cut(struct sl_model *m, unsigned n_thread);

#endif
