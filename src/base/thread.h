/* base/thread.h - threads, locks and conditions
 *
 * Locks are taken in increasing rank; the order below is the whole policy, and
 * debug builds check it. While a lock is held: no call-back, no input or
 * output, no allocation.
 */
#ifndef SL_BASE_THREAD_H
#define SL_BASE_THREAD_H

#include <pthread.h>

#include "base/err.h"

enum sl_rank {
    SL_RANK_ENGINE = 1, /* the list of submitted generations */
    SL_RANK_GEN,        /* the pieces of one generation */
    SL_RANK_ENCODER,    /* the idle encoders */
    SL_RANK_SHAPE,      /* the shapes that are kept */
    SL_RANK_WORK,       /* jobs of the server, to do and done */
    SL_RANK_SHELF,      /* prefixes to write, and what the disk holds */
    SL_RANK_RING,       /* memory for rings that nobody has */
};

struct sl_mutex {
    pthread_mutex_t m;
    enum sl_rank rank;
};

void sl_mutex_init(struct sl_mutex *mu, enum sl_rank rank);
void sl_mutex_deinit(struct sl_mutex *mu);
void sl_lock(struct sl_mutex *mu);
void sl_unlock(struct sl_mutex *mu);

struct sl_cond {
    pthread_cond_t c;
};

void sl_cond_init(struct sl_cond *c);
void sl_cond_deinit(struct sl_cond *c);
void sl_cond_wait(struct sl_cond *c, struct sl_mutex *mu);
void sl_cond_wait_ms(struct sl_cond *c, struct sl_mutex *mu, unsigned ms);
void sl_cond_wake_all(struct sl_cond *c);

struct sl_thread {
    pthread_t t;
};

int sl_thread_start(struct sl_thread *t, void *(*fn)(void *), void *arg,
                    const char *what, struct sl_err *err);
void sl_thread_join(struct sl_thread *t);

#endif
