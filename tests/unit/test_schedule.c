/* Which rows run: one plan after the other by hand, what every plan must keep,
 * and users that share a machine of known speed on a simulated clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../help/rig.h"
#include "engine/gen.h"
#include "engine/schedule.h"

#define MOST 40 /* sequences */

static uint64_t seed;

static uint32_t pick(uint32_t n)
{
    return (uint32_t)(rig_random(&seed) % n);
}

static uint32_t make_plan(struct sl_sched_seq *q, uint32_t n,
                          uint32_t max_row, uint32_t max_prompt, uint64_t turn,
                          uint32_t *rows)
{
    static struct sl_sched_work work;

    if (!work.client)
        assert_int_equal(sl_sched_work_open(&work, MOST, NULL), 0);
    return sl_schedule_plan(q, n, max_row, max_prompt, turn, rows, &work);
}

static void test_plan(void **state)
{
    struct sl_sched_seq seq[] = {
        {100, 100, 0, 0}, {1, 1, 0, 0}, {7, 7, 0, 0}, {1, 1, 0, 0}};
    uint32_t rows[4];

    (void)state;
    assert_int_equal(make_plan(seq, 4, 200, 200, 0, rows), 109);
    /* Decoding ones first; what one cannot use goes to the other. */
    assert_int_equal(make_plan(seq, 4, 64, 64, 0, rows), 64);
    assert_int_equal(rows[0], 55);
    assert_int_equal(rows[1] + rows[3], 2);
    assert_int_equal(rows[2], 7);
    /* Half in equal parts, half for the shorter one. */
    assert_int_equal(make_plan(seq, 4, 64, 8, 0, rows), 10);
    assert_int_equal(rows[0], 2);
    assert_int_equal(rows[2], 6);
    /* One row for two prompts: to the shorter one, and in turn. */
    for (uint64_t turn = 0; turn < 8; turn++) {
        assert_int_equal(make_plan(seq, 4, 64, 1, turn, rows), 3);
        assert_int_equal(rows[0] + rows[2], 1);
        if (turn % 2 == 0)
            assert_int_equal(rows[2], 1);
    }
    assert_int_equal(make_plan(seq, 4, 64, 1, 1, rows), 3);
    assert_int_equal(rows[0], 1);
    assert_int_equal(make_plan(seq, 4, 3, 8, 0, rows), 3);
    assert_int_equal(rows[1] + rows[3], 2);
    assert_int_equal(make_plan(seq, 4, 1, 8, 5, rows), 1);
    assert_int_equal(make_plan(seq, 0, 8, 8, 5, rows), 0);
}

/* What the header promises of one plan. */
static void check_plan(const struct sl_sched_seq *q, uint32_t n,
                       uint32_t max_row, uint32_t max_prompt,
                       const uint32_t *rows, uint32_t sum)
{
    uint32_t n_dec = 0, dec = 0, hungry = 0, want = 0, left, got = 0, part;

    for (uint32_t i = 0; i < n; i++) {
        assert_true(rows[i] <= q[i].n_left);
        n_dec += q[i].n_left == 1;
        dec += q[i].n_left == 1 && rows[i];
        hungry += q[i].n_left > 1;
        want += q[i].n_left > 1 ? q[i].n_left : 0;
        got += q[i].n_left > 1 ? rows[i] : 0;
    }
    assert_int_equal(sum, dec + got);
    assert_true(sum <= max_row);
    assert_int_equal(dec, sl_min(n_dec, max_row));
    left = (uint32_t)sl_min(max_row - dec, max_prompt);
    assert_int_equal(got, sl_min(left, want));
    if (hungry == 0)
        return;
    part = (left + hungry - 1) / hungry;
    for (uint32_t i = 0; i < n; i++) {
        if (q[i].n_left == 1)
            continue;
        assert_true(rows[i] >= sl_min(q[i].n_left, left / 2 / hungry));
        /* More than twice its share only when the others have all they want,
         * or as much. */
        for (uint32_t k = 0; rows[i] > 2 * part && k < n; k++)
            assert_true(rows[k] == q[k].n_left || rows[k] + 2 >= rows[i]);
        /* Nobody with more to read is far ahead. */
        for (uint32_t k = 0; k < n; k++)
            if (q[k].n_left > 1 && q[k].n_all < q[i].n_all &&
                rows[k] < q[k].n_left)
                assert_true(rows[k] + 2 >= rows[i]);
    }
}

