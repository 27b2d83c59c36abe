/* cli/kl.h - rows of a comparison with a reference, for people and programs */
#ifndef SL_CLI_KL_H
#define SL_CLI_KL_H

#include "base/buf.h"
#include "base/json.h"
#include "engine/eval.h"

/* Run the comparison of *k and append its row to both, under these names of
 * weights and of K and V; a bar says how far it is. */
int sl_cli_kl_row(json_t *rows, struct sl_buf *table,
                  const struct sl_eval_kl_opts *k, const char *weights,
                  struct sl_err *err);

/* Read a file of text, checked to be UTF-8; ended by sl_file_free. */
int sl_cli_kl_text(char **text, size_t *len, const char *path,
                   struct sl_err *err);

#endif
