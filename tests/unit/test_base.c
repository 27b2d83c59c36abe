/* tests/unit/test_base.c - errors, numbers, UTF-8, buffers, cursor, JSON,
 * arena, memory, files */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cur.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/order.h"
#include "base/plain.h"
#include "base/term.h"
#include "base/tree.h"
#include "base/utf8.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

/* ------------------------------------------------------------- errors */

static void err_fail(void **s)
{
    struct sl_err e = {0};

    (void)s;
    assert_int_equal(sl_fail(&e, SL_EARG, "n is %d", 3), SL_EARG);
    assert_int_equal(e.code, SL_EARG);
    assert_string_equal(e.msg, "n is 3");
    assert_int_equal(sl_fail(NULL, SL_EBUG, "no one listens"), SL_EBUG);
}

/* What a terminal would obey or cannot show does not reach it. */
static void err_is_plain(void **s)
{
    static const struct {
        const char *raw, *want;
    } t[] = {
        {"a\nb\tc", "a\\x0ab\\x09c"},
        {"\x1b[31m\x7f", "\\x1b[31m\\x7f"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "m",
         "\\xc2\\x9bm"},
        {"\xff\xfe", "\\xff\\xfe"},
        {"cut \xe2\x82", "cut \\xe2\\x82"},
        {"\x80", "\\x80"},
    };
    struct sl_err e;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        sl_fail(&e, SL_EIO, "%s", t[i].raw);
        assert_string_equal(e.msg, t[i].want);
        sl_wrap(&e, SL_EIO, "\r"); /* and only once */
        assert_memory_equal(e.msg, "\\x0d: ", 6);
        assert_string_equal(e.msg + 6, t[i].want);
        sl_fail_errno(&e, 0, "%s", t[i].raw);
        assert_memory_equal(e.msg, t[i].want, strlen(t[i].want));
    }
}

static void err_wrap(void **s)
{
    struct sl_err e = {0};

    (void)s;
    assert_int_equal(sl_wrap(&e, 0, "not used"), 0);
    assert_string_equal(e.msg, "");
    sl_fail(&e, SL_EIO, "inner");
    assert_int_equal(sl_wrap(&e, SL_EIO, "opening '%s'", "x"), SL_EIO);
    assert_string_equal(e.msg, "opening 'x': inner");
    assert_int_equal(sl_wrap(NULL, SL_EIO, "x"), SL_EIO);
}

static void err_is_cut_not_overrun(void **s)
{
    struct sl_err e = {0};
    char big[3000];

    (void)s;
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    sl_fail(&e, SL_EIO, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
    sl_wrap(&e, SL_EIO, "%s", big);
    assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
}

static void err_errno(void **s)
{
    static const struct {
        int e;
        enum sl_code code;
    } t[] = {{ENOENT, SL_ENOTFOUND}, {ENOTDIR, SL_ENOTFOUND},
             {EACCES, SL_ENOTFOUND}, {EPERM, SL_ENOTFOUND},
             {ENOSPC, SL_ENOSPACE},  {EDQUOT, SL_ENOSPACE},
             {ENOMEM, SL_ENOMEM},    {EISDIR, SL_EIO}};
    struct sl_err e;

    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        assert_int_equal(sl_fail_errno(&e, t[i].e, "reading '%s'", "f"),
                         t[i].code);
        assert_int_equal(strncmp(e.msg, "reading 'f': ", 13), 0);
    }
}

/* ------------------------------------------------------------ numbers */

