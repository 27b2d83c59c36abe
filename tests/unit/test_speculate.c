/* The drafting controller and the n-gram index, without an engine: decisions on
 * machines and texts of known properties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/num.h"
#include "engine/ngram.h"
#include "engine/pace.h"
#include "engine/record.h"
#include "engine/ring.h"
#include "engine/schedule.h"
#include "engine/speculate.h"
#include "../help/rig.h"

/* ------------------------------------------------------------------- times
 *
 * A clock of our own: steps of one and of four rows, and passes, whose times
 * change together or apart. */
struct works {
    struct sl_pace pace;
    struct sl_cost step, pass;
};

static void works_init(struct works *w)
{
    sl_pace_add(&w->pace, &w->step);
    sl_pace_add(&w->pace, &w->pass);
    for (uint32_t n = 1; n <= 8; n++)
        sl_cost_learn(&w->step, n, 0, 1 + 0.25 * n);
    sl_cost_learn(&w->pass, 1, 0, 0.25);
    for (int i = 0; i < 100; i++) {
        sl_cost_learn(&w->step, 1, 0, 1.25);
        sl_cost_learn(&w->step, 4, 0, 2);
        sl_cost_learn(&w->pass, 1, 0, 0.25);
    }
}

/* 300 rounds of four rows and passes, and what a row is then said to take. */
static double after(struct works *w, double four, double pass)
{
    for (int i = 0; i < 300; i++) {
        sl_cost_learn(&w->step, 4, 0, four * (i % 2 ? 1.02 : 0.98));
        for (int k = 0; k < 3; k++)
            sl_cost_learn(&w->pass, 1, 0, pass);
    }
    return sl_cost_predict(&w->step, 1, 0);
}

static bool is_within(double x, double want, double part)
{
    return x > want * (1 - part) && x < want * (1 + part);
}

static bool is_near(double a, double b)
{
    return a - b < 1e-6 && b - a < 1e-6;
}

/* What one size of a step takes says nothing about the others; what all take
 * that run says it about those that do not. */
static void test_sizes_stand_for_themselves(void **state)
{
    struct works a = {.pace = {.now = 0}}, b = a, c = a;

    (void)state;
    works_init(&a);
    assert_true(is_within(after(&a, 1.5, 0.25), 1.25, 0.04));
    assert_true(is_within(sl_cost_predict(&a.step, 4, 0), 1.5, 0.04));
    assert_true(is_within(after(&a, 2.5, 0.2), 1.25, 0.04));
    works_init(&b);
    assert_true(is_within(after(&b, 3, 0.375), 1.875, 0.06));
    assert_true(is_within(after(&b, 2, 0.25), 1.25, 0.06));
    /* As much as the figures themselves are not known better is no change. */
    works_init(&b);
    assert_true(is_within(after(&b, 2.16, 0.27), 1.25, 0.01));
    works_init(&c);
    for (int i = 0; i < 300; i++)
        sl_cost_learn(&c.step, 1, 0, 1.875);
    assert_true(is_within(sl_cost_predict(&c.step, 4, 0), 3, 0.04));
    assert_true(is_within(sl_cost_predict(&c.pass, 1, 0), 0.375, 0.04));
}

/* A figure of the start that was off is mended soon, and moves no other. */
static void test_first_figures(void **state)
{
    struct works w = {.pace = {.now = 0}};

    (void)state;
    sl_pace_add(&w.pace, &w.step);
    sl_cost_learn(&w.step, 1, 0, 1);
    sl_cost_learn(&w.step, 2, 0, 1.9);
    for (int i = 0; i < 12; i++)
        sl_cost_learn(&w.step, 2, 0, 1.2);
    assert_true(is_within(sl_cost_predict(&w.step, 2, 0), 1.2, 0.08));
    assert_true(is_within(sl_cost_predict(&w.step, 1, 0), 1, 0.001));
}

/* The machine becomes slower while steps of sizes between two that are known run
 * alone, which move both: what is said of another size follows it, and does not
 * swing past it. */
static void test_slower_between(void **state)
{
    struct works w = {.pace = {.now = 0}};
    double most = 0;

    (void)state;
    sl_pace_add(&w.pace, &w.step);
    for (int i = 0; i < 100; i++)
        for (uint32_t n = 8; n <= 64; n *= 2)
            sl_cost_learn(&w.step, n, 0, 0.03 + 0.003 * n);
    for (int i = 0; i < 400; i++) {
        uint32_t n = 20 + (uint32_t)i % 10;
        double s;

        sl_cost_learn(&w.step, n, 0, 2.5 * (0.03 + 0.003 * n));
        s = sl_cost_predict(&w.step, 8, 0) / (2.5 * (0.03 + 0.003 * 8));
        most = s > most ? s : most;
    }
    assert_true(most <= 1.1);
    assert_true(is_within(sl_cost_predict(&w.step, 8, 0), 2.5 * 0.054, 0.15));
}

/* What is seen is believed, also where it is more than proportional to fewer
 * rows; what was seen long ago is not, so that it is tried again. */
static void test_seen_lately(void **state)
{
    struct sl_cost c = {.n_learn = 0};

    (void)state;
    sl_cost_learn(&c, 1, 0, 1);
    sl_cost_learn(&c, 2, 0, 1.2);
    for (int i = 0; i < 300; i++)
        sl_cost_learn(&c, 4, 0, 4);
    assert_true(is_within(sl_cost_predict(&c, 4, 0), 4, 0.05));
    /* What was seen often stands for longer. */
    for (int i = 0; i < 16000; i++)
        sl_cost_learn(&c, 1, 0, 1);
    assert_true(is_within(sl_cost_predict(&c, 4, 0), 4, 0.05));
    for (int i = 0; i < 400; i++)
        sl_cost_learn(&c, 1, 0, 1);
    assert_true(is_within(sl_cost_predict(&c, 4, 0), 2.4, 0.01));
    for (int i = 0; i < 30; i++)
        sl_cost_learn(&c, 4, 0, 2);
    assert_true(is_within(sl_cost_predict(&c, 4, 0), 2, 0.05));
}

/* A size that is tried again after long and takes what it took before is
 * believed at once: steps that are dear for their rows are not run again and
 * again because others were run meanwhile. */
static void test_dear_sizes_stay_dear(void **state)
{
    struct sl_cost c = {.n_learn = 0};
    int n_try = 0;

    (void)state;
    sl_cost_learn(&c, 1, 0, 1);
    sl_cost_learn(&c, 6, 0, 1.6);
    sl_cost_learn(&c, 7, 0, 3.3);
    for (int i = 0; i < 4096; i++) {
        bool believed = sl_cost_predict(&c, 7, 0) > 3;

        sl_cost_learn(&c, 6, 0, 1.6);
        if (believed)
            continue;
        assert_true(is_within(sl_cost_predict(&c, 7, 0), 1.87, 0.01));
        sl_cost_learn(&c, 7, 0, 3.3);
        assert_true(is_within(sl_cost_predict(&c, 7, 0), 3.3, 0.01));
        n_try++;
    }
    assert_true(n_try > 2 && n_try < 7);
}

/* Steps of one size behind a long text, some of which are disturbed: what they
 * took is not put down to context, which all other sizes have, too. */
static void test_context_stays(void **state)
{
    struct sl_cost c = {.n_learn = 0};
    uint64_t seed = 5;

    (void)state;
    for (uint32_t n = 1; n <= 8; n++)
        for (int i = 0; i < 16; i++)
            sl_cost_learn(&c, n, 0, 0.8 + 0.2 * n);
    for (uint32_t i = 0; i < 4000; i++) {
        uint64_t r = rig_random(&seed);
        double s = 1.4 + 3 * 450 * 1e-4;

        s *= r % 32 == 0 ? 20 : 0.8 + 0.4 * (double)(r >> 11) * 0x1p-53;
        sl_cost_learn(&c, 3, 3 * 450, s);
    }
    assert_true(is_within(sl_cost_predict(&c, 3, 3 * 450), 1.6, 0.15));
    assert_true(is_within(sl_cost_predict(&c, 1, 450), 1.045, 0.05));
    /* Nor does a disturbed one say that a round was lost. */
    assert_true(sl_cost_calm(&c, 3, 3 * 450, 1.5) == 1.5);
    assert_true(is_within(sl_cost_calm(&c, 3, 3 * 450, 100), 3.2, 0.15));
}

/* Short steps are many and disturbed: a figure of them is a mean of more than a
 * few, or two depths that are nearly as good change places all the time. */
