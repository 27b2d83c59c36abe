/* base/pool.c - workers that share one loop at a time; see pool.h
 *
 * A decode step is some hundred short jobs, so starting and ending one must
 * cost about a microsecond: workers spin on the job number for a while after a
 * job, and only then park on a condition. A parked pool costs nothing. The caller
 * does the same while it waits for the last task. With more threads than cores
 * nobody spins: who waits would only keep from running whom it waits for; and on
 * a busy machine the scheduler prefers a thread that is woken to one that
 * yielded.
 *
 *           post            take tasks until none are left
 *   SPIN ---------> WORK ------------------------------------> SPIN
 *    |  ^
 *    |  | post (broadcast)             SPIN: pause, for SPIN_NS
 *    v  |                              PARK: condition variable
 *   PARK
 *
 * Lost wake-ups: the poster writes `state` and then reads `n_parked`; a worker
 * writes `n_parked` and then reads `state`. Both are sequentially consistent, so
 * at least one sees the other (Dekker). The same holds for `n_done` of a worker
 * and `caller_parked` of the caller.
 *
 * A worker that the scheduler keeps waiting must not hold up the others: whoever
 * comes first takes its tasks, and the caller closes a job when none is left.
 * `state` holds the number of the job, whether it is closed and how many workers
 * entered it. Adding one to it is the request to enter, and the value before says
 * whether it was granted: a late worker finds the job closed and touches nothing
 * of it.
 *
 * The end of a job: every worker that entered adds one to `n_done` after its last
 * task, with release; the caller waits for their number with acquire (both are
 * stronger, see above), so none is inside when the next job is written.
 *
 * An errand goes to a worker that spins. Should all of them have parked when it
 * was posted, or been kept waiting until the next job, the caller runs it. The
 * first is once more Dekker's pair, `errand` and `n_parked`.
 */
/* Before ours, against rule H3: its inline functions use what we ban. */
#include <hwloc.h>

#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"

#define MAX_THREAD 1024
#define SPIN_CHECK 64   /* pauses between two looks at the clock */
#define SPIN_NS 200000u /* then park; a few gaps between two jobs. Chosen */

/* Of the state: the number of the job above, the entered below. */
#define JOB_SHIFT 32
#define CLOSED ((uint64_t)1 << 31)

/* The tasks a worker starts with. */
struct range {
    SL_ALIGNED(SL_LINE) _Atomic size_t next;
    size_t end; /* written by the caller between jobs */
};

struct worker {
    struct sl_pool *pool;
    pthread_t thread;
    unsigned id;
    bool started;
};

enum errand { NO_ERRAND, POSTED, RUNNING };

struct sl_pool {
    SL_ALIGNED(SL_LINE) _Atomic uint64_t state;
    SL_ALIGNED(SL_LINE) _Atomic unsigned n_done;
    SL_ALIGNED(SL_LINE) _Atomic unsigned errand; /* on a line of its own: */
    void (*errand_fn)(void *ctx); /* all who spin look at it, and jobs do not */
    void *errand_ctx;
    _Atomic uint64_t n_back; /* errands that were run */
    uint64_t n_errand;       /* that were posted */
    SL_ALIGNED(SL_LINE) _Atomic unsigned n_parked;
    _Atomic unsigned caller_parked;
    sl_task_fn *fn; /* this job; written before `state` */
    void *ctx;
    bool stop;
    unsigned n_thread;
    struct range *range; /* [n_thread] */
    struct worker *worker; /* [n_thread], 0 is the caller */
    pthread_mutex_t mu;
    pthread_cond_t wake; /* guarded by mu, with `state` */
    pthread_cond_t done; /* guarded by mu, with `n_done` */
    bool spin;           /* there is a core for each thread */
    hwloc_topology_t topo;
    bool pin;
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ __volatile__("yield");
#endif
}

static void work(struct sl_pool *p, unsigned me)
{
    for (unsigned k = 0; k < p->n_thread; k++) {
        struct range *r = &p->range[(me + k) % p->n_thread];

        for (;;) {
            size_t i = atomic_fetch_add_explicit(&r->next, 1,
                                                 memory_order_relaxed);
            if (i >= r->end)
                break;
            p->fn(p->ctx, i, me);
        }
    }
}

static uint64_t job_of(uint64_t state)
{
    return state >> JOB_SHIFT;
}

