/* What steps take is kept beside the packed weights: a second start reads it
 * and measures nothing, what is damaged or old is measured again, engines that
 * differ do not share, a busy machine leaves no trace, and what nobody reads
 * goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../help/st_out.h"
#include "base/file.h"
#include "base/tree.h"
#include "engine/engine.h"
#include "model/packing.h"
#include "model/packing_sweep.h"

#define MODEL "build/test-cost-model"
#define FILE_CAP 65536

static char dir[64], cost[128];

static int set_up(void **state)
{
    (void)state;
    scratch_link(MODEL, "config.json", "models/dense-r2/config.json");
    scratch_link(MODEL, "model.safetensors", "models/dense-r2/model.safetensors");
    scratch_link(MODEL, "tokenizer.json", "tokenizer/tokenizer.json");
    snprintf(dir, sizeof(dir), "build/test-cost-%d", (int)getpid());
    snprintf(cost, sizeof(cost), "%s/%s", dir, SL_PACKING_COST);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return sl_tree_remove(dir, NULL);
}

static struct sl_engine *open_with(uint32_t n_thread, uint32_t max_len)
{
    struct sl_engine_opts o;
    struct sl_engine *e = NULL;
    struct sl_err err = {0};

    sl_engine_opts_init(&o);
    o.n_thread = n_thread;
    o.pin = false;
    o.max_num_seqs = 4;
    o.max_num_batched_tokens = 64;
    o.max_model_len = max_len;
    o.cache_dir = dir;
    if (sl_engine_open(&e, MODEL, &o, &err))
        fail_msg("%s", err.msg);
    return e;
}

/* The files there; `path` is one of them. */
static size_t count(char path[300])
{
    struct sl_names names = {.n = 0};
    size_t n = 0;

    if (sl_file_kind(cost) == SL_FILE_DIR) {
        assert_int_equal(sl_names_list(&names, cost, NULL), 0);
        n = names.n;
        if (n > 0)
            snprintf(path, 300, "%s/%s", cost, names.name[0]);
    }
    sl_names_deinit(&names);
    return n;
}

static bool holds(const char *path, const char *word)
{
    char *text = NULL;
    size_t len;
    bool found;

    assert_int_equal(sl_file_read(&text, &len, path, FILE_CAP, NULL), 0);
    found = strstr(text, word) != NULL;
    sl_file_free(text);
    return found;
}

static void answer(struct sl_engine *e, uint32_t n_tok)
{
    int32_t ids[] = {5, 6, 7};
    struct sl_gen_opts o;
    struct sl_gen *g = NULL;
    struct sl_piece p;
    struct sl_err err;

    sl_gen_opts_init(&o, e);
    o.ids = ids;
    o.n_ids = SL_COUNTOF(ids);
    o.max_tokens = n_tok;
    o.ignore_eos = true;
    assert_int_equal(sl_gen_submit(&g, e, &o, &err), 0);
    while (sl_gen_next(g, &p, &err) > 0)
        ;
    sl_gen_close(&g);
}

/* Times that no machine has, so whoever has them has read them. */
#define TIMES "\"verify\":[[1,7],[2,8],[16,30]],\"mtp\":[[1,2]],\"shown\":3}"

#define DAY_S 86400

/* A file with its age in the place of %lld, if there is one. */
static void put_at(const char *path, const char *text, int64_t age_s)
{
    const char *at = strstr(text, "%lld");
    char all[300];

    if (!at)
        snprintf(all, sizeof(all), "%s", text);
    else
        snprintf(all, sizeof(all), "%.*s%lld%s", (int)(at - text), text,
                 (long long)(sl_file_now() / 1000000000 - age_s), at + 4);
    assert_int_equal(sl_file_write(path, all, strlen(all), NULL), 0);
}

static void kept_for_the_next_start(void **state)
{
    struct sl_engine *e = open_with(1, 256);
    char path[300];

    (void)state;
    assert_int_equal(count(path), 1);
    assert_true(holds(path, "\"verify\":[[1,"));
    sl_engine_close(&e);
    put_at(path, "{\"at\":%lld," TIMES, 6 * DAY_S);
    e = open_with(1, 256);
    assert_true(sl_cost_predict(&e->cost, 2, 0) == 8);
    assert_true(sl_cost_predict(&e->cost, 16, 0) == 30);
    assert_true(sl_cost_predict(&e->verify, 2, 0) == 8);
    assert_true(sl_cost_predict(&e->spec.pass[SL_BY_MTP], 1, 0) == 2);
    assert_true(e->spec.row_s[SL_BY_MTP] == 3);
    sl_engine_close(&e);
    assert_true(holds(path, "\"shown\":3"));
}

