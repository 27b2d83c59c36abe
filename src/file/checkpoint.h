/* file/checkpoint.h - the files of a checkpoint, seen as one set of tensors
 *
 * A folder holds, and this is the order in which they are tried:
 *   model.safetensors.index.json   its weight_map says which file has a tensor
 *   model.safetensors
 *   one file NAME.safetensors
 * Only plain file names inside the folder are followed.
 *
 * A file is GGUF. When its metadata says that it is part of a set, its name
 * must end in -00001-of-0000N.gguf (any of the numbers), and all parts must lie
 * beside it.
 *
 * Tensors are numbered in the order of their names. Read-only after opening:
 * any thread.
 */
#ifndef SL_FILE_CHECKPOINT_H
#define SL_FILE_CHECKPOINT_H

#include "file/gguf.h"
#include "file/safetensors.h"

#define SL_CKPT_MAX_SHARD 4096
#define SL_CKPT_MAX_INDEX (256u << 20) /* bytes of the index file */

struct sl_ckpt;

/* A tensor, wherever it lies. */
struct sl_ten {
    const char *name;      /* as the file has it */
    enum sl_dtype type;    /* SL_N_DTYPE: the engine has no such weights */
    const char *type_name; /* as the file has it */
    uint32_t n_dim;
    size_t dim[SL_ST_MAX_DIM]; /* rows before columns */
    size_t bytes;
};

/* The caller ends *out with sl_ckpt_close. Every named file is mapped and
 * checked; every tensor of an index must be in the file it names. */
int sl_ckpt_open(struct sl_ckpt **out, const char *path, struct sl_err *err);
void sl_ckpt_close(struct sl_ckpt **c);

/* The first file of a GGUF checkpoint, which has the metadata; NULL for a
 * folder. Borrowed. */
const struct sl_gguf *sl_ckpt_gguf(const struct sl_ckpt *c);

/* The files that the checkpoint consists of. */
size_t sl_ckpt_n_file(const struct sl_ckpt *c);
const char *sl_ckpt_file(const struct sl_ckpt *c, size_t i);

size_t sl_ckpt_n_tensor(const struct sl_ckpt *c);
uint64_t sl_ckpt_bytes(const struct sl_ckpt *c); /* of all tensors */

/* Tensor i, borrowed until the checkpoint is closed. */
const struct sl_ten *sl_ckpt_get(const struct sl_ckpt *c, size_t i);

/* The number of the tensor of that name; false when there is none. */
bool sl_ckpt_find(const struct sl_ckpt *c, const char *name, size_t *i);

/* Bytes of tensor i; and the name of its file. */
const unsigned char *sl_ckpt_data(const struct sl_ckpt *c, size_t i);
const char *sl_ckpt_path(const struct sl_ckpt *c, size_t i);

/* Advice about `len` bytes of tensor i from `offset`: will be read soon, or not
 * again. */
void sl_ckpt_want(const struct sl_ckpt *c, size_t i, size_t offset, size_t len);
void sl_ckpt_drop(const struct sl_ckpt *c, size_t i, size_t offset, size_t len);
void sl_ckpt_drop_all(const struct sl_ckpt *c);

#endif
