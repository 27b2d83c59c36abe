/* engine/convert.h - models in their forms, for the program's verbs */
#ifndef SL_ENGINE_CONVERT_H
#define SL_ENGINE_CONVERT_H

#include "model/packing_sweep.h"
#include "text/tokenize.h"

/* The tokenizer of a model in any form; the caller closes *out. */
int sl_convert_tokenizer(struct sl_tokenizer **out, const char *path,
                         struct sl_err *err);

/* What a model becomes. Zero is a packed file of the types it has. */
struct sl_convert_opts {
    const char *src, *dst; /* paths; dst is a GGUF file when it ends so, and
                              otherwise a packed file */
    int plan;              /* enum sl_weight_plan of sluice.h */
    const char
        *calibrate; /* UTF-8, read to find which columns matter where
                       scales are searched for (SL_WEIGHTS_Q4); or NULL */
    size_t n_calibrate;
    uint32_t n_thread; /* 0: one per core */
    bool pin;          /* each to a core of its own */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* or NULL */
    void *progress_ctx;
};

/* Any form -> a packed file or GGUF, whole or not at all. SL_EARG when dst is a
 * file of the source, or there and not such a file. */
int sl_convert(const struct sl_convert_opts *o, struct sl_err *err);

/* The packed form where an engine with this cache_dir looks for it, made when
 * it is not there: dst is not read, and calibrate must be NULL, for no engine
 * would find what it changes. *path is that file's, and the caller frees it.
 * SL_EARG when the source is a packed file. */
int sl_convert_keep(char **path, const struct sl_convert_opts *o,
                    const char *cache_dir, struct sl_err *err);

/* Remove packed files that nothing has opened for long; see packing_sweep.h. */
int sl_convert_sweep(const char *cache_dir, const struct sl_packing_sweep *s,
                     struct sl_err *err);

/* Check a model's file or folder: a packed file by all of its digests, any
 * other form by reading every weight. *n_bytes is what was checked. */
int sl_convert_verify(uint64_t *n_bytes, const struct sl_convert_opts *o,
                      struct sl_err *err);

#endif
