/* model/qwen35.h - the Qwen3.5 / 3.6 / 3.8 network: one forward over rows
 *
 * A step is a list of rows (D1): one token of one sequence at one position
 * each. Prompt chunks, decoding and verification differ only in what is done
 * with the result; forward is told nothing but how many rows of a sequence are
 * firm (D3). Rows of a sequence follow each other, firm ones first.
 *
 * Engine thread only. All memory is taken by sl_model_open.
 */
#ifndef SL_MODEL_QWEN35_H
#define SL_MODEL_QWEN35_H

#include "base/arena.h"
#include "model/weights.h"
#include "ops/run.h"
#include "state/seq.h"

struct sl_model_opts {
    uint32_t max_row;   /* rows of one step */
    uint32_t max_seq;   /* sequences of one step */
    uint32_t max_logit; /* rows of one step whose logits are asked for */
    sl_watch_fn *watch; /* NULL, or told of every product's input */
    void *watch_ctx;
};

struct sl_model;

/* weights, pool and kern are borrowed until close. */
int sl_model_open(struct sl_model **out, const struct sl_weights *weights,
                  struct sl_pool *pool, const struct sl_kern *kern,
                  const struct sl_model_opts *opts, struct sl_err *err);
void sl_model_close(struct sl_model **m);

/* Use this MTP head in the place of the weights' own; borrowed until close. */
void sl_model_set_mtp(struct sl_model *m, const struct sl_mtp_w *mtp);

/* Bytes of work space that these options take. */
size_t sl_model_work_bytes(const struct sl_conf *conf, unsigned n_thread,
                           const struct sl_model_opts *opts);

/* What a sequence of this model remembers, for sl_memory_open: the planes of
 * its pages (how many is returned), and its recurrent state. */
enum sl_model_plane { SL_PLANE_TARGET, SL_PLANE_MTP, SL_MODEL_PLANES };
uint32_t sl_model_planes(const struct sl_conf *conf, bool with_mtp,
                         struct sl_kv_plane planes[SL_MODEL_PLANES]);
void sl_model_rec_shape(const struct sl_conf *conf, uint32_t max_tent,
                        struct sl_rec_shape *out);

/* Rows are those of seq[0], then seq[1], ...: seq[i]->n_firm + seq[i]->n_tent
 * rows each, after sl_seq_begin. A sequence with no rows is flushed. */
struct sl_step {
    struct sl_seq **seq;
    uint32_t n_seq;
    const int32_t *tok; /* [n_row] */
    uint32_t n_row;

    /* Wanted. */
    const uint32_t *logit_row; /* [n_logit] rising row numbers */
    uint32_t n_logit;
    float *hidden;         /* [n_row][hidden] final normed rows, or NULL */
    const uint32_t *tap;   /* [n_tap] rising layer numbers */
    uint32_t n_tap;
    float *tap_out;        /* [n_tap][n_row][hidden] residual after the layer */

    /* Given: [n_logit][vocab], borrowed until the next forward. */
    float *logits;
};

/* Run one step. The caller has called sl_seq_begin on every sequence and calls
 * sl_seq_end afterwards. Cannot fail. */
void sl_forward(struct sl_model *m, struct sl_step *s);

/* Experts that were read for the rows of the newest step: a mean over layers;
 * 0 where none has any. A draft head's own count until the next step. */
double sl_model_experts(const struct sl_model *m);

/* Logits of n more rows of the last forward, which was no draft's: rising row
 * numbers, at most max_logit. Borrowed until the next call of anything. The
 * bits do not depend on which rows are asked for together (D2). */
float *sl_head(struct sl_model *m, const uint32_t *row, uint32_t n);

#endif
