/* model/source.h - a model as it lies on a disk, in whatever form
 *
 *   a folder       config.json, safetensors, tokenizer.json, ...
 *   x.gguf         all in one file, or in a set of parts
 *   x.sluice       a packed file: weights as they are in memory
 *
 * Everything but the weights is read when it is opened; the weights are read by
 * model/weights.h. Read-only after opening: any thread.
 */
#ifndef SL_MODEL_SOURCE_H
#define SL_MODEL_SOURCE_H

#include "file/checkpoint.h"
#include "file/gguf_out.h"
#include "file/packed.h"
#include "model/conf.h"
#include "text/chat.h"
#include "text/tokenize.h"

enum sl_source_form { SL_SOURCE_FOLDER, SL_SOURCE_GGUF, SL_SOURCE_PACKED };

struct sl_source {
    enum sl_source_form form;
    char *path;
    struct sl_ckpt *ckpt; /* a folder's: NULL until the weights are asked for */
    struct sl_packed *packed;   /* NULL unless packed, and once it was loaded */
    struct sl_gguf *own_meta;   /* that of a packed file */
    const struct sl_gguf *meta; /* of ckpt or own_meta; NULL in folders */
    json_t *config;             /* as config.json */
    json_t *generation;         /* as generation_config.json, or NULL */
    struct sl_conf conf;
};

/* SL_ENOTFOUND when there is nothing at `path` or no model in it. The caller
 * ends *out with sl_source_close. */
int sl_source_open(struct sl_source **out, const char *path,
                   struct sl_err *err);
void sl_source_close(struct sl_source **s);

/* Open what the tensors are in; SL_ENOTFOUND when a folder has none. */
int sl_source_tensors(struct sl_source *s, struct sl_err *err);

/* The caller closes *out. SL_ENOTFOUND when the model has no tokenizer. */
int sl_source_tokenizer(struct sl_tokenizer **out, const struct sl_source *s,
                        struct sl_err *err);

/* The chat template of the model, or (`jinja` not NULL) this one with the
 * model's names of tokens. SL_ENOTFOUND when there is none. */
int sl_source_chat(struct sl_chat **out, const struct sl_source *s,
                   const char *jinja, size_t n_jinja, struct sl_err *err);

/* All that a packed file says besides the weights, as metadata of GGUF; the
 * caller ends *out with sl_buf_deinit. */
int sl_source_meta(struct sl_buf *out, const struct sl_source *s,
                   struct sl_err *err);

/* Append what a GGUF file says of itself besides (name, licence, ...), or what
 * a packed file has kept of that; but nothing that `o` has already, nor what is
 * true of that file alone. */
void sl_source_put_rest(struct sl_gguf_out *o, const struct sl_source *s);

/* Append the chat templates of the model to a file's metadata; nothing when it
 * has none. */
int sl_source_put_chat(struct sl_gguf_out *o, const struct sl_source *s,
                       struct sl_err *err);

#endif
