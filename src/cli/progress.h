/* cli/progress.h - how far a long job is, on standard error
 *
 * On a terminal a bar that is redrawn; otherwise one line when the job starts.
 * A job that is over before it can be seen shows nothing on a terminal.
 */
#ifndef SL_CLI_PROGRESS_H
#define SL_CLI_PROGRESS_H

#include "base/base.h"

struct sl_progress {
    const char *what; /* "loading demo"; borrowed */
    uint64_t start_ns, drawn_ns;
    bool tty, started;
};

void sl_progress_init(struct sl_progress *p, const char *what);

/* The call-back of struct sl_engine_opts; ctx is the struct sl_progress. */
void sl_progress_step(void *ctx, uint64_t done_bytes, uint64_t total_bytes);

/* Take the bar away. */
void sl_progress_end(struct sl_progress *p);

#endif