static void test_short_steps_are_averaged(void **state)
{
    struct sl_cost c = {.n_learn = 0}, slow = c;
    uint64_t seed = 3;

    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        double u = (double)(rig_random(&seed) >> 11) * 0x1p-53;

        sl_cost_learn(&c, 2, 0, 400e-6 * (0.5 + u));
        if (i > 100)
            assert_true(is_within(sl_cost_predict(&c, 2, 0), 400e-6, 0.12));
        sl_cost_learn(&slow, 2, 0, i < 100 ? 1 : 2);
    }
    /* Of long ones a change is believed at once. */
    for (uint32_t i = 0; i < 12; i++)
        sl_cost_learn(&slow, 2, 0, 1);
    assert_true(is_within(sl_cost_predict(&slow, 2, 0), 1, 0.5));
}

/* A machine: a step of n rows takes fixed + row * n, a pass of the draft head
 * pass_s. A text: each draft is right with chance p. */
struct sim {
    double fixed, row, pass, p;
    double drain; /* what a pass takes besides after a round without one */
    uint32_t n_seq;
    struct sl_speculate s;
    struct sl_cost step;
    struct sl_guess guess[64];
    uint64_t random;
    double time;
    uint64_t n_tok, n_drafted;
    bool passed; /* in the round before */
};

static void sim_init(struct sim *m)
{
    sl_speculate_init(&m->s, 0, -1);
    for (uint32_t n = 1; n <= 512; n = n < 16 ? n + 1 : 2 * n)
        sl_cost_learn(&m->step, n, 0, m->fixed + m->row * n);
    for (uint32_t n = 1; n <= 64; n *= 2)
        sl_cost_learn(&m->s.pass[SL_BY_MTP], n, 0, m->pass);
    for (uint32_t i = 0; i < m->n_seq; i++)
        sl_guess_init(&m->guess[i], &m->s);
}

static bool is_right(struct sim *m)
{
    return (double)(rig_random(&m->random) >> 11) * 0x1p-53 < m->p;
}

/* The decision for n sequences that all draw. */
static void plan(struct sim *m, struct sl_bid *bid, uint32_t n, uint32_t most)
{
    struct sl_crowd c = {.verify = &m->step, .step = &m->step, .n = n};

    sl_speculate_plan(&m->s, &c, bid, most);
}

/* One round; depth 0: the controller decides. */
static void round_of(struct sim *m, uint32_t fixed)
{
    struct sl_bid bid[64];
    uint32_t n_draft = 0, deepest = 0, n_tok = m->n_seq;
    double spent, passes;

    for (uint32_t i = 0; i < m->n_seq; i++) {
        bid[i] = (struct sl_bid){.guess = &m->guess[i]};
        bid[i].most[SL_BY_MTP] = 7;
        bid[i].odds[SL_BY_MTP] = SL_ODDS_MTP;
    }
    plan(m, bid, m->n_seq, 32);
    for (uint32_t i = 0; i < m->n_seq; i++) {
        uint32_t depth = fixed < 8 ? fixed : bid[i].depth, right = 0;

        while (right < depth && is_right(m))
            right++;
        n_draft += depth;
        n_tok += right;
        deepest = depth > deepest ? depth : deepest;
        sl_speculate_learn(&m->s, &m->guess[i], SL_ODDS_MTP, depth, right);
    }
    passes = m->pass * deepest + (deepest > 0 && !m->passed ? m->drain : 0);
    m->passed = deepest > 0;
    spent = m->fixed + m->row * (m->n_seq + n_draft) + passes;
    sl_speculate_earn(&m->s, spent - passes, passes);
    sl_speculate_guard(&m->s, n_draft, n_tok, spent,
                       (m->fixed + m->row * m->n_seq) / m->n_seq);
    m->time += spent;
    m->n_tok += n_tok;
    m->n_drafted += n_draft;
}

#define DECIDE 99

/* Tokens per second over n tokens. */
static double rate(struct sim m, uint32_t fixed, uint32_t n)
{
    sim_init(&m);
    m.random = 7;
    while (m.n_tok < n)
        round_of(&m, fixed);
    return (double)m.n_tok / m.time;
}

/* The controller against the best fixed depth and against plain, on machines
 * and texts of all kinds. */
static void test_near_the_best(void **state)
{
    static const double p[] = {0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1};
    static const struct sim machine[] = {
        {.fixed = 10, .row = 0.1, .pass = 0.5, .n_seq = 1},
        {.fixed = 10, .row = 1, .pass = 2, .n_seq = 1},
        {.fixed = 5, .row = 5, .pass = 1, .n_seq = 1},
        {.fixed = 10, .row = 0.5, .pass = 1, .n_seq = 4},
        {.fixed = 1, .row = 1, .pass = 1, .n_seq = 32},
    };

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(machine); i++)
        for (size_t k = 0; k < SL_COUNTOF(p); k++) {
            struct sim m = machine[i];
            double plain, best, got;

            m.p = p[k];
            best = plain = rate(m, 0, 8192);
            for (uint32_t d = 1; d <= 7; d++) {
                double r = rate(m, d, 8192);

                best = r > best && m.n_seq * (1 + d) <= 64 ? r : best;
            }
            got = rate(m, DECIDE, 8192);
            if (got < 0.95 * best || got < 0.985 * plain)
                fail_msg("machine %zu, %g right: %.4f, best fixed %.4f, plain "
                         "%.4f",
                         i, p[k], got, best, plain);
        }
}

/* The first 512 tokens of the first request already lose little. */
static void test_hard_text_costs_little(void **state)
{
    struct sim m = {.fixed = 5, .row = 2.5, .pass = 2, .p = 0.02, .n_seq = 1};

    (void)state;
    assert_true(rate(m, DECIDE, 512) > 0.98 * rate(m, 0, 512));
}

/* One answer more of n tokens. Returns what it took. */
static double answer(struct sim *m, uint32_t n)
{
    uint64_t end = m->n_tok + n;
    double before = m->time;

    for (uint32_t i = 0; i < m->n_seq; i++)
        sl_guess_init(&m->guess[i], &m->s);
    while (m->n_tok < end)
        round_of(m, DECIDE);
    return m->time - before;
}

/* Nor do short answers, whatever comes of their drafts: what is lost is counted
 * over all of them, not begun anew in each. */
static void test_short_answers_lose_nothing(void **state)
{
    static const double p[] = {0, 0.2, 0.4, 0.6};
    static const uint32_t n[] = {32, 64, 128};
    static const struct sim machine[] = {
        {.fixed = 0.64, .row = 0.36, .pass = 0.22, .n_seq = 1},
        {.fixed = 0.9, .row = 0.1, .pass = 0.15, .n_seq = 1}};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(p) * SL_COUNTOF(machine); i++)
        for (size_t k = 0; k < SL_COUNTOF(n); k++) {
            struct sim m = machine[i / SL_COUNTOF(p)];
            double got;

            m.p = p[i % SL_COUNTOF(p)];
            m.random = 7;
            sim_init(&m);
            while (m.n_tok < 512)
                answer(&m, n[k]);
            got = (double)m.n_tok * (m.fixed + m.row) / m.time;
            if (got < 0.98)
                fail_msg("%u tokens, %g right: %.4f of plain", n[k], m.p, got);
        }
}

/* After many answers whose drafts were right comes one in which none is. */
static void test_hopeless_behind_good(void **state)
{
    static const double p[] = {0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1};
    static const struct sim machine[] = {
        {.fixed = 0.64, .row = 0.36, .pass = 0.22, .n_seq = 1},
        {.fixed = 0.9, .row = 0.1, .pass = 0.15, .n_seq = 1},
        {.fixed = 0.87, .row = 0.13, .pass = 0.035, .n_seq = 1}};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(p) * SL_COUNTOF(machine); i++) {
        struct sim m = machine[i / SL_COUNTOF(p)];
        double got;

        m.random = 7 + i;
        sim_init(&m);
        m.p = p[i % SL_COUNTOF(p)];
        for (int k = 0; k < 64; k++)
            answer(&m, 40);
        m.p = 0;
        got = 512 * (m.fixed + m.row) / answer(&m, 512);
        if (got < 0.98)
            fail_msg("machine %zu, %g right before: %.4f of plain",
                     i / SL_COUNTOF(p), p[i % SL_COUNTOF(p)], got);
    }
}

/* Drafts that pay are right and wrong in turns: an answer that has gained goes
 * on with them. */
static void test_wrong_rounds_in_a_row(void **state)
{
    struct sim m = {.fixed = 0.64, .row = 0.36, .pass = 0.05, .n_seq = 1};
    uint32_t n_off = 0;

    (void)state;
    m.random = 7;
    sim_init(&m);
    for (uint32_t i = 0; i < 960; i++) {
        uint64_t before = m.n_drafted;

        m.p = i % 24 < 18;
        round_of(&m, DECIDE);
        n_off += m.n_drafted == before;
    }
    assert_true(n_off < 50);
    assert_true((double)m.n_tok * (m.fixed + m.row) > 1.5 * m.time);
}

/* What is lost when all drafts become wrong in the middle of answers: the credit,
 * and what these answers earned, with one user or several. */
