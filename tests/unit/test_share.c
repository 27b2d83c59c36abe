/* What arrives together and begins alike is read once: choices of a request,
 * parallel calls, edited histories. Each answer is that of a request alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../help/rig.h"
#include "engine/engine.h"

#define MODEL "tests/golden/models/dense-r2"
enum { TURN = 7, VOCAB = 96, N_OUT = 5, N = 6, MAX_LEN = 1024, PAGE = 64 };

struct request {
    int32_t tok[MAX_LEN];
    uint32_t n;
    uint64_t salt;
    bool forks;
};

struct answer {
    int32_t ids[N_OUT];
    float logprob[N_OUT];
    uint32_t n, n_cached;
    enum sl_finish finish;
};

static struct sl_engine *open_engine(uint32_t seqs, bool cache)
{
    struct sl_engine *e = NULL;
    struct sl_engine_opts o;
    struct sl_err err;

    sl_engine_opts_init(&o);
    o.n_thread = 1;
    o.pin = false;
    o.dummy = true; /* the folder has no tokenizer */
    o.max_num_seqs = seqs;
    o.max_num_batched_tokens = 64;
    o.max_model_len = MAX_LEN;
    o.kv_pool_tokens = (N + 4) * MAX_LEN;
    o.prefix_cache = cache;
    o.prefix_cache_bytes = cache ? 4 << 20 : 0;
    if (sl_engine_open(&e, MODEL, &o, &err))
        fail_msg("%s", err.msg);
    e->turn_id = TURN;
    return e;
}

static struct sl_gen *submit(struct sl_engine *e, const struct request *q,
                             uint32_t choice)
{
    struct sl_gen *g = NULL;
    struct sl_gen_opts o;
    struct sl_err err;

    sl_gen_opts_init(&o, e);
    o.ids = q->tok;
    o.n_ids = q->n;
    o.max_tokens = N_OUT;
    o.ignore_eos = true;
    o.temperature = 1;
    o.seed = 11;
    o.has_seed = true;
    o.choice = choice;
    o.want_logprobs = true;
    o.cache_salt = q->salt;
    o.forks = q->forks;
    if (sl_gen_submit(&g, e, &o, &err))
        fail_msg("%s", err.msg);
    return g;
}

static struct answer collect(struct sl_gen *g)
{
    struct answer a = {0};
    struct sl_piece p;

    while (sl_gen_next(g, &p, NULL) > 0) {
        for (size_t i = 0; i < p.n_ids && a.n < N_OUT; i++, a.n++) {
            a.ids[a.n] = p.ids[i];
            a.logprob[a.n] = p.logprobs[i].logprob;
        }
        a.n_cached = p.n_cached;
        a.finish = p.finish;
    }
    sl_gen_close(&g);
    return a;
}

static void fill(struct request *q, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        q->tok[q->n++] = (int32_t)(8 + rig_random(&seed) % (VOCAB - 8));
}

static void turn(struct request *q, uint32_t n, uint64_t seed)
{
    q->tok[q->n++] = TURN;
    fill(q, n - 1, seed);
}

/* All at once, each compared with itself alone and cold; returns the rows that
 * were computed in all. */
static uint64_t together(struct answer a[N], const struct request q[N],
                         uint32_t seqs)
{
    struct sl_engine *e = open_engine(seqs, true),
                     *cold = open_engine(1, false);
    struct sl_engine_stats st;
    struct sl_gen *g[N];

    for (uint32_t i = 0; i < N; i++)
        g[i] = submit(e, &q[i], i);
    for (uint32_t i = 0; i < N; i++) {
        struct answer b;

        a[i] = collect(g[i]);
        b = collect(submit(cold, &q[i], i));
        assert_int_equal(a[i].n, N_OUT);
        assert_memory_equal(a[i].ids, b.ids, sizeof(b.ids));
        assert_memory_equal(a[i].logprob, b.logprob, sizeof(b.logprob));
    }
    sl_engine_stats(e, &st);
    sl_engine_close(&e);
    sl_engine_close(&cold);
    return st.n_row;
}

/* n = 6, of plain text without a single turn: all but the last token. */
static void choices_of_a_request(void **state)
{
    static struct request q[N];
    struct answer a[N];

    (void)state;
    fill(&q[0], 500, 1);
    q[0].forks = true;
    for (int i = 1; i < N; i++)
        q[i] = q[0];
    for (uint32_t seqs = 1; seqs <= N; seqs += N - 1) {
        uint64_t rows = together(a, q, seqs);

        assert_int_equal(a[0].n_cached, 0);
        for (int i = 1; i < N; i++)
            assert_int_equal(a[i].n_cached, 499);
        /* Answers may be drafted, at most seven rows a token. */
        assert_true(rows < 500 + N * (1 + 8 * N_OUT));
    }
}

/* A long history, and calls that go on differently from its last turn. */
static void parallel_calls(void **state)
{
    static struct request q[N];
    struct answer a[N];

    (void)state;
    for (uint64_t t = 0; t < 5; t++)
        turn(&q[0], 100, t + 1);
    for (int i = 1; i < N; i++)
        q[i] = q[0];
    for (uint64_t i = 0; i < N; i++) {
        turn(&q[i], 30, 100 + i);
        turn(&q[i], 2, 3);
    }
    (void)together(a, q, N);
    for (int i = 1; i < N; i++)
        assert_int_equal(a[i].n_cached, 500);
}

/* The past is changed at another place in each: shared up to the turn before.
 */
static void edited_histories(void **state)
{
    static struct request q[N];
    struct answer a[N];

    (void)state;
    for (uint64_t t = 0; t < N; t++)
        turn(&q[0], 100, t + 1);
    turn(&q[0], 2, 3);
    for (int i = 1; i < N; i++) {
        q[i] = q[0];
        q[i].tok[100 * i + 50] = 9 + i;
    }
    (void)together(a, q, N);
    for (uint32_t i = 1; i < N; i++)
        assert_in_range(a[i].n_cached, 100 * i, 100 * i + PAGE);
}

static void strangers_do_not_wait(void **state)
{
    static struct request q[N];
    struct answer a[N];

    (void)state;
    fill(&q[0], 300, 1);
    q[0].forks = true;
    for (int i = 1; i < N; i++) {
        q[i] = q[0];
        q[i].salt = (uint64_t)i;
    }
    (void)together(a, q, N);
    for (int i = 0; i < N; i++)
        assert_int_equal(a[i].n_cached, 0);
}

/* Whoever is waited for may leave. */
static void the_first_is_cancelled(void **state)
{
    static struct request q;
    struct sl_engine *e = open_engine(N, true);
    struct sl_gen *g[N];

    (void)state;
    q.n = 0;
    fill(&q, 900, 1);
    q.forks = true;
    for (uint32_t i = 0; i < N; i++)
        g[i] = submit(e, &q, i);
    sl_gen_cancel(g[0]);
    sl_gen_cancel(g[2]);
    for (int i = 0; i < N; i++) {
        struct answer a = collect(g[i]);

        assert_true(a.n == N_OUT || i == 0 || i == 2);
        assert_true(i < 3 || a.n_cached == 899);
    }
    sl_engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_of_a_request),
        cmocka_unit_test(parallel_calls),
        cmocka_unit_test(edited_histories),
        cmocka_unit_test(strangers_do_not_wait),
        cmocka_unit_test(the_first_is_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
