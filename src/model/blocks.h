/* model/blocks.h - the blocks of a GGUF file: which layer a tensor is of */
#ifndef SL_MODEL_BLOCKS_H
#define SL_MODEL_BLOCKS_H

#include "file/checkpoint.h"

/* N of "blk.N."; -1 for any other name. */
int64_t sl_block_of(const char *name);

/* Do the tensors stand in the blocks that the metadata announces: n_layer of
 * the model, behind these the ones that draft, n_block together? SL_EFORMAT
 * with the tensor that does not. */
int sl_blocks_check(const struct sl_ckpt *c, int64_t n_layer, int64_t n_block,
                    struct sl_err *err);

#endif