static void test_earned_is_bounded(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 8; n += 7) {
        struct sim m = {.fixed = 0.64, .row = 0.36, .pass = 0.05, .n_seq = n};
        double step = m.fixed + m.row * n, before, lost;

        m.random = 7;
        m.p = 1;
        sim_init(&m);
        for (int i = 0; i < 200; i++)
            round_of(&m, DECIDE);
        m.p = 0;
        before = m.time;
        for (int i = 0; i < 512; i++)
            round_of(&m, DECIDE);
        lost = m.time - before - 512 * step;
        assert_true(lost < (5 + 15 + 2 + 0.005 * 512) * step);
    }
}

/* A prompt that is read beside an answer takes nothing of what it earned, though
 * the steps are longer. */
static void test_prompts_cost_no_credit(void **state)
{
    struct sim m = {.fixed = 0.64, .row = 0.36, .pass = 0.05, .n_seq = 1};
    struct sl_bid bid = {.guess = m.guess,
                         .most[SL_BY_MTP] = 7,
                         .odds[SL_BY_MTP] = SL_ODDS_MTP};
    struct sl_crowd c = {.verify = &m.step, .step = &m.step, .n = 1, .n_row = 64};
    double earned;

    (void)state;
    m.random = 7;
    m.p = 1;
    sim_init(&m);
    for (int i = 0; i < 200; i++)
        round_of(&m, DECIDE);
    m.s.credit_s = 5 * (m.fixed + m.row);
    plan(&m, &bid, 1, 32);
    earned = m.guess->earned_s;
    assert_true(earned > 10);
    m.s.credit_s = 5 * (m.fixed + m.row);
    sl_speculate_plan(&m.s, &c, &bid, 32);
    assert_true(m.guess->earned_s >= earned * 0.999);
}

/* What is seldom tried leans on the depth before it; but no draft is more than
 * certain, whatever they were to each other in answers before. */
static void test_chances_are_chances(void **state)
{
    struct sim m = {.fixed = 1, .row = 0.01, .pass = 0.01, .n_seq = 1};
    struct sl_bid bid = {.guess = m.guess,
                         .most[SL_BY_MTP] = 15,
                         .odds[SL_BY_MTP] = SL_ODDS_MTP};

    (void)state;
    sim_init(&m);
    /* First drafts are seldom right, and those behind them were. */
    for (int i = 0; i < 100; i++)
        sl_speculate_learn(&m.s, m.guess, SL_ODDS_MTP, 2, i % 20 ? 0 : 2);
    sl_guess_init(m.guess, &m.s);
    /* Then all first ones are, and nobody has gone deeper. */
    for (int i = 0; i < 60; i++)
        sl_speculate_learn(&m.s, m.guess, SL_ODDS_MTP, 1, 1);
    m.s.credit_s = 100;
    m.s.n_plan = 1;
    plan(&m, &bid, 1, 15);
    assert_true(bid.depth > 1);
    assert_true(bid.chance <= 1 && bid.reach <= 1);
}

/* ------------------------------------------------------------ kinds of texts
 *
 * Answers of a kind: so long, and draft k + 1 is right with chance p[k] when
 * those before it were. */
struct kind {
    uint32_t n;
    double p[7];
};

/* A machine with steps of 1 to 8 rows, and passes of the head. */
struct rows {
    double step[8], pass;
};

/* A small model, as the embedded one was measured: two rows have no kernel of
 * their own. And a large one, whose first drafts cost nearly nothing. */
static const struct rows small_model = {
    {1, 1.72, 1.43, 1.75, 2.1, 2.5, 2.9, 3.3}, 0.16};
static const struct rows large_model = {{1, 1.2, 1.33, 1.6, 2.2, 2.6, 2.9, 3.2},
                                        0.036};

static void rows_init(struct sim *m, const struct rows *r, uint64_t seed)
{
    *m = (struct sim){.random = seed, .n_seq = 1};
    sl_speculate_init(&m->s, 0, -1);
    for (uint32_t n = 1; n <= 8; n++)
        sl_cost_learn(&m->step, n, 0, r->step[n - 1]);
    sl_cost_learn(&m->s.pass[SL_BY_MTP], 1, 0, r->pass);
}

/* One answer; depth DECIDE: as the controller has it. */
static void answer_of(struct sim *m, const struct rows *r,
                      const struct kind *k, uint32_t depth)
{
    struct sl_guess g;

    sl_guess_init(&g, &m->s);
    for (uint32_t n = 1; n < k->n;) {
        struct sl_bid bid = {.guess = &g, .left = 256 - n};
        uint32_t d = depth, right = 0;

        bid.most[SL_BY_MTP] = 7;
        bid.odds[SL_BY_MTP] = SL_ODDS_MTP;
        if (depth == DECIDE) {
            plan(m, &bid, 1, 32);
            d = bid.depth;
        }
        while (right < d && (m->p = k->p[right], is_right(m)))
            right++;
        sl_speculate_learn(&m->s, &g, SL_ODDS_MTP, d, right);
        sl_speculate_earn(&m->s, r->step[d], r->pass * d);
        m->time += r->step[d] + r->pass * d;
        n += 1 + right;
        m->n_tok += 1 + right;
    }
}

/* Tokens per plain step of n answers. */
static double kind_rate(const struct rows *r, const struct kind *k,
                        uint32_t depth, uint32_t n, uint64_t seed)
{
    struct sim m;

    rows_init(&m, r, seed);
    for (uint32_t i = 0; i < n; i++)
        answer_of(&m, r, k, depth);
    return (double)m.n_tok / m.time;
}

/* Short answers, kind by kind: from the start on the controller is near the
 * best fixed depth, as it does not find out anew in each. Where the best gains less
 * than a tenth, chance uses up the credit now and then. */
static void test_near_the_best_of_each_kind(void **state)
{
    static const struct kind kind[] = {
        {32, {0.93, 0.95, 0.93, 0.88, 0.85, 0.9, 0.9}},
        {110, {0.79, 0.76, 0.78, 0.78, 0.76, 0.7, 0.7}},
        {40, {0.97, 0.96, 0.93, 0.93, 0.93, 0.9, 0.9}},
        {110, {0.6, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4}},
        {40, {0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3}}};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(kind); i++) {
        double best = 1, got = 0;
        double least = i == 3 ? 0.95 : 0.97;

        for (uint32_t d = 1; d <= 7; d++) {
            double rate = kind_rate(&small_model, &kind[i], d, 400, 5);

            best = rate > best ? rate : best;
        }
        for (uint64_t seed = 0; seed < 10; seed++)
            got += kind_rate(&small_model, &kind[i], DECIDE, 100, seed) / 10;
        if (got < least * best)
            fail_msg("kind %zu: %.4f, best fixed %.4f", i, got, best);
    }
}

/* Where drafts cost little and most are right, the first answers after a start
 * gain by them, though they are short, and a first draft that was wrong ends
 * nothing. */
static void test_first_short_answers_gain(void **state)
{
    static const struct kind even = {24, {0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8}};
    double first = 0, five = 0, least = 9, best = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        double rate = kind_rate(&large_model, &even, DECIDE, 5, seed);

        first += kind_rate(&large_model, &even, DECIDE, 1, seed) / 40;
        five += rate / 40;
        least = rate < least ? rate : least;
        best += kind_rate(&large_model, &even, 3, 5, seed) / 40;
    }
    assert_true(first > 1.4);
    assert_true(five > 0.95 * best);
    assert_true(least > 1.3);
}

/* Tokens per plain step of a text of n tokens, most of whose drafts are right,
 * on a machine where the first row more is the dearest. */
static double good_drafts(uint64_t seed, uint32_t n)
{
    static const double step[] = {0, 1, 1.6, 1.15, 1.5, 1.9, 2.1, 2.3, 2.5};
    struct sim m = {.fixed = 1, .pass = 0.17, .p = 0.95, .n_seq = 1};

    sim_init(&m);
    m.step = (struct sl_cost){.n_learn = 0};
    for (uint32_t k = 1; k < SL_COUNTOF(step); k++)
        sl_cost_learn(&m.step, k, 0, step[k]);
    m.random = seed;
    while (m.n_tok < n) {
        struct sl_bid bid = {.guess = &m.guess[0]};
        uint32_t right = 0;

        bid.most[SL_BY_MTP] = 7;
        bid.odds[SL_BY_MTP] = SL_ODDS_MTP;
        plan(&m, &bid, 1, 32);
        while (right < bid.depth && is_right(&m))
            right++;
        sl_speculate_learn(&m.s, &m.guess[0], SL_ODDS_MTP, bid.depth, right);
        sl_speculate_earn(&m.s, step[1 + bid.depth], m.pass * bid.depth);
        m.time += step[1 + bid.depth] + m.pass * bid.depth;
        m.n_tok += 1 + right;
    }
    return (double)m.n_tok / m.time;
}

