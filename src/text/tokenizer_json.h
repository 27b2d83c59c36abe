/* text/tokenizer_json.h - a tokenizer from tokenizer.json
 *
 * Byte-level BPE as the Qwen family has it. What the file asks for and we do
 * not do (another normaliser, another pre-tokenizer, tokens that eat spaces) is
 * SL_EUNSUP with its name and value.
 */
#ifndef SL_TEXT_TOKENIZER_JSON_H
#define SL_TEXT_TOKENIZER_JSON_H

#include "text/tokenize.h"

/* From the contents of tokenizer.json and, unless conf is NULL, of
 * tokenizer_config.json: further added tokens, and which one ends a text. The
 * caller closes *out. */
int sl_tokenizer_parse(struct sl_tokenizer **out, const char *json, size_t len,
                       const char *conf, size_t conf_len, struct sl_err *err);

/* From a model's folder. SL_ENOTFOUND when it has no tokenizer.json;
 * tokenizer_config.json may be absent. */
int sl_tokenizer_load(struct sl_tokenizer **out, const char *dir,
                      struct sl_err *err);

#endif
