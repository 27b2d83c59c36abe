/* base/log.c - events for the operator; see log.h */
#include "base/log.h"

#include <stdarg.h>

#define MAX_LINE 2048 /* bytes; chosen, not measured; longer lines are cut */

static struct {
    sl_log_fn *fn;
    void *ctx;
    enum sl_log_level least;
} sink; /* process; written before threads start */

void sl_log_set(sl_log_fn *fn, void *ctx, enum sl_log_level least)
{
    sink.fn = fn;
    sink.ctx = ctx;
    sink.least = least;
}

void sl_log(enum sl_log_level level, const char *fmt, ...)
{
    char line[MAX_LINE];
    va_list ap;

    if (!sink.fn || level < sink.least)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    sink.fn(sink.ctx, level, line);
}
