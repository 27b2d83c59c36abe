/* file/checkpoint_parts.h - a checkpoint from inside, for the files that open
 * its forms; not for others */
#ifndef SL_FILE_CHECKPOINT_PARTS_H
#define SL_FILE_CHECKPOINT_PARTS_H

#include "file/checkpoint.h"

struct entry {
    struct sl_ten ten;
    const char *path; /* of its file; it and the map borrowed from there */
    const struct sl_map *map;
    size_t offset; /* in the file */
};

struct sl_ckpt {
    struct sl_st *file[SL_CKPT_MAX_SHARD];
    size_t n_file;
    struct sl_gguf **part; /* [n_part], the first has the metadata */
    size_t n_part;
    struct entry *ten; /* [n_ten], by name */
    size_t n_ten;
};

/* Fill an empty checkpoint from a GGUF file and the parts beside it. What was
 * opened before a failure is left for sl_ckpt_close. */
int sl_ckpt_open_gguf(struct sl_ckpt *c, const char *path, struct sl_err *err);

#endif