static void num_i64(void **s)
{
    static const struct {
        const char *text;
        int rc;
        int64_t v;
    } t[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"+7", 0, 7},
        {"007", 0, 7},
        {"9223372036854775807", 0, INT64_MAX},
        {"-9223372036854775808", 0, INT64_MIN},
        {"9223372036854775808", SL_EARG, 0},
        {"-9223372036854775809", SL_EARG, 0},
        {"99999999999999999999999999", SL_EARG, 0},
        {"", SL_EARG, 0},
        {"-", SL_EARG, 0},
        {" 1", SL_EARG, 0},
        {"1 ", SL_EARG, 0},
        {"1.0", SL_EARG, 0},
        {"0x10", SL_EARG, 0},
        {"--1", SL_EARG, 0},
    };
    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        int64_t v = 42;
        struct sl_err e;
        int rc = sl_num_i64(&v, t[i].text, strlen(t[i].text), INT64_MIN,
                            INT64_MAX, "n", &e);

        if (rc != t[i].rc)
            print_message("case '%s'\n", t[i].text);
        assert_int_equal(rc, t[i].rc);
        assert_true(v == (rc ? 42 : t[i].v));
    }
}

static void num_range(void **s)
{
    struct sl_err e;
    int64_t v = 5;

    (void)s;
    assert_int_equal(sl_num_i64(&v, "11", 2, 1, 10, "--threads", &e), SL_EARG);
    assert_string_equal(e.msg, "--threads: 11 is outside 1 to 10");
    assert_int_equal(sl_num_i64(&v, "10xyz", 2, 1, 10, "n", &e), 0);
    assert_int_equal(v, 10);
}

static void num_f64(void **s)
{
    static const struct {
        const char *text;
        int rc;
        double v;
    } t[] = {
        {"0", 0, 0},         {"1.5", 0, 1.5},       {".5", 0, 0.5},
        {"5.", 0, 5},        {"-1e3", 0, -1000},    {"1E-2", 0, 0.01},
        {"inf", SL_EARG, 0}, {"nan", SL_EARG, 0},   {"0x1p3", SL_EARG, 0},
        {"", SL_EARG, 0},    {".", SL_EARG, 0},     {"1e", SL_EARG, 0},
        {"1,5", SL_EARG, 0}, {"1e999", SL_EARG, 0}, {" 1", SL_EARG, 0},
        {"1 ", SL_EARG, 0},
    };
    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(t); i++) {
        double v = 42;
        struct sl_err e;
        int rc =
            sl_num_f64(&v, t[i].text, strlen(t[i].text), -1e6, 1e6, "x", &e);

        if (rc != t[i].rc)
            print_message("case '%s'\n", t[i].text);
        assert_int_equal(rc, t[i].rc);
        assert_true(v == (rc ? 42 : t[i].v));
    }
}

/* -------------------------------------------------------------- UTF-8 */

static void utf8_every_character(void **s)
{
    (void)s;
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        char b[4];
        uint32_t back = 0;
        size_t n;

        if (cp >= 0xd800 && cp <= 0xdfff)
            continue;
        n = sl_utf8_put(b, cp);
        assert_true(sl_utf8_valid(b, n) == n);
        assert_true(sl_utf8_get(&back, b, n) == n && back == cp);
        for (size_t cut = 1; cut < n; cut++) {
            assert_true(sl_utf8_valid(b, cut) == 0);
            assert_true(sl_utf8_partial(b, cut) == cut);
        }
        assert_true(sl_utf8_partial(b, n) == 0);
    }
}

static void utf8_bad(void **s)
{
    /* RFC 3629 and table 3-7 of the Unicode standard. */
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x80\x80",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x80\x80\x80",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xfe",
        "\xc3(",
        "\xe2\x82(",
        "\xf0\x9f\x98(",
    };
    (void)s;
    for (size_t i = 0; i < SL_COUNTOF(bad); i++) {
        char text[16];
        struct sl_err e;
        int n = snprintf(text, sizeof(text), "ab%s", bad[i]);

        assert_int_equal(sl_utf8_valid(text, (size_t)n), 2);
        assert_int_equal(sl_utf8_check(text, (size_t)n, "a prompt", &e),
                         SL_EFORMAT);
        assert_non_null(strstr(e.msg, "offset 2"));
    }
    assert_int_equal(sl_utf8_check("a\0b", 3, "x", NULL), 0);
    assert_int_equal(sl_utf8_valid("", 0), 0);
}

/* ------------------------------------------------------------ buffers */