static void test_plans(void **state)
{
    struct sl_sched_seq q[MOST];
    uint32_t rows[MOST];

    (void)state;
    for (uint32_t t = 0; t < 30000; t++) {
        uint32_t n, max_row, max_prompt;

        seed = t + 1;
        n = pick(MOST) + 1;
        max_row = pick(pick(2) ? 600 : 30) + 1;
        max_prompt = pick(pick(2) ? 600 : 30) + 1;
        for (uint32_t i = 0; i < n; i++) {
            q[i].n_left = pick(3) ? 1 : pick(pick(2) ? 300 : 6) + 1;
            q[i].n_all = q[i].n_left + pick(3) * 100;
            q[i].client = t % 2 ? i : 0;
            q[i].last = pick(9);
        }
        check_plan(q, n, max_row, max_prompt, rows,
                   make_plan(q, n, max_row, max_prompt, pick(1000), rows));
    }
}

/* ------------------------------------------------------------------- clients */

/* Adds to share[c] what client c would have of `total` rows in equal parts, what
 * one does not need for the others; want[c] is what it can use. */
static void add_shares(double *share, const double *want, uint32_t n,
                       double total)
{
    double got[MOST] = {0};
    uint32_t hungry;

    do {
        double part;

        hungry = 0;
        for (uint32_t c = 0; c < n; c++)
            hungry += got[c] < want[c];
        part = hungry ? total / hungry : 0;
        for (uint32_t c = 0; c < n; c++) {
            double more = want[c] - got[c];

            more = more < part ? more : part;
            got[c] += more;
            total -= more;
        }
    } while (hungry > 0 && total > 1e-6);
    for (uint32_t c = 0; c < n; c++)
        share[c] += got[c];
}

/* What the header promises to clients, of one plan. */
static void check_clients(const struct sl_sched_seq *q, uint32_t n,
                          uint32_t n_client, uint32_t max_row,
                          uint32_t max_prompt, const uint32_t *rows,
                          uint32_t sum)
{
    double want[MOST] = {0}, share[MOST] = {0}, all = 0;
    uint32_t n_dec = 0, has[MOST] = {0}, total;

    for (uint32_t i = 0; i < n; i++) {
        assert_true(rows[i] <= q[i].n_left);
        n_dec += q[i].n_left == 1;
        want[q[i].client] += q[i].n_left;
        has[q[i].client] += rows[i];
        all += q[i].n_left;
    }
    /* The step is as long as it would be for one client. */
    n_dec = (uint32_t)sl_min(n_dec, max_row);
    total = n_dec + (uint32_t)sl_min(max_row - n_dec, max_prompt);
    assert_int_equal(sum, all < total ? (uint32_t)all : total);
    add_shares(share, want, n_client, total);
    for (uint32_t c = 0; c < n_client; c++)
        assert_true(has[c] <= 1 || has[c] <= 2 * share[c] + 1e-6);
    /* No answer waits but for a client that has that much, or for want of
     * rows. */
    for (uint32_t i = 0; i < n; i++)
        if (q[i].n_left == 1 && rows[i] == 0)
            assert_true(sum == max_row ||
                        has[q[i].client] + 1 > 2 * share[q[i].client]);
}

static void test_clients(void **state)
{
    struct sl_sched_seq q[MOST];
    uint32_t rows[MOST];

    (void)state;
    for (uint32_t t = 0; t < 30000; t++) {
        uint32_t n, n_client, max_row, max_prompt;

        seed = t + 1;
        n = pick(MOST) + 1;
        n_client = (uint32_t)sl_min(n, pick(pick(2) ? MOST : 3) + 1);
        max_row = n + pick(pick(2) ? 600 : 30);
        max_prompt = pick(pick(2) ? 600 : 30) + 1;
        for (uint32_t i = 0; i < n; i++) {
            q[i].n_left = pick(3) ? 1 : pick(pick(2) ? 300 : 6) + 1;
            q[i].n_all = q[i].n_left + pick(3) * 100;
            q[i].client = i < n_client ? i : pick(2) ? 0 : pick(n_client);
            q[i].last = pick(9);
        }
        check_clients(q, n, n_client, max_row, max_prompt, rows,
                      make_plan(q, n, max_row, max_prompt, pick(1000), rows));
    }
}

