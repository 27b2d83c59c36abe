/* base/probe.h - how fast memory is read right now
 *
 * The ceiling of decoding, and on a shared machine another one every minute: so
 * a measurement reads the probe in the same rounds as what it measures.
 */
#ifndef SL_BASE_PROBE_H
#define SL_BASE_PROBE_H

#include "base/pool.h"

struct sl_probe;

/* `bytes` of memory of the kind that weights lie in, which should be many
 * times the cache. The pool is borrowed until close. */
int sl_probe_open(struct sl_probe **out, struct sl_pool *pool, size_t bytes,
                  struct sl_err *err);
void sl_probe_close(struct sl_probe **p);

/* Read all of it once with every thread of the pool: bytes per second. The
 * pool's thread only. */
double sl_probe_read(struct sl_probe *p);

#endif
