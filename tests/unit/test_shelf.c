/* The thread that keeps prefixes on a disk, without an engine: what goes first,
 * who waits for whom, what happens at the limits. A line in the log is where a
 * test can hold the thread: the disk is as slow as it wants then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../help/rig.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/process.h"
#include "base/thread.h"
#include "base/tree.h"
#include "state/shelf.h"

enum { MAX_TOK = 512, LONG = 400, SHORT = 100, LIMIT = 128 << 10 };
#define MANY ((uint64_t)1 << 30)
#define HOUR_NS ((int64_t)3600 * 1000000000)

static const uint8_t model[SL_SHA256] = "test";
static char dir[64];
static struct sl_memory *mem;

/* ---------------------------------------------------------------- the log */

static pthread_mutex_t log_mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_t tester;
static char seen[1 << 14]; /* guarded by log_mu, as all here */
static bool holds, is_held;
static unsigned rest_ms; /* how long it sleeps when it was let go */

static void pause_ms(void)
{
    pthread_mutex_unlock(&log_mu);
    sl_process_sleep_ms(1);
    pthread_mutex_lock(&log_mu);
}

static void take_line(void *ctx, enum sl_log_level level, const char *line)
{
    size_t n;

    (void)ctx;
    (void)level;
    if (!strstr(line, "event=prefix_dropped"))
        return;
    pthread_mutex_lock(&log_mu);
    n = strlen(seen);
    snprintf(seen + n, sizeof(seen) - n, "%s\n", line);
    is_held = holds && !pthread_equal(pthread_self(), tester);
    for (unsigned rest = is_held ? rest_ms : 0; is_held || rest > 0;) {
        rest -= !is_held;
        pause_ms();
    }
    pthread_mutex_unlock(&log_mu);
}

static bool was_logged(const char *what)
{
    bool yes;

    pthread_mutex_lock(&log_mu);
    yes = strstr(seen, what) != NULL;
    pthread_mutex_unlock(&log_mu);
    return yes;
}

static void hold(void)
{
    pthread_mutex_lock(&log_mu);
    holds = true;
    pthread_mutex_unlock(&log_mu);
}

static void wait_until_held(void)
{
    pthread_mutex_lock(&log_mu);
    while (!is_held)
        pause_ms();
    pthread_mutex_unlock(&log_mu);
}

/* `again`: it is held at its next line, too. */
static void let_go(bool again)
{
    pthread_mutex_lock(&log_mu);
    holds = again;
    is_held = false;
    pthread_mutex_unlock(&log_mu);
}

/* -------------------------------------------------------------- the shelf */

/* Called from the I/O thread. */
static void on_loaded(void *ctx)
{
    (void)ctx;
}

static struct sl_shelf *open_shelf(uint64_t max_bytes, uint64_t close_ns)
{
    struct sl_shelf_opts o = {.dir = dir,
                              .max_bytes = max_bytes,
                              .wake = on_loaded,
                              .close_ns = close_ns};
    struct sl_shelf *s = NULL;

    memcpy(o.model, model, sizeof(model));
    assert_int_equal(sl_shelf_open(&s, mem, &o, NULL), 0);
    return s;
}

static void text(int32_t tok[LONG], uint64_t seed)
{
    for (int i = 0; i < LONG; i++)
        tok[i] = (int32_t)(rig_random(&seed) % 1000);
}

/* A sequence that has read n tokens. */
static struct sl_seq *read_seq(uint32_t n)
{
    struct sl_seq *q = NULL;

    assert_int_equal(sl_seq_open(&q, mem, NULL), 0);
    assert_int_equal(sl_seq_begin(q, n, 0, NULL), 0);
    memset(mem->rec->slot + q->rec.dst * mem->rec->slot_floats, 0,
           mem->rec->slot_floats * sizeof(float));
    for (uint32_t i = 0; i < q->n_page; i++)
        memset(mem->kv->base + q->page[i] * mem->kv->page_bytes, (int)i,
               mem->kv->page_bytes);
    sl_seq_end(q, 0);
    return q;
}

/* Keep the first n tokens of a text on the disk. */
static void keep(uint64_t seed, uint32_t n)
{
    struct sl_shelf *s = open_shelf(MANY, MANY * 60);
    struct sl_seq *q = read_seq(n);
    int32_t tok[LONG];

    text(tok, seed);
    sl_shelf_put(s, q, tok, 0);
    sl_shelf_close(&s);
    sl_seq_close(&q);
}

