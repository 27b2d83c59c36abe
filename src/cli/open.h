/* cli/open.h - options -> an open engine, for every verb that runs a model */
#ifndef SL_CLI_OPEN_H
#define SL_CLI_OPEN_H

#include "base/option.h"
#include "cli/verb.h"
#include "sluice/sluice.h"

/* An instruction set that was named is one that this processor has. */
int sl_cli_cpu_check(const struct sl_opts *o, struct sl_err *err);

/* --dtype bfloat16 asks for bf16 weights, and the model at `path` has them:
 * ours are those of the files. */
int sl_cli_dtype_check(const struct sl_opts *o, const char *path,
                       struct sl_err *err);

/* The engine options that were given, for the library. */
void sl_cli_engine_opts(struct sl_engine_opts *eo, const struct sl_opts *o);

/* Open the model in the folder `path` as the engine options of `o` say, with a
 * progress bar on standard error. *load_s is how long it took. */
int sl_cli_open(struct sl_engine **out, double *load_s, const struct sl_opts *o,
                const char *path, struct sl_err *err);

/* Where packed weights are kept; "" when the user has no such place. */
void sl_cli_packed_dir(char out[SL_CLI_PATH], const struct sl_opts *o);

#endif