#define CROWD 30

/* A client that always has 30 requests, and others that always have one, on
 * slots for all: each request is a prompt, then an answer. */
static void one_against_many(uint32_t n_other, uint32_t prompt, uint32_t answer)
{
    uint32_t n = CROWD + n_other, left[MOST] = {0}, rows[MOST], done = 0;
    uint32_t waited[MOST] = {0}, n_step = 1000;
    double share[MOST] = {0};
    uint64_t had[MOST] = {0}, last[MOST] = {0};

    for (uint32_t turn = 1; turn <= n_step; turn++) {
        struct sl_sched_seq q[MOST];
        double want[MOST] = {0};
        uint32_t n_dec = 0, sum;

        for (uint32_t i = 0; i < n; i++) {
            uint32_t c = i < CROWD ? 0 : i - CROWD + 1, m;

            if (left[i] == 0)
                left[i] = prompt + answer;
            m = left[i] > answer ? left[i] - answer : 1;
            q[i] = (struct sl_sched_seq){m, m, c, last[i]};
            want[c] += m;
            n_dec += m == 1;
        }
        /* About three quarters more than what decodes. */
        sum = make_plan(q, n, 512, n_dec * 3 / 4 + 8, turn, rows);
        add_shares(share, want, n_other + 1, sum);
        for (uint32_t i = 0; i < n; i++) {
            had[q[i].client] += rows[i];
            left[i] -= rows[i];
            done += i >= CROWD && left[i] == 0;
            last[i] = q[i].last;
            waited[i] = rows[i] ? 0 : waited[i] + 1;
            assert_true(waited[i] <= n * (n_other + 1));
        }
    }
    for (uint32_t c = 0; c <= n_other; c++) {
        assert_true((double)had[c] <= 2 * share[c]);
        assert_true((double)had[c] >= 0.45 * share[c]);
    }
    assert_true(done > 0);
}

/* Who starts next, and the order in which those that run may stay. Twelve of
 * client 1 come first, and three have started when the others come, of which two
 * are more urgent. */
static void test_queue(void **state)
{
    static const uint64_t client[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                      1, 1, 2, 3, 2, 1, 3};
    static const int start[] = {0, 1, 2, 16, 15, 12, 13, 14, 3};
    static const int stay[] = {16, 15, 0, 12, 13, 1, 14, 2, 3};
    static struct sl_gen g[SL_COUNTOF(client)];
    struct sl_gen *run[SL_COUNTOF(client)], *run_work[SL_COUNTOF(client)];
    struct sl_engine e = {.run = run, .run_work = run_work};

    (void)state;
    assert_int_equal(
        sl_sched_work_open(&e.sched_work, SL_COUNTOF(client), NULL), 0);
    assert_int_equal(sl_tally_open(&e.tally, SL_COUNTOF(client), NULL), 0);
    for (size_t i = 0, come = 0; i < SL_COUNTOF(start); i++) {
        struct sl_gen *next;

        for (; come < (i < 3 ? 12 : SL_COUNTOF(client)); come++) {
            g[come].client = client[come];
            g[come].priority = come < 15;
            sl_gen_list_insert(&e.waiting, &g[come], false);
        }
        next = sl_queue_next(&e);
        assert_ptr_equal(next, &g[start[i]]);
        sl_gen_list_remove(&e.waiting, next);
        run[e.n_run++] = next;
        sl_queue_arrange(&e);
    }
    for (uint32_t i = 0; i < e.n_run; i++)
        assert_ptr_equal(run[i], &g[stay[i]]);
    /* 4 and 11, the last of all that wait, are passed over. */
    g[4].is_passed = true;
    assert_ptr_equal(sl_queue_next(&e), &g[5]);
    sl_gen_list_remove(&e.waiting, &g[11]);
    assert_ptr_equal(e.waiting.tail, &g[10]);
    /* The oldest of client 1 ends: its others move up. */
    memmove(run + 2, run + 3, 6 * sizeof(*run));
    e.n_run--;
    sl_queue_arrange(&e);
    assert_ptr_equal(run[2], &g[12]);
    assert_ptr_equal(run[4], &g[1]);
    assert_ptr_equal(run[7], &g[3]);
    sl_sched_work_close(&e.sched_work);
    sl_tally_close(&e.tally);
}