static void buf_grows_to_its_ceiling(void **s)
{
    struct sl_buf b;
    struct sl_err e;

    (void)s;
    sl_buf_init(&b, 1000);
    for (int i = 0; i < 1000; i++) {
        sl_buf_byte(&b, 'x');
        assert_int_equal(b.p[b.len], 0);
    }
    assert_int_equal(sl_buf_check(&b, "t", &e), 0);
    sl_buf_byte(&b, 'y');
    assert_int_equal(sl_buf_check(&b, "the answer", &e), SL_EARG);
    assert_non_null(strstr(e.msg, "the answer is longer than the limit"));
    assert_int_equal(b.len, 1000);
    sl_buf_reset(&b); /* forgets the failure, keeps the memory */
    sl_buf_fmt(&b, "%d-%s", 12, "ab");
    assert_string_equal(b.p, "12-ab");
    assert_int_equal(sl_buf_check(&b, "t", &e), 0);
    sl_buf_deinit(&b);
}

static void buf_empty_things(void **s)
{
    struct sl_buf b;

    (void)s;
    sl_buf_init(&b, 0);
    sl_buf_add(&b, NULL, 0);
    assert_int_equal(sl_buf_check(&b, "t", NULL), 0);
    sl_buf_byte(&b, 'x');
    assert_int_equal(sl_buf_check(&b, "t", NULL), SL_EARG);
    sl_buf_deinit(&b);
}

static void buf_without_memory(void **s)
{
    struct sl_buf b;

    (void)s;
    sl_buf_init(&b, 100);
    sl_mem_fail_nth(1);
    sl_buf_str(&b, "abc");
    sl_buf_str(&b, "def"); /* would succeed, but the failure sticks */
    sl_mem_fail_nth(0);
    assert_int_equal(sl_buf_check(&b, "t", NULL), SL_ENOMEM);
    assert_int_equal(b.len, 0);
    sl_buf_deinit(&b);
}

/* ------------------------------------------------------------- cursor */

static void cur_reads_and_sticks(void **s)
{
    static const unsigned char p[] = {1, 2,  3,  4,  5,  6,  7, 8,
                                      9, 10, 11, 12, 13, 14, 15};
    struct sl_cur c;

    (void)s;
    sl_cur_init(&c, p, sizeof(p));
    assert_int_equal(sl_cur_u8(&c), 1);
    assert_int_equal(sl_cur_u16(&c), 0x0302);
    assert_int_equal(sl_cur_u32(&c), 0x07060504);
    assert_true(sl_cur_u64(&c) == 0x0f0e0d0c0b0a0908);
    assert_int_equal(sl_cur_left(&c), 0);
    assert_false(c.bad);
    assert_non_null(sl_cur_take(&c, 0));
    assert_int_equal(sl_cur_u8(&c), 0);
    assert_true(c.bad);
    sl_cur_init(&c, p, 3);
    assert_int_equal(sl_cur_u32(&c), 0);
    assert_true(c.bad);
    assert_int_equal(sl_cur_u8(&c), 0); /* one byte is there, but it sticks */
    sl_cur_init(&c, p, 3);
    assert_null(sl_cur_take(&c, SIZE_MAX));
}

/* --------------------------------------------------------------- JSON */

static int parse(const char *text)
{
    struct sl_err e;
    json_t *j = NULL;
    int rc = sl_json_parse(&j, text, strlen(text), "f", &e);

    json_decref(j);
    return rc;
}

static void json_refuses(void **s)
{
    char deep[2 * SL_JSON_DEPTH + 8] = {0};

    (void)s;
    assert_int_equal(parse("{\"a\":1}"), 0);
    assert_int_equal(parse("7"), 0);
    assert_int_equal(parse("{\"a\":1,\"a\":2}"), SL_EFORMAT);
    assert_int_equal(parse("{\"a\":1} x"), SL_EFORMAT);
    assert_int_equal(parse("{\"a\":\"\\ud800\"}"), SL_EFORMAT);
    assert_int_equal(parse("{\"a\":\"\\u0000\"}"), SL_EFORMAT);
    assert_int_equal(parse("\"\xff\""), SL_EFORMAT);
    assert_int_equal(parse(""), SL_EFORMAT);
    memset(deep, '[', SL_JSON_DEPTH);
    memset(deep + SL_JSON_DEPTH, ']', SL_JSON_DEPTH);
    assert_int_equal(parse(deep), 0);
    memset(deep, '[', SL_JSON_DEPTH + 1);
    assert_int_equal(parse(deep), SL_EFORMAT);
    /* Brackets in strings do not nest. */
    assert_int_equal(parse("\"[[[[\\\"[[[\""), 0);
}

