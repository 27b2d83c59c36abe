/* server/kept.h - what is told of kept prefixes: to a scrape, and on GET /
 *
 * The cache of prefixes decides by itself what to keep and what to give up;
 * here is what came of it. Loop thread.
 */
#ifndef SL_SERVER_KEPT_H
#define SL_SERVER_KEPT_H

#include "base/buf.h"
#include "sluice/sluice.h"

/* Families of our own, each with one or more series. */
void sl_kept_metrics(struct sl_buf *b, const struct sl_prefix_cache_stats *p,
                     const char *labels);

/* An object. */
void sl_kept_json(struct sl_buf *b, const struct sl_prefix_cache_stats *p,
                  bool enabled);

#endif