/* Run the errand if there is one that nobody has taken. */
static void run_errand(struct sl_pool *p)
{
    unsigned posted = POSTED;

    if (atomic_load(&p->errand) != POSTED ||
        !atomic_compare_exchange_strong(&p->errand, &posted, RUNNING))
        return;
    p->errand_fn(p->errand_ctx);
    atomic_fetch_add_explicit(&p->n_back, 1, memory_order_release);
    atomic_store(&p->errand, NO_ERRAND);
}

static bool all_parked(struct sl_pool *p)
{
    return atomic_load(&p->n_parked) == p->n_thread - 1;
}

static void park(struct sl_pool *p, uint64_t seen)
{
    atomic_fetch_add(&p->n_parked, 1);
    run_errand(p);
    pthread_mutex_lock(&p->mu);
    while (job_of(atomic_load(&p->state)) == seen)
        pthread_cond_wait(&p->wake, &p->mu);
    atomic_fetch_sub(&p->n_parked, 1);
    pthread_mutex_unlock(&p->mu);
}

/* True when it happened; false when it is time to park. */
static bool spin_job(struct sl_pool *p, uint64_t seen)
{
    for (uint64_t t0 = sl_clock_ns(); sl_clock_ns() - t0 < SPIN_NS;) {
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (job_of(atomic_load_explicit(&p->state,
                                            memory_order_acquire)) != seen)
                return true;
            run_errand(p);
            pause_cpu();
        }
    }
    return false;
}

static bool spin_done(struct sl_pool *p, unsigned entered)
{
    for (uint64_t t0 = sl_clock_ns(); sl_clock_ns() - t0 < SPIN_NS;) {
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (atomic_load_explicit(&p->n_done, memory_order_acquire) ==
                entered)
                return true;
            pause_cpu();
        }
    }
    return false;
}

/* Wait until the job is no longer `seen`. */
static void await_job(struct sl_pool *p, uint64_t seen)
{
    if (!p->spin || !spin_job(p, seen))
        park(p, seen);
}

/* Let no worker enter the job any more, and wait for those inside. */
static void close_job(struct sl_pool *p)
{
    uint64_t state = atomic_fetch_or(&p->state, CLOSED);
    unsigned entered = (unsigned)(state & (CLOSED - 1));

    if (p->spin && spin_done(p, entered))
        return;
    pthread_mutex_lock(&p->mu);
    atomic_store(&p->caller_parked, 1);
    while (atomic_load(&p->n_done) != entered)
        pthread_cond_wait(&p->done, &p->mu);
    atomic_store(&p->caller_parked, 0);
    pthread_mutex_unlock(&p->mu);
}

/* A worker has run its last task of the job. */
static void tell_done(struct sl_pool *p)
{
    atomic_fetch_add(&p->n_done, 1);
    if (atomic_load(&p->caller_parked)) {
        pthread_mutex_lock(&p->mu);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->mu);
    }
}

static void bind_to_core(struct sl_pool *p, unsigned id)
{
    int n = hwloc_get_nbobjs_by_type(p->topo, HWLOC_OBJ_CORE);
    hwloc_obj_t core;
    hwloc_cpuset_t set;

    /* With more workers than cores, binding would only tie two of them to one
     * core while another is free. */
    if (!p->pin || n <= 0 || p->n_thread > (unsigned)n)
        return;
    core = hwloc_get_obj_by_type(p->topo, HWLOC_OBJ_CORE, id);
    set = core ? hwloc_bitmap_dup(core->cpuset) : NULL;
    if (!set)
        return;
    /* Binding is advice: in a container it may be forbidden. */
    (void)hwloc_set_cpubind(p->topo, set, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(set);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct sl_pool *p = w->pool;
    uint64_t seen = 0;

    bind_to_core(p, w->id);
    for (;;) {
        uint64_t state;

        await_job(p, seen);
        state = atomic_fetch_add(&p->state, 1);
        seen = job_of(state);
        if (state & CLOSED)
            continue;
        if (p->stop)
            return NULL;
        work(p, w->id);
        tell_done(p);
    }
}

static void post(struct sl_pool *p)
{
    atomic_store(&p->state, (job_of(atomic_load(&p->state)) + 1) << JOB_SHIFT);
    if (atomic_load(&p->n_parked) > 0) {
        pthread_mutex_lock(&p->mu);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->mu);
    }
}

