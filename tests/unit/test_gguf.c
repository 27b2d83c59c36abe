/* GGUF files: what is read is what was written, and every kind of damage is
 * refused with one line that names it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../help/st_out.h"
#include "base/mem.h"
#include "file/checkpoint.h"
#include "file/gguf_out.h"

/* A small file of every kind of value and two tensors: [3, 32] of Q8_0 and [5]
 * of F32. The data is 0, 1, 2, ... */
static void make(struct sl_buf *b)
{
    static const size_t a[2] = {3, 32}, v[1] = {5};
    struct sl_gguf_out o;
    uint64_t last;

    sl_gguf_out_init(&o);
    sl_gguf_out_str(&o, "general.architecture", "qwen35", 6);
    sl_gguf_out_u32(&o, "a.u32", 7);
    sl_gguf_out_f32(&o, "a.f32", 0.5f);
    sl_gguf_out_bool(&o, "a.bool", true);
    sl_gguf_out_arr(&o, "a.ints", SL_GGUF_I32_, 3);
    for (int32_t i = 0; i < 3; i++)
        sl_gguf_out_arr_i32(&o, i - 1);
    sl_gguf_out_arr(&o, "a.strs", SL_GGUF_STR, 2);
    sl_gguf_out_arr_str(&o, "ab", 2);
    sl_gguf_out_arr_str(&o, "", 0);
    assert_int_equal(sl_gguf_out_ten(&o, "one", SL_GGUF_Q8_0, 2, a), 0);
    last = sl_gguf_out_ten(&o, "two", SL_GGUF_F32, 1, v);
    assert_int_equal(last, 128);
    sl_buf_init(b, 1 << 20);
    assert_int_equal(sl_gguf_out_head(&o, b, NULL), 0);
    sl_gguf_out_deinit(&o);
    for (size_t i = 0; i < last + 5 * 4; i++)
        sl_buf_byte(b, (char)i);
}

static void reads_what_was_written(void **state)
{
    const struct sl_gguf_kv *kv = NULL;
    struct sl_err err = {0};
    struct sl_gguf *g = NULL;
    const char *s = NULL;
    struct sl_cur c;
    struct sl_buf b;
    size_t len = 0;
    int64_t i = 0;
    double f = 0;
    bool yes = false;

    (void)state;
    make(&b);
    if (sl_gguf_parse(&g, b.p, b.len, "x.gguf", &err))
        fail_msg("%s", err.msg);
    assert_int_equal(g->version, 3);
    assert_int_equal(g->n_kv, 6);
    assert_int_equal(sl_gguf_i64(&i, g, "a.u32", true, 0, 9, &err), 0);
    assert_int_equal(i, 7);
    assert_int_equal(sl_gguf_f64(&f, g, "a.f32", true, 0, 1, &err), 0);
    assert_true(f > 0.49 && f < 0.51);
    assert_int_equal(sl_gguf_bool(&yes, g, "a.bool", true, &err), 0);
    assert_true(yes);
    assert_int_equal(
        sl_gguf_str(&s, &len, g, "general.architecture", true, &err), 0);
    assert_int_equal(len, 6);
    assert_memory_equal(s, "qwen35", 6);
    assert_int_equal(sl_gguf_ints(&kv, g, "a.ints", true, &err), 0);
    assert_int_equal(kv->n, 3);
    assert_int_equal(sl_gguf_int(kv, 0), -1);
    assert_int_equal(sl_gguf_int(kv, 2), 1);
    assert_int_equal(sl_gguf_strs(&kv, g, "a.strs", true, &err), 0);
    sl_gguf_walk(&c, kv);
    assert_memory_equal(sl_gguf_next(&c, &len), "ab", 2);
    assert_int_equal(len, 2);
    assert_non_null(sl_gguf_next(&c, &len));
    assert_int_equal(len, 0);
    assert_null(sl_gguf_next(&c, &len));
    assert_int_equal(g->n_ten, 2);
    assert_string_equal(g->ten[0].name, "one");
    assert_int_equal(g->ten[0].dim[0], 3);
    assert_int_equal(g->ten[0].dim[1], 32);
    assert_int_equal(g->ten[0].bytes, 3 * 34);
    assert_int_equal(sl_gguf_data(g, &g->ten[1])[0], 128);
    assert_int_equal(g->ten[1].offset + g->ten[1].bytes, b.len);
    sl_gguf_close(&g);
    sl_buf_deinit(&b);
}