/* Where drafts are right, the first answer already gains: a few tries that were
 * all right are enough, at the depth that pays; and a first one that was wrong
 * does not end it. */
static void test_good_drafts_are_found_soon(void **state)
{
    double sum = 0, rate;

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        sum += good_drafts(seed, 128);
        rate = good_drafts(seed, 512);
        if (rate < 1.3)
            fail_msg("seed %d: %.3f of plain", (int)seed, rate);
    }
    if (sum / 40 < 1.25)
        fail_msg("%.3f of plain", sum / 40);
}

/* Of many users the only one that has something to try is found at once. */
static void test_the_one_is_found(void **state)
{
    enum { N = 32 };
    struct sim m = {.fixed = 20, .row = 1, .n_seq = N};

    (void)state;
    for (int one = 0; one < N; one++) {
        struct sl_bid bid[N] = {{.by = SL_BY_NONE}};

        sim_init(&m);
        for (int i = 0; i < N; i++)
            bid[i].guess = &m.guess[i];
        bid[one].most[SL_BY_NGRAM] = 3;
        bid[one].odds[SL_BY_NGRAM] = SL_ODDS_LONG;
        plan(&m, bid, N, N);
        for (int i = 0; i < N; i++)
            assert_int_equal(bid[i].depth > 0, i == one);
    }
}

/* With many users, and passes that cost much because the drafter has to be shown
 * what it missed, finding out costs no more than its share of the time. */
static void test_probes_have_a_budget(void **state)
{
    static const struct sim machine[] = {
        {.fixed = 20, .row = 1, .pass = 8, .p = 0.1, .n_seq = 32},
        {.fixed = 40, .row = 1, .pass = 10, .p = 0.05, .n_seq = 16},
        {.fixed = 10, .row = 1, .pass = 2, .drain = 20, .p = 0.2, .n_seq = 1},
        {.fixed = 10, .row = 1, .pass = 2, .drain = 20, .p = 0.1, .n_seq = 8},
    };

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(machine); i++) {
        double got = rate(machine[i], DECIDE, 16384);
        double plain = rate(machine[i], 0, 16384);

        if (got < 0.985 * plain)
            fail_msg("machine %zu: %.4f of plain", i, got / plain);
    }
}

/* Whatever the text and however many users: never slower than plain by more than
 * the share of probes, also where a drafter that was off has to catch up. */
static void test_never_loses(void **state)
{
    static const double p[] = {0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
    static const uint32_t users[] = {1, 4, 8, 16, 32};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(users); i++)
        for (size_t k = 0; k < SL_COUNTOF(p); k++) {
            struct sim m = {.fixed = 10,
                            .row = 0.5,
                            .pass = 1.5,
                            .drain = 10,
                            .p = p[k],
                            .n_seq = users[i]};
            double got = rate(m, DECIDE, 16384), plain = rate(m, 0, 16384);

            if (got < 0.98 * plain)
                fail_msg("%u users, %g right: %.4f of plain", users[i], p[k],
                         got / plain);
        }
}

/* ---------------------------------------------------------------- a full house */

#define CROWD 32 /* users, who ask again as soon as they are answered */
#define ASK 128  /* tokens of a prompt, and of an answer */

/* A server and its users, with the scheduler, on a machine where rows are dearer
 * while they are few, and each step costs something besides. */
struct house {
    struct sim m;
    struct sl_pace pace;
    struct sl_cost any;    /* the table of all steps, m.step of those that draw */
    uint32_t read[CROWD];  /* of the prompt */
    uint32_t wrote[CROWD]; /* of the answer */
    uint32_t draft[CROWD];
    uint32_t missed[CROWD]; /* rows that the draft head has not seen */
    enum sl_by by[CROWD];
    uint32_t n_done;
};

static double house_s(uint32_t rows, uint32_t draws)
{
    double s = rows < 8 ? 0.3 + 0.17 * rows : 0.9 + 0.1 * rows;

    return s + 0.04 * draws;
}

/* What a clock says: up to so large a part more or less. */
static double noisy(struct sim *m, double s, double part)
{
    double u = (double)(rig_random(&m->random) >> 11) * 0x1p-53;

    return s * (1 + part * (2 * u - 1));
}

static void house_init(struct house *h)
{
    sl_speculate_init(&h->m.s, 0, -1);
    h->m.random = 5;
    for (uint32_t n = 1; n <= 16; n++)
        sl_cost_learn(&h->m.step, n, 0, house_s(n, n));
    for (uint32_t n = 1; n <= CROWD; n *= 2)
        sl_cost_learn(&h->m.s.pass[SL_BY_MTP], n, 0, 0.3 + 0.06 * n);
    h->any = h->m.step;
    sl_pace_add(&h->pace, &h->any);
    sl_pace_add(&h->pace, &h->m.step);
    sl_pace_add(&h->pace, &h->m.s.pass[SL_BY_MTP]);
    for (uint32_t i = 0; i < CROWD; i++)
        sl_guess_init(&h->m.guess[i], &h->m.s);
}

/* Who has how many rows in the step: drafts as planned, prompts as scheduled. */
static uint32_t house_rows(struct house *h, uint32_t *rows, uint64_t turn)
{
    static struct sl_sched_client client[CROWD];
    static uint32_t space[5][CROWD];
    struct sl_sched_work w = {client,   space[0], space[1],
                              space[2], space[3], space[4]};
    struct sl_sched_seq q[CROWD];
    uint32_t n_dec = 0, n_prompt = 0, most;

    for (uint32_t i = 0; i < CROWD; i++) {
        uint32_t left = ASK - h->read[i];

        q[i] = (struct sl_sched_seq){left ? left : 1, left ? left : 1, i, 0};
        if (left > 1)
            n_prompt++;
        else
            n_dec += 1 + h->draft[i];
    }
    most = sl_schedule_prompt_rows(&h->any, SL_STRETCH, n_dec, 0, n_prompt, 0, 2048);
    return sl_schedule_plan(q, CROWD, 2048, most, turn, rows, &w);
}

/* The rows went through: tokens for those that drew. Returns how many drew. */
static uint32_t house_draw(struct house *h, const uint32_t *rows)
{
    uint32_t draws = 0;

    for (uint32_t i = 0; i < CROWD; i++) {
        uint32_t right = 0;

        h->missed[i] += rows[i];
        if (h->read[i] < ASK && (h->read[i] += rows[i]) < ASK)
            continue;
        while (right < h->draft[i] && is_right(&h->m))
            right++;
        draws += 1 + h->draft[i];
        h->wrote[i] += 1 + right;
        h->missed[i] += right;
        sl_speculate_learn(&h->m.s, &h->m.guess[i],
                           h->by[i] == SL_BY_MTP ? SL_ODDS_MTP : SL_ODDS_LONG,
                           h->draft[i], right);
    }
    return draws;
}

/* Who is answered asks again; the others may draft, by copying for nothing or by
 * the head. Returns what the head took. */
static double house_draft(struct house *h, const uint32_t *rows, bool drafts)
{
    struct sl_crowd c = {.verify = &h->m.step, .step = &h->any};
    struct sl_bid bid[CROWD];
    uint32_t who[CROWD], n_head[8] = {0};
    double s = 0, shown;

    for (uint32_t i = 0; i < CROWD; i++) {
        h->draft[i] = 0;
        if (h->wrote[i] >= ASK) {
            h->read[i] = h->wrote[i] = h->missed[i] = 0;
            h->n_done++;
            sl_guess_init(&h->m.guess[i], &h->m.s);
        } else if (h->wrote[i] == 0) {
            c.n_row += rows[i];
            c.n_other++;
        } else {
            bid[c.n] = (struct sl_bid){.guess = &h->m.guess[i],
                                       .left = ASK - h->wrote[i],
                                       .most = {[SL_BY_NGRAM] = i % 3 ? 15 : 0,
                                                [SL_BY_MTP] = 7},
                                       .odds = {[SL_BY_NGRAM] = SL_ODDS_LONG,
                                                [SL_BY_MTP] = SL_ODDS_MTP},
                                       .missed = {[SL_BY_MTP] = h->missed[i]}};
            who[c.n++] = i;
        }
    }
    if (drafts)
        sl_speculate_plan(&h->m.s, &c, bid, 64);
    for (uint32_t k = 0; drafts && k < c.n; k++) {
        h->draft[who[k]] = bid[k].depth;
        h->by[who[k]] = bid[k].by;
        if (bid[k].by != SL_BY_MTP || bid[k].depth == 0)
            continue;
        for (uint32_t d = 0; d < bid[k].depth; d++)
            n_head[d]++;
        shown = 0.3 + 0.02 * h->missed[who[k]];
        sl_speculate_shown(&h->m.s, SL_BY_MTP, h->missed[who[k]], shown);
        h->missed[who[k]] = 0;
        s += shown;
    }
    for (int d = 0; d < 8; d++)
        s += n_head[d] ? 0.3 + 0.06 * n_head[d] : 0;
    return s;
}