static void json_getters(void **s)
{
    static const char text[] = "{\"i\":5,\"f\":1.5,\"b\":true,\"s\":\"x\","
                               "\"z\":null,\"big\":1e300}";
    json_t *j = NULL;
    struct sl_err e;
    int64_t i = -1;
    double f = -1;
    bool b = false;
    const char *str = NULL;

    (void)s;
    assert_int_equal(sl_json_parse(&j, text, strlen(text), "t", &e), 0);
    assert_int_equal(sl_json_i64(&i, j, "i", true, 0, 9, &e), 0);
    assert_int_equal(i, 5);
    assert_int_equal(sl_json_i64(&i, j, "i", true, 6, 9, &e), SL_EFORMAT);
    assert_non_null(strstr(e.msg, "'i' is 5 and must be"));
    assert_int_equal(sl_json_i64(&i, j, "f", true, 0, 9, &e), SL_EFORMAT);
    assert_int_equal(sl_json_i64(&i, j, "none", false, 0, 9, &e), 0);
    assert_int_equal(sl_json_i64(&i, j, "z", false, 0, 9, &e), 0);
    assert_int_equal(sl_json_i64(&i, j, "none", true, 0, 9, &e), SL_EFORMAT);
    assert_int_equal(i, 5); /* untouched by all of these */
    assert_int_equal(sl_json_f64(&f, j, "f", true, 0, 2, &e), 0);
    assert_true(f == 1.5);
    assert_int_equal(sl_json_f64(&f, j, "big", true, 0, 2, &e), SL_EFORMAT);
    assert_int_equal(sl_json_bool(&b, j, "b", true, &e), 0);
    assert_true(b);
    assert_int_equal(sl_json_bool(&b, j, "i", true, &e), SL_EFORMAT);
    assert_int_equal(sl_json_str(&str, j, "s", true, &e), 0);
    assert_string_equal(str, "x");
    assert_int_equal(sl_json_str(&str, j, "i", true, &e), SL_EFORMAT);
    json_decref(j);
}

/* -------------------------------------------------------------- arena */

static void arena_marks(void **s)
{
    struct sl_arena a;
    size_t mark;
    char *x, *y;

    (void)s;
    assert_int_equal(sl_arena_init(&a, 1 << 16, "t", NULL), 0);
    x = sl_arena_get(&a, 100);
    assert_int_equal((uintptr_t)x % 64, 0);
    memset(x, 1, 100);
    mark = sl_arena_mark(&a);
    y = sl_arena_get(&a, 1);
    assert_true(y >= x + 100);
    sl_arena_reset(&a, mark);
    assert_ptr_equal(sl_arena_get(&a, 1), y);
    assert_int_equal(x[99], 1);
    assert_true(a.peak >= a.used);
    sl_arena_deinit(&a);
    sl_arena_deinit(&a); /* twice does no harm */
}

static void arena_sticks(void **s)
{
    struct sl_arena a;

    (void)s;
    assert_int_equal(sl_arena_init(&a, 1024, "t", NULL), 0);
    assert_null(sl_arena_get(&a, SIZE_MAX));
    assert_true(sl_arena_failed(&a));
    assert_null(sl_arena_get(&a, 1));
    sl_arena_reset(&a, 0);
    assert_false(sl_arena_failed(&a));
    assert_non_null(sl_arena_get(&a, 1024 - sl_arena_cost(0)));
    assert_null(sl_arena_get(&a, 1));
    sl_arena_deinit(&a);
}

