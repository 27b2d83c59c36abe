/* Kept prefixes on a disk: they outlive the engine, and whatever happens to the
 * files, the answer is that of an engine without a cache, with a line in the
 * log for what was dropped. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "../help/rig.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/thread.h"
#include "base/tree.h"
#include "engine/engine.h"

#define MODEL "tests/golden/models/dense-r2"
enum { TURN = 7, VOCAB = 96, N_OUT = 6, PROMPT = 300, MAX_LEN = 1024 };

/* ---------------------------------------------------------------- the log */

/* Written from several threads. */
static pthread_mutex_t log_mu = PTHREAD_MUTEX_INITIALIZER;
static char seen[1 << 16];
static bool holds, is_held; /* the thread that says the next line */

static void pause_ms(void)
{
    pthread_mutex_unlock(&log_mu);
    sl_process_sleep_ms(1);
    pthread_mutex_lock(&log_mu);
}

/* The disk hangs from its next line in the log on, or goes on. */
static void hold(bool yes)
{
    pthread_mutex_lock(&log_mu);
    holds = yes;
    is_held = false;
    pthread_mutex_unlock(&log_mu);
}

static void wait_until_held(void)
{
    pthread_mutex_lock(&log_mu);
    while (!is_held)
        pause_ms();
    pthread_mutex_unlock(&log_mu);
}

static void take_line(void *ctx, enum sl_log_level level, const char *line)
{
    size_t n;

    (void)ctx;
    if (level == SL_LOG_INFO && !strstr(line, "event=prefix_dropped"))
        return;
    pthread_mutex_lock(&log_mu);
    n = strlen(seen);
    snprintf(seen + n, sizeof(seen) - n, "%s\n", line);
    is_held = holds;
    while (is_held)
        pause_ms();
    pthread_mutex_unlock(&log_mu);
}

static bool was_logged(const char *what)
{
    bool yes;

    pthread_mutex_lock(&log_mu);
    yes = strstr(seen, "event=prefix_dropped") && strstr(seen, what);
    pthread_mutex_unlock(&log_mu);
    return yes;
}

/* -------------------------------------------------------------- the engine */

static char dir[64];

static struct sl_engine_opts options(const char *where)
{
    struct sl_engine_opts o;

    sl_engine_opts_init(&o);
    o.n_thread = 1;
    o.pin = false;
    o.dummy = true; /* the folder has no tokenizer */
    o.max_num_seqs = 2;
    o.max_num_batched_tokens = 128;
    o.max_model_len = MAX_LEN;
    o.kv_pool_tokens = 8 * MAX_LEN;
    o.prefix_cache_bytes = 1 << 20;
    o.prefix_cache_dir = where;
    o.prefix_cache = where != NULL;
    return o;
}

static struct sl_engine *open_with(const struct sl_engine_opts *o)
{
    struct sl_engine *e = NULL;
    struct sl_err err;

    if (sl_engine_open(&e, MODEL, o, &err))
        fail_msg("%s", err.msg);
    e->turn_id = TURN;
    return e;
}

static struct sl_engine *open_at(const char *where)
{
    struct sl_engine_opts o = options(where);

    return open_with(&o);
}

static void prompt(int32_t tok[PROMPT], uint64_t seed)
{
    for (int i = 0; i < PROMPT; i++)
        tok[i] = i % 100 == 0 ? TURN
                              : (int32_t)(8 + rig_random(&seed) % (VOCAB - 8));
}

struct answer {
    int32_t ids[N_OUT];
    float logprob[N_OUT];
    uint32_t n, n_cached;
};

static struct sl_gen *submit(struct sl_engine *e, const int32_t *tok,
                             uint32_t n, uint64_t salt)
{
    struct sl_gen *g = NULL;
    struct sl_gen_opts o;
    struct sl_err err;

    sl_gen_opts_init(&o, e);
    o.ids = tok;
    o.n_ids = n;
    o.max_tokens = N_OUT;
    o.ignore_eos = true;
    o.temperature = 0.9f;
    o.seed = 3;
    o.has_seed = true;
    o.want_logprobs = true;
    o.cache_salt = salt;
    if (sl_gen_submit(&g, e, &o, &err))
        fail_msg("%s", err.msg);
    return g;
}

static struct answer collect(struct sl_gen *g)
{
    struct answer a = {0};
    struct sl_piece p;

    while (sl_gen_next(g, &p, NULL) > 0) {
        for (size_t i = 0; i < p.n_ids && a.n < N_OUT; i++, a.n++) {
            a.ids[a.n] = p.ids[i];
            a.logprob[a.n] = p.logprobs[i].logprob;
        }
        a.n_cached = p.n_cached;
    }
    sl_gen_close(&g);
    return a;
}