/* Seconds in which `want` requests are answered. */
static double house_runs(double p, double noise, bool drafts, uint32_t want)
{
    struct house h = {.m = {.p = p}};

    house_init(&h);
    for (uint64_t turn = 0; h.n_done < want; turn++) {
        uint32_t rows[CROWD], sum, draws, asked = 0, tokens = 0;
        double s, passes;

        sum = house_rows(&h, rows, turn);
        for (uint32_t i = 0; i < CROWD; i++) {
            sum += h.draft[i];
            asked += h.draft[i];
            tokens -= h.wrote[i];
        }
        draws = house_draw(&h, rows);
        for (uint32_t i = 0; i < CROWD; i++)
            tokens += h.wrote[i];
        s = noisy(&h.m, house_s(sum, draws), noise);
        sl_cost_learn(&h.any, sum, 0, s);
        if (draws == sum)
            sl_cost_learn(&h.m.step, sum, 0, s);
        passes = house_draft(&h, rows, drafts);
        sl_speculate_earn(&h.m.s, s, passes);
        if (draws == sum)
            sl_speculate_guard(&h.m.s, asked, tokens, s + passes,
                               sl_cost_predict(&h.m.step, CROWD, 0) / CROWD);
        h.m.time += 0.25 + s + passes;
    }
    return h.m.time;
}

/* Thirty-two users and short prompts: with drafts, whatever they are worth, as
 * much is served as without. Steps that hold prompts are full anyway; and if the
 * few that answer were sped up while others wait, they would end before those
 * begin, and the steps would stay small. */
static void test_full_house(void **state)
{
    static const double noise[] = {0, 0.1};

    (void)state;
    for (size_t k = 0; k < SL_COUNTOF(noise); k++)
        for (int p = 0; p <= 10; p += 2) {
            double plain = house_runs(p / 10.0, noise[k], false, 256);
            double got = house_runs(p / 10.0, noise[k], true, 256);

            if (plain < 0.98 * got)
                fail_msg("%d of 10 right, noise %g: %.4f of plain", p, noise[k],
                         plain / got);
        }
}

/* Where even drafts that are always right would not pay, there are none. */
static void test_off_is_off(void **state)
{
    struct sim m = {.fixed = 0.1, .row = 1, .pass = 1, .p = 1, .n_seq = 32};

    (void)state;
    sim_init(&m);
    while (m.n_tok < 10000)
        round_of(&m, DECIDE);
    assert_int_equal(m.n_drafted, 0);
}

/* A text that becomes easier is noticed within some hundred tokens. */
static void test_comes_back(void **state)
{
    struct sim m = {.fixed = 10, .row = 1, .pass = 1, .p = 0, .n_seq = 1};
    uint64_t before;

    (void)state;
    sim_init(&m);
    while (m.n_tok < 1000)
        round_of(&m, DECIDE);
    m.p = 1;
    while (m.n_tok < 3000)
        round_of(&m, DECIDE);
    before = m.n_drafted;
    while (m.n_tok < 4000)
        round_of(&m, DECIDE);
    assert_true(m.n_drafted - before > 500);
}

/* A table that says drafts are free, where they are not: the guard ends it. */
static void test_guard(void **state)
{
    struct sl_speculate s;

    (void)state;
    sl_speculate_init(&s, 0, -1);
    for (int i = 0; i < 300 && !s.stopped; i++)
        sl_speculate_guard(&s, 3, 1, 1.1, 1);
    assert_int_equal(s.n_stop, 1);
    assert_true(s.stopped > 1000);
    for (int i = 0; i < 5000 && s.stopped; i++)
        sl_speculate_guard(&s, 0, 1, 1, 1);
    assert_int_equal(s.stopped, 0);
    for (int i = 0; i < 1000; i++)
        sl_speculate_guard(&s, 3, 2, 1.9, 1);
    assert_int_equal(s.n_stop, 1);
}

static void test_fixed_depth(void **state)
{
    struct sim m = {.fixed = 1, .row = 1, .pass = 1};
    struct sl_bid bid = {.guess = &m.guess[0]};

    (void)state;
    sim_init(&m);
    m.s.fixed = 5;
    bid.most[SL_BY_MTP] = 7;
    bid.odds[SL_BY_MTP] = SL_ODDS_MTP;
    plan(&m, &bid, 1, 32);
    assert_int_equal(bid.depth, 5);
    bid.most[SL_BY_MTP] = 2;
    plan(&m, &bid, 1, 32);
    assert_int_equal(bid.depth, 2);
    bid.most[SL_BY_MTP] = 0;
    plan(&m, &bid, 1, 32);
    assert_int_equal(bid.depth, 0);
    assert_int_equal(bid.by, SL_BY_NONE);
}

/* Before anything was seen a block drafter is hoped to stay right for a whole
 * block, and a chain to fade: passes that take as long are not as good. */
static void test_first_hopes(void **state)
{
    struct sim m = {.fixed = 10, .row = 0.1, .pass = 0.1, .n_seq = 1};
    struct sl_bid bid = {.guess = &m.guess[0]};

    (void)state;
    sim_init(&m);
    sl_cost_learn(&m.s.pass[SL_BY_FLASH], 1, 0, 0.7);
    bid.odds[SL_BY_MTP] = SL_ODDS_MTP;
    bid.odds[SL_BY_FLASH] = SL_ODDS_FLASH;
    bid.most[SL_BY_MTP] = bid.most[SL_BY_FLASH] = 7;
    m.s.fixed = 7;
    plan(&m, &bid, 1, 32);
    assert_int_equal(bid.by, SL_BY_FLASH);
    m.s.fixed = 2;
    plan(&m, &bid, 1, 32);
    assert_int_equal(bid.by, SL_BY_MTP);
}

/* Tries and drafts that are believed share the room that there is. */
static void test_tries_have_room(void **state)
{
    struct sim m = {.fixed = 10, .row = 0.1, .pass = 0.1, .n_seq = 8};
    uint32_t most_seen = 0;

    (void)state;
    sim_init(&m);
    for (uint32_t round = 0; round < 64; round++) {
        struct sl_bid bid[8];
        uint32_t most = 1 + round % 9, sum = 0;

        for (uint32_t i = 0; i < m.n_seq; i++) {
            bid[i] = (struct sl_bid){.guess = &m.guess[i]};
            bid[i].most[SL_BY_MTP] = 7;
            bid[i].odds[SL_BY_MTP] = SL_ODDS_MTP;
        }
        m.s.credit_s = 1000; /* as if it were long since the last one */
        plan(&m, bid, m.n_seq, most);
        for (uint32_t i = 0; i < m.n_seq; i++)
            sum += bid[i].depth;
        assert_true(sum <= most);
        most_seen = sum > most_seen ? sum : most_seen;
    }
    assert_true(most_seen > 1);
}

/* What the first pass behind a start takes is reading the weights. */
static void test_first_pass_is_not_learned(void **state)
{
    struct sl_speculate s;

    (void)state;
    sl_speculate_init(&s, 0, -1);
    sl_cost_learn(&s.pass[SL_BY_MTP], 1, 0, 0.1); /* as it was kept */
    sl_speculate_passed(&s, SL_BY_MTP, 1, 100);
    assert_true(is_near(sl_cost_predict(&s.pass[SL_BY_MTP], 1, 0), 0.1));
    sl_speculate_shown(&s, SL_BY_FLASH, 4, 100);
    assert_true(is_near(s.row_s[SL_BY_FLASH], 0));
    for (int i = 0; i < 200; i++)
        sl_speculate_passed(&s, SL_BY_MTP, 1, 0.3);
    assert_true(is_within(sl_cost_predict(&s.pass[SL_BY_MTP], 1, 0), 0.3, 0.02));
    sl_speculate_shown(&s, SL_BY_FLASH, 4, 0.4);
    assert_true(is_near(s.row_s[SL_BY_FLASH], 0.1));
}

/* A server that runs for months has counted to the end of 32 bits. */
static void test_counts_do_not_wrap(void **state)
{
    struct sl_speculate s;
    struct sl_guess g;
    const float sure = 0.99f;

    (void)state;
    sl_speculate_init(&s, 0, -1);
    s.odds[SL_ODDS_MTP].n_seen[0] = UINT32_MAX - 4;
    for (int i = 0; i < SL_SURE_BINS; i++)
        s.sure.n_seen[i] = UINT32_MAX - 4;
    sl_guess_init(&g, &s);
    for (int i = 0; i < 8; i++) {
        sl_speculate_learn(&s, &g, SL_ODDS_MTP, 1, 1);
        sl_speculate_sure(&s, &sure, 1, 1);
        assert_true(is_within(s.odds[SL_ODDS_MTP].right[0], 0.9, 0.1));
        assert_true(s.odds[SL_ODDS_MTP].n_seen[0] > 1000000);
        assert_true(is_within(s.sure.right[SL_SURE_BINS - 1], 0.95, 0.05));
    }
}

