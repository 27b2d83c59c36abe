/* engine/importance.h - which columns of the weights matter, from a text
 *
 * The model reads a text with the weights it has; for every matrix the mean
 * square of each column of its inputs is what an error in that column costs in
 * the product (kern/quant_fit.h). Matrices that nothing went through, experts
 * that no token chose and the MTP head, have none.
 */
#ifndef SL_ENGINE_IMPORTANCE_H
#define SL_ENGINE_IMPORTANCE_H

#include "model/weights.h"

struct sl_importance_opts {
    const char *model; /* path */
    const char *text;  /* UTF-8 */
    size_t n_text;
    struct sl_pool *pool; /* borrowed for the call */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* or NULL */
    void *progress_ctx; /* units are tokens */
};

/* *out is ended by sl_importance_deinit, also after a failure. */
int sl_importance_measure(struct sl_importance *out,
                          const struct sl_importance_opts *o,
                          struct sl_err *err);
void sl_importance_deinit(struct sl_importance *imp);

#endif