static void test_one_against_many(void **state)
{
    (void)state;
    for (uint32_t n_other = 1; n_other <= MOST - CROWD; n_other++)
        for (uint32_t answer = 1; answer <= 200; answer += 99) {
            one_against_many(n_other, 300, answer);
            one_against_many(n_other, 20, answer);
        }
}

/* ------------------------------------------- users on a machine of known speed */

#define USERS 9

struct user {
    uint32_t len;    /* of each of its prompts; 0: it decodes for ever */
    uint32_t n_left; /* of the prompt that is read; 0: it has none */
    uint64_t rows;   /* in all */
    uint32_t n_done; /* prompts */
    uint32_t waited, most_waited; /* steps without a row */
    uint64_t last;
};

/* One step: rows by the plan for those that have something to do. */
static uint32_t step(struct user *u, uint32_t n, bool clients, uint32_t budget,
                     uint64_t turn)
{
    struct sl_sched_seq q[USERS] = {{0}};
    uint32_t rows[USERS], who[USERS], k = 0, sum;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t left = u[i].len ? u[i].n_left : 1;

        if (left == 0)
            continue;
        q[k] = (struct sl_sched_seq){left, left, clients ? k : 0, u[i].last};
        who[k++] = i;
    }
    sum = make_plan(q, k, 2048, budget, turn, rows);
    for (uint32_t i = 0; i < k; i++) {
        struct user *x = &u[who[i]];

        x->last = q[i].last;
        x->rows += rows[i];
        x->waited = rows[i] ? 0 : x->waited + 1;
        x->most_waited = (uint32_t)sl_max(x->most_waited, x->waited);
        if (!x->len)
            continue;
        x->n_left -= rows[i];
        x->n_done += x->n_left == 0;
    }
    return sum;
}

/* 50 tokens behind 16,000, beside eight that decode: at most 1.5 times the
 * steps that they take alone. */
static void test_short_behind_long(void **state)
{
    (void)state;
    for (uint32_t budget = 1; budget < 100; budget++) {
        uint32_t steps[2];

        for (int alone = 0; alone < 2; alone++) {
            struct user u[USERS] = {{.len = 50, .n_left = 50},
                                    {.len = 16000, .n_left = 16000}};
            uint64_t turn = budget;

            if (alone)
                u[1].n_left = 0;
            while (u[0].n_left > 0)
                step(u, USERS, budget % 2, budget, turn++);
            steps[alone] = (uint32_t)(turn - budget);
            for (int i = 2; i < USERS; i++)
                assert_int_equal(u[i].rows, steps[alone]);
        }
        assert_true(2 * steps[0] <= 3 * steps[1] + 2);
    }
}

/* Users that never stop, as requests of one client or as clients of their own:
 * one with long prompts, the others with short ones. Nobody gets more than twice its share of the rows of prompts or much less than
 * half, nobody waits long for a row, and the long prompts come to an end, too. */
static void test_shares(void **state)
{
    static const uint32_t budgets[] = {1, 2, 5, 14, 33, 128, 400};

    (void)state;
    for (size_t b = 0; b < SL_COUNTOF(budgets); b++) {
        for (uint32_t n = 2; n <= USERS; n++) {
            struct user u[USERS] = {{.len = 3000}};
            double share[USERS] = {0}, want[USERS];

            for (uint32_t i = 1; i < n; i++)
                u[i].len = 40 + i;
            for (uint64_t turn = 0; turn < 60000; turn++) {
                for (uint32_t i = 0; i < n; i++) {
                    if (u[i].n_left == 0)
                        u[i].n_left = u[i].len;
                    want[i] = u[i].n_left;
                }
                add_shares(share, want, n, budgets[b]);
                step(u, n, n % 2, budgets[b], turn);
            }
            for (uint32_t i = 0; i < n; i++) {
                assert_true((double)u[i].rows < 2 * share[i]);
                assert_true((double)u[i].rows > 0.45 * share[i]);
                assert_true(u[i].n_done > 0);
                assert_true(u[i].most_waited < 2 * n);
            }
        }
    }
}