/* Rows by users in place of the decision, and no more than there are drafts. */
static void test_ladder_is_followed(void **state)
{
    struct sim m = {.fixed = 1, .row = 100, .pass = 50, .n_seq = 12};

    (void)state;
    sim_init(&m); /* drafts would never pay */
    assert_int_equal(sl_ladder_parse(&m.s.ladder, "1:8,4:3,8:2", NULL), 0);
    for (uint32_t n = 1; n <= 12; n++) {
        uint32_t want = n == 1 ? 7 : n <= 4 ? 2 : n <= 8 ? 1 : 0;
        struct sl_bid bid[12];

        for (uint32_t i = 0; i < n; i++) {
            bid[i] = (struct sl_bid){.guess = &m.guess[i]};
            bid[i].most[SL_BY_MTP] = 7;
            bid[i].odds[SL_BY_MTP] = SL_ODDS_MTP;
        }
        plan(&m, bid, n, 64);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(bid[i].depth, want);
    }
}

/* A sequence that the head and the block drafter could draft for, or with a
 * context that is too long only the head. */
static struct sl_bid of_two(struct sl_guess *g, bool far)
{
    struct sl_bid bid = {.guess = g, .left = 1000};

    bid.most[SL_BY_MTP] = bid.most[SL_BY_FLASH] = 7;
    bid.most[SL_BY_FLASH] = far ? 0 : 7;
    bid.odds[SL_BY_MTP] = SL_ODDS_MTP;
    bid.odds[SL_BY_FLASH] = SL_ODDS_FLASH;
    return bid;
}

/* Who is named drafts, however slow; where he cannot, another does. */
static void test_ladder_names_drafters(void **state)
{
    static const double slow[] = {1, 1e6};
    struct sim m = {.fixed = 1000, .row = 1, .pass = 1, .n_seq = 12};

    (void)state;
    for (size_t k = 0; k < SL_COUNTOF(slow); k++) {
        sim_init(&m);
        for (uint32_t n = 1; n <= 64; n *= 2)
            sl_cost_learn(&m.s.pass[SL_BY_FLASH], n, 0, slow[k]);
        assert_int_equal(
            sl_ladder_parse(&m.s.ladder, "4:8:dflash,8:4:mtp", NULL), 0);
        for (uint32_t n = 1; n <= 12; n++) {
            struct sl_bid bid[12];

            for (uint32_t i = 0; i < n; i++)
                bid[i] = of_two(&m.guess[i], i == 1);
            plan(&m, bid, n, 64);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(bid[i].depth, n <= 4 ? 7 : n <= 8 ? 3 : 0);
                assert_int_equal(bid[i].by, n > 8             ? SL_BY_NONE
                                            : n > 4 || i == 1 ? SL_BY_MTP
                                                              : SL_BY_FLASH);
            }
        }
    }
}

/* By users and context; who drafts already may go on for a while. */
static void test_prior(void **state)
{
    static const struct {
        uint32_t users;
        uint64_t context;
        bool uses;
        enum sl_by by;
    } want[] = {{1, 0, false, SL_BY_FLASH},    {4, 11264, false, SL_BY_FLASH},
                {4, 11265, false, SL_BY_MTP},  {4, 11265, true, SL_BY_FLASH},
                {1, 12288, true, SL_BY_FLASH}, {1, 12289, true, SL_BY_MTP},
                {5, 0, true, SL_BY_MTP},       {8, 100000, false, SL_BY_MTP},
                {9, 0, false, SL_BY_NONE},     {32, 0, true, SL_BY_NONE}};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(want); i++)
        assert_int_equal(
            sl_ladder_prior(want[i].users, want[i].context, want[i].uses),
            want[i].by);
}

/* With hopes and times that make two drafters alike the prior says who begins,
 * until enough was seen of him. */
static void test_prior_breaks_ties(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 8; n++)
        for (uint32_t seen = 0; seen <= 16; seen += 16) {
            struct sim m = {.fixed = 1000, .row = 1, .pass = 1, .n_seq = 8};
            struct sl_bid bid[8];

            sim_init(&m);
            sl_cost_learn(&m.s.pass[SL_BY_FLASH], n, 0, 7);
            sl_cost_learn(&m.s.pass[SL_BY_MTP], n, 0, 1);
            m.s.odds[SL_ODDS_MTP] = m.s.odds[SL_ODDS_FLASH];
            /* Better by less than what the prior is worth. */
            m.s.odds[n > 4 ? SL_ODDS_FLASH : SL_ODDS_MTP].right[0] *= 1.01;
            m.s.odds[SL_ODDS_MTP].n_seen[0] = 16;
            m.s.odds[SL_ODDS_FLASH].n_seen[0] = 16;
            m.s.odds[n > 4 ? SL_ODDS_MTP : SL_ODDS_FLASH].n_seen[0] =
                seen ? 16 : 4;
            for (uint32_t i = 0; i < n; i++) {
                sl_guess_init(&m.guess[i], &m.s);
                bid[i] = of_two(&m.guess[i], false);
            }
            plan(&m, bid, n, 64);
            assert_int_equal(bid[0].by,
                             (n > 4) == (seen == 0) ? SL_BY_MTP : SL_BY_FLASH);
        }
}

/* Steps and passes as the embedded model was measured, in microseconds: seven
 * rows have no kernel of their own. */
static const double two_step[] = {300, 330, 360, 390, 440, 490, 1010, 1020};
#define TWO_HEAD 34.0
#define TWO_BLOCK 245.0

/* One long text with two drafters, whose drafts are right with these chances:
 * microseconds of a token, behind the first `skip` rounds of n. */
static double two_drafters(struct sim *m, double head, double block,
                           uint32_t skip, uint32_t n)
{
    double time = 0, tokens = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct sl_bid bid = of_two(m->guess, false);
        uint32_t right = 0, d;
        double took;

        plan(m, &bid, 1, 7);
        /* A block is cut where rows become dear. */
        d = bid.by == SL_BY_FLASH && bid.depth > 5 ? 5 : bid.depth;
        took = two_step[d] + (d == 0                  ? 0
                              : bid.by == SL_BY_FLASH ? TWO_BLOCK
                                                      : TWO_HEAD * d);
        m->p = bid.by == SL_BY_FLASH ? block : head;
        while (right < d && is_right(m))
            right++;
        sl_speculate_verifies(&m->s, m->guess, d);
        sl_speculate_learn(&m->s, m->guess, bid.odds[bid.by], d, right);
        sl_speculate_earn(&m->s, two_step[d], took - two_step[d]);
        time += i < skip ? 0 : took;
        tokens += i < skip ? 0 : 1 + right;
    }
    return time / tokens;
}

static void two_init(struct sim *m, uint64_t seed)
{
    *m = (struct sim){.n_seq = 1, .random = seed};
    sl_speculate_init(&m->s, 0, -1);
    for (uint32_t n = 1; n <= 8; n++)
        for (int i = 0; i < 64; i++)
            sl_cost_learn(&m->step, n, 0, two_step[n - 1]);
    sl_cost_learn(&m->s.pass[SL_BY_MTP], 1, 0, TWO_HEAD);
    sl_cost_learn(&m->s.pass[SL_BY_FLASH], 1, 0, TWO_BLOCK);
    sl_guess_init(m->guess, &m->s);
}

/* A drafter whose first drafts were wrong, by chance or for another text, is
 * found to be the better one while another drafts. */
static void test_rivals_come_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct sim m;
        double best, got;

        two_init(&m, seed);
        best = two_drafters(&m, 0.92, 0.3, 600, 3000);
        for (uint32_t seen = 4; seen <= 64; seen += 60) {
            two_init(&m, seed);
            for (uint32_t i = 0; i < seen; i++) {
                sl_speculate_learn(&m.s, m.guess, SL_ODDS_MTP, 5,
                                   i % 2 ? 1 : 0);
                sl_speculate_learn(&m.s, m.guess, SL_ODDS_FLASH, 5, 4);
            }
            got = two_drafters(&m, 0.92, 0.8, 2000, 4400);
            if (got > 1.03 * best)
                fail_msg("seed %d, %u seen: %.1f us a token, best %.1f",
                         (int)seed, seen, got, best);
        }
    }
}

/* To see that another one is no better costs no more than its share. */
static void test_rivals_have_a_budget(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct sim m;
        double alone, got;

        two_init(&m, seed);
        m.s.rival_s = -1e18; /* nobody else is tried */
        m.s.n_plan = 1;
        m.s.credit_s = 1000;
        alone = two_drafters(&m, 0.9, 0, 0, 4000);
        two_init(&m, seed);
        got = two_drafters(&m, 0.9, 0, 0, 4000);
        if (got > 1.015 * alone)
            fail_msg("seed %d: %.1f us a token, alone %.1f", (int)seed, got,
                     alone);
    }
}