/* With other threads it is another machine; where nothing can be measured
 * nothing is kept that a start with more context would believe. */
static void engines_do_not_share(void **state)
{
    struct sl_engine *e = open_with(1, 256);
    char path[300], other[300];

    (void)state;
    sl_engine_close(&e);
    assert_int_equal(count(path), 1);
    put_at(path, "{\"at\":%lld," TIMES, 6 * DAY_S);
    e = open_with(2, 256);
    assert_true(sl_cost_predict(&e->cost, 2, 0) < 8);
    sl_engine_close(&e);
    assert_int_equal(count(other), 2);
    assert_int_equal(sl_tree_remove(cost, NULL), 0);
    e = open_with(1, 32);
    answer(e, 20);
    sl_engine_close(&e);
    assert_int_equal(count(path), 0);
}

static void damaged_ones_are_measured_again(void **state)
{
    static const char *const bad[] = {
        "",
        "[",
        "{}",
        "{" TIMES,
        "{\"at\":\"%lld\"," TIMES,
        "{\"at\":1e300," TIMES,
        "{\"at\":%lld,\"verify\":[],\"mtp\":[],\"shown\":1}",
        "{\"at\":%lld,\"verify\":[[1,3333]],\"mtp\":[[1,2]]}",
        "{\"at\":%lld,\"verify\":[[1,3333]],\"shown\":3}",
        "{\"at\":%lld,\"verify\":[[0,3333]],\"mtp\":[[1,2]],\"shown\":3}",
        "{\"at\":%lld,\"verify\":[[1,-3333]],\"mtp\":[[1,2]],\"shown\":3}",
        "{\"at\":%lld,\"verify\":[[1,\"3333\"]],\"mtp\":[[1,2]],\"shown\":3}",
        "{\"at\":%lld,\"verify\":[[4294967297,3333]],\"mtp\":[[1,2]],\"shown\":3}",
        "{\"at\":%lld,\"verify\":[[1,3333,1]],\"mtp\":[[1,2]],\"shown\":3}",
        "{\"at\":%lld,\"verify\":{},\"mtp\":[[1,2]],\"shown\":3}",
        "{\"at\":%lld,\"verify\":[[1,1e300]],\"mtp\":[[1,2]],\"shown\":3}",
        "{\"at\":%lld,\"verify\":[[1,1e-300]],\"mtp\":[[1,2]],\"shown\":3}"};
    struct sl_engine *e = open_with(1, 256);
    char path[300];

    (void)state;
    sl_engine_close(&e);
    assert_int_equal(count(path), 1);
    for (size_t i = 0; i < SL_COUNTOF(bad) + 2; i++) {
        if (i < SL_COUNTOF(bad))
            put_at(path, bad[i], 0);
        else /* a week and a day old; of tomorrow */
            put_at(path, "{\"at\":%lld," TIMES,
                   i == SL_COUNTOF(bad) ? 8 * DAY_S : -DAY_S);
        e = open_with(1, 256);
        if (!(sl_cost_predict(&e->cost, 1, 0) < 1 &&
              sl_cost_predict(&e->verify, 1, 0) < 1))
            fail_msg("number %zu is believed", i);
        sl_engine_close(&e);
        assert_true(holds(path, "\"verify\":[[1,"));
        assert_false(holds(path, "[[1,3333") || holds(path, "[[1,-3333"));
    }
}

/* What a busy machine makes of the figures stays in the engine: what is kept
 * was measured at once, before the first request. The first step says nothing,
 * for it brings the weights in. */