/* Seconds of a step, as a machine with two cores takes them for a small model:
 * the weights once, then each row, then what it looks back at. */
static double true_s(uint32_t rows, double context)
{
    return 0.020 + 0.004 * rows + 2e-7 * context;
}

/* Eight users decode, then a prompt of 16,000 tokens comes: how long each step
 * takes, by a table that is learnt while it happens, stays below twice what it
 * took before. */
static void test_gap(void **state)
{
    struct sl_cost c = {0};
    uint64_t dec_context = 8 * 500, read = 0;
    double before = true_s(8, (double)dec_context);
    uint32_t late = 0, steps = 0;

    (void)state;
    for (uint32_t n = 1; n <= 16; n++)
        sl_cost_learn(&c, n, 0, true_s(n, 0));
    for (int i = 0; i < 100; i++)
        sl_cost_learn(&c, 8, dec_context, before);
    while (read < 16000) {
        uint32_t rows = sl_schedule_prompt_rows(&c, SL_STRETCH, 8, dec_context, 1,
                                                read, 2048);
        uint64_t context = dec_context + rows * (read + rows / 2);
        double s = true_s(8 + rows, (double)context);

        sl_cost_learn(&c, 8 + rows, context, s);
        late += s > 2 * before;
        steps++;
        read += rows;
        dec_context += 8;
    }
    /* p99, and the prompt is read by more than a row at a time. */
    assert_true(late * 100 <= steps);
    assert_true(steps < 16000 / 3);
}

/* Steps that take now and then longer than the table says, as on a machine with
 * others: one in two hundred is late in the long run, and on a quiet machine the
 * stretch is nearly all that was promised. */
static void test_disturbed(void **state)
{
    uint64_t x = 1;

    (void)state;
    for (double often = 0; often <= 0.1; often += 0.02) {
        double stretch = SL_STRETCH;
        uint32_t late = 0;

        for (int i = 0; i < 20000; i++) {
            double u, s;

            x = x * 6364136223846793005u + 1442695040888963407u;
            u = (double)(x >> 40) * 0x1p-24;
            s = stretch * (u < often ? 1.4 : 1);
            if (i >= 10000)
                late += s > 1.7;
            stretch = sl_schedule_stretch(stretch, s, 1);
            assert_true(stretch >= 1.1 && stretch <= 2);
        }
        assert_true(late <= 60);
        assert_true(often > 0 ? late > 0 && stretch < 1.6 : stretch > 1.65);
    }
}

/* A long prompt beside short answers has all rows that fit: only its own look back
 * that far. */
static void test_deep_prompt(void **state)
{
    struct sl_cost c = {0};

    (void)state;
    for (uint32_t n = 1; n <= 64; n++)
        sl_cost_learn(&c, n, 0, 0.01 + 0.005 * n);
    c.context_s = 2e-7;
    for (uint64_t depth = 0; depth <= 64000; depth += 4000) {
        uint32_t rows = sl_schedule_prompt_rows(&c, SL_STRETCH, 8, 800, 1, depth, 2048);
        double now = sl_cost_predict(&c, 8, 800);

        assert_true(rows >= 1);
        if (rows > 1)
            assert_true(sl_cost_predict(&c, 8 + rows, 800 + rows * depth) <=
                        2 * now);
        assert_true(sl_cost_predict(&c, 9 + rows, 800 + (rows + 1) * depth) >
                    1.5 * now);
    }
}

/* Many prompts and few answers: enough rows that as many begin as end, so that the
 * steps grow to what they are when everybody is answered. */
static void test_few_answers(void **state)
{
    struct sl_cost c = {0};

    (void)state;
    for (uint32_t n = 1; n <= 64; n++)
        sl_cost_learn(&c, n, 0, 0.1 + 0.1 * n); /* rows are all that costs */
    for (uint32_t n_dec = 1; n_dec < 32; n_dec++)
        assert_true(sl_schedule_prompt_rows(&c, SL_STRETCH, n_dec, 0, 32 - n_dec, 0, 64) >
                    17);
    /* One prompt: less than twice the step without. */
    assert_true(sl_schedule_prompt_rows(&c, SL_STRETCH, 31, 0, 1, 0, 64) < 31);
}

