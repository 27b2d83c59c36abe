/* cli/bench_serve.h - sluice bench serve: a running server under load */
#ifndef SL_CLI_BENCH_SERVE_H
#define SL_CLI_BENCH_SERVE_H

#include "base/option.h"

int sl_cli_bench_serve(const struct sl_opts *o, struct sl_err *err);

#endif
