/* base/log.h - events for the operator
 *
 * One event is one line, `key=value`, at one of four levels. The library only
 * calls the sink it was given; without one nothing is printed. Any thread.
 */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include "base/base.h"

enum sl_log_level { SL_LOG_DEBUG, SL_LOG_INFO, SL_LOG_WARN, SL_LOG_ERROR };

/* Called with whole lines without the newline, control characters and bytes
 * that are not UTF-8 as \xNN. It must be safe from any thread, and must not call
 * back into the library. */
typedef void sl_log_fn(void *ctx, enum sl_log_level level, const char *line);

/* Set before other threads start; NULL for silence. */
void sl_log_set(sl_log_fn *fn, void *ctx, enum sl_log_level least);

void sl_log(enum sl_log_level level, const char *fmt, ...) SL_PRINTF(2, 3);

#endif
