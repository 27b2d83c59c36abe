/* model/conf_gguf.h - the metadata of a GGUF file as config.json would say it
 *
 * So there is one place that knows what this engine can run (conf.c), and one
 * text that tells about a model in packed files.
 */
#ifndef SL_MODEL_CONF_GGUF_H
#define SL_MODEL_CONF_GGUF_H

#include "file/checkpoint.h"
#include "model/conf.h"

/* A list in the second one: fields that the file does not have. */
#define SL_CONF_OURS "sluice_defaults"

/* config.json and generation_config.json of a GGUF checkpoint. SL_EUNSUP for
 * another architecture, by name. The caller ends both with json_decref. */
int sl_conf_gguf(json_t **config, json_t **generation, const struct sl_ckpt *c,
                 struct sl_err *err);

/* What stands behind the fields of these two. */
extern const struct sl_conf_names sl_conf_gguf_names;

#endif