/* A large model: reading the weights takes half a second, and a row 20 ms. A
 * prompt is read by chunks, alone and beside those that decode, and the table
 * finds that out from a step of one row. */
static void test_slow(void **state)
{
    (void)state;
    for (uint32_t n_dec = 0; n_dec <= 8; n_dec++) {
        struct sl_cost c = {0};
        uint32_t rows = 0;

        sl_cost_learn(&c, 1, 0, 0.52);
        for (int i = 0; i < 100; i++) {
            rows = sl_schedule_prompt_rows(&c, SL_STRETCH, n_dec, 0, 1, 0, 2048);
            sl_cost_learn(&c, n_dec + rows, 0, 0.5 + 0.02 * (n_dec + rows));
            if (n_dec > 0)
                sl_cost_learn(&c, n_dec, 0, 0.5 + 0.02 * n_dec);
        }
        assert_true(rows >= (n_dec ? 13 : 40));
        assert_true(0.5 + 0.02 * (n_dec + rows) <
                    (n_dec ? 2 * (0.5 + 0.02 * n_dec) : 5 * 0.52));
    }
}

/* Clients are counted in any order and number, and forgotten at once. */
static void test_tally(void **state)
{
    struct sl_tally t;

    (void)state;
    assert_int_equal(sl_tally_open(&t, 1000, NULL), 0);
    for (uint32_t time = 0; time < 3; time++) {
        sl_tally_start(&t);
        for (uint64_t i = 0; i < 3000; i++) {
            uint64_t client = (i % 500) << (32 * time / 2);
            struct sl_tally_slot *s = sl_tally_at(&t, client, i % 2 ? 5 : -1);

            assert_int_equal(s->index, i % 500);
            assert_int_equal(s->n++, i / 500);
        }
        assert_int_equal(t.n, 500);
        assert_int_equal(sl_tally_n(&t, 3ull << (32 * time / 2), 5), 6);
        assert_int_equal(sl_tally_n(&t, 3ull << (32 * time / 2), -1), 0);
        assert_int_equal(sl_tally_n(&t, 12345678, 5), 0);
    }
    sl_tally_close(&t);
}

/* Older ones of the same client come first, and of equals who was first, as by
 * one look at each pair. */
static void test_arrange(void **state)
{
    static struct sl_gen g[MOST];
    struct sl_gen *run[MOST], *run_work[MOST], *want[MOST];
    struct sl_engine e = {.run = run, .run_work = run_work};

    (void)state;
    assert_int_equal(sl_sched_work_open(&e.sched_work, MOST, NULL), 0);
    assert_int_equal(sl_tally_open(&e.tally, MOST, NULL), 0);
    for (uint32_t t = 0; t < 2000; t++) {
        seed = t + 1;
        e.n_run = pick(MOST + 1);
        for (uint32_t i = 0, k; i < e.n_run; i++) {
            uint32_t older = 0;

            g[i].client = pick(1 + t % 9) * 0x123456789ull;
            g[i].priority = (int32_t)pick(3) - 1;
            run[i] = &g[i];
            for (k = 0; k < i; k++)
                older += g[k].client == g[i].client &&
                         g[k].priority == g[i].priority;
            g[i].n_older = older;
            for (k = i; k > 0 && (want[k - 1]->priority > g[i].priority ||
                                  (want[k - 1]->priority == g[i].priority &&
                                   want[k - 1]->n_older > older));
                 k--)
                want[k] = want[k - 1];
            want[k] = &g[i];
        }
        sl_queue_arrange(&e);
        for (uint32_t i = 0; i < e.n_run; i++)
            assert_ptr_equal(run[i], want[i]);
    }
    sl_sched_work_close(&e.sched_work);
    sl_tally_close(&e.tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_one_against_many),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_tally),
        cmocka_unit_test(test_arrange),
        cmocka_unit_test(test_short_behind_long),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_disturbed),
        cmocka_unit_test(test_deep_prompt),
        cmocka_unit_test(test_few_answers),
        cmocka_unit_test(test_slow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