/* Whose round it is goes around, however many there are. */
static void test_rivals_take_turns(void **state)
{
    enum { N = 8, ROUNDS = 8000 };
    struct sim m = {.n_seq = N};
    uint32_t count[N] = {0};

    (void)state;
    sl_speculate_init(&m.s, 0, -1);
    for (uint32_t n = 1; n <= 64; n *= 2)
        for (int i = 0; i < 64; i++)
            sl_cost_learn(&m.step, n, 0, 300 + 2 * n);
    for (uint32_t n = 1; n <= N; n += N - 1) {
        sl_cost_learn(&m.s.pass[SL_BY_MTP], n, 0, 10);
        sl_cost_learn(&m.s.pass[SL_BY_FLASH], n, 0, 20);
    }
    for (uint32_t i = 0; i < N; i++)
        sl_guess_init(&m.guess[i], &m.s);
    for (int k = 0; k < ROUNDS; k++) {
        struct sl_bid bid[N];

        for (uint32_t i = 0; i < N; i++)
            bid[i] = of_two(&m.guess[i], false);
        plan(&m, bid, N, 64);
        for (uint32_t i = 0; i < N; i++) {
            uint32_t d = bid[i].depth;

            count[i] += m.guess[i].rival_tok_s > 0;
            sl_speculate_verifies(&m.s, &m.guess[i], d);
            sl_speculate_learn(&m.s, &m.guess[i], bid[i].odds[bid[i].by], d,
                               bid[i].by == SL_BY_MTP ? (d < 2 ? d : 2) : 0);
        }
        sl_speculate_earn(&m.s, 310, 20);
    }
    for (uint32_t i = 0; i < N; i++)
        assert_true(count[i] > 0);
}

/* What drafts were charged for and did not need is given back: all of it where
 * there was no room, rows that were not verified; a block that is verified
 * deeper than was decided pays the rest. */
static void test_charges_are_given_back(void **state)
{
    struct sim m;
    struct sl_bid bid;
    double credit, rows;

    (void)state;
    two_init(&m, 1);
    for (int i = 0; i < 32; i++)
        sl_speculate_learn(&m.s, m.guess, SL_ODDS_MTP, 3, 3);
    bid = of_two(m.guess, false);
    plan(&m, &bid, 1, 3);
    m.s.credit_s = credit = 1000;
    bid = of_two(m.guess, false);
    plan(&m, &bid, 1, 3);
    assert_true(bid.by == SL_BY_MTP && bid.depth == 3);
    rows = two_step[3] - two_step[0];
    assert_true(is_near(m.s.credit_s, credit - rows - 3 * TWO_HEAD));
    sl_speculate_dropped(&m.s, m.guess);
    assert_true(is_near(m.s.credit_s, credit));
    sl_speculate_verifies(&m.s, m.guess, 0);
    assert_true(is_near(m.s.credit_s, credit));
    /* Cut: the passes were made. */
    bid = of_two(m.guess, false);
    plan(&m, &bid, 1, 3);
    sl_speculate_verifies(&m.s, m.guess, 1);
    assert_true(is_near(m.s.credit_s, credit - rows / 3 - 3 * TWO_HEAD));
    m.s.credit_s = credit;
    bid = of_two(m.guess, false);
    plan(&m, &bid, 1, 3);
    sl_speculate_verifies(&m.s, m.guess, 4);
    assert_true(
        is_near(m.s.credit_s, credit - rows * 4 / 3 - 3 * TWO_HEAD));
    /* A try of a drafter that nothing is known of. */
    two_init(&m, 1);
    bid = of_two(m.guess, false);
    plan(&m, &bid, 1, 3);
    assert_true(bid.depth > 0 && m.guess->probing);
    assert_true(m.s.credit_s < 5 * two_step[0]);
    sl_speculate_dropped(&m.s, m.guess);
    assert_true(is_near(m.s.credit_s, 5 * two_step[0]));
}

static void test_ladder_refusals(void **state)
{
    static const char *const bad[] = {
        "",     "1",        "1:",       ":8",       "0:8",
        "1:0",  "1:65",     "4:8,",     "4:8,4:2",  "4:8,2:8",
        "a:b",  "1:8;2:8",  "-1:8",     "1:8 ,2:4", "70000:2",
        "1:8:", "1:8:none", "1:8:mtpx", "1:8:mtp:"};
    struct sl_ladder l = {.n = 0};
    struct sl_err err = {0};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(bad); i++) {
        assert_int_equal(sl_ladder_parse(&l, bad[i], &err), SL_EARG);
        assert_non_null(strstr(err.msg, "--spec-ladder"));
        assert_int_equal(l.n, 0);
    }
    assert_int_equal(sl_ladder_parse(&l, "1:8,2:8,4:8,8:4", &err), 0);
    assert_int_equal(sl_ladder_rows(&l, 4), 8);
    assert_int_equal(sl_ladder_rows(&l, 5), 4);
    assert_int_equal(sl_ladder_rows(&l, 9), 1);
}

/* A ratio that was asked for holds for a fixed depth, too, and 0 is never. */
static void test_guard_by_ratio(void **state)
{
    static const struct {
        double ratio;
        uint32_t fixed;
        bool stops;
    } c[] = {{-1, 0, true}, {-1, 3, false}, {0.98, 3, true},
             {0, 0, false}, {0.5, 0, false}, {2, 3, true}};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(c); i++) {
        struct sl_speculate s;

        sl_speculate_init(&s, c[i].fixed, c[i].ratio);
        for (int k = 0; k < 300; k++)
            sl_speculate_guard(&s, 3, 1, 1.25, 1);
        assert_int_equal(s.n_stop > 0, c[i].stops);
    }
}

/* A block is cut where it becomes unlikely, as sure as its drafter may be; and
 * not where somebody said how much, or while it is tried. */
static void test_blocks_are_cut(void **state)
{
    static const float sure[7] = {0.95f, 0.95f, 0.95f, 0.1f, 0.95f, 0.95f,
                                  0.95f};
    struct sim m = {.fixed = 10, .row = 1.5, .pass = 1, .n_seq = 1};
    struct sl_guess *g = &m.guess[0];

    (void)state;
    sim_init(&m);
    for (uint32_t n = 1; n <= 4; n++)
        sl_cost_learn(&m.s.pass[SL_BY_FLASH], n, 0, m.pass);
    assert_int_equal(sl_speculate_cut(&m.s, &m.step, g, sure, 7, 7, 1, 0), 3);
    assert_int_equal(sl_speculate_cut(&m.s, &m.step, g, sure, 2, 2, 1, 0), 2);
    g->probing = true;
    assert_int_equal(sl_speculate_cut(&m.s, &m.step, g, sure, 7, 1, 1, 0), 1);
    g->probing = false;
    /* It turns out that it is right when it is not sure, and the reverse. */
    for (int i = 0; i < 2000; i++) {
        sl_speculate_sure(&m.s, sure + 3, 1, 1);
        sl_speculate_sure(&m.s, sure, 1, 0);
    }
    assert_int_equal(sl_speculate_cut(&m.s, &m.step, g, sure, 7, 7, 1, 0), 1);
    assert_int_equal(sl_speculate_cut(&m.s, &m.step, g, sure + 3, 4, 4, 1, 0),
                     1);
    m.s.fixed = 5;
    assert_int_equal(sl_speculate_cut(&m.s, &m.step, g, sure, 7, 5, 1, 0), 5);
}

/* One recorded set under every rule, against sums by hand. */
static void test_record_scores(void **state)
{
    struct sl_pair pair[] = {{0.5f, 0.5f, true},
                             {0.25f, 0.5f, false},
                             {0.0625f, 0.75f, true}};
    struct sl_record r = {.n_round = 4, .pair = pair, .n_pair = 3};
    const struct sl_accept_opts exact = {SL_ACCEPT_EXACT, 1, 0.3f},
                                half = {SL_ACCEPT_LENIENT, 0.5f, 0.3f},
                                one = {SL_ACCEPT_LENIENT, 1, 0.3f},
                                relaxed = {SL_ACCEPT_RELAXED, 1, 0.5f};
    double tokens, tv;

    (void)state;
    /* Two of four rounds had drafts. */
    sl_record_score(&tokens, &tv, &r, &exact);
    assert_true(is_near(tokens, 1 + (0.5 + 0.125 + 0.0625) / 4));
    assert_true(is_near(tv, 0));
    sl_record_score(&tokens, &tv, &r, &one);
    assert_true(is_near(tokens, 1 + (0.5 + 0.125 + 0.0625) / 4));
    assert_true(is_near(tv, 0));
    sl_record_score(&tokens, &tv, &r, &half);
    assert_true(is_near(tokens, 1 + (0.70710678 + 0.70710678 * 0.5 + 0.25) / 4));
    assert_true(is_near(tv, (0.20710678 + 0.70710678 * 0.25 + 0.1875) / 2.70710678));
    sl_record_score(&tokens, &tv, &r, &relaxed);
    assert_true(is_near(tokens, 1 + (1 + 1 + 0.0625) / 4));
    assert_true(is_near(tv, (0.5 + 0.75) / 3));
}