/* The answer to prompt `seed`, compared with that of an engine without a cache;
 * returns how many tokens were cached. */
static uint32_t ask(struct sl_engine *e, uint64_t seed, uint64_t salt)
{
    struct sl_engine *cold = open_at(NULL);
    int32_t tok[PROMPT];
    struct answer a, b;

    prompt(tok, seed);
    a = collect(submit(e, tok, PROMPT, salt));
    b = collect(submit(cold, tok, PROMPT, salt));
    sl_engine_close(&cold);
    assert_int_equal(a.n, N_OUT);
    assert_memory_equal(a.ids, b.ids, sizeof(a.ids));
    assert_memory_equal(a.logprob, b.logprob, sizeof(a.logprob));
    return a.n_cached;
}

/* The same with an engine of its own: what is cached comes from the disk. */
static uint32_t ask_fresh(uint64_t seed)
{
    struct sl_engine *e = open_at(dir);
    uint32_t n = ask(e, seed, 0);

    sl_engine_close(&e);
    return n;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "build/test-prefix-%d", (int)getpid());
    (void)sl_tree_remove(dir, NULL);
    seen[0] = 0;
    hold(false);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return sl_tree_remove(dir, NULL);
}

/* ------------------------------------------------------------------ files */

struct names {
    const char *tail;
    char name[256][128];
    uint32_t n;
    uint64_t bytes;
};

static void see(void *ctx, const char *name)
{
    struct names *l = ctx;
    size_t n = strlen(name), t = strlen(l->tail);
    struct sl_file_stamp s;
    char path[512];

    if (n < t || strcmp(name + n - t, l->tail) || l->n == 256)
        return;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_true(sl_file_stamp(&s, path));
    l->bytes += s.size;
    snprintf(l->name[l->n++], sizeof(l->name[0]), "%s", name);
}

static struct names *list(const char *tail)
{
    static struct names l;

    l.tail = tail;
    l.n = 0;
    l.bytes = 0;
    assert_int_equal(sl_dir_each(dir, see, &l, NULL), 0);
    return &l;
}

/* Turn a bit of byte `at` (from the end when negative) of every such file. */
static void flip(const char *tail, long at)
{
    const struct names *l = list(tail);

    assert_true(l->n > 0);
    for (uint32_t i = 0; i < l->n; i++) {
        char path[512];
        FILE *f;
        int c;

        snprintf(path, sizeof(path), "%s/%.120s", dir, l->name[i]);
        f = fopen(path, "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
        c = fgetc(f);
        assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
        fputc(c ^ 4, f);
        fclose(f);
    }
}

/* ------------------------------------------------------------------- tests */

static void outlive_the_engine(void **state)
{
    struct sl_engine_stats st;
    struct sl_engine *e = open_at(dir);

    (void)state;
    assert_int_equal(ask(e, 1, 0), 0);
    sl_engine_close(&e);
    assert_true(list(".state")->n >= 2);
    assert_int_equal(list(".tmp")->n, 0);
    e = open_at(dir);
    /* All but the token whose logits are wanted could be known; what is kept
     * ends at the last turn. */
    assert_int_equal(ask(e, 1, 0), PROMPT - PROMPT % 100 - 100);
    sl_engine_stats(e, &st);
    assert_int_equal(st.prefix.n_disk_load, 1);
    assert_int_equal(st.prefix.n_disk_tok, PROMPT - 100);
    assert_int_equal(st.prefix.n_disk_drop, 0);
    sl_engine_close(&e);
    /* Reading back writes nothing new. */
    assert_int_equal(ask_fresh(1), PROMPT - 100);
    assert_int_equal(seen[0], 0);
}

/* What takes longer to load than to read is read, and tried again some time. */
static void a_slow_disk(void **state)
{
    struct sl_engine *e = open_at(dir);

    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        assert_int_equal(ask(e, seed, 0), 0);
    sl_engine_close(&e);
    e = open_at(dir);
    assert_int_equal(ask(e, 1, 0), PROMPT - 100);
    assert_true(e->disk_tok_s > 0 && e->disk_tok_s < 1);
    e->disk_tok_s = 1000;
    assert_int_equal(ask(e, 2, 0), 0);
    assert_true(e->disk_tok_s < 1000 && e->disk_tok_s > 500);
    e->disk_tok_s = 1e-9;
    assert_int_equal(ask(e, 3, 0), PROMPT - 100);
    sl_engine_close(&e);
}

/* The answer goes on where the disk ends: a longer prompt needs the state and
 * all pages, and the next one finds it in memory. */
static void a_conversation_goes_on(void **state)
{
    struct sl_engine *e = open_at(dir), *cold = open_at(NULL);
    int32_t tok[PROMPT + N_OUT + 40];
    struct answer a, b;
    uint32_t n = PROMPT;

    (void)state;
    prompt(tok, 5);
    a = collect(submit(e, tok, n, 0));
    memcpy(tok + n, a.ids, sizeof(a.ids));
    n += N_OUT;
    for (int i = 0; i < 40; i++)
        tok[n++] = 8 + i;
    sl_engine_close(&e);
    e = open_at(dir);
    a = collect(submit(e, tok, n, 0));
    b = collect(submit(cold, tok, n, 0));
    /* The last token that was drawn was never read. */
    assert_int_equal(a.n_cached, PROMPT + N_OUT - 1);
    assert_memory_equal(a.logprob, b.logprob, sizeof(a.logprob));
    sl_engine_close(&e);
    sl_engine_close(&cold);
}

static void salts_are_apart(void **state)
{
    struct sl_engine *e = open_at(dir);

    (void)state;
    (void)ask(e, 1, 77);
    sl_engine_close(&e);
    e = open_at(dir);
    assert_int_equal(ask(e, 1, 0), 0);
    assert_int_equal(ask(e, 1, 78), 0);
    assert_int_equal(ask(e, 1, 77), PROMPT - 100);
    sl_engine_close(&e);
}

/* Whatever byte it is in: magic, version, model, key, length, payload. */
static void a_flipped_bit(void **state)
{
    static const long at[] = {0, 9, 20, 50, 80, 90, 121, 200, 230, 300, -1};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(at); i++)
        for (int page = 0; page < 2; page++) {
            (void)ask_fresh(1);
            flip(page ? ".page" : ".state", at[i]);
            seen[0] = 0;
            assert_int_equal(ask_fresh(1), 0);
            assert_true(was_logged(""));
            /* It was removed and written anew. */
            assert_int_equal(ask_fresh(1), PROMPT - 100);
            assert_int_equal(sl_tree_remove(dir, NULL), 0);
        }
}

