/* Packed files: the weights that are mapped are those that would have been
 * loaded, to the bit; what is damaged is found and named; what is kept is used
 * again, made again when it is no good, and leaves nothing behind when it
 * cannot be made. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../help/rig.h"
#include "../help/st_out.h"
#include "base/mem.h"
#include "model/packing.h"

#define MODELS "tests/golden/models/"

static struct sl_pool *pool;

static int set_up(void **state)
{
    (void)state;
    return sl_pool_open(&pool, 2, false, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    sl_pool_close(&pool);
    return 0;
}

static struct sl_source *open_source(const char *path)
{
    struct sl_source *s = NULL;
    struct sl_err err = {0};

    if (sl_source_open(&s, path, &err))
        fail_msg("%s", err.msg);
    return s;
}

static void pack(const char *from, const char *to, enum sl_dtype_plan plan)
{
    struct sl_packing_opts o = {.pool = pool, .plan = plan};
    struct sl_source *s = open_source(from);
    struct sl_err err = {0};

    if (sl_packing_write(to, s, &o, &err))
        fail_msg("%s", err.msg);
    sl_source_close(&s);
}

static void same(const char *from, enum sl_dtype_plan plan)
{
    char *dir = scratch_make();
    const char *to = scratch_path(dir, "x.sluice");
    struct rig_opts o;
    struct rig a, b;

    pack(from, to, plan);
    rig_opts_init(&o);
    o.plan = plan;
    rig_open(&a, from, NULL, &o);
    rig_open(&b, to, NULL, &o);
    assert_int_equal(a.w->bytes, b.w->bytes);
    assert_int_equal(a.w->has_mtp, b.w->has_mtp);
    assert_memory_equal(a.w->base, b.w->base, a.w->bytes);
    assert_true(rig_same_logits(&a, &b));
    rig_close(&a);
    rig_close(&b);
    scratch_remove(dir);
}

static void mapped_is_loaded(void **state)
{
    static const char *const models[] = {"dense-r1", "dense-r2", "dense-r3",
                                         "moe-r2",   "nested",   "fp8"};
    char path[100];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(models); i++) {
        snprintf(path, sizeof(path), MODELS "%s", models[i]);
        same(path, SL_PLAN_AUTO);
    }
    same(MODELS "dense-r3", SL_PLAN_Q8);
    same(MODELS "moe-r2", SL_PLAN_BFP4);
    same("models/demo", SL_PLAN_Q4);
}

/* What a file says besides its weights. */
static void texts_are_the_same(void **state)
{
    char *dir = scratch_make();
    const char *to = scratch_path(dir, "x.sluice");
    struct sl_source *a, *b;
    struct sl_tokenizer *t = NULL, *u = NULL;
    struct sl_chat *c = NULL;
    struct sl_buf x, y;

    (void)state;
    pack("models/demo", to, SL_PLAN_AUTO);
    a = open_source("models/demo");
    b = open_source(to);
    assert_true(json_equal(a->config, b->config));
    assert_true(json_equal(a->generation, b->generation));
    assert_memory_equal(&a->conf, &b->conf, sizeof(a->conf));
    assert_int_equal(sl_source_tokenizer(&t, a, NULL), 0);
    assert_int_equal(sl_source_tokenizer(&u, b, NULL), 0);
    assert_int_equal(sl_tokenizer_n_ids(t), sl_tokenizer_n_ids(u));
    for (size_t i = 0; i < sl_tokenizer_n_ids(t); i++) {
        struct sl_span s = sl_tokenizer_bytes(t, (int32_t)i);
        struct sl_span v = sl_tokenizer_bytes(u, (int32_t)i);

        assert_int_equal(sl_tokenizer_kind(t, (int32_t)i),
                         sl_tokenizer_kind(u, (int32_t)i));
        assert_int_equal(s.len, v.len);
        assert_memory_equal(s.p, v.p, s.len);
    }
    assert_int_equal(sl_source_meta(&x, a, NULL), 0);
    assert_int_equal(sl_source_meta(&y, b, NULL), 0);
    assert_int_equal(x.len, y.len);
    assert_memory_equal(x.p, y.p, x.len);
    assert_int_equal(sl_source_chat(&c, b, NULL, 0, NULL), 0);
    sl_buf_deinit(&x);
    sl_buf_deinit(&y);
    sl_chat_close(&c);
    sl_tokenizer_close(&t);
    sl_tokenizer_close(&u);
    sl_source_close(&a);
    sl_source_close(&b);
    scratch_remove(dir);
}

/* A copy of a file's bytes, aligned as a map is. */
static unsigned char *bytes_of(const char *path, size_t *len)
{
    struct sl_map m = {0};
    unsigned char *p;

    assert_int_equal(sl_map_open(&m, path, NULL), 0);
    assert_int_equal(sl_mem_alloc(&p, m.len, 1, "a copy", NULL), 0);
    memcpy(p, m.p, m.len);
    *len = m.len;
    sl_map_close(&m);
    return p;
}

