/* base/thread.c - threads, locks and conditions; see thread.h */
#include "base/thread.h"

#include "base/clock.h"

#define SECOND 1000000000u /* ns */

static _Thread_local unsigned held; /* bit r: this thread holds rank r */

void sl_mutex_init(struct sl_mutex *mu, enum sl_rank rank)
{
    pthread_mutex_init(&mu->m, NULL);
    mu->rank = rank;
}

void sl_mutex_deinit(struct sl_mutex *mu)
{
    pthread_mutex_destroy(&mu->m);
}

void sl_lock(struct sl_mutex *mu)
{
    SL_ASSERT(held >> mu->rank == 0); /* nothing of this rank or above */
    pthread_mutex_lock(&mu->m);
    held |= 1u << mu->rank;
}

void sl_unlock(struct sl_mutex *mu)
{
    held &= ~(1u << mu->rank);
    pthread_mutex_unlock(&mu->m);
}

void sl_cond_init(struct sl_cond *c)
{
    pthread_condattr_t how;

    pthread_condattr_init(&how);
    pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    pthread_cond_init(&c->c, &how);
    pthread_condattr_destroy(&how);
}

void sl_cond_deinit(struct sl_cond *c)
{
    pthread_cond_destroy(&c->c);
}

void sl_cond_wait(struct sl_cond *c, struct sl_mutex *mu)
{
    pthread_cond_wait(&c->c, &mu->m);
}

void sl_cond_wait_ms(struct sl_cond *c, struct sl_mutex *mu, unsigned ms)
{
    uint64_t end = sl_clock_ns() + (uint64_t)ms * 1000000;
    struct timespec t = {.tv_sec = (time_t)(end / SECOND),
                         .tv_nsec = (long)(end % SECOND)};

    (void)pthread_cond_timedwait(&c->c, &mu->m, &t);
}

void sl_cond_wake_all(struct sl_cond *c)
{
    pthread_cond_broadcast(&c->c);
}

int sl_thread_start(struct sl_thread *t, void *(*fn)(void *), void *arg,
                    const char *what, struct sl_err *err)
{
    int e = pthread_create(&t->t, NULL, fn, arg);

    return e ? sl_fail_errno(err, e, "starting the thread of %s", what) : 0;
}

void sl_thread_join(struct sl_thread *t)
{
    pthread_join(t->t, NULL);
}
