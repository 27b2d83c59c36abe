/* base/pool.h - workers that share one loop at a time
 *
 * Fork and join: sl_pool_run cuts a job into tasks, the workers and the caller
 * run them all, and it returns when the last is done. Which worker runs a task
 * is not fixed and must not matter (rule P10): tasks write to places of their
 * own. Every worker begins with its own range of tasks, always the same one
 * for the same job size, so that the memory a task reads stays near it; a
 * worker that is done helps the others.
 */
#ifndef SL_BASE_POOL_H
#define SL_BASE_POOL_H

#include "base/err.h"

struct sl_pool;

/* Runs task `i` of a job, 0 <= i < n, on worker `w`, 0 <= w < n_thread. Does
 * not call the pool. */
typedef void sl_task_fn(void *ctx, size_t i, unsigned w);

/* n_thread counts the caller, who takes part as worker 0; 0 means one per
 * physical core that this process may use. `pin` binds each worker to a core
 * of its own through hwloc. */
int sl_pool_open(struct sl_pool **out, unsigned n_thread, bool pin,
                 struct sl_err *err);
void sl_pool_close(struct sl_pool **p);

unsigned sl_pool_n_thread(const struct sl_pool *p);

/* One thread at a time may call this, always the same. Blocks; allocates
 * nothing. */
void sl_pool_run(struct sl_pool *p, sl_task_fn *fn, void *ctx, size_t n);

/* Let a worker that has nothing to do call fn(ctx), which must be short and not
 * call the pool; at the latest the next job begins with it. False when there is
 * no such worker: then the caller does it itself. For what wakes a thread: the
 * scheduler lets that run where it was woken, and there only a worker waits.
 * Same thread as sl_pool_run. */
bool sl_pool_errand(struct sl_pool *p, void (*fn)(void *ctx), void *ctx);

/* Errands so far; same thread. */
uint64_t sl_pool_n_errand(const struct sl_pool *p);

/* Have the first n errands been run to their end? Any thread. */
bool sl_pool_is_back(struct sl_pool *p, uint64_t n);

#endif
