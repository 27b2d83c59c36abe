/* server/work.c - text workers; see work.h */
#include "server/work.h"

#include <event2/event.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"

#define MAX_THREAD 8

struct list {
    struct sl_job *head, *tail;
};

struct sl_work {
    void (*wake)(void *ctx);
    void *ctx;
    struct event *ev;
    int fd; /* an eventfd: readable when the loop has something to do */
    atomic_bool woken; /* fd was written and the loop has not looked yet */

    struct sl_mutex mu;
    struct sl_cond more;
    struct list todo, finished; /* guarded by mu */
    bool stop;                  /* guarded by mu */

    struct sl_thread thread[MAX_THREAD];
    unsigned n_thread;
};

static void push(struct list *l, struct sl_job *j)
{
    j->next = NULL;
    if (l->tail)
        l->tail->next = j;
    else
        l->head = j;
    l->tail = j;
}

static struct sl_job *pop(struct list *l)
{
    struct sl_job *j = l->head;

    if (j) {
        l->head = j->next;
        if (!l->head)
            l->tail = NULL;
    }
    return j;
}

void sl_work_wake(struct sl_work *w)
{
    uint64_t one = 1;

    /* Pairs with the store in on_wake: what was done before a wake that finds
     * the flag set is seen by the look that clears it. */
    if (!atomic_exchange_explicit(&w->woken, true, memory_order_acq_rel))
        (void)!write(w->fd, &one, sizeof(one));
}

static void *worker(void *arg)
{
    struct sl_work *w = arg;
    struct sl_job *j;

    for (;;) {
        sl_lock(&w->mu);
        while (!w->todo.head && !w->stop)
            sl_cond_wait(&w->more, &w->mu);
        j = pop(&w->todo);
        sl_unlock(&w->mu);
        if (!j)
            return NULL;
        j->run(j);
        sl_lock(&w->mu);
        push(&w->finished, j);
        sl_unlock(&w->mu);
        sl_work_wake(w);
    }
}

static void finish(struct sl_work *w)
{
    struct list got;
    struct sl_job *j;

    sl_lock(&w->mu);
    got = w->finished;
    w->finished = (struct list){0};
    sl_unlock(&w->mu);
    while ((j = pop(&got)))
        if (j->done)
            j->done(j);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct sl_work *w = arg;
    uint64_t n;

    (void)what;
    (void)!read(fd, &n, sizeof(n));
    /* Pairs with the exchange in sl_work_wake. */
    (void)atomic_exchange_explicit(&w->woken, false, memory_order_acq_rel);
    finish(w);
    w->wake(w->ctx);
}

int sl_work_open(struct sl_work **out, struct event_base *base,
                 unsigned n_thread, void (*wake)(void *ctx), void *ctx,
                 struct sl_err *err)
{
    struct sl_work *w = NULL;
    int rc = sl_mem_alloc(&w, 1, sizeof(*w), "text workers", err);

    if (rc)
        return rc;
    w->wake = wake;
    w->ctx = ctx;
    sl_mutex_init(&w->mu, SL_RANK_WORK);
    sl_cond_init(&w->more);
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->ev = w->fd < 0 ? NULL
                      : event_new(base, w->fd, EV_READ | EV_PERSIST, on_wake, w);
    if (!w->ev || event_add(w->ev, NULL))
        rc = sl_fail(err, SL_EIO, "the loop cannot be woken: no descriptor or "
                                  "no memory is left");
    n_thread = (unsigned)sl_min(n_thread, MAX_THREAD);
    for (; !rc && w->n_thread < n_thread; w->n_thread++)
        rc = sl_thread_start(&w->thread[w->n_thread], worker, w,
                             "a text worker", err);
    if (rc) {
        sl_work_close(&w);
        return rc;
    }
    *out = w;
    return 0;
}

void sl_work_close(struct sl_work **pw)
{
    struct sl_work *w = *pw;

    if (!w)
        return;
    sl_lock(&w->mu);
    w->stop = true;
    sl_cond_wake_all(&w->more);
    sl_unlock(&w->mu);
    while (w->n_thread > 0)
        sl_thread_join(&w->thread[--w->n_thread]);
    *pw = NULL; /* jobs may have called sl_work_wake up to here */
    finish(w);
    if (w->ev)
        event_free(w->ev);
    if (w->fd >= 0)
        close(w->fd);
    sl_cond_deinit(&w->more);
    sl_mutex_deinit(&w->mu);
    sl_mem_free(w);
}

void sl_work_push(struct sl_work *w, struct sl_job *j)
{
    sl_lock(&w->mu);
    push(&w->todo, j);
    sl_cond_wake_all(&w->more);
    sl_unlock(&w->mu);
}