bool sl_pool_errand(struct sl_pool *p, void (*fn)(void *ctx), void *ctx)
{
    if (!p->spin || all_parked(p) || atomic_load(&p->errand) != NO_ERRAND)
        return false;
    p->errand_fn = fn;
    p->errand_ctx = ctx;
    p->n_errand++;
    atomic_store(&p->errand, POSTED);
    if (all_parked(p))
        run_errand(p);
    return true;
}

uint64_t sl_pool_n_errand(const struct sl_pool *p)
{
    return p->n_errand;
}

bool sl_pool_is_back(struct sl_pool *p, uint64_t n)
{
    return atomic_load_explicit(&p->n_back, memory_order_acquire) >= n;
}

void sl_pool_run(struct sl_pool *p, sl_task_fn *fn, void *ctx, size_t n)
{
    run_errand(p);
    if (p->n_thread == 1 || n <= 1) {
        for (size_t i = 0; i < n; i++)
            fn(ctx, i, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    for (unsigned t = 0; t < p->n_thread; t++) {
        atomic_store_explicit(&p->range[t].next, n * t / p->n_thread,
                              memory_order_relaxed);
        p->range[t].end = n * (t + 1) / p->n_thread;
    }
    atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
    post(p);
    work(p, 0);
    close_job(p);
}

unsigned sl_pool_n_thread(const struct sl_pool *p)
{
    return p->n_thread;
}

static int start_worker(struct sl_pool *p, unsigned id, struct sl_err *err)
{
    struct worker *w = &p->worker[id];
    int e;

    w->pool = p;
    w->id = id;
    e = pthread_create(&w->thread, NULL, worker_main, w);
    if (e)
        return sl_fail_errno(err, e, "starting worker thread %u of %u", id,
                             p->n_thread);
    w->started = true;
    return 0;
}

static int open_topology(struct sl_pool *p, struct sl_err *err)
{
    if (hwloc_topology_init(&p->topo))
        return sl_fail(err, SL_EIO, "hwloc cannot read this machine");
    if (hwloc_topology_load(p->topo)) {
        hwloc_topology_destroy(p->topo);
        return sl_fail(err, SL_EIO, "hwloc cannot read this machine");
    }
    return 0;
}

static unsigned default_threads(hwloc_topology_t topo)
{
    int n = hwloc_get_nbobjs_by_type(topo, HWLOC_OBJ_CORE);

    return n > 0 ? (unsigned)sl_min((size_t)n, MAX_THREAD) : 1;
}

int sl_pool_open(struct sl_pool **out, unsigned n_thread, bool pin,
                 struct sl_err *err)
{
    struct sl_pool *p = NULL;
    int rc;

    if (n_thread > MAX_THREAD)
        return sl_fail(err, SL_EARG, "%u threads asked for; at most %d",
                       n_thread, MAX_THREAD);
    p = aligned_alloc(SL_LINE, sl_round_up(sizeof(*p), SL_LINE));
    if (!p)
        return sl_fail(err, SL_ENOMEM, "no memory for the worker pool");
    *p = (struct sl_pool){.state = CLOSED, .pin = pin};
    rc = open_topology(p, err);
    if (rc) {
        free(p);
        return rc;
    }
    pthread_mutex_init(&p->mu, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    p->n_thread = n_thread ? n_thread : default_threads(p->topo);
    p->spin = p->n_thread <= default_threads(p->topo);
    p->range = aligned_alloc(SL_LINE, p->n_thread * sizeof(*p->range));
    rc = sl_mem_alloc(&p->worker, p->n_thread, sizeof(*p->worker),
                      "the worker pool", err);
    if (!rc && !p->range)
        rc = sl_fail(err, SL_ENOMEM, "no memory for the worker pool");
    for (unsigned t = 1; !rc && t < p->n_thread; t++)
        rc = start_worker(p, t, err);
    if (rc)
        sl_pool_close(&p);
    else
        *out = p;
    return rc;
}

void sl_pool_close(struct sl_pool **pp)
{
    struct sl_pool *p = *pp;

    if (!p)
        return;
    *pp = NULL;
    p->stop = true;
    post(p);
    for (unsigned t = 1; p->worker && t < p->n_thread; t++)
        if (p->worker[t].started)
            pthread_join(p->worker[t].thread, NULL);
    hwloc_topology_destroy(p->topo);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->mu);
    sl_mem_free(p->worker);
    free(p->range);
    free(p);
}
