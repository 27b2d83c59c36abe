/* Kept prefixes without an engine: which memory they take. What was touched is
 * used again before anything that never was, so that a server's memory is what
 * it needed at most at one time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../help/rig.h"
#include "state/prefix.h"

enum { N_PAGE = 64, N_SEQ = 12, N_KEPT = 6, MAX_TOK = 512, MAX_TENT = 2 };
enum { LONG = 100, ROUNDS = 4000 };

static struct sl_memory *mem;
static struct sl_prefix *kept;
static int32_t tok[MAX_TOK];

static int set_up(void **state)
{
    static const struct sl_kv_plane plane = {
        .n_layer = 1, .n_head = 1, .dim = 32};
    const struct sl_memory_opts o = {.planes = &plane,
                                     .n_plane = 1,
                                     .kv_type = SL_F32,
                                     .rec = {1, 1, 1, 16, 16, MAX_TENT},
                                     .n_page = N_PAGE,
                                     .max_tok = MAX_TOK,
                                     .n_seq = N_SEQ,
                                     .n_draft = N_SEQ,
                                     .n_slot = N_SEQ + 1};

    (void)state;
    for (int32_t i = 0; i < MAX_TOK; i++)
        tok[i] = i;
    return sl_memory_open(&mem, &o, NULL) ||
           sl_prefix_open(&kept, mem, N_KEPT, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    sl_prefix_close(&kept);
    assert_int_equal(mem->n_open, 0);
    sl_kv_check(mem->kv);
    sl_rec_check(mem->rec);
    assert_int_equal(mem->kv->n_free, N_PAGE);
    assert_int_equal(mem->rec->n_free, mem->rec->n_slot);
    assert_int_equal(mem->rec->n_buf_free, mem->rec->n_buf);
    sl_memory_close(&mem);
    return 0;
}

/* A sequence that has read n tokens, with room for tentative rows. */
static struct sl_seq *read_seq(uint32_t n)
{
    struct sl_seq *q = NULL;

    assert_int_equal(sl_seq_open(&q, mem, NULL), 0);
    assert_int_equal(sl_seq_begin(q, n, MAX_TENT, NULL), 0);
    sl_seq_end(q, 0);
    return q;
}

/* Its last page and its state are the ones it had; what it had for steps that
 * never come is given back. */
static void the_last_is_not_copied(void **state)
{
    struct sl_seq *q = read_seq(2 * SL_KV_PAGE - 1), *again = NULL;
    uint32_t page = q->page[1], slot = q->rec.slot;

    (void)state;
    assert_int_equal(q->n_page, 3); /* for the tentative rows */
    sl_prefix_put_last(kept, &q, tok, 0);
    assert_null(q);
    assert_int_equal(mem->kv->n_free, N_PAGE - 2);
    assert_int_equal(mem->rec->n_buf_free, mem->rec->n_buf);
    assert_int_equal(mem->kv->ref[page], 1);
    assert_int_equal(mem->rec->ref[slot], 1);

    assert_int_equal(sl_prefix_take(kept, &again, tok, MAX_TOK, 0, NULL), 0);
    assert_int_equal(again->n_tok, 2 * SL_KV_PAGE - 1);
    assert_int_equal(again->rec.slot, slot);
    assert_int_not_equal(again->page[1], page); /* it writes there */
    sl_seq_close(&again);
}

/* What is kept already, and nothing, stay whose they are. */
static void what_is_not_new_stays(void **state)
{
    struct sl_seq *q = read_seq(LONG), *twin = read_seq(LONG), *none = NULL;
    struct sl_prefix_stats st;

    (void)state;
    sl_prefix_put_last(kept, &q, tok, 0);
    sl_prefix_put_last(kept, &twin, tok, 0);
    assert_null(q);
    assert_non_null(twin);
    assert_int_equal(sl_seq_open(&none, mem, NULL), 0);
    sl_prefix_put_last(kept, &none, tok, 0);
    assert_non_null(none);
    sl_prefix_get_stats(kept, &st);
    assert_int_equal(st.n_put, 1);
    sl_seq_close(&twin);
    sl_seq_close(&none);
}

/* One behind the highest page in use. */
static uint32_t highest(void)
{
    uint32_t n = N_PAGE;

    while (n > 0 && mem->kv->ref[n - 1] == 0)
        n--;
    return n;
}

/* Sequences come and go, some are kept, in the middle and at their end: pages
 * that were never used are taken only while all others are. */
static void touched_pages_come_first(void **state)
{
    struct sl_seq *run[N_SEQ - N_KEPT - 1] = {NULL};
    uint32_t most = 0;
    uint64_t seed = 1;

    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct sl_seq **q = &run[rig_random(&seed) % SL_COUNTOF(run)];
        uint64_t salt = rig_random(&seed) % 100;

        if (!*q) {
            *q = read_seq(1 + (uint32_t)(rig_random(&seed) % (3 * LONG)));
        } else if (rig_random(&seed) % 3 == 0) {
            sl_prefix_put(kept, *q, tok, salt);
        } else {
            sl_prefix_put_last(kept, q, tok, salt);
            sl_seq_close(q);
        }
        most = (uint32_t)sl_max(most, N_PAGE - mem->kv->n_free);
        assert_true(highest() <= most);
        sl_kv_check(mem->kv);
        sl_rec_check(mem->rec);
    }
    assert_true(most < N_PAGE); /* or it says nothing */
    for (size_t i = 0; i < SL_COUNTOF(run); i++)
        sl_seq_close(&run[i]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_last_is_not_copied),
        TEST(what_is_not_new_stays),
        TEST(touched_pages_come_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
