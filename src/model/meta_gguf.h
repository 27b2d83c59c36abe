/* model/meta_gguf.h - tokenizer and chat template, in the metadata of GGUF
 *
 * Read from files of others and of ours, and written for both: a packed file
 * keeps what the model is besides its weights in the same form.
 */
#ifndef SL_MODEL_META_GGUF_H
#define SL_MODEL_META_GGUF_H

#include "file/gguf_out.h"
#include "text/tokenize.h"

/* Tokens that end an answer wherever the vocabulary has them; and the key with
 * the ids of all that do, where files have more than their own keys can say. */
#define SL_META_N_END 2
extern const char *const sl_meta_end[SL_META_N_END];
#define SL_META_ENDS "sluice.tokenizer.end_ids"

/* The tokenizer that tokenizer.json of the same model makes. SL_ENOTFOUND when
 * there are no tokens, SL_EUNSUP for another model or pre-tokenizer, by name.
 * The caller closes *out. */
int sl_meta_tokenizer(struct sl_tokenizer **out, const struct sl_gguf *g,
                      struct sl_err *err);

/* The chat template: *jinja is NULL when there is none (borrowed from g); and
 * *conf, the JSON that tokenizer_config.json would have besides: the names of
 * tokens, and the template for requests with tools. The caller ends *conf with
 * sl_mem_free. */
int sl_meta_chat(const char **jinja, size_t *n_jinja, char **conf,
                 const struct sl_gguf *g, struct sl_err *err);

/* Append all that sl_meta_tokenizer reads. n_ids >= those of t: ids beyond them
 * are padding. `strict`: SL_EUNSUP for what other programs would not
 * understand. */
int sl_meta_put_tokenizer(struct sl_gguf_out *o, const struct sl_tokenizer *t,
                          size_t n_ids, bool strict, struct sl_err *err);

/* Append the ends of an answer, behind a tokenizer's own; t may be NULL. */
void sl_meta_put_ends(struct sl_gguf_out *o, const struct sl_tokenizer *t,
                      const int32_t *id, size_t n);

#endif