static void expect(const unsigned char *p, size_t n, int code, const char *want)
{
    struct sl_packed *k = NULL;
    struct sl_err err = {0};
    int rc = sl_packed_parse(&k, p, n, "x.sluice", &err);

    if (rc != code || !strstr(err.msg, want) || !strstr(err.msg, "'x.sluice'"))
        fail_msg("%d: %s", rc, err.msg);
    assert_null(k);
}

static void damage_is_named(void **state)
{
    char *dir = scratch_make();
    struct sl_packed *k = NULL;
    struct sl_err err = {0};
    size_t n, head;
    unsigned char *p;

    (void)state;
    pack(MODELS "dense-r1", scratch_path(dir, "x.sluice"), SL_PLAN_AUTO);
    p = bytes_of(scratch_path(dir, "x.sluice"), &n);
    assert_int_equal(sl_packed_parse(&k, p, n, "x.sluice", &err), 0);
    head = k->data_offset;
    assert_int_equal(sl_packing_verify(k, pool, NULL, NULL, &err), 0);
    /* Every bit of the data counts; some are tried. */
    for (size_t i = 0; i < 64; i++) {
        size_t at = head + (n - head) / 64 * i;

        p[at] ^= (unsigned char)(1u << i % 8);
        assert_int_equal(sl_packing_verify(k, pool, NULL, NULL, &err),
                         SL_EFORMAT);
        assert_non_null(strstr(err.msg, "is damaged between bytes"));
        p[at] ^= (unsigned char)(1u << i % 8);
    }
    sl_packed_close(&k);
    for (size_t i = 0; i < head; i += i < 256 ? 1 : 37) {
        p[i] ^= 1;
        assert_int_not_equal(sl_packed_parse(&k, p, n, "x.sluice", &err), 0);
        p[i] ^= 1;
    }
    for (size_t i = 0; i < n; i += 997)
        expect(p, i, SL_EFORMAT, i < 256 ? "no packed file" : "cut short");
    p[8]++;
    expect(p, n, SL_EUNSUP, "version 2 of the format");
    p[8]--;
    p[12]++;
    expect(p, n, SL_EUNSUP, "3 of the layout");
    p[12]--;
    expect(p, n - 1, SL_EFORMAT, "cut short");
    sl_mem_free(p);
    scratch_remove(dir);
}

static void write_file(const char *path, const unsigned char *p, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A type whose blocks no row is made of, in a head whose digest is right. */
static void blocks_make_rows(void **state)
{
    enum { TABLE = 56, DIGEST = 136, DATA = 72, TYPE = 4 };
    char *dir = scratch_make();
    const char *path = scratch_path(dir, "x.sluice");
    struct sl_load_opts lo = {.pool = pool};
    struct sl_weights *w = NULL;
    struct sl_err err = {0};
    struct sl_sha256 h;
    uint64_t table, data;
    unsigned char *p;
    size_t n;

    (void)state;
    pack(MODELS "dense-r1", path, SL_PLAN_AUTO);
    p = bytes_of(path, &n);
    memcpy(&table, p + TABLE, sizeof(table));
    memcpy(&data, p + DATA, sizeof(data));
    assert_int_equal(p[table + TYPE], SL_BF16);
    p[table + TYPE] = SL_Q4_K;
    sl_sha256_init(&h);
    sl_sha256_add(&h, p, DIGEST);
    sl_sha256_add(&h, p + DIGEST + SL_SHA256, data - DIGEST - SL_SHA256);
    assert_true(sl_sha256_end(&h, p + DIGEST));
    write_file(path, p, n);
    assert_int_equal(sl_weights_open(&w, path, &lo, &err), SL_EFORMAT);
    assert_non_null(strstr(err.msg, "weight 0"));
    sl_mem_free(p);
    scratch_remove(dir);
}

/* --- the folder that keeps them --- */

/* Files below dir, at most two folders down; the last one's path. */
static size_t count_files(const char *dir, const char *end, char last[512])
{
    DIR *d = opendir(dir);
    size_t n = 0;
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char path[512];
        size_t len = strlen(e->d_name);

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(path, sizeof(path), "%.200s/%.250s", dir, e->d_name);
        if (sl_file_kind(path) == SL_FILE_DIR) {
            n += count_files(path, end, last);
        } else if (len >= strlen(end) &&
                   !strcmp(e->d_name + len - strlen(end), end)) {
            snprintf(last, 512, "%s", path);
            n++;
        }
    }
    if (d)
        closedir(d);
    return n;
}

static void remove_tree(const char *dir)
{
    char cmd[600];

    snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
    assert_int_equal(system(cmd), 0);
}