static void arena_poisons(void **s)
{
#if defined(__SANITIZE_ADDRESS__)
    struct sl_arena a;
    char *x;

    (void)s;
    assert_int_equal(sl_arena_init(&a, 4096, "t", NULL), 0);
    x = sl_arena_get(&a, 8);
    assert_false(__asan_address_is_poisoned(x + 7));
    assert_true(__asan_address_is_poisoned(x + 8));
    sl_arena_reset(&a, 0);
    assert_true(__asan_address_is_poisoned(x));
    sl_arena_deinit(&a);
#else
    (void)s;
    print_message("skip: this build has no AddressSanitizer\n");
#endif
}

/* ------------------------------------------------------------- memory */

static void mem_overflow(void **s)
{
    struct sl_err e;
    size_t v = 1;
    void *p = NULL;

    (void)s;
    assert_int_equal(sl_mem_alloc(&p, SIZE_MAX / 2, 4, "a table", &e),
                     SL_ENOMEM);
    assert_non_null(strstr(e.msg, "a table"));
    assert_null(p);
    assert_int_equal(sl_mem_resize(&p, SIZE_MAX / 2, 4, "a table", &e),
                     SL_ENOMEM);
    assert_null(p);
    assert_false(sl_mul_size(&v, SIZE_MAX, 2));
    assert_false(sl_add_size(&v, SIZE_MAX, 1));
    assert_int_equal(v, 1);
    assert_true(sl_mul_size(&v, 3, 4) && v == 12);
    assert_true(sl_add_size(&v, 3, 4) && v == 7);
}

static void mem_fails_on_demand(void **s)
{
    uint64_t n0 = sl_mem_count();
    char *p = NULL, *q = NULL;

    (void)s;
    sl_mem_fail_nth(2);
    assert_int_equal(sl_mem_alloc(&p, 1, 1, "x", NULL), 0);
    assert_int_equal(sl_mem_alloc(&q, 1, 1, "x", NULL), SL_ENOMEM);
    assert_int_equal(sl_mem_alloc(&q, 1, 1, "x", NULL), 0);
    sl_mem_fail_nth(0);
    assert_int_equal(sl_mem_count() - n0, 3);
    sl_mem_free(p);
    sl_mem_free(q);
}

static void mem_zeroed_and_empty(void **s)
{
    unsigned char *p;
    char *str;

    (void)s;
    assert_int_equal(sl_mem_alloc(&p, 0, 8, "x", NULL), 0);
    assert_non_null(p);
    sl_mem_free(p);
    assert_int_equal(sl_mem_map(&p, 100000, "x", NULL), 0);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (size_t i = 0; i < 100000; i++)
        assert_int_equal(p[i], 0);
    sl_mem_unmap(p, 100000);
    assert_int_equal(sl_mem_dup(&str, "a\0b", 3, NULL), 0);
    assert_memory_equal(str, "a\0b\0", 4);
    sl_mem_free(str);
}

/* -------------------------------------------------------------- files */

static void file_round_trip(void **s)
{
    char dir[] = "/tmp/sluice-test-XXXXXX", path[128], *text;
    struct sl_err e;
    struct sl_map m;
    size_t len;

    (void)s;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(sl_path_join(path, sizeof(path), dir, "f", &e), 0);
    assert_int_equal(sl_file_write(path, "hello", 5, &e), 0);
    assert_int_equal(sl_file_read(&text, &len, path, 5, &e), 0);
    assert_int_equal(len, 5);
    assert_string_equal(text, "hello");
    sl_file_free(text);
    assert_int_equal(sl_file_read(&text, &len, path, 4, &e), SL_EFORMAT);
    assert_int_equal(sl_map_open(&m, path, &e), 0);
    assert_memory_equal(m.p, "hello", 5);
    sl_map_want(&m, 0, 5);
    sl_map_drop(&m, 2, SIZE_MAX);
    sl_map_close(&m);
    assert_int_equal(sl_file_write(path, "", 0, &e), 0);
    assert_int_equal(sl_map_open(&m, path, &e), 0);
    assert_int_equal(m.len, 0);
    sl_map_close(&m);
    assert_int_equal(sl_file_kind(path), SL_FILE_REGULAR);
    assert_int_equal(sl_file_kind(dir), SL_FILE_DIR);
    unlink(path);
    assert_int_equal(sl_file_kind(path), SL_FILE_NONE);
    assert_int_equal(rmdir(dir), 0); /* no temporary is left behind */
}