/* Load what the disk has of tok; returns how many tokens it found. */
static uint32_t load(struct sl_shelf *s, const int32_t *tok, bool *ok)
{
    uint32_t n = sl_shelf_find(s, tok, LONG, 1, 0);
    struct sl_seq *q = NULL;
    int32_t *own = NULL;
    uint64_t salt;

    assert_true(n > 0);
    assert_int_equal(sl_seq_open(&q, mem, NULL), 0);
    assert_int_equal(sl_shelf_load(s, q, tok, n, 0, NULL), 0);
    while (sl_shelf_is_loading(s))
        sl_process_sleep_ms(1);
    *ok = sl_shelf_loaded(s, &q, &own, &salt);
    sl_seq_close(&q);
    sl_mem_free(own);
    return n;
}

/* ------------------------------------------------------------------ files */

static void page_path(char out[512], const int32_t *tok, uint32_t page)
{
    uint8_t chain[SL_SHA256];
    int n;

    assert_true(sl_wire_begin(chain, model, 0));
    for (uint32_t i = 0; i <= page; i++)
        assert_true(sl_wire_page(chain, tok + i * SL_KV_PAGE));
    n = snprintf(out, 512, "%s/", dir);
    for (int i = 0; i < SL_DISK_ID / 2; i++)
        n += snprintf(out + n, 512 - (size_t)n, "%02x", model[i]);
    out[n++] = '-';
    for (int i = 0; i < SL_SHA256; i++)
        n += snprintf(out + n, 512 - (size_t)n, "%02x", chain[i]);
    (void)snprintf(out + n, 512 - (size_t)n, ".page");
}

struct count {
    const char *tail;
    uint32_t n;
};

static void count_one(void *ctx, const char *name)
{
    struct count *c = ctx;
    size_t n = strlen(name), t = strlen(c->tail);

    c->n += n >= t && !strcmp(name + n - t, c->tail);
}

static uint32_t count(const char *tail)
{
    struct count c = {tail, 0};

    assert_int_equal(sl_dir_each(dir, count_one, &c, NULL), 0);
    return c.n;
}

/* So that the thread says a line when it lists the folder. */
static void leave_over(void)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/0123456789abcdef-x.page.7.tmp", dir);
    assert_int_equal(sl_file_write(path, "torn", 4, NULL), 0);
    assert_true(sl_file_touch(path, sl_file_now() - HOUR_NS));
}