static int cached(const char *from, const char *dir, enum sl_dtype_plan plan,
                  struct sl_err *err)
{
    struct sl_packing_opts o = {.pool = pool, .plan = plan};
    struct sl_source *s = open_source(from);
    struct sl_load_opts lo = {.pool = pool, .plan = plan};
    struct sl_weights *w = NULL;
    int rc = sl_packing_cached(&s, dir, &o, err);

    if (!rc) {
        assert_non_null(s->packed);
        assert_int_equal(sl_weights_load(&w, s, &lo, err), 0);
        sl_weights_close(&w);
    }
    sl_source_close(&s);
    return rc;
}

static void kept_and_found(void **state)
{
    char *dir = scratch_make();
    char cache[300], last[512], first[512];
    struct sl_source *s;
    struct sl_err err = {0};
    struct sl_map m = {0};
    unsigned char *p;
    size_t n;

    (void)state;
    snprintf(cache, sizeof(cache), "%s/a/b", dir);
    s = open_source(MODELS "dense-r1");
    assert_false(sl_packing_find(&s, cache, SL_PLAN_AUTO));
    assert_int_equal(cached(MODELS "dense-r1", cache, SL_PLAN_AUTO, &err), 0);
    assert_int_equal(count_files(cache, ".sluice", first), 1);
    assert_int_equal(count_files(cache, "", last), 2); /* and a receipt */
    assert_false(sl_packing_find(&s, cache, SL_PLAN_Q8));
    assert_true(sl_packing_find(&s, cache, SL_PLAN_AUTO));
    sl_source_close(&s);
    assert_int_equal(cached(MODELS "dense-r1", cache, SL_PLAN_Q8, &err), 0);
    assert_int_equal(cached(MODELS "dense-r2", cache, SL_PLAN_AUTO, &err), 0);
    assert_int_equal(count_files(cache, ".sluice", last), 3);
    /* Damaged where a sample sees it: made again, the same file. */
    p = bytes_of(first, &n);
    p[n - 1] ^= 4;
    assert_int_equal(sl_file_write(first, p, n, NULL), 0);
    assert_int_equal(cached(MODELS "dense-r1", cache, SL_PLAN_AUTO, &err), 0);
    p[n - 1] ^= 4;
    assert_int_equal(sl_map_open(&m, first, NULL), 0);
    assert_int_equal(m.len, n);
    assert_memory_equal(m.p, p, n);
    sl_map_close(&m);
    /* Cut short: the same. */
    assert_int_equal(sl_file_write(first, p, n / 2, NULL), 0);
    assert_int_equal(cached(MODELS "dense-r1", cache, SL_PLAN_AUTO, &err), 0);
    assert_int_equal(count_files(cache, ".sluice", last), 3);
    assert_int_equal(count_files(cache, ".tmp", last), 0);
    sl_mem_free(p);
    remove_tree(dir);
    free(dir);
}

/* No room, or no folder: said so, and nothing is left. */
static void nothing_left_behind(void **state)
{
    char *dir = scratch_make();
    char cache[300], last[512];
    struct rlimit old, small;
    struct sl_err err = {0};

    (void)state;
    snprintf(cache, sizeof(cache), "%s/c", dir);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(cached(MODELS "dense-r1", cache, SL_PLAN_AUTO, &err),
                     SL_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_non_null(strstr(err.msg, cache));
    assert_non_null(strstr(err.msg, "--weights copy"));
    assert_int_equal(count_files(cache, "", last), 0);
    scratch_write(dir, "file", "x", 1);
    snprintf(cache, sizeof(cache), "%s/file", dir);
    assert_int_not_equal(cached(MODELS "dense-r1", cache, SL_PLAN_AUTO, &err),
                         0);
    assert_non_null(strstr(err.msg, cache));
    remove_tree(dir);
    free(dir);
}

/* A folder of any size has an id, which a further name changes. */
static void folders_of_many_names(void **state)
{
    enum { MANY = 4500 };
    char *dir = scratch_make();
    uint8_t a[SL_SHA256], b[SL_SHA256];
    char name[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "%d", i);
        scratch_write(dir, name, "", 0);
    }
    assert_true(sl_packing_folder_id(a, dir));
    assert_true(sl_packing_folder_id(b, dir));
    assert_memory_equal(a, b, sizeof(a));
    scratch_write(dir, "z", "", 0);
    assert_true(sl_packing_folder_id(b, dir));
    assert_memory_not_equal(a, b, sizeof(a));
    assert_false(sl_packing_folder_id(b, "/nowhere/at/all"));
    remove_tree(dir);
    free(dir);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_is_loaded),
        cmocka_unit_test(texts_are_the_same),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(blocks_make_rows),
        cmocka_unit_test(kept_and_found),
        cmocka_unit_test(nothing_left_behind),
        cmocka_unit_test(folders_of_many_names),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
