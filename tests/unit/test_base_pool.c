/* tests/unit/test_base_pool.c - every task once, whatever the threads; under
 * ThreadSanitizer this is the proof of pool.c's memory orders */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"

#define MAX_TASK 1000
#define LIMIT_S 20.0 /* for what a busy machine may put off */

struct job {
    unsigned n_thread;
    uint32_t runs[MAX_TASK]; /* plain: a task is run by one worker */
    uint32_t bad;            /* plain, written by worker 0 only */
};

static void count(void *ctx, size_t i, unsigned w)
{
    struct job *j = ctx;

    j->runs[i]++;
    if (w == 0 && i >= MAX_TASK)
        j->bad++;
    if (w >= j->n_thread)
        abort();
}

static void every_task_once(void **s)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, 999, MAX_TASK};
    struct sl_err e;

    (void)s;
    for (unsigned t = 1; t <= 7; t++) {
        struct sl_pool *p = NULL;

        assert_int_equal(sl_pool_open(&p, t, t % 2, &e), 0);
        assert_int_equal(sl_pool_n_thread(p), t);
        for (int round = 0; round < 20; round++) {
            for (size_t k = 0; k < SL_COUNTOF(sizes); k++) {
                struct job j = {.n_thread = t};

                sl_pool_run(p, count, &j, sizes[k]);
                for (size_t i = 0; i < MAX_TASK; i++)
                    assert_int_equal(j.runs[i], i < sizes[k]);
                assert_int_equal(j.bad, 0);
            }
        }
        sl_pool_close(&p);
        assert_null(p);
        sl_pool_close(&p);
    }
}

/* Workers that parked come back: the wait is longer than they spin. */
static void parked_workers_wake(void **s)
{
    struct sl_pool *p = NULL;

    (void)s;
    assert_int_equal(sl_pool_open(&p, 3, false, NULL), 0);
    for (int round = 0; round < 5; round++) {
        struct job j = {.n_thread = 3};

        usleep(2000);
        sl_pool_run(p, count, &j, 100);
        for (size_t i = 0; i < 100; i++)
            assert_int_equal(j.runs[i], 1);
    }
    sl_pool_close(&p);
}

/* Who ran the errands: how many did the thread that sent them run itself? */
struct errands {
    pthread_t sender;
    uint32_t n, n_own;
};

static void run_errand(void *ctx)
{
    struct errands *e = ctx;

    e->n++;
    e->n_own += pthread_equal(pthread_self(), e->sender) != 0;
}

/* Each is run once, before or with the next job at the latest, and one who saw
 * that it was may read what it did. */
static void errands_are_run(void **s)
{
    (void)s;
    for (unsigned t = 1; t <= 3; t++) {
        struct errands e = {.sender = pthread_self()};
        struct sl_pool *p = NULL;
        uint32_t n = 0;

        assert_int_equal(sl_pool_open(&p, t, false, NULL), 0);
        for (int round = 0; round < 300; round++) {
            struct job j = {.n_thread = t};

            if (round % 50 == 49)
                usleep(500); /* workers park */
            n += sl_pool_errand(p, run_errand, &e);
            assert_int_equal(sl_pool_n_errand(p), n);
            if (round % 2 == 0)
                sl_pool_run(p, count, &j, 20);
            while (!sl_pool_is_back(p, n))
                ;
            assert_int_equal(e.n, n);
        }
        assert_true(t > 1 || n == 0);
        sl_pool_close(&p);
    }
}

/* A worker that waits runs it, and the sender goes on. */
static void workers_run_errands(void **s)
{
    struct errands e = {.sender = pthread_self()};
    struct sl_pool *p = NULL;
    struct job j = {.n_thread = 0};
    uint64_t t0 = sl_clock_ns();
    uint32_t n = 0;

    (void)s;
    assert_int_equal(sl_pool_open(&p, 0, false, NULL), 0);
    if (sl_pool_n_thread(p) == 1) {
        sl_pool_close(&p);
        skip();
    }
    j.n_thread = sl_pool_n_thread(p);
    while (e.n_own == n && sl_clock_s(t0, sl_clock_ns()) < LIMIT_S) {
        sl_pool_run(p, count, &j, 20); /* behind it, workers spin */
        n += sl_pool_errand(p, run_errand, &e);
        while (!sl_pool_is_back(p, n))
            ;
    }
    assert_true(e.n_own < n);
    sl_pool_close(&p);
}

static void allocates_nothing(void **s)
{
    struct sl_pool *p = NULL;
    struct job j = {.n_thread = 2};
    uint64_t n;

    (void)s;
    assert_int_equal(sl_pool_open(&p, 2, false, NULL), 0);
    n = sl_mem_count();
    sl_pool_run(p, count, &j, 100);
    assert_true(sl_mem_count() == n);
    sl_pool_close(&p);
}

static void refuses(void **s)
{
    struct sl_pool *p = NULL;
    struct sl_err e;

    (void)s;
    assert_int_equal(sl_pool_open(&p, 100000, false, &e), SL_EARG);
    assert_null(p);
    sl_mem_fail_nth(1);
    assert_int_equal(sl_pool_open(&p, 2, false, &e), SL_ENOMEM);
    sl_mem_fail_nth(0);
    assert_null(p);
    assert_int_equal(sl_pool_open(&p, 0, false, &e), 0);
    assert_true(sl_pool_n_thread(p) >= 1);
    sl_pool_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),
        cmocka_unit_test(parked_workers_wake),
        cmocka_unit_test(errands_are_run),
        cmocka_unit_test(workers_run_errands),
        cmocka_unit_test(allocates_nothing),
        cmocka_unit_test(refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
