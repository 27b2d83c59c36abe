/* The part of the output head that drafters use: which rows it has, and that
 * they are those of the head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kern/kern.h"
#include "kern/quantise.h"
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

static struct sl_kern kern;
static struct sl_pool *pool;

static int open_head(struct sl_draft_head **h, const struct sl_mat *m,
                     uint32_t n_vocab, enum sl_dtype want)
{
    return sl_draft_head_open(h, m, n_vocab, want, pool, &kern, NULL);
}

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
    assert_int_equal(open_head(&h, &b.mat, b.n_vocab, SL_N_DTYPE), 0);
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
    assert_int_equal(open_head(&h, &m, m.rows, SL_N_DTYPE), 0);
    assert_null(h);
    sl_draft_head_close(&h);
}

/* A head of numbers in few bits, whole or in part: every row is what quantising
 * that of its id gives; what is quantised already stays. */
static void test_rounded(void **state)
{
    static const uint32_t n_vocab[] = {SL_DRAFT_HEAD_ROWS - 3,
                                       SL_DRAFT_HEAD_ROWS + EXTRA};
    float row[COLS], got[COLS], want[COLS];
    unsigned char blocks[COLS * 2];

    (void)state;
    for (size_t k = 0; k < SL_COUNTOF(n_vocab); k++) {
        struct sl_draft_head *h = NULL;
        struct big b;
        const struct sl_mat *m;

        open_big(&b, SL_BF16);
        for (size_t i = 0; i < b.mat.rows * COLS; i++)
            b.w[2 * i + 1] = (unsigned char)(0x3c | (b.w[2 * i + 1] & 0x80));
        assert_int_equal(open_head(&h, &b.mat, n_vocab[k], SL_Q8_0), 0);
        assert_non_null(h);
        sl_draft_head_add(h, &(int32_t){SL_DRAFT_HEAD_ROWS / 2 + 200}, 1);
        m = sl_draft_head_get(h);
        assert_int_equal(m->type, SL_Q8_0);
        if (k == 0)
            assert_int_equal(m->rows, n_vocab[k]);
        for (uint32_t i = 0; i < m->rows; i += 7) {
            int32_t id = sl_draft_head_id(h, i);

            kern.row[SL_BF16](row, b.w, NULL, (size_t)id, COLS);
            sl_quantise_row(SL_Q8_0, blocks, row, NULL, COLS);
            sl_dequantise_row(SL_Q8_0, want, blocks, COLS);
            kern.row[SL_Q8_0](got, m->w, NULL, i, COLS);
            assert_memory_equal(got, want, sizeof(got));
        }
        sl_draft_head_close(&h);
        free(b.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_small_heads_are_whole),
        cmocka_unit_test(test_rounded),
    };
    int rc;

    sl_kern_init(&kern, SL_CPU_ALL);
    if (sl_pool_open(&pool, 2, false, NULL))
        return 1;
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    sl_pool_close(&pool);
    return rc;
}