static void a_file_that_was_cut(void **state)
{
    (void)state;
    for (int page = 0; page < 2; page++) {
        const struct names *l;

        (void)ask_fresh(1);
        l = list(page ? ".page" : ".state");
        for (uint32_t i = 0; i < l->n; i++) {
            char path[512];

            snprintf(path, sizeof(path), "%s/%.120s", dir, l->name[i]);
            assert_int_equal(truncate(path, i % 2 ? 100 : 1000), 0);
        }
        assert_int_equal(ask_fresh(1), 0);
        assert_true(was_logged("ends too early") || was_logged("should have"));
        assert_int_equal(ask_fresh(1), PROMPT - 100);
    }
}

/* A page is gone: what needs it is dropped, and what does not is used. */
static void a_page_that_is_gone(void **state)
{
    const struct names *l;
    char path[512];

    (void)state;
    (void)ask_fresh(1);
    l = list(".page");
    for (uint32_t i = 0; i < l->n; i++) {
        snprintf(path, sizeof(path), "%s/%.120s", dir, l->name[i]);
        sl_file_remove(path);
    }
    assert_int_equal(ask_fresh(1), 0);
    assert_true(was_logged(".page"));
}

static void of_another_model(void **state)
{
    struct sl_engine_opts o = options(dir);
    struct sl_engine *e;
    const struct names *l;
    char to[512], from[512], name[128];

    (void)state;
    (void)ask_fresh(1);
    o.kv_type = SL_KV_F32;
    e = open_with(&o);
    assert_true(was_logged("another model, version or setting"));
    sl_engine_close(&e);
    /* Under the names of ours it is still not ours. */
    assert_int_equal(sl_tree_remove(dir, NULL), 0);
    (void)ask_fresh(1);
    snprintf(name, sizeof(name), "%.120s", list(".state")->name[0]);
    assert_int_equal(sl_tree_remove(dir, NULL), 0);
    o.kv_type = SL_KV_BF16;
    o.drafter = SL_DRAFTER_NGRAM; /* no plane of the MTP head */
    e = open_with(&o);
    {
        int32_t tok[PROMPT];

        prompt(tok, 1);
        (void)collect(submit(e, tok, PROMPT, 0));
    }
    sl_engine_close(&e);
    l = list(".state");
    assert_true(memcmp(l->name[0], name, 16) != 0);
    for (uint32_t i = 0; i < l->n; i++) {
        snprintf(from, sizeof(from), "%s/%.120s", dir, l->name[i]);
        snprintf(to, sizeof(to), "%s/%.16s%.111s", dir, name, l->name[i] + 16);
        assert_int_equal(sl_tree_rename(from, to, NULL), 0);
    }
    assert_int_equal(ask_fresh(1), 0);
}