/* ---------------------------------------------------------------- n-grams */

/* What is found was there: draft[0] followed the last `match` tokens before,
 * and a text that repeats with a period is continued for ever. */
static void test_ngram_finds_what_was_there(void **state)
{
    enum { N = 3000 };
    static int32_t tok[N];
    struct sl_ngram *g = NULL;
    uint64_t random = 3;
    uint32_t found = 0;

    (void)state;
    assert_int_equal(sl_ngram_open(&g, N / 8, NULL), 0); /* forgets some */
    for (uint32_t i = 0; i < N; i++)
        tok[i] = (int32_t)(rig_random(&random) % 5);
    for (uint32_t n = 0; n < N; n++) {
        int32_t draft[15];
        uint32_t match, k = sl_ngram_find(g, tok, n, 15, draft, &match);
        bool was = false;

        assert_true(k == 0 || k == 15);
        if (k == 0)
            continue;
        found++;
        assert_true(match >= 3 && match <= n);
        for (uint32_t at = match; at < n && !was; at++)
            was = memcmp(tok + at - match, tok + n - match,
                         match * sizeof(*tok)) == 0 &&
                  tok[at] == draft[0];
        assert_true(was);
    }
    assert_true(found > N / 2);
    sl_ngram_close(&g);
    assert_null(g);
}

static void test_ngram_continues_a_loop(void **state)
{
    int32_t tok[64], draft[15];
    struct sl_ngram *g = NULL;
    uint32_t match;

    (void)state;
    for (int i = 0; i < 64; i++)
        tok[i] = i % 4 + 100;
    assert_int_equal(sl_ngram_open(&g, 64, NULL), 0);
    assert_int_equal(sl_ngram_find(g, tok, 4, 15, draft, &match), 0);
    assert_int_equal(sl_ngram_find(g, tok, 0, 15, draft, &match), 0);
    assert_int_equal(sl_ngram_find(g, tok, 50, 15, draft, &match), 15);
    for (int i = 0; i < 15; i++)
        assert_int_equal(draft[i], (50 + i) % 4 + 100);
    assert_int_equal(sl_ngram_find(g, tok, 51, 0, draft, &match), 0);
    sl_ngram_close(&g);
}

/* Rings of answers that follow each other are of the same memory. */
static void test_rings_are_used_again(void **state)
{
    enum { N = 3, MAX = 2, WIDTH = 8 };
    struct sl_ring_store s;
    struct sl_ring r[N];
    uint64_t live = sl_mem_live(), count;

    (void)state;
    sl_ring_store_init(&s, MAX);
    for (int turn = 0; turn < 2; turn++) {
        count = sl_mem_count();
        for (int i = 0; i < N; i++) {
            assert_int_equal(sl_ring_open(&r[i], &s, WIDTH, NULL), 0);
            assert_int_equal(r[i].n, 0);
            for (int k = 0; k < SL_DRAFT_RING * WIDTH; k++)
                r[i].row[k] = (float)i;
        }
        assert_int_equal(sl_mem_count() - count, turn == 0 ? N : N - MAX);
        for (int i = 0; i < N; i++) { /* nobody has those of another */
            assert_true(r[i].row[0] == (float)i);
            assert_true(r[i].row[SL_DRAFT_RING * WIDTH - 1] == (float)i);
        }
        for (int i = 0; i < N; i++)
            sl_ring_close(&r[i]);
    }
    sl_ring_close(&r[0]); /* twice, or never opened */
    sl_ring_store_deinit(&s);
    assert_int_equal(sl_mem_live(), live);
}

/* Show what waits; row i has to begin and end with i. Rows up to `shown` were shown
 * before: what lies between is shown now, or said to be missing. */
static void show_ring(struct sl_ring *r, struct sl_seq *q, uint32_t shown,
                      bool idle)
{
    uint32_t near = sl_ring_n_near(r, idle);
    uint32_t at = sl_ring_near(r, q, 0, q->n_tok, idle);

    assert_int_equal(r->n, near);
    assert_int_equal(at, q->n_tok - near);
    assert_true(at == shown || (q->from[0] == at && near >= SL_DRAFT_NEAR));
    for (uint32_t i = 0; i < near; i++) {
        const float *row = r->row + i * r->width;

        assert_true(row[0] == (float)(at + i) &&
                    row[r->width - 1] == (float)(at + i));
    }
    sl_ring_clear(r);
}

/* The drafter idle or not, one row or many, shown often and seldom. */
static void test_rings_go_around(void **state)
{
    enum { WIDTH = 3, MANY = 600, N_TURN = 20000 };
    static float rows[MANY * WIDTH];
    struct sl_ring_store s;
    struct sl_ring r;
    struct sl_seq q = {0};
    uint32_t from = 0, shown = 0;
    uint64_t seed = 3;

    (void)state;
    sl_ring_store_init(&s, 1);
    assert_int_equal(sl_ring_open(&r, &s, WIDTH, NULL), 0);
    for (int turn = 0; turn < N_TURN; turn++) {
        bool idle = rig_random(&seed) % 4 > 0, often = turn % 2000 < 1000;
        uint32_t most = rig_random(&seed) % 8 ? 6 : MANY;
        uint32_t n = (uint32_t)(rig_random(&seed) % most);

        for (uint32_t i = 0; i < n; i++)
            rows[i * WIDTH] = rows[i * WIDTH + WIDTH - 1] =
                (float)(q.n_tok + i);
        q.n_tok += n;
        if (!sl_ring_wait(&r, &q, 0, rows, n, idle)) {
            assert_false(idle);
            q.n_tok -= n; /* as if they were never committed */
        }
        if (rig_random(&seed) % (often ? 4 : 64) == 0) {
            show_ring(&r, &q, shown, idle);
            shown = q.n_tok;
        }
        assert_true(q.from[0] >= from);
        from = q.from[0];
    }
    sl_ring_close(&r);
    sl_ring_store_deinit(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_stand_for_themselves),
        cmocka_unit_test(test_first_figures),
        cmocka_unit_test(test_slower_between),
        cmocka_unit_test(test_seen_lately),
        cmocka_unit_test(test_dear_sizes_stay_dear),
        cmocka_unit_test(test_context_stays),
        cmocka_unit_test(test_short_steps_are_averaged),
        cmocka_unit_test(test_near_the_best),
        cmocka_unit_test(test_hard_text_costs_little),
        cmocka_unit_test(test_short_answers_lose_nothing),
        cmocka_unit_test(test_hopeless_behind_good),
        cmocka_unit_test(test_wrong_rounds_in_a_row),
        cmocka_unit_test(test_earned_is_bounded),
        cmocka_unit_test(test_prompts_cost_no_credit),
        cmocka_unit_test(test_chances_are_chances),
        cmocka_unit_test(test_near_the_best_of_each_kind),
        cmocka_unit_test(test_first_short_answers_gain),
        cmocka_unit_test(test_good_drafts_are_found_soon),
        cmocka_unit_test(test_the_one_is_found),
        cmocka_unit_test(test_probes_have_a_budget),
        cmocka_unit_test(test_never_loses),
        cmocka_unit_test(test_full_house),
        cmocka_unit_test(test_off_is_off),
        cmocka_unit_test(test_comes_back),
        cmocka_unit_test(test_guard),
        cmocka_unit_test(test_fixed_depth),
        cmocka_unit_test(test_first_hopes),
        cmocka_unit_test(test_tries_have_room),
        cmocka_unit_test(test_first_pass_is_not_learned),
        cmocka_unit_test(test_counts_do_not_wrap),
        cmocka_unit_test(test_ladder_is_followed),
        cmocka_unit_test(test_ladder_names_drafters),
        cmocka_unit_test(test_prior),
        cmocka_unit_test(test_prior_breaks_ties),
        cmocka_unit_test(test_rivals_come_back),
        cmocka_unit_test(test_rivals_have_a_budget),
        cmocka_unit_test(test_rivals_take_turns),
        cmocka_unit_test(test_charges_are_given_back),
        cmocka_unit_test(test_ladder_refusals),
        cmocka_unit_test(test_guard_by_ratio),
        cmocka_unit_test(test_blocks_are_cut),
        cmocka_unit_test(test_record_scores),
        cmocka_unit_test(test_ngram_finds_what_was_there),
        cmocka_unit_test(test_ngram_continues_a_loop),
        cmocka_unit_test(test_rings_are_used_again),
        cmocka_unit_test(test_rings_go_around),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