/* Another container's process may have our number and write in our folder: what
 * it has so far is neither taken nor removed. */
static void others_of_our_number(void **s)
{
    static const char *const name[] = {"f.", ".sluice-link-"};
    char dir[] = "/tmp/sluice-test-XXXXXX", path[64], theirs[2][96];
    char *text;
    size_t len;

    (void)s;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/f", dir);
    for (int i = 0; i < 2; i++) {
        snprintf(theirs[i], sizeof(theirs[i]), "%s/%s%ld.tmp", dir, name[i],
                 (long)getpid());
        assert_int_equal(sl_file_write(theirs[i], "half", 4, NULL), 0);
    }
    assert_int_equal(sl_file_write(path, "ours", 4, NULL), 0);
    assert_int_equal(sl_tree_link_below(dir, "l", "f", NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sl_file_read(&text, &len, theirs[i], 4, NULL), 0);
        assert_memory_equal(text, "half", 4);
        sl_file_free(text);
    }
    assert_int_equal(sl_tree_remove(dir, NULL), 0);
}

static void file_errors(void **s)
{
    struct sl_err e;
    struct sl_map m;
    char *text, small[8];
    size_t len;

    (void)s;
    assert_int_equal(sl_map_open(&m, "/nowhere/x", &e), SL_ENOTFOUND);
    assert_non_null(strstr(e.msg, "/nowhere/x"));
    assert_int_equal(sl_map_open(&m, "/tmp", &e), SL_EARG);
    assert_int_equal(sl_file_read(&text, &len, "/dev/null", 9, &e), SL_EARG);
    assert_int_equal(sl_file_write("/nowhere/x", "a", 1, &e), SL_ENOTFOUND);
    assert_int_equal(sl_path_join(small, sizeof(small), "abcdef", "g", &e),
                     SL_EARG);
    assert_int_equal(sl_path_join(small, sizeof(small), "abcd/", "gh", &e), 0);
    assert_string_equal(small, "abcd/gh");
}

/* --------------------------------------------------- log, element types */

static void log_sink(void *ctx, enum sl_log_level level, const char *line)
{
    snprintf(ctx, 64, "%d %s", (int)level, line);
}

static void log_levels(void **s)
{
    char line[64] = "";

    (void)s;
    sl_log(SL_LOG_ERROR, "nobody listens");
    sl_log_set(log_sink, line, SL_LOG_WARN);
    sl_log(SL_LOG_INFO, "too quiet");
    assert_string_equal(line, "");
    sl_log(SL_LOG_WARN, "key=%d", 3);
    assert_string_equal(line, "2 key=3");
    /* What an event quotes does not begin a second one. */
    sl_log(SL_LOG_ERROR, "a=%s", "\nb=1\x1b[m\xff");
    assert_string_equal(line, "3 a=\\x0ab=1\\x1b[m\\xff");
    assert_int_equal(sl_plain_quoted(line, sizeof(line), "a \"b=1\n"), 13);
    assert_string_equal(line, "a \\x22b=1\\x0a");
    assert_int_equal(sl_plain_word(line, sizeof(line), "a \"b\""), 8);
    assert_string_equal(line, "a\\x20\"b\"");
    sl_log_set(NULL, NULL, SL_LOG_WARN);
}

static void dtype_bytes(void **s)
{
    (void)s;
    assert_int_equal(sl_dtype_bytes(SL_F32, 3), 12);
    assert_int_equal(sl_dtype_bytes(SL_BF16, 3), 6);
    assert_string_equal(sl_dtype_get(SL_BF16)->name, "bf16");
}

