/* cli/bench_speculate.h - sluice bench speculate */
#ifndef SL_CLI_BENCH_SPECULATE_H
#define SL_CLI_BENCH_SPECULATE_H

#include "base/buf.h"
#include "base/json.h"
#include "base/option.h"

/* Print a table, or with --json the object; both are ended. */
int sl_cli_bench_print(const struct sl_opts *o, struct sl_buf *text, json_t *j,
                       struct sl_err *err);

/* Measure the model in `dir`, or the shape when that is NULL; `what` is its name
 * for people. The report is printed. */
int sl_cli_bench_speculate(const struct sl_opts *o, const char *what,
                           const char *dir, struct sl_err *err);

#endif
