/* model/dflash.h - block drafters: DFlash, both generations
 *
 * A small network that proposes a whole block in one pass. It borrows the
 * target's embedding and head, and sees the target's residual after some of its
 * layers (taps) for every committed token; these become keys and values of its
 * own, a plane of the sequence's pages. (Formulas: dflash.c.)
 *
 * Engine thread only, but for open and close. All memory is taken by open.
 */
#ifndef SL_MODEL_DFLASH_H
#define SL_MODEL_DFLASH_H

#include "model/dflash_conf.h"
#include "model/draft_head.h"
#include "model/qwen35.h"

struct sl_flash;

/* With `dir` NULL weights are random, of the shape of the published drafter.
 * Otherwise `dir` has config.json and safetensors, whose matrices become `want`: SL_Q8_0,
 * SL_Q4_0, or SL_N_DTYPE for what they are. The target's weights and the pool are
 * borrowed until close. max_seq sequences draft at once, max_row rows are shown
 * at once, and max_logit is the model's. */
int sl_flash_open(struct sl_flash **out, const char *dir,
                  const struct sl_weights *target, enum sl_dtype want,
                  struct sl_pool *pool, const struct sl_model_opts *opts,
                  struct sl_err *err);
void sl_flash_close(struct sl_flash **f);

const struct sl_flash_conf *sl_flash_get_conf(const struct sl_flash *f);
size_t sl_flash_bytes(const struct sl_flash *f); /* of weights */

/* Its plane of the pages, and which number that got. */
void sl_flash_plane(const struct sl_flash *f, struct sl_kv_plane *out);
void sl_flash_set_plane(struct sl_flash *f, uint32_t plane);

/* Committed rows of sequences: their taps become keys and values. */
struct sl_flash_rows {
    struct sl_seq **seq; /* [n_seq] */
    uint32_t n_seq;
    const uint32_t *n, *pos; /* [n_seq] rows of each, position of the first */
    uint32_t n_row;          /* sum of n */
    const float *taps;       /* [n_row][n_tap * hidden] */
};
void sl_flash_see(struct sl_flash *f, struct sl_model *m,
                  const struct sl_flash_rows *r);

/* Blocks behind the committed tokens of sequences, one each; there are pages for
 * block positions behind n_tok. `draft` [n_seq][block - 1] is filled. */
struct sl_flash_blocks {
    struct sl_seq **seq;
    uint32_t n_seq;
    const int32_t *anchor; /* [n_seq] the last committed token, not yet seen */
    uint32_t n_vocab;      /* ids that may be proposed */
    uint32_t n_draft; /* of each that are wanted: the rows behind them are left
                         out; 0: all */
    int32_t *draft;   /* [n_seq][block - 1] out */
    float *sure; /* [n_seq][block - 1] out, or NULL: the share of each draft
                    among the likeliest of its place, as the drafter has it */
    const struct sl_draft_head *head; /* NULL: the whole of the target's */
    float *logits; /* [n_seq][block - 1][vocab] out, for tests and without
                      `head`; NULL */
};
void sl_flash_draft(struct sl_flash *f, struct sl_model *m,
                    const struct sl_flash_blocks *b);

#endif
