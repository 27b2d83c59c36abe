/* model/gguf_write.h - weights in memory -> a GGUF file
 *
 * Inside, weights are what GGUF wants them to be (norms with their 1, value
 * heads in its order, -exp(A_log)), so writing is regrouping: a file that is
 * read back gives the same bytes in memory.
 */
#ifndef SL_MODEL_GGUF_WRITE_H
#define SL_MODEL_GGUF_WRITE_H

#include "model/weights.h"

/* Write `path`, so that others see all of it or nothing. `src` tells about the
 * model; it needs no tokenizer. SL_EUNSUP for weights of a type that GGUF does
 * not have (fp8, bfp8, bfp4). progress may be NULL. */
int sl_gguf_write(const char *path, const struct sl_weights *w,
                  const struct sl_source *src, sl_progress_fn *progress,
                  void *ctx, struct sl_err *err);

#endif