static void what_a_killed_process_leaves(void **state)
{
    const int64_t hour_ns = (int64_t)3600 * 1000000000;
    char old[512], fresh[512];

    (void)state;
    (void)ask_fresh(1);
    snprintf(old, sizeof(old), "%s/%.120s.1.tmp", dir, list(".page")->name[0]);
    snprintf(fresh, sizeof(fresh), "%s/%.120s.2.tmp", dir,
             list(".page")->name[0]);
    assert_int_equal(sl_file_write(old, "torn", 4, NULL), 0);
    assert_int_equal(sl_file_write(fresh, "torn", 4, NULL), 0);
    assert_true(sl_file_touch(old, sl_file_now() - hour_ns));
    assert_int_equal(ask_fresh(1), PROMPT - 100);
    assert_true(was_logged("a process that wrote them was ended"));
    assert_int_equal(sl_file_kind(old), SL_FILE_NONE);
    assert_int_equal(sl_file_kind(fresh), SL_FILE_REGULAR);
}

static void a_full_disk(void **state)
{
    struct rlimit old, low = {1000, 1000};

    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_int_equal(ask_fresh(1), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(was_logged("not written"));
    assert_int_equal(list("")->n, 0);
    assert_int_equal(ask_fresh(1), 0);
    assert_int_equal(ask_fresh(1), PROMPT - 100);
}

static void a_folder_that_cannot_be(void **state)
{
    char file[64], below[80];
    struct sl_engine *e;

    (void)state;
    assert_int_equal(sl_dir_make(dir, NULL), 0);
    snprintf(file, sizeof(file), "%.40s/file", dir);
    snprintf(below, sizeof(below), "%s/x", file);
    assert_int_equal(sl_file_write(file, "x", 1, NULL), 0);
    e = open_at(below);
    assert_int_equal(ask(e, 1, 0), 0);
    sl_engine_close(&e);
    assert_true(was_logged("nothing will be kept"));
}

static void stays_below_its_limit(void **state)
{
    struct sl_engine_opts o = options(dir);
    struct sl_engine_stats st;
    struct sl_engine *e;
    uint32_t n;

    (void)state;
    o.prefix_cache_dir_bytes = 200000;
    e = open_with(&o);
    for (uint64_t seed = 1; seed < 12; seed++)
        (void)ask(e, seed, 0);
    sl_engine_close(&e);
    assert_in_range(list("")->bytes, 100000, 200000);
    e = open_with(&o);
    n = ask(e, 11, 0);
    assert_int_equal(n, PROMPT - 100); /* the newest is there */
    (void)ask(e, 1, 0);
    sl_engine_stats(e, &st);
    assert_true(st.prefix.disk_bytes <= 200000);
    sl_engine_close(&e);
}

/* Two engines, a limit that makes both remove what the other wrote. */
static void two_engines_share_it(void **state)
{
    struct sl_engine_opts o = options(dir);
    struct sl_engine *e[2];

    (void)state;
    o.prefix_cache_dir_bytes = 300000;
    o.prefix_cache_bytes = 100000;
    e[0] = open_with(&o);
    e[1] = open_with(&o);
    for (uint64_t round = 0; round < 12; round++) {
        int32_t tok[2][PROMPT];
        struct sl_gen *g[2];
        struct answer a[2];

        for (int i = 0; i < 2; i++) {
            prompt(tok[i], 1 + round % 5);
            g[i] = submit(e[i], tok[i], PROMPT, 0);
        }
        for (int i = 0; i < 2; i++)
            a[i] = collect(g[i]);
        assert_memory_equal(a[0].logprob, a[1].logprob, sizeof(a[0].logprob));
        (void)ask(e[round % 2], 1 + round % 5, 0);
        if (round % 4 == 3) {
            sl_engine_close(&e[round / 4 % 2]);
            e[round / 4 % 2] = open_with(&o);
        }
    }
    sl_engine_close(&e[0]);
    sl_engine_close(&e[1]);
    assert_int_equal(list(".tmp")->n, 0);
    assert_in_range(list("")->bytes, 1, 2 * 300000);
}

/* Does it end within a time that is long for any machine? */
static bool ends(struct sl_gen *g)
{
    struct sl_piece p = {0};

    for (int ms = 0; ms < 20000; ms++) {
        if (sl_gen_poll(g, &p, NULL) > 0 && p.finish != SL_FINISH_NONE)
            return true;
        sl_process_sleep_ms(1);
    }
    return false;
}

/* A disk that hangs holds up whoever wants to have something from it, until
 * they do not want it any more, and nobody else. */
static void others_pass_a_load(void **state)
{
    int32_t tok[3][PROMPT];
    struct sl_gen *g[3];
    struct sl_engine *e;

    (void)state;
    (void)ask_fresh(1);
    flip(".page", -1);
    e = open_at(dir);
    for (int i = 0; i < 3; i++)
        prompt(tok[i], i < 2 ? 1 : 2);
    hold(true);
    g[0] = submit(e, tok[0], PROMPT, 0);
    wait_until_held();
    g[1] = submit(e, tok[1], PROMPT, 0); /* waits for its turn */
    g[2] = submit(e, tok[2], PROMPT, 0);
    assert_true(ends(g[2]));
    sl_gen_cancel(g[0]);
    assert_true(ends(g[0]));
    sl_gen_close(&g[0]);
    hold(false);
    assert_true(ends(g[1]));
    sl_gen_close(&g[1]);
    sl_gen_close(&g[2]);
    sl_engine_close(&e);
}

/* Who runs is not preempted for the pages of a load. */
static void a_load_gives_way(void **state)
{
    /* Of 16 pages the load has 4. */
    const uint32_t full = 12 * 64 + 1 - PROMPT;
    struct sl_engine_opts o = options(dir);
    struct sl_gen_opts long_one;
    struct sl_engine_stats st;
    struct sl_gen_stats gs;
    struct sl_gen *g[2] = {0};
    struct sl_engine *e;
    int32_t tok[2][PROMPT];

    (void)state;
    for (int i = 0; i < 2; i++)
        prompt(tok[i], 1 + (uint64_t)i);
    o.kv_pool_tokens = MAX_LEN;
    o.draft = SL_DRAFT_OFF;
    e = open_with(&o);
    (void)collect(submit(e, tok[0], PROMPT, 0));
    sl_engine_close(&e);
    flip(".page", -1);
    e = open_with(&o);
    hold(true);
    g[0] = submit(e, tok[0], PROMPT, 0);
    wait_until_held();
    sl_gen_opts_init(&long_one, e);
    long_one.ids = tok[1];
    long_one.n_ids = PROMPT;
    long_one.max_tokens = full + 100;
    long_one.ignore_eos = true;
    assert_int_equal(sl_gen_submit(&g[1], e, &long_one, NULL), 0);
    do {
        sl_process_sleep_ms(20);
        sl_gen_stats(g[1], &gs);
    } while (gs.n_output < full);
    sl_process_sleep_ms(20); /* it cannot go on without a page */
    sl_gen_stats(g[1], &gs);
    assert_int_equal(gs.n_output, full);
    hold(false);
    for (int i = 0; i < 2; i++) {
        assert_true(ends(g[i]));
        sl_gen_close(&g[i]);
    }
    sl_engine_stats(e, &st);
    assert_int_equal(st.n_preempt, 0);
    sl_engine_close(&e);
}

static void options_that_contradict(void **state)
{
    struct sl_engine_opts o = options(dir);
    struct sl_engine *e = NULL;
    struct sl_err err;

    (void)state;
    o.prefix_cache = false;
    assert_int_equal(sl_engine_open(&e, MODEL, &o, &err), SL_EARG);
    assert_non_null(strstr(err.msg, "--prefix-cache off"));
    o = options(NULL);
    o.prefix_cache_dir_bytes = 1;
    assert_int_equal(sl_engine_open(&e, MODEL, &o, &err), SL_EARG);
    o = options(dir);
    o.prefix_cache_bytes = 1; /* no room for a state */
    assert_int_equal(sl_engine_open(&e, MODEL, &o, &err), SL_ENOMEM);
    assert_non_null(strstr(err.msg, "--prefix-cache-gib"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(outlive_the_engine),
        TEST(a_slow_disk),
        TEST(a_conversation_goes_on),
        TEST(salts_are_apart),
        TEST(a_flipped_bit),
        TEST(a_file_that_was_cut),
        TEST(a_page_that_is_gone),
        TEST(of_another_model),
        TEST(what_a_killed_process_leaves),
        TEST(a_full_disk),
        TEST(a_folder_that_cannot_be),
        TEST(stays_below_its_limit),
        TEST(two_engines_share_it),
        TEST(others_pass_a_load),
        TEST(a_load_gives_way),
        TEST(options_that_contradict),
    };

    sl_log_set(take_line, NULL, SL_LOG_INFO);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