static int set_up(void **state)
{
    struct sl_kv_plane plane = {.n_layer = 1, .n_head = 1, .dim = 16};
    struct sl_memory_opts o = {.planes = &plane,
                               .n_plane = 1,
                               .kv_type = SL_F32,
                               .rec = {1, 1, 1, 8, 8, 0},
                               .n_page = 4 * MAX_TOK / SL_KV_PAGE,
                               .max_tok = MAX_TOK,
                               .n_seq = 3,
                               .n_slot = 4};

    (void)state;
    snprintf(dir, sizeof(dir), "build/test-shelf-%d", (int)getpid());
    (void)sl_tree_remove(dir, NULL);
    seen[0] = 0;
    rest_ms = 0;
    tester = pthread_self();
    return sl_memory_open(&mem, &o, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    let_go(false);
    sl_memory_close(&mem);
    return sl_tree_remove(dir, NULL);
}

/* ------------------------------------------------------------------- tests */

/* What needs it is dropped, one load after the other, and what does not need it
 * is found. */
static void a_page_in_the_middle_is_gone(void **state)
{
    struct sl_shelf *s;
    int32_t tok[LONG];
    char path[512];
    bool ok;

    (void)state;
    text(tok, 1);
    for (uint32_t n = 100; n <= LONG; n += 100)
        keep(1, n);
    page_path(path, tok, 3); /* the first 192 tokens do without */
    assert_int_equal(sl_file_kind(path), SL_FILE_REGULAR);
    assert_true(sl_file_remove(path));
    s = open_shelf(MANY, 0);
    assert_int_equal(load(s, tok, &ok), 400);
    assert_false(ok);
    assert_int_equal(load(s, tok, &ok), 300);
    assert_false(ok);
    assert_int_equal(load(s, tok, &ok), 200);
    assert_true(ok);
    sl_shelf_close(&s);
    assert_int_equal(count(".state"), 2);
}

/* A file that may not be read now, as another user's: it stays for others. Root
 * may read all, so it is no file at all. */
static void what_cannot_be_read_stays(void **state)
{
    struct sl_shelf *s;
    int32_t tok[LONG];
    char path[512];
    bool ok;

    (void)state;
    text(tok, 1);
    keep(1, SHORT);
    page_path(path, tok, 0);
    assert_true(sl_file_remove(path));
    assert_int_equal(mkdir(path, 0700), 0);
    s = open_shelf(MANY, 0);
    assert_int_equal(load(s, tok, &ok), SHORT);
    assert_false(ok);
    /* But it is not tried again. */
    assert_int_equal(sl_shelf_find(s, tok, LONG, 1, 0), 0);
    sl_shelf_close(&s);
    assert_int_equal(count(".state"), 1);
}

/* A load does not wait for a prefix that is being written, and whoever gives up
 * that prefix does not wait for the load. */
static void a_load_goes_first(void **state)
{
    struct sl_shelf_stats st;
    struct sl_shelf *s;
    struct sl_seq *big, *q = NULL;
    int32_t tok[2][LONG], *own;
    uint64_t salt;
    char path[512];

    (void)state;
    text(tok[0], 1);
    text(tok[1], 2);
    keep(1, SHORT);
    page_path(path, tok[0], 0);
    assert_int_equal(truncate(path, 100), 0);
    s = open_shelf(LIMIT, 0);
    big = read_seq(LONG);
    leave_over();
    hold();
    sl_shelf_put(s, big, tok[1], 0);
    wait_until_held(); /* in the middle of a file */
    assert_ptr_equal(sl_shelf_writing(s), big);
    assert_int_equal(sl_seq_open(&q, mem, NULL), 0);
    assert_int_equal(sl_shelf_load(s, q, tok[0], SHORT, 0, NULL), 0);
    let_go(true);
    wait_until_held(); /* it read the page that was cut */
    assert_true(sl_shelf_is_loading(s));
    assert_null(sl_shelf_writing(s));
    sl_shelf_get_stats(s, &st);
    assert_int_equal(st.n_put, 0); /* it was not finished first */
    sl_shelf_forget(s, big);
    let_go(false);
    sl_shelf_stop_load(s, true);
    assert_false(sl_shelf_is_loading(s));
    assert_false(sl_shelf_loaded(s, &q, &own, &salt));
    sl_shelf_close(&s);
    sl_seq_close(&big);
}

/* And when nobody gives it up it is written all the same. */
static void what_was_interrupted_is_written(void **state)
{
    struct sl_shelf *s;
    struct sl_seq *big;
    int32_t tok[2][LONG];
    bool ok;

    (void)state;
    text(tok[0], 1);
    text(tok[1], 2);
    keep(1, SHORT);
    s = open_shelf(LIMIT, MANY * 60);
    big = read_seq(LONG);
    leave_over();
    hold();
    sl_shelf_put(s, big, tok[1], 0);
    wait_until_held();
    let_go(false);
    assert_int_equal(load(s, tok[0], &ok), SHORT);
    assert_true(ok);
    sl_shelf_close(&s);
    sl_seq_close(&big);
    s = open_shelf(LIMIT, 0);
    assert_int_equal(load(s, tok[1], &ok), LONG);
    assert_true(ok);
    sl_shelf_close(&s);
}

static void a_queue_that_is_full(void **state)
{
    struct sl_shelf_stats st;
    struct sl_shelf *s = open_shelf(LIMIT, 0);
    struct sl_seq *q = read_seq(LONG);
    int32_t tok[LONG];

    (void)state;
    text(tok, 1);
    leave_over();
    hold();
    sl_shelf_put(s, q, tok, 0);
    wait_until_held();
    for (uint64_t salt = 1; salt <= 40; salt++) /* 32 have room */
        sl_shelf_put(s, q, tok, salt);
    sl_shelf_get_stats(s, &st);
    assert_int_equal(st.n_drop, 8);
    assert_true(was_logged("slower"));
    let_go(false);
    sl_shelf_forget(s, q);
    sl_shelf_close(&s);
    sl_seq_close(&q);
}

/* The end does not wait for all that there is to write. */
static void the_end_is_near(void **state)
{
    struct sl_shelf *s = open_shelf(LIMIT, 0);
    struct sl_seq *q = read_seq(LONG);
    int32_t tok[LONG];

    (void)state;
    text(tok, 1);
    leave_over();
    hold();
    sl_shelf_put(s, q, tok, 0);
    wait_until_held();
    for (uint64_t salt = 1; salt <= 32; salt++)
        sl_shelf_put(s, q, tok, salt);
    rest_ms = 200; /* until this thread is in close */
    let_go(false);
    sl_shelf_close(&s);
    assert_true(was_logged("at the end"));
    sl_seq_close(&q);
}

/* All but the state fit: it must not cost its own pages. */
static void a_prefix_that_just_does_not_fit(void **state)
{
    uint64_t page = mem->kv->page_bytes;
    struct sl_shelf *s = open_shelf((LONG / SL_KV_PAGE + 1) * (page + 10), MANY);
    struct sl_seq *q = read_seq(LONG);
    int32_t tok[LONG];

    (void)state;
    text(tok, 1);
    sl_shelf_put(s, q, tok, 0);
    sl_shelf_close(&s);
    sl_seq_close(&q);
    assert_true(was_logged("pass the limit"));
    assert_int_equal(count(".state") + count(".page"), 0);
}

/* What may not be removed counts, and the folder does not grow. */
static void files_that_stay(void **state)
{
    struct sl_file_stamp st = {0};
    struct sl_shelf *s;
    struct sl_seq *q;
    int32_t tok[LONG];
    uint64_t bytes = 0;
    char path[512];

    (void)state;
    assert_int_equal(sl_dir_make(dir, NULL), 0);
    for (int i = 0; i < 20000 && bytes < LIMIT; i++) {
        text(tok, 100 + (uint64_t)i);
        page_path(path, tok, 0);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_true(sl_file_stamp(&st, path));
        bytes += st.size;
    }
    if (bytes < LIMIT)
        skip(); /* here a folder is worth nothing */
    s = open_shelf(LIMIT, MANY * 60);
    q = read_seq(LONG);
    text(tok, 1);
    sl_shelf_put(s, q, tok, 0);
    sl_shelf_close(&s);
    sl_seq_close(&q);
    assert_true(was_logged("may not be removed"));
    assert_int_equal(count(".state"), 0);
    page_path(path, tok, 0);
    assert_int_equal(sl_file_kind(path), SL_FILE_NONE);
}

/* From two containers both may be process 1, and write the same file. */
static void write_twice(int (*open)(struct sl_out *, const char *, uint64_t,
                                    struct sl_err *))
{
    struct sl_out o[2];
    char path[128], *got = NULL;
    size_t n;

    assert_int_equal(sl_dir_make(dir, NULL), 0);
    snprintf(path, sizeof(path), "%s/x.page", dir);
    for (int i = 0; i < 2; i++)
        assert_int_equal(open(&o[i], path, 4, NULL), 0);
    assert_string_not_equal(o[0].tmp, o[1].tmp);
    assert_int_equal(sl_out_at(&o[0], 0, "same", 4, NULL), 0);
    assert_int_equal(sl_out_close(&o[0], 0, NULL), 0);
    assert_int_equal(sl_file_read(&got, &n, path, 4, NULL), 0);
    assert_memory_equal(got, "same", 4); /* not what the other has so far */
    sl_file_free(got);
    assert_int_equal(sl_out_at(&o[1], 0, "same", 4, NULL), 0);
    assert_int_equal(sl_out_close(&o[1], 0, NULL), 0);
    assert_int_equal(count(".tmp"), 0);
}

static void two_write_the_same(void **state)
{
    (void)state;
    write_twice(sl_out_open_spare);
    write_twice(sl_out_open);
}

/* Who may be alive is left alone, whatever its number is called here. */
static void who_is_writing(void **state)
{
    static const char *const tag[] = {"2147483647", "0123456789abcdef"};
    char path[3][128];
    struct sl_shelf *s;

    (void)state;
    assert_int_equal(sl_dir_make(dir, NULL), 0);
    for (int i = 0; i < 3; i++) {
        if (i < 2)
            snprintf(path[i], sizeof(path[i]), "%s/0123456789abcdef-x.page.%s.tmp",
                     dir, tag[i]);
        else
            snprintf(path[i], sizeof(path[i]),
                     "%s/0123456789abcdef-x.page.%lld.tmp", dir,
                     (long long)getpid());
        assert_int_equal(sl_file_write(path[i], "half", 4, NULL), 0);
    }
    s = open_shelf(LIMIT, 0);
    sl_shelf_close(&s);
    assert_int_equal(count(".tmp"), 3);
    for (int i = 0; i < 2; i++)
        assert_true(sl_file_touch(path[i], sl_file_now() - HOUR_NS));
    s = open_shelf(LIMIT, 0);
    sl_shelf_close(&s);
    assert_true(was_logged("files=2"));
    assert_int_equal(sl_file_kind(path[2]), SL_FILE_REGULAR);
}

static void a_file_that_cannot_be_touched(void **state)
{
    char path[128];

    (void)state;
    assert_int_equal(sl_dir_make(dir, NULL), 0);
    snprintf(path, sizeof(path), "%s/loop", dir);
    assert_false(sl_file_touch(path, sl_file_now()));
    assert_int_equal(symlink("loop", path), 0);
    assert_false(sl_file_touch(path, sl_file_now()));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_page_in_the_middle_is_gone),
        TEST(what_cannot_be_read_stays),
        TEST(a_load_goes_first),
        TEST(what_was_interrupted_is_written),
        TEST(a_queue_that_is_full),
        TEST(the_end_is_near),
        TEST(a_prefix_that_just_does_not_fit),
        TEST(files_that_stay),
        TEST(two_write_the_same),
        TEST(who_is_writing),
        TEST(a_file_that_cannot_be_touched),
    };

    sl_log_set(take_line, NULL, SL_LOG_INFO);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
