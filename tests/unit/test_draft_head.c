/* The part of the output head that drafters use: which rows it has, and that
 * they are those of the head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kern/kern.h"
#include "model/draft_head.h"
#include "../help/rig.h"

#define COLS 32
#define EXTRA 1003 /* rows beyond those that it holds; no multiple of eight */

struct big {
    struct sl_mat mat;
    unsigned char *w;
    size_t group_bytes;
    uint32_t n_vocab;
};

static void open_big(struct big *b, enum sl_dtype type)
{
    uint64_t seed = 3;
    size_t bytes;

    b->n_vocab = SL_DRAFT_HEAD_ROWS + EXTRA;
    b->mat = (struct sl_mat){.type = type,
                             .rows = (b->n_vocab + 7) / 8 * 8,
                             .cols = COLS};
    b->group_bytes = sl_dtype_bytes(type, (size_t)SL_GROUP * COLS);
    bytes = b->mat.rows / SL_GROUP * b->group_bytes;
    b->w = malloc(bytes);
    assert_non_null(b->w);
    for (size_t i = 0; i < bytes; i++)
        b->w[i] = (unsigned char)rig_random(&seed);
    b->mat.w = b->w;
}

/* Every row is that of its id, and no id is there twice. */
static void check(const struct sl_draft_head *h, const struct big *b)
{
    const struct sl_mat *m = sl_draft_head_get(h);
    unsigned char *seen = calloc(b->n_vocab, 1);

    assert_int_equal(m->rows % SL_GROUP, 0);
    assert_true(m->rows <= SL_DRAFT_HEAD_ROWS && m->cols == COLS);
    for (uint32_t i = 0; i < m->rows; i++) {
        int32_t id = sl_draft_head_id(h, i);

        assert_in_range(id, 0, b->n_vocab - 1);
        assert_int_equal(seen[id]++, 0);
        assert_int_equal(id % SL_GROUP, i % SL_GROUP);
        if (i % SL_GROUP == 0)
            assert_memory_equal(
                (const unsigned char *)m->w + i / SL_GROUP * b->group_bytes,
                b->w + (size_t)id / SL_GROUP * b->group_bytes,
                b->group_bytes);
    }
    free(seen);
}

static bool has(const struct sl_draft_head *h, int32_t id)
{
    for (uint32_t i = 0; i < sl_draft_head_get(h)->rows; i++)
        if (sl_draft_head_id(h, i) == id)
            return true;
    return false;
}

static void one_type(enum sl_dtype type)
{
    struct sl_draft_head *h = NULL;
    struct big b;
    uint64_t seed = 5;
    int32_t last, low = SL_DRAFT_HEAD_ROWS / 2 + 200;

    open_big(&b, type);
    last = (int32_t)(b.n_vocab / SL_GROUP * SL_GROUP) - 1;
    assert_int_equal(sl_draft_head_open(&h, &b.mat, b.n_vocab, NULL), 0);
    assert_non_null(h);
    check(h, &b);
    assert_true(has(h, 0) && has(h, SL_DRAFT_HEAD_ROWS / 2 - 1));
    assert_true(has(h, last) && !has(h, low));
    sl_draft_head_add(h, &low, 1);
    assert_true(has(h, low));
    check(h, &b);
    for (int i = 0; i < 100000; i++) {
        int32_t id = (int32_t)(rig_random(&seed) % b.n_vocab);

        sl_draft_head_add(h, &id, 1);
    }
    check(h, &b);
    assert_int_equal(sl_draft_head_get(h)->rows, SL_DRAFT_HEAD_ROWS);
    /* What is fixed stays, what is new is there. */
    assert_true(has(h, 0) && has(h, last));
    sl_draft_head_add(h, &low, 1);
    assert_true(has(h, low));
    sl_draft_head_close(&h);
    assert_null(h);
    free(b.w);
}

static void test_rows(void **state)
{
    (void)state;
    one_type(SL_BF16);
    one_type(SL_Q8_0);
}

static void test_small_heads_are_whole(void **state)
{
    struct sl_draft_head *h = NULL;
    struct sl_mat m = {.type = SL_BF16, .rows = SL_DRAFT_HEAD_ROWS,
                       .cols = COLS};

    (void)state;
    assert_int_equal(sl_draft_head_open(&h, &m, m.rows, NULL), 0);
    assert_null(h);
    sl_draft_head_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_small_heads_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
