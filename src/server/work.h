/* server/work.h - text workers, and the way back to the loop
 *
 * The loop hands a job over with sl_work_push and does not touch it until its
 * `done` is called, on the loop again. Whatever computes, may block or walks a
 * long text is such a job: JSON, templates, tokenizing, closing a generation.
 *
 * sl_work_wake asks the loop to call `wake` soon; the engine's threads use it
 * when a piece is ready. Any number of calls make one. It takes no lock.
 */
#ifndef SL_SERVER_WORK_H
#define SL_SERVER_WORK_H

#include "base/err.h"

struct event_base;
struct sl_work;

struct sl_job {
    struct sl_job *next;
    void (*run)(struct sl_job *j);  /* text worker */
    void (*done)(struct sl_job *j); /* loop; NULL allowed */
};

int sl_work_open(struct sl_work **out, struct event_base *base,
                 unsigned n_thread, void (*wake)(void *ctx), void *ctx,
                 struct sl_err *err);

/* Runs what was pushed, then ends the threads. `done` is called for all. Loop
 * thread. */
void sl_work_close(struct sl_work **w);

void sl_work_push(struct sl_work *w, struct sl_job *j); /* loop thread */
void sl_work_wake(struct sl_work *w);                   /* any thread */

#endif