static void steps_leave_no_trace(void **state)
{
    struct sl_engine *e = open_with(1, 256);
    char path[300];

    (void)state;
    sl_engine_close(&e);
    assert_int_equal(count(path), 1);
    put_at(path, "{\"at\":%lld," TIMES, 0);
    e = open_with(1, 256);
    answer(e, 1);
    assert_true(sl_cost_predict(&e->cost, 2, 0) == 8);
    answer(e, 200);
    assert_true(sl_cost_predict(&e->cost, 1, 0) < 7);
    sl_engine_close(&e);
    assert_true(holds(path, "\"verify\":[[1,7],[2,8],[16,30]]"));
}

static void removed(void *ctx, const char *path, uint64_t bytes)
{
    (void)path;
    (void)bytes;
    ++*(int *)ctx;
}

static void unread_ones_go(void **state)
{
    int n = 0;
    struct sl_packing_sweep s = {.days = 30, .removed = removed, .ctx = &n};
    struct sl_engine *e = open_with(1, 256);
    int64_t old = sl_file_now() - INT64_C(31) * 86400 * 1000000000;
    char path[300];

    (void)state;
    sl_engine_close(&e);
    assert_int_equal(count(path), 1);
    assert_int_equal(sl_packing_sweep(dir, &s, NULL), 0);
    assert_int_equal(count(path), 1);
    assert_true(sl_file_touch(path, old));
    e = open_with(1, 256); /* it is read */
    sl_engine_close(&e);
    assert_int_equal(sl_packing_sweep(dir, &s, NULL), 0);
    assert_int_equal(n, 0);
    assert_true(sl_file_touch(path, old));
    assert_int_equal(sl_packing_sweep(dir, &s, NULL), 0);
    assert_int_equal(n, 1);
    assert_int_equal(count(path), 0);
}

#define HOUR (3600 * INT64_C(1000000000)) /* ns */
#define HEX8 "01234567"
#define HEX64 HEX8 HEX8 HEX8 HEX8 HEX8 HEX8 HEX8 HEX8

/* What killed processes left goes as soon as nobody can be writing it: not what
 * is young or, where that may take long, locked, nor what others put there. */
static void halves_go(void **state)
{
    static const struct {
        const char *in, *name;
        int64_t age_h;
        bool goes, locked;
    } file[] = {
        {"packed/cost", HEX64 ".0123456789abcdef.tmp", 2, true, false},
        {"packed/cost", HEX64 ".0123456789abcdee.tmp", 0, false, false},
        {"packed/cost", HEX64 ".123", 2, false, false},
        {"packed/cost", "x" HEX64 ".123.tmp", 2, false, false},
        {"packed/by", HEX64 ".123.tmp", 2, true, false},
        {"packed", HEX64 ".123.tmp", 2, true, false},
        {"packed", HEX64 ".124.tmp", 0, false, false},
        {"packed", HEX64 ".125.tmp", 2, false, true},
        {"packed", "x.123.tmp", 2, false, false},
        {"packed", "x1234567" HEX8 HEX8 HEX8 HEX8 HEX8 HEX8 HEX8 ".1.tmp", 2,
         false, false},
    };
    int n = 0, fd[SL_COUNTOF(file)];
    struct sl_packing_sweep s = {.days = 30, .removed = removed, .ctx = &n};
    char path[300];

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(file); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, file[i].in);
        assert_int_equal(sl_tree_make(path, NULL), 0);
        snprintf(path, sizeof(path), "%s/%s/%s", dir, file[i].in, file[i].name);
        assert_int_equal(sl_file_write(path, "half", 4, NULL), 0);
        assert_true(sl_file_touch(path, sl_file_now() - file[i].age_h * HOUR));
        fd[i] = open(path, O_RDWR | O_CLOEXEC);
        assert_true(fd[i] >= 0);
        if (file[i].locked)
            assert_int_equal(flock(fd[i], LOCK_EX), 0);
    }
    assert_int_equal(sl_packing_sweep(dir, &s, NULL), 0);
    for (size_t i = 0; i < SL_COUNTOF(file); i++) {
        snprintf(path, sizeof(path), "%s/%s/%s", dir, file[i].in, file[i].name);
        if ((sl_file_kind(path) == SL_FILE_NONE) != file[i].goes)
            fail_msg("%s/%s", file[i].in, file[i].name);
        close(fd[i]);
    }
    assert_int_equal(n, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kept_for_the_next_start, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(engines_do_not_share, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(damaged_ones_are_measured_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(steps_leave_no_trace, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(unread_ones_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(halves_go, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