/* Version 2 differs in nothing that is read. */
static void reads_version_2(void **state)
{
    struct sl_err err = {0};
    struct sl_gguf *g = NULL;
    struct sl_buf b;

    (void)state;
    make(&b);
    b.p[4] = 2;
    assert_int_equal(sl_gguf_parse(&g, b.p, b.len, "x.gguf", &err), 0);
    assert_int_equal(g->version, 2);
    assert_int_equal(g->n_kv, 6);
    assert_int_equal(g->n_ten, 2);
    sl_gguf_close(&g);
    sl_buf_deinit(&b);
}

/* The two names of a type. */
static void types_both_ways(void **state)
{
    size_t n = 0;

    (void)state;
    for (int t = 0; t < 64; t++) {
        enum sl_gguf_type back;
        enum sl_dtype d;

        if (!sl_gguf_dtype(&d, (enum sl_gguf_type)t))
            continue;
        n++;
        assert_true(sl_gguf_type_of(&back, d));
        assert_int_equal(back, t);
        assert_non_null(
            strstr(SL_GGUF_USABLE, sl_gguf_type_name((enum sl_gguf_type)t)));
    }
    assert_int_equal(n, 16);
}

/* Types of other programs are refused by their names, with those that would do;
 * what nobody has, by its number. */
static void refuses_by_name(void **state)
{
    static const struct {
        uint32_t id;
        const char *word;
    } list[] = {
        {139, "the type IQ4_K (139)"},   {140, "the type IQ5_K (140)"},
        {144, "the type IQ4_KS (144)"},  {152, "the type IQ5_KS (152)"},
        {202, "the type Q4_0_R8 (202)"}, {212, "the type Q4_K_R4 (212)"},
        {399, "the type Q8_K_R8 (399)"}, {31, "the type Q4_0_4_4 (31)"},
        {36, "I2_S or IQ4_NL_4_4 (36)"}, {9999, "the type 9999, which"}};
    struct sl_buf b;
    char *at;

    (void)state;
    make(&b);
    at = memmem(b.p, b.len, "\3\0\0\0\0\0\0\0one", 11);
    assert_non_null(at);
    at += 11 + 4 + 2 * 8; /* the number of dimensions, and these */
    for (size_t i = 0; i < SL_COUNTOF(list); i++) {
        struct sl_err err = {0};
        struct sl_gguf *g = NULL;

        memcpy(at, &list[i].id, 4);
        assert_int_equal(sl_gguf_parse(&g, b.p, b.len, "x", &err), SL_EUNSUP);
        if (!strstr(err.msg, list[i].word) || !strstr(err.msg, SL_GGUF_USABLE))
            fail_msg("%u: %s", list[i].id, err.msg);
    }
    sl_buf_deinit(&b);
}

/* A pair goes through as it is, and is known to be there. */
static void copies_pairs(void **state)
{
    struct sl_gguf *g = NULL, *h = NULL;
    struct sl_gguf_out o;
    struct sl_buf a, b;

    (void)state;
    make(&a);
    assert_int_equal(sl_gguf_parse(&g, a.p, a.len, "x", NULL), 0);
    sl_gguf_out_init(&o);
    for (size_t i = 0; i < g->n_kv; i++) {
        assert_false(sl_gguf_out_has(&o, g->kv[i].key));
        sl_gguf_out_copy(&o, &g->kv[i]);
        assert_true(sl_gguf_out_has(&o, g->kv[i].key));
    }
    sl_buf_init(&b, 1 << 20);
    assert_int_equal(sl_gguf_out_head(&o, &b, NULL), 0);
    assert_int_equal(sl_gguf_parse(&h, b.p, b.len, "y", NULL), 0);
    assert_int_equal(h->n_kv, g->n_kv);
    for (size_t i = 0; i < g->n_kv; i++) {
        assert_string_equal(h->kv[i].key, g->kv[i].key);
        assert_int_equal(h->kv[i].kind, g->kv[i].kind);
        assert_int_equal(h->kv[i].of, g->kv[i].of);
        assert_int_equal(h->kv[i].len, g->kv[i].len);
        assert_memory_equal(h->kv[i].p, g->kv[i].p, g->kv[i].len);
    }
    sl_gguf_close(&h);
    sl_gguf_close(&g);
    sl_gguf_out_deinit(&o);
    sl_buf_deinit(&a);
    sl_buf_deinit(&b);
}

