/* base/log.c - events for the operator; see log.h
 *
 * An event is one line whatever it quotes; who could put a line break into one
 * could write the next.
 */
#include "base/log.h"

#include <stdarg.h>

#include "base/plain.h"

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
    char raw[MAX_LINE], line[MAX_LINE];
    va_list ap;

    if (!sink.fn || level < sink.least)
        return;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof(raw), fmt, ap);
    va_end(ap);
    (void)sl_plain(line, sizeof(line), raw);
    sink.fn(sink.ctx, level, line);
}
