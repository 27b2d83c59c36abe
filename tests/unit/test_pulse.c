/* When the server takes its engine for dead, and what it says while it lives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/pulse.h"

static struct sl_pulse p;
static struct sl_engine_stats e;
static struct sl_pulse_counts c;
static struct sl_buf line;
static uint64_t now_ns;

static void begin(void)
{
    p = (struct sl_pulse){0};
    e = (struct sl_engine_stats){0};
    c = (struct sl_pulse_counts){0};
    now_ns = 1000000000ull * 5000;
}

static void look(double s)
{
    now_ns += (uint64_t)(s * 1e9);
    sl_buf_reset(&line);
    sl_pulse_look(&p, &e, &c, now_ns, &line);
}

/* As the loop does. */
static void look_for(double s)
{
    for (; s > 10; s -= 10)
        look(10);
    look(s);
}

static void dies(void **state)
{
    (void)state;
    begin();
    sl_buf_init(&line, 1000);
    look(0);
    /* Nothing to do is no death, however long. */
    look(100000);
    assert_false(p.is_dead);
    c.has_work = true;
    look(0);
    look_for(SL_PULSE_DEAD_S - 1);
    assert_false(p.is_dead);
    assert_int_equal(line.len, 0);
    look(2);
    assert_true(p.is_dead);
    assert_string_equal(line.p,
                        "engine=dead running=0 note=\"no step for 301 s\"");
    look(1); /* told once */
    assert_int_equal(line.len, 0);
    /* And it may have been asleep. */
    e.n_step++;
    look(1);
    assert_false(p.is_dead);
    /* One whose steps take a minute gets longer. */
    e.n_step += 2;
    e.step_s += 120;
    look(120);
    look_for(SL_PULSE_STEPS * 60 - 1);
    assert_false(p.is_dead);
    look(2);
    assert_true(p.is_dead);
    assert_string_equal(line.p,
                        "engine=dead running=0 note=\"no step for 1201 s\"");
    /* All of the process was stopped for an hour. */
    e.n_step++;
    look(1);
    look(3600);
    assert_false(p.is_dead);
    sl_buf_deinit(&line);
}

static void tells(void **state)
{
    (void)state;
    begin();
    sl_buf_init(&line, 1000);
    c.n_out = 7;
    look(0);
    look(10);
    assert_int_equal(line.len, 0);
    e = (struct sl_engine_stats){.n_run = 2,
                                 .n_step = 5,
                                 .n_row = 300,
                                 .kv_used = 64,
                                 .kv_total = 256,
                                 .n_state = 3,
                                 .n_round = 10,
                                 .n_accept = 15};
    c = (struct sl_pulse_counts){.n_out = 57,
                                 .n_prompt = 200,
                                 .n_cached = 150,
                                 .n_waiting = 4,
                                 .has_work = true};
    look(10);
    assert_string_equal(line.p,
                        "status=busy running=2 waiting=4 kv=0.250 states=3 "
                        "rows_s=30.0 output_s=5.0 cached=0.750 "
                        "draft_length=2.50");
    sl_buf_deinit(&line);
}

static void retries(void **state)
{
    (void)state;
    assert_int_equal(sl_pulse_retry_s(0, 32), 1);
    assert_int_equal(sl_pulse_retry_s(16, 32), 1);
    assert_int_equal(sl_pulse_retry_s(100, 10), 11);
    assert_int_equal(sl_pulse_retry_s(1e9, 1), SL_PULSE_RETRY_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dies),
        cmocka_unit_test(tells),
        cmocka_unit_test(retries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