static void getters_refuse(void **state)
{
    const struct sl_gguf_kv *kv = NULL;
    struct sl_err err = {0};
    struct sl_gguf *g = NULL;
    struct sl_buf b;
    int64_t i = 42;
    double f = 42;

    (void)state;
    make(&b);
    assert_int_equal(sl_gguf_parse(&g, b.p, b.len, "x.gguf", &err), 0);
    assert_int_equal(sl_gguf_i64(&i, g, "none", false, 0, 1, &err), 0);
    assert_int_equal(sl_gguf_i64(&i, g, "none", true, 0, 1, &err), SL_EFORMAT);
    assert_non_null(strstr(err.msg, "'none' is missing"));
    assert_int_equal(sl_gguf_i64(&i, g, "a.u32", true, 0, 6, &err), SL_EFORMAT);
    assert_non_null(strstr(err.msg, "'a.u32' is 7 and must be from 0 to 6"));
    assert_int_equal(sl_gguf_i64(&i, g, "a.f32", true, 0, 6, &err), SL_EFORMAT);
    assert_non_null(strstr(err.msg, "is f32 and must be a whole number"));
    assert_int_equal(sl_gguf_f64(&f, g, "a.f32", true, 1, 2, &err), SL_EFORMAT);
    assert_int_equal(sl_gguf_ints(&kv, g, "a.strs", true, &err), SL_EFORMAT);
    assert_non_null(strstr(err.msg, "array of string and must be"));
    assert_int_equal(i, 42);
    assert_true(f > 41);
    assert_null(kv);
    sl_gguf_close(&g);
    sl_buf_deinit(&b);
}

/* Where `what` (n bytes) first is in the file. */
static size_t find(const struct sl_buf *b, const char *what, size_t n)
{
    const char *at = memmem(b->p, b->len, what, n);

    assert_non_null(at);
    return (size_t)(at - b->p);
}

static void put64(char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (char)(v >> 8 * i);
}

/* `key` or name, then `after` bytes on: `n` bytes of v. "": from the start. */
static const struct damage {
    const char *name, *key;
    size_t after, n;
    uint64_t v;
    const char *want;
} damages[] = {
    {"magic", "", 0, 1, 'X', "does not begin with 'GGUF'"},
    {"version 1", "", 4, 4, 1, "has version 1 of GGUF"},
    {"version 4", "", 4, 4, 4, "has version 4 of GGUF"},
    {"big endian", "", 4, 4, 0x03000000, "big endian"},
    {"tensors", "", 8, 8, 1ull << 60, "1152921504606846976 tensors"},
    {"tensors, some", "", 8, 8, 500000, "is said to have 500000 tensors"},
    {"keys", "", 16, 8, UINT64_MAX,
     "is said to have 18446744073709551615 keys"},
    {"fewer keys than the header says", "", 16, 8, 7,
     "a string of tensor 0 is said to have"},
    {"a key with a new line in it", "general.architecture", 3, 1, '\n',
     "name of key 0 has control characters"},
    {"a key with an escape in it", "general.architecture", 3, 1, 0x1b,
     "control characters"},
    {"a key with C1 in it", "general.architecture", 3, 2, 0x9bc2,
     "control characters"},
    {"a name with DEL in it", "one", 1, 1, 0x7f,
     "name of tensor 0 has control characters"},
    {"a huge key", "general.architecture", (size_t)-8, 8, 1ull << 60,
     "is said to have 1152921504606846976 bytes"},
    {"a key without bytes", "general.architecture", (size_t)-8, 8, 0,
     "name of key 0 has 0 bytes"},
    {"a key with zero in it", "general.architecture", 3, 1, 0, "not UTF-8"},
    {"a key that is no text", "general.architecture", 3, 1, 0xff, "not UTF-8"},
    {"a kind", "a.u32", 5, 4, 13, "the kind of key 1 is 13"},
    {"a huge string", "general.architecture", 20 + 4, 8, 1ull << 60,
     "is said to have 1152921504606846976 bytes"},
    {"nested arrays", "a.ints", 6 + 4, 4, 9, "array of arrays"},
    {"kind of elements", "a.ints", 6 + 4, 4, 99, "kind of the elements"},
    {"a huge array", "a.ints", 6 + 8, 8, 1ull << 61,
     "'a.ints' is said to have 2305843009213693952 elements"},
    {"a huge array of strings", "a.strs", 6 + 8, 8, 1ull << 62, "elements"},
    {"a huge string in an array", "a.strs", 6 + 16, 8, 1ull << 60, "bytes"},
    {"a key twice", "a.ints", 0, 6, 0x737274732e61,
     "'a.strs' stands in the "
     "file twice"},
    {"no dimensions", "one", 3, 4, 0, "number of dimensions"},
    {"five dimensions", "one", 3, 4, 5, "number of dimensions"},
    {"a dimension of zero", "one", 3 + 4, 8, 0, "a dimension"},
    {"a dimension beyond 63 bits", "one", 3 + 4, 8, UINT64_MAX, "a dimension"},
    {"elements beyond 64 bits", "one", 3 + 12, 8, 1ull << 62, "64 bits"},
    {"half a block", "one", 3 + 4, 8, 40, "blocks have 32"},
    {"an unknown type", "one", 3 + 4 + 16, 4, 77, "has the type 77"},
    {"a type that was given up", "one", 3 + 4 + 16, 4, 4, "has the type 4"},
    {"an offset that is not aligned", "two", 3 + 4 + 8 + 4, 8, 120,
     "multiple of 32"},
    {"an offset far away", "two", 3 + 4 + 8 + 4, 8, 1ull << 62, "multiple of"},
    {"an offset behind the end", "two", 3 + 4 + 8 + 4, 8, 160,
     "it was cut short"},
    {"overlap", "two", 3 + 4 + 8 + 4, 8, 96, "overlap"},
    {"the same place", "two", 3 + 4 + 8 + 4, 8, 0, "overlap"},
    {"a name twice", "two", 0, 3, 0x656e6f, "'one' stands in the file twice"},
};

