/* engine/forced.h - a model that reads a text as it stands, without an engine
 *
 * For measurements: windows of a text go through the network in steps of
 * SL_FORCED_ROWS rows, and the caller sees every row's logits (teacher-forced).
 * One thread, which is the pool's.
 */
#ifndef SL_ENGINE_FORCED_H
#define SL_ENGINE_FORCED_H

#include "model/qwen35.h"

#define SL_FORCED_WINDOW 512 /* tokens that are read from nothing; chosen */
#define SL_FORCED_ROWS 32    /* of a step: their logits are in memory */

struct sl_forced {
    struct sl_weights *w;
    struct sl_memory *mem;
    struct sl_model *model;
    struct sl_seq *seq;
};

struct sl_forced_opts {
    struct sl_pool *pool; /* this and kern are borrowed until close */
    const struct sl_kern *kern;
    enum sl_dtype_plan plan;
    enum sl_dtype kv;
    sl_watch_fn *watch; /* NULL allowed (ops/run.h) */
    void *watch_ctx;
};

/* Zero *r before; sl_forced_close ends it, also after a failure. */
int sl_forced_open(struct sl_forced *r, const char *path,
                   const struct sl_forced_opts *o, struct sl_err *err);
void sl_forced_close(struct sl_forced *r);

/* The next tokens are the first of a window. */
int sl_forced_restart(struct sl_forced *r, struct sl_err *err);

/* The next n <= SL_FORCED_ROWS tokens: [n][vocab], borrowed until the next
 * call. */
int sl_forced_step(struct sl_forced *r, const int32_t *tok, uint32_t n,
                   const float **logits, struct sl_err *err);

/* The text as tokens of a model, at most `max` (0: all) and at least two.
 * *n_vocab is how many ids text can have. The caller ends *ids. */
int sl_forced_text(struct sl_ids *ids, uint32_t *n_vocab, const char *model,
                   const char *text, size_t n_text, uint32_t max,
                   struct sl_err *err);

#endif
