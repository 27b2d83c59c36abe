/* cli/bench_serve.h - sluice bench serve: a running server under load */
#ifndef SL_CLI_BENCH_SERVE_H
#define SL_CLI_BENCH_SERVE_H

#include "base/option.h"

int sl_cli_bench_serve(const struct sl_opts *o, struct sl_err *err);
int sl_cli_bench_replay(const struct sl_opts *o, struct sl_err *err);

/* How far it is, on a terminal: `what` are counted. */
struct sl_bench_bar {
    const char *what;
    bool tty;
    uint64_t start_ns, drawn_ns;
};
void sl_cli_bench_bar(struct sl_bench_bar *b, const char *what);
void sl_cli_bench_draw(void *bar, uint32_t done, uint32_t total);

#endif