static void damage_is_named(void **state)
{
    struct sl_buf b;

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(damages); i++) {
        const struct damage *d = &damages[i];
        struct sl_gguf *g = NULL;
        struct sl_err err = {0};
        char v[8];
        int rc;

        make(&b);
        put64(v, d->v);
        memcpy(b.p + find(&b, d->key, strlen(d->key)) + d->after, v, d->n);
        rc = sl_gguf_parse(&g, b.p, b.len, "x.gguf", &err);
        if (rc != SL_EFORMAT && rc != SL_EUNSUP)
            fail_msg("%s: accepted", d->name);
        if (!strstr(err.msg, d->want) || strchr(err.msg, '\n') ||
            !strstr(err.msg, "'x.gguf'"))
            fail_msg("%s: %s", d->name, err.msg);
        sl_buf_deinit(&b);
    }
}

static void alignment(void **state)
{
    static const struct {
        uint32_t a;
        const char *want; /* NULL: accepted */
    } cases[] = {{8, NULL},   {32, NULL},           {0, "from 8"},
                 {1, "from"}, {24, "power of two"}, {1u << 20, "from 8"}};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(cases); i++) {
        static const size_t dim[1] = {8};
        struct sl_gguf *g = NULL;
        struct sl_err err = {0};
        struct sl_gguf_out o;
        struct sl_buf b;
        int rc;

        sl_gguf_out_init(&o);
        sl_gguf_out_u32(&o, "general.alignment", cases[i].a);
        (void)sl_gguf_out_ten(&o, "t", SL_GGUF_F32, 1, dim);
        sl_buf_init(&b, 1 << 20);
        assert_int_equal(sl_gguf_out_head(&o, &b, NULL), 0);
        for (size_t k = 0; k < 32; k++)
            sl_buf_byte(&b, 0);
        rc = sl_gguf_parse(&g, b.p, b.len, "x", &err);
        if (!cases[i].want)
            assert_int_equal(rc, 0);
        else if (!rc || !strstr(err.msg, cases[i].want))
            fail_msg("%u: %s", cases[i].a, err.msg);
        sl_gguf_close(&g);
        sl_gguf_out_deinit(&o);
        sl_buf_deinit(&b);
    }
}

/* A file that ends anywhere before its last byte is refused, with a name. The
 * bytes stand in memory of just that size, so that a read too far is seen. */
static void cut_anywhere(void **state)
{
    struct sl_buf b;

    (void)state;
    make(&b);
    for (size_t n = 0; n < b.len; n++) {
        struct sl_gguf *g = NULL;
        struct sl_err err = {0};
        unsigned char *copy = NULL;
        int rc;

        assert_int_equal(sl_mem_alloc(&copy, n, 1, "a copy", &err), 0);
        memcpy(copy, b.p, n);
        rc = sl_gguf_parse(&g, copy, n, "x.gguf", &err);
        if (rc != SL_EFORMAT || !strstr(err.msg, "'x.gguf'"))
            fail_msg("%zu bytes: %d %s", n, rc, err.msg);
        sl_mem_free(copy);
    }
    sl_buf_deinit(&b);
}