static volatile sig_atomic_t n_inner, n_outer;

static void count_interrupt(void *ctx)
{
    ++*(volatile sig_atomic_t *)ctx;
}

/* Ctrl-C is never lost between a look and a wait, and goes to whom it belongs.
 */
static void interrupts(void **state)
{
    struct sl_on_interrupt none, outer;
    int fd[2], saved = dup(0);

    (void)state;
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(dup2(fd[0], 0), 0); /* nothing comes from it */
    none = sl_term_on_interrupt(
        (struct sl_on_interrupt){count_interrupt, (void *)(uintptr_t)&n_outer});
    assert_null(none.fn);
    outer = sl_term_on_interrupt(
        (struct sl_on_interrupt){count_interrupt, (void *)(uintptr_t)&n_inner});
    raise(SIGINT);
    assert_int_equal(n_inner, 1);
    assert_false(sl_in_wait(&n_inner)); /* it came before the wait */
    (void)sl_term_on_interrupt(outer);
    raise(SIGINT);
    assert_int_equal(n_inner, 1);
    assert_int_equal(n_outer, 1);
    n_outer = 0;
    assert_int_equal(write(fd[1], "x", 1), 1);
    assert_true(sl_in_wait(&n_outer));
    (void)sl_term_on_interrupt(none);
    assert_int_equal(dup2(saved, 0), 0);
    close(saved);
    close(fd[0]);
    close(fd[1]);
}

static uint32_t n_asked;

static bool is_smaller(const void *ctx, uint32_t a, uint32_t b)
{
    const uint8_t *key = ctx;

    n_asked++;
    return key[a] < key[b];
}

/* Equals stay as they were; n log n questions, and n when there is no news. */
static void order(void **state)
{
    enum { N = 1000, LOG = 10 };
    static uint32_t at[N], work[N];
    static uint8_t key[N];

    (void)state;
    for (uint32_t n = 0; n <= N; n = n < 40 ? n + 1 : n + 120) {
        for (uint32_t i = 0; i < n; i++) {
            key[i] = (uint8_t)(i * 7919 % 251);
            at[i] = i;
        }
        n_asked = 0;
        sl_order(at, work, n, is_smaller, key);
        assert_true(n_asked <= n * (LOG + 1));
        for (uint32_t i = 1; i < n; i++)
            assert_true(key[at[i - 1]] < key[at[i]] ||
                        (key[at[i - 1]] == key[at[i]] && at[i - 1] < at[i]));
        n_asked = 0;
        sl_order(at, work, n, is_smaller, key);
        assert_true(n_asked <= n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order),
        cmocka_unit_test(err_fail),
        cmocka_unit_test(err_wrap),
        cmocka_unit_test(err_is_plain),
        cmocka_unit_test(err_is_cut_not_overrun),
        cmocka_unit_test(err_errno),
        cmocka_unit_test(num_i64),
        cmocka_unit_test(num_range),
        cmocka_unit_test(num_f64),
        cmocka_unit_test(utf8_every_character),
        cmocka_unit_test(utf8_bad),
        cmocka_unit_test(buf_grows_to_its_ceiling),
        cmocka_unit_test(buf_empty_things),
        cmocka_unit_test(buf_without_memory),
        cmocka_unit_test(cur_reads_and_sticks),
        cmocka_unit_test(json_refuses),
        cmocka_unit_test(json_getters),
        cmocka_unit_test(arena_marks),
        cmocka_unit_test(arena_sticks),
        cmocka_unit_test(arena_poisons),
        cmocka_unit_test(mem_overflow),
        cmocka_unit_test(mem_fails_on_demand),
        cmocka_unit_test(mem_zeroed_and_empty),
        cmocka_unit_test(file_round_trip),
        cmocka_unit_test(others_of_our_number),
        cmocka_unit_test(file_errors),
        cmocka_unit_test(log_levels),
        cmocka_unit_test(dtype_bytes),
        cmocka_unit_test(interrupts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