static void opens_a_file(void **state)
{
    char *dir = scratch_make();
    struct sl_err err = {0};
    struct sl_gguf *g = NULL;
    struct sl_buf b;

    (void)state;
    make(&b);
    scratch_write(dir, "x.gguf", b.p, b.len);
    scratch_write(dir, "empty.gguf", "", 0);
    assert_int_equal(sl_gguf_open(&g, scratch_path(dir, "x.gguf"), &err), 0);
    assert_int_equal(g->n_ten, 2);
    sl_gguf_close(&g);
    assert_int_equal(sl_gguf_open(&g, scratch_path(dir, "empty.gguf"), &err),
                     SL_EFORMAT);
    assert_int_equal(sl_gguf_open(&g, scratch_path(dir, "none.gguf"), &err),
                     SL_ENOTFOUND);
    assert_null(g);
    sl_buf_deinit(&b);
    scratch_remove(dir);
}

/* Part `no` of `count`, with one tensor of that name. */
static void write_part(const char *dir, const char *file, unsigned no,
                       unsigned count, unsigned n_ten, const char *name)
{
    static const size_t dim[1] = {8};
    struct sl_gguf_out o;
    struct sl_buf b;

    sl_gguf_out_init(&o);
    sl_gguf_out_u32(&o, "split.no", no);
    sl_gguf_out_u32(&o, "split.count", count);
    sl_gguf_out_u32(&o, "split.tensors.count", n_ten);
    (void)sl_gguf_out_ten(&o, name, SL_GGUF_F32, 1, dim);
    sl_buf_init(&b, 1 << 20);
    assert_int_equal(sl_gguf_out_head(&o, &b, NULL), 0);
    for (size_t i = 0; i < 32; i++)
        sl_buf_byte(&b, (char)no);
    scratch_write(dir, file, b.p, b.len);
    sl_buf_deinit(&b);
    sl_gguf_out_deinit(&o);
}

static void refuse_set(const char *path, int code, const char *want)
{
    struct sl_ckpt *c = NULL;
    struct sl_err err = {0};
    int rc = sl_ckpt_open(&c, path, &err);

    if (rc != code || !strstr(err.msg, want))
        fail_msg("%d: %s", rc, err.msg);
    assert_null(c);
}

/* A set of three: any part opens all of them; what does not belong together, or
 * is not all there, is named. */
static void sets(void **state)
{
    static const char *const file[] = {"m-00001-of-00003.gguf",
                                       "m-00002-of-00003.gguf",
                                       "m-00003-of-00003.gguf"};
    static const char *const name[] = {"b", "a", "c"};
    char *dir = scratch_make();
    char path[3][300];

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        snprintf(path[i], sizeof(path[i]), "%s", scratch_path(dir, file[i]));
        write_part(dir, file[i], i, 3, 3, name[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        struct sl_ckpt *c = NULL;
        struct sl_err err = {0};
        size_t k = 9;

        if (sl_ckpt_open(&c, path[i], &err))
            fail_msg("%s", err.msg);
        assert_int_equal(sl_ckpt_n_tensor(c), 3);
        assert_int_equal(sl_ckpt_n_file(c), 3);
        assert_true(sl_ckpt_find(c, "a", &k));
        assert_int_equal(k, 0);
        assert_int_equal(sl_ckpt_data(c, k)[31], 1);
        assert_string_equal(sl_ckpt_path(c, k), path[1]);
        assert_string_equal(sl_ckpt_gguf(c)->path, path[0]);
        sl_ckpt_close(&c);
    }
    write_part(dir, file[2], 2, 3, 3, "a");
    refuse_set(path[0], SL_EFORMAT, "the tensor 'a' is in");
    write_part(dir, file[2], 2, 4, 3, "c");
    refuse_set(path[0], SL_EFORMAT, "says that it is part 3 of 4");
    write_part(dir, file[2], 1, 3, 3, "c");
    refuse_set(path[0], SL_EFORMAT, "says that it is part 2 of 3");
    write_part(dir, file[2], 2, 3, 3, "c");
    write_part(dir, file[0], 0, 3, 4, "b");
    refuse_set(path[1], SL_EFORMAT, "says that there are 4 tensors");
    write_part(dir, "n-00001-of-00002.gguf", 0, 3, 3, "b");
    refuse_set(scratch_path(dir, "n-00001-of-00002.gguf"), SL_EFORMAT,
               "one of 3 parts, and its name says of 2");
    write_part(dir, "n.gguf", 0, 3, 3, "b");
    refuse_set(scratch_path(dir, "n.gguf"), SL_EARG, "give it its name back");
    assert_int_equal(remove(path[1]), 0);
    refuse_set(path[0], SL_ENOTFOUND, "part 2 of 3");
    scratch_remove(dir);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_was_written),
        cmocka_unit_test(reads_version_2),
        cmocka_unit_test(types_both_ways),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(copies_pairs),
        cmocka_unit_test(getters_refuse),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(alignment),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(opens_a_file),
        cmocka_unit_test(sets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
