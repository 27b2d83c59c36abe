/* The engine through sluice.h: the same answer alone and among others, pieces,
 * ends, cancelling, refusals, no allocation while it runs.
 *
 * The model is a small random one; it has no tokenizer of its own, so the small
 * test tokenizer is linked beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../help/st_out.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/cost.h"
#include "engine/drafter.h"
#include "engine/gen.h"
#include "engine/stop.h"
#include "sluice/sluice.h"

#define DIR "build/test-engine-model"

static struct sl_engine *engine;
static atomic_uintptr_t all_are_here;

static int open_engine(void **state)
{
    struct sl_engine_opts o;
    struct sl_err err = {0};

    (void)state;
    scratch_link(DIR, "config.json", "models/dense-r2/config.json");
    scratch_link(DIR, "model.safetensors", "models/dense-r2/model.safetensors");
    scratch_link(DIR, "tokenizer.json", "tokenizer/tokenizer.json");
    sl_engine_opts_init(&o);
    o.n_thread = 2;
    o.pin = false;
    o.max_num_seqs = 8;
    o.max_num_batched_tokens = 64;
    o.max_model_len = 512;
    if (sl_engine_open(&engine, DIR, &o, &err))
        fail_msg("%s", err.msg);
    return 0;
}

static int close_engine(void **state)
{
    (void)state;
    sl_engine_close(&engine);
    assert_null(engine);
    return 0;
}

struct answer {
    int32_t ids[512];
    size_t n;
    char text[8192];
    size_t n_text;
    enum sl_finish finish;
    float logprob_sum;
};

static uint32_t n_cached; /* of the answer collected last */

static void make_opts(struct sl_gen_opts *o, int32_t *ids, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 31 + (size_t)seed * 17 + 5) % 90);
    sl_gen_opts_init(o, engine);
    o->ids = ids;
    o->n_ids = n;
    o->max_tokens = 40;
    o->ignore_eos = true;
    o->seed = (uint64_t)seed;
    o->has_seed = true;
    o->temperature = seed % 2 ? 0.8f : 0;
    o->want_logprobs = true;
}

static struct sl_gen *submit(const struct sl_gen_opts *o)
{
    struct sl_err err = {0};
    struct sl_gen *g = NULL;

    if (sl_gen_submit(&g, engine, o, &err))
        fail_msg("%s", err.msg);
    return g;
}

static void collect(struct sl_gen *g, struct answer *a)
{
    struct sl_err err = {0};
    struct sl_piece p;
    int rc;

    memset(a, 0, sizeof(*a));
    while ((rc = sl_gen_next(g, &p, &err)) > 0) {
        assert_true(a->n + p.n_ids <= SL_COUNTOF(a->ids));
        memcpy(a->ids + a->n, p.ids, p.n_ids * sizeof(*p.ids));
        for (size_t i = 0; p.logprobs && i < p.n_ids; i++)
            a->logprob_sum += p.logprobs[i].logprob;
        a->n += p.n_ids;
        memcpy(a->text + a->n_text, p.text, p.n_text);
        a->n_text += p.n_text;
        a->finish = p.finish;
        n_cached = p.n_cached;
    }
    if (rc < 0)
        fail_msg("%s", err.msg);
}

static void test_alone_equals_among_others(void **state)
{
    static struct answer alone[12], among[12];
    struct sl_gen_opts o;
    struct sl_gen *g[12];
    int32_t ids[150];

    (void)state;
    for (int i = 0; i < 12; i++) {
        make_opts(&o, ids, 3 + (size_t)i * 12, i);
        g[i] = submit(&o);
        collect(g[i], &alone[i]);
        sl_gen_close(&g[i]);
        assert_int_equal(alone[i].n, 40);
        assert_int_equal(alone[i].finish, SL_FINISH_LENGTH);
    }
    for (int i = 0; i < 12; i++) {
        make_opts(&o, ids, 3 + (size_t)i * 12, i);
        g[i] = submit(&o);
    }
    for (int i = 11; i >= 0; i--) {
        collect(g[i], &among[i]);
        sl_gen_close(&g[i]);
        assert_memory_equal(&alone[i], &among[i], sizeof(alone[i]));
    }
}

static void test_seed_decides(void **state)
{
    static struct answer a, b;
    struct sl_gen_opts o;
    struct sl_gen *g;
    int32_t ids[9];

    (void)state;
    make_opts(&o, ids, 9, 1);
    o.has_seed = false;
    g = submit(&o);
    collect(g, &a);
    o.has_seed = true;
    o.seed = sl_gen_seed(g);
    sl_gen_close(&g);
    g = submit(&o);
    collect(g, &b);
    sl_gen_close(&g);
    assert_memory_equal(a.ids, b.ids, sizeof(a.ids));
    o.seed++;
    g = submit(&o);
    collect(g, &b);
    sl_gen_close(&g);
    assert_memory_not_equal(a.ids, b.ids, sizeof(a.ids));
}

/* An id that the greedy answer contains ends it when it is a stop id. */
static void test_stop_id(void **state)
{
    static struct answer a, b;
    struct sl_gen_opts o;
    struct sl_gen *g;
    int32_t ids[9], stop;

    (void)state;
    make_opts(&o, ids, 9, 0);
    g = submit(&o);
    collect(g, &a);
    sl_gen_close(&g);
    stop = a.ids[10];
    o.stop_ids = &stop;
    o.n_stop_ids = 1;
    g = submit(&o);
    collect(g, &b);
    sl_gen_close(&g);
    assert_int_equal(b.finish, SL_FINISH_STOP);
    assert_int_equal(b.ids[b.n - 1], stop);
    assert_memory_equal(a.ids, b.ids, b.n * sizeof(*a.ids));
}

static void test_stop_text_ends_an_answer(void **state)
{
    static struct answer a, b;
    struct sl_gen_opts o;
    struct sl_gen *g;
    int32_t ids[9];
    char stop[3] = {0};
    const char *list[] = {"never in it", stop}, *hit;

    (void)state;
    make_opts(&o, ids, 9, 1);
    g = submit(&o);
    collect(g, &a);
    sl_gen_close(&g);
    assert_true(a.n_text > 12);
    memcpy(stop, a.text + 8, 2);
    hit = strstr(a.text, stop);
    o.stop = list;
    o.n_stop = 2;
    g = submit(&o);
    collect(g, &b);
    sl_gen_close(&g);
    assert_int_equal(b.finish, SL_FINISH_STOP);
    assert_int_equal(b.n_text, hit - a.text);
    assert_memory_equal(a.text, b.text, b.n_text);
}

static void test_cancel_and_close_at_any_point(void **state)
{
    struct sl_gen_opts o;
    struct sl_piece p;
    int32_t ids[200];
    int n_cancelled = 0;

    (void)state;
    for (int i = 0; i < 40; i++) {
        struct sl_gen *g, *h;

        make_opts(&o, ids, 1 + (size_t)i * 5, i);
        o.max_tokens = 300;
        g = submit(&o);
        h = submit(&o);
        /* One piece has all that has come, so it may be the last. */
        for (int k = 0; k < i % 4 && sl_gen_next(h, &p, NULL) > 0; k++)
            continue;
        sl_gen_cancel(g);
        while (sl_gen_next(g, &p, NULL) > 0)
            continue;
        /* On a busy machine it may have come to its end before. */
        if (p.finish != SL_FINISH_LENGTH)
            assert_int_equal(p.finish, SL_FINISH_CANCEL);
        n_cancelled += p.finish == SL_FINISH_CANCEL;
        sl_gen_close(&h);
        sl_gen_close(&g);
    }
    assert_true(n_cancelled > 0);
}

static void expect_refusal(const struct sl_gen_opts *o, enum sl_code code,
                           const char *word)
{
    struct sl_err err = {0};
    struct sl_gen *g = NULL;

    assert_int_equal(sl_gen_submit(&g, engine, o, &err), code);
    assert_null(g);
    if (!strstr(err.msg, word))
        fail_msg("'%s' does not say '%s'", err.msg, word);
}

static void test_refusals(void **state)
{
    struct sl_gen_opts o;
    int32_t ids[600] = {0};
    const char *empty = "";

    (void)state;
    make_opts(&o, ids, 4, 0);
    o.n_ids = 0;
    expect_refusal(&o, SL_EARG, "empty");
    make_opts(&o, ids, 512, 0);
    expect_refusal(&o, SL_EARG, "--max-model-len");
    make_opts(&o, ids, 4, 0);
    o.max_tokens = 509;
    expect_refusal(&o, SL_EARG, "max_tokens");
    make_opts(&o, ids, 4, 0);
    ids[2] = 100000;
    expect_refusal(&o, SL_EARG, "token 2");
    make_opts(&o, ids, 4, 0);
    o.top_p = 0;
    expect_refusal(&o, SL_EARG, "top_p");
    make_opts(&o, ids, 4, 0);
    o.text = "both";
    expect_refusal(&o, SL_EARG, "exactly one");
    o.ids = NULL;
    o.text = "a\xff";
    o.n_text = 2;
    expect_refusal(&o, SL_EFORMAT, "UTF-8");
    make_opts(&o, ids, 4, 0);
    o.stop = &empty;
    o.n_stop = 1;
    expect_refusal(&o, SL_EARG, "stop text");
}

/* Allocations between the 100th and the 300th token of an answer of 490; -1 when
 * it had ended before they were counted, and its prompt may have been kept. */
static int64_t count_allocations(void)
{
    struct sl_gen_opts o;
    struct sl_piece p;
    struct sl_gen *g;
    int32_t ids[9];
    uint64_t before = 0, after;

    make_opts(&o, ids, 9, 1);
    o.max_tokens = 490;
    g = submit(&o);
    while (sl_gen_next(g, &p, NULL) > 0 && p.n_output < 300)
        if (p.n_output >= 100 && !before)
            before = sl_mem_count();
    after = sl_mem_count();
    if (!before || p.finish != SL_FINISH_NONE ||
        sl_gen_next(g, &p, NULL) <= 0 ||
        p.finish != SL_FINISH_NONE)
        after = before - 1;
    sl_gen_close(&g);
    return (int64_t)(after - before);
}

/* Everything is reserved when a generation is submitted; while it runs only a
 * text buffer may double, a few times. */
static void test_no_allocation_in_the_token_loop(void **state)
{
    int64_t n = -1;

    (void)state;
    for (int i = 0; i < 100 && n < 0; i++)
        n = count_allocations();
    assert_int_equal(n, 0);
}

static void test_open_refuses(void **state)
{
    struct sl_engine_opts o;
    struct sl_engine *e = NULL;
    struct sl_err err;

    (void)state;
    sl_engine_opts_init(&o);
    assert_int_equal(sl_engine_open(&e, "no/such/dir", &o, &err),
                     SL_ENOTFOUND);
    assert_int_equal(sl_engine_open(&e, "README.md", &o, &err), SL_EFORMAT);
    o.max_model_len = 1 << 30;
    assert_int_equal(sl_engine_open(&e, DIR, &o, &err), SL_EARG);
    assert_non_null(strstr(err.msg, "--max-model-len"));
    sl_engine_opts_init(&o);
    /* No tokenizer beside the weights. */
    assert_int_equal(
        sl_engine_open(&e, "tests/golden/models/dense-r2", &o, &err),
        SL_ENOTFOUND);
    assert_non_null(strstr(err.msg, "tokenizer"));
    assert_null(e);
}

/* Feed text cut at every place; the result is that of the whole. */
static void test_stop_at_any_cut(void **state)
{
    char s0[] = "STOP", s1[] = "OPQ", s2[] = "xx";
    char *const stop[] = {s0, s1, s2};
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"abc STOP def", "abc "}, {"abSTOPQ", "ab"},  {"STSTSTOP", "STST"},
        {"aOPQSTOP", "a"},        {"x", "x"},         {"ax xx", "ax "},
        {"STO", "STO"},           {"", ""},
        /* What ends first wins, though another begins before. */
        {"aSTOPQ", "a"},          {"axxSTOP", "a"},   {"aSTOxxP", "aSTO"},
    };

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(cases); i++)
        for (size_t cut = 0; cut <= strlen(cases[i].in); cut++) {
            struct sl_stop s;
            struct sl_buf in, out;
            bool hit;

            sl_stop_init(&s, stop, 3);
            sl_buf_init(&in, 100);
            sl_buf_init(&out, 100);
            sl_buf_add(&in, cases[i].in, cut);
            hit = sl_stop_feed(&s, &in, &out);
            sl_buf_str(&in, cases[i].in + cut);
            if (!hit && !sl_stop_feed(&s, &in, &out))
                sl_stop_flush(&s, &out);
            assert_string_equal(out.p ? out.p : "", cases[i].out);
            sl_stop_deinit(&s);
            sl_buf_deinit(&in);
            sl_buf_deinit(&out);
        }
}

/* Text that cannot end an answer yet: a stop text counts by where it ends. */
static void test_stop_that_began_early(void **state)
{
    char s0[] = "STOP";
    char *const stop[] = {s0};
    struct sl_stop s;
    struct sl_buf in, out;

    (void)state;
    for (int include = 0; include < 2; include++) {
        sl_stop_init(&s, stop, 1);
        s.include = include;
        sl_buf_init(&in, 100);
        sl_buf_init(&out, 100);
        sl_buf_str(&in, "a STOP b ST");
        sl_stop_pass(&s, &in, &out);
        assert_string_equal(out.p, "a STOP b ");
        sl_buf_str(&in, "OP c");
        assert_true(sl_stop_feed(&s, &in, &out));
        assert_string_equal(out.p, include ? "a STOP b STOP" : "a STOP b ");
        sl_stop_deinit(&s);
        sl_buf_deinit(&in);
        sl_buf_deinit(&out);
    }
}

/* Answers of the same prompt under options that restrict them. */
static void test_masks(void **state)
{
    static struct answer b;
    struct sl_gen_opts o;
    struct sl_gen *g;
    int32_t ids[9], allowed[] = {40, 41, 77}, none;
    const char *bad[1] = {"  "};

    (void)state;
    make_opts(&o, ids, 9, 1);
    o.allowed_ids = allowed;
    o.n_allowed = 3;
    g = submit(&o);
    collect(g, &b);
    sl_gen_close(&g);
    assert_int_equal(b.n, 40);
    for (size_t i = 0; i < b.n; i++)
        assert_true(b.ids[i] == 40 || b.ids[i] == 41 || b.ids[i] == 77);
    o.allowed_ids = &none;
    o.n_allowed = 0;
    expect_refusal(&o, SL_EARG, "allowed_token_ids");
    o.allowed_ids = NULL;
    o.bad_words = bad;
    o.n_bad_words = 1;
    expect_refusal(&o, SL_EARG, "bad_words");
}

/* What ends an answer can be shown, and nothing but length ends it early. */
static void test_stop_shown_and_minimum(void **state)
{
    static struct answer a, b;
    struct sl_gen_opts o;
    struct sl_gen *g;
    int32_t ids[9];
    char stop[3] = {0};
    const char *list[] = {stop}, *hit;

    (void)state;
    make_opts(&o, ids, 9, 1);
    g = submit(&o);
    collect(g, &a);
    sl_gen_close(&g);
    memcpy(stop, a.text + 8, 2);
    hit = strstr(a.text, stop);
    o.stop = list;
    o.n_stop = 1;
    o.include_stop = true;
    g = submit(&o);
    collect(g, &b);
    sl_gen_close(&g);
    assert_int_equal(b.n_text, hit + 2 - a.text);
    assert_memory_equal(a.text, b.text, b.n_text);
    o.min_tokens = 40;
    g = submit(&o);
    collect(g, &b);
    sl_gen_close(&g);
    assert_int_equal(b.finish, SL_FINISH_LENGTH);
    assert_string_equal(b.text, a.text);
}

/* Cancelled in the middle of the queue, an answer ends before its turn. */
static void test_cancelled_in_the_queue(void **state)
{
    static struct answer a;
    struct sl_gen_opts o;
    struct sl_gen *g[20];
    struct sl_gen_stats st;
    int32_t ids[60];

    (void)state;
    for (int i = 0; i < 20; i++) {
        make_opts(&o, ids, 60, i);
        o.max_tokens = 400;
        g[i] = submit(&o);
    }
    sl_gen_cancel(g[15]);
    collect(g[15], &a);
    assert_int_equal(a.finish, SL_FINISH_CANCEL);
    assert_int_equal(a.n, 0);
    /* Those before it have not ended: eight run at once, 400 tokens each. */
    sl_gen_stats(g[14], &st);
    assert_int_equal(st.n_output, 0);
    for (int i = 0; i < 20; i++)
        sl_gen_close(&g[i]);
}

/* Of those that wait the lowest number starts first, then the oldest. */
static void test_priority(void **state)
{
    static struct answer a;
    static const int32_t priority[14] = {0, 0, 0, 0, 0, 0, 0, 0,
                                         5, 0, -1, 5, -1, 0};
    static const int order[] = {10, 12, 9, 13, 8, 11};
    struct sl_gen_opts o;
    struct sl_gen *g[14];
    struct sl_gen_stats st[14];
    int32_t ids[20];

    (void)state;
    for (int i = 0; i < 14; i++) {
        make_opts(&o, ids, 20, i);
        o.max_tokens = i < 8 ? 200 : 3;
        o.priority = priority[i];
        g[i] = submit(&o);
    }
    for (int i = 0; i < 14; i++)
        collect(g[i], &a);
    for (int i = 0; i < 14; i++)
        sl_gen_stats(g[i], &st[i]);
    /* Queue times are from each one's own submission; later ones were
     * submitted later, so only waits across priorities can be compared. */
    for (size_t i = 1; i < SL_COUNTOF(order); i++)
        if (priority[order[i]] > priority[order[i - 1]] &&
            order[i] < order[i - 1])
            assert_true(st[order[i]].queue_s >= st[order[i - 1]].queue_s);
    for (int i = 0; i < 14; i++)
        sl_gen_close(&g[i]);
}

static void wait_for_all(void *ctx)
{
    while (atomic_load(&all_are_here) != (uintptr_t)ctx)
        ;
}

/* While the first runs eleven more of its client come, for seven places, and then
 * one of another, which does not wait for those behind the seven. */
static void test_places_are_shared(void **state)
{
    static struct answer a;
    struct sl_gen_opts o;
    struct sl_gen *g[13];
    int32_t ids[20];

    (void)state;
    atomic_store(&all_are_here, 0);
    for (int i = 0; i < 13; i++) {
        make_opts(&o, ids, 20, i);
        o.max_tokens = 5;
        o.client = i == 12 ? 2 : 1;
        o.wake = i == 0 ? wait_for_all : NULL;
        o.wake_ctx = (void *)(uintptr_t)1;
        g[i] = submit(&o);
    }
    atomic_store(&all_are_here, 1);
    for (int i = 0; i < 13; i++)
        collect(g[i], &a);
    for (int i = 8; i < 12; i++)
        assert_true(g[12]->admit_ns <= g[i]->admit_ns);
    for (int i = 0; i < 13; i++)
        sl_gen_close(&g[i]);
}

/* What the model says of its own answer when it is a part of the prompt is what
 * it said when it drew it, to the bit, however the prompt is cut into steps. */
static void test_prompt_is_scored(void **state)
{
    struct sl_gen_opts o;
    struct sl_gen *g;
    struct sl_piece p;
    struct sl_prompt_logprobs l;
    struct sl_err err = {0};
    int32_t ids[240];
    float drawn[40];
    size_t n = 200;

    (void)state;
    make_opts(&o, ids, n, 3);
    o.n_top_logprobs = 2;
    g = submit(&o);
    assert_int_equal(sl_gen_prompt_logprobs(g, &l, &err), SL_EARG);
    while (sl_gen_next(g, &p, &err) > 0)
        for (size_t i = 0; i < p.n_ids; i++, n++) {
            ids[n] = p.ids[i];
            drawn[n - 200] = p.logprobs[i].logprob;
        }
    sl_gen_close(&g);
    assert_int_equal(n, 240);
    for (int only = 0; only < 2; only++) {
        o.n_ids = n;
        o.max_tokens = only ? 0 : 5;
        o.prompt_only = only;
        o.want_prompt_logprobs = true;
        o.n_prompt_top = 3;
        g = submit(&o);
        assert_int_equal(sl_gen_next(g, &p, &err), 1);
        assert_int_equal(sl_gen_prompt_logprobs(g, &l, &err), 0);
        assert_int_equal(l.n, 240);
        for (size_t i = 200; i < 240; i++) {
            assert_int_equal(l.at[i].id, ids[i]);
            assert_memory_equal(&l.at[i].logprob, &drawn[i - 200], 4);
        }
        for (size_t i = 1; i < 240; i++) {
            const struct sl_logprob *top = l.top + i * l.n_top;

            assert_true(l.rank[i] >= 1 && l.rank[i] <= 96);
            if (l.rank[i] <= l.n_top)
                assert_memory_equal(&top[l.rank[i] - 1].logprob,
                                    &l.at[i].logprob, 4);
            else
                assert_true(top[l.n_top - 1].logprob >= l.at[i].logprob);
        }
        if (only) {
            assert_int_equal(p.finish, SL_FINISH_LENGTH);
            assert_int_equal(p.n_ids, 0);
        }
        sl_gen_close(&g);
    }
    o.max_tokens = 3;
    expect_refusal(&o, SL_EARG, "nothing is to be generated");
    /* The whole context, and no room for an answer. */
    o.max_tokens = 0;
    o.n_ids = 1;
    g = submit(&o);
    assert_int_equal(sl_gen_next(g, &p, &err), 1);
    sl_gen_close(&g);
}

/* Of another salt, or by request, nothing that is known is used. */
static void test_cache_apart(void **state)
{
    static struct answer first, a[4];
    struct sl_gen_opts o;
    struct sl_gen *g;
    int32_t ids[340];
    uint32_t cached[4];

    (void)state;
    make_opts(&o, ids, 300, 91);
    g = submit(&o);
    collect(g, &first);
    sl_gen_close(&g);
    memcpy(ids + 300, first.ids, 40 * sizeof(*ids));
    o.n_ids = 340;
    for (int i = 0; i < 4; i++) {
        o.cache_salt = i == 1;
        o.no_cache = i == 0;
        g = submit(&o);
        collect(g, &a[i]);
        sl_gen_close(&g);
        cached[i] = n_cached;
        assert_memory_equal(a[0].ids, a[i].ids, sizeof(a[0].ids));
    }
    assert_int_equal(cached[0], 0);
    assert_int_equal(cached[1], 0);
    assert_true(cached[2] > 0);
    assert_true(cached[3] > 0);
}

/* A machine of known speed: 1 ms + 0.1 ms per row + 10 us per row and 1000
 * tokens of context. The table finds it within a tenth. */
static void test_cost(void **state)
{
    struct sl_cost c = {0};

    (void)state;
    assert_true(sl_cost_predict(&c, 5, 0) == 0);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t n = 1u << i % 9;
        uint64_t ctx = (uint64_t)n * (i * 7919 % 32768);

        sl_cost_learn(&c, n, ctx, 1e-3 + 1e-4 * n + 1e-8 * (double)ctx);
    }
    for (uint32_t n = 1; n <= 256; n += 5) {
        double want = 1e-3 + 1e-4 * n, got = sl_cost_predict(&c, n, 0);

        assert_true(got > 0.9 * want && got < 1.1 * want);
    }
    assert_in_range(sl_cost_rows(&c, 11e-3, 0, 512), 90, 110);
    assert_in_range(sl_cost_rows(&c, 11e-3, 10000, 512), 45, 55);
    assert_int_equal(sl_cost_rows(&c, 1e-9, 0, 512), 1);
}

/* A pool for two sequences and six that want to grow: some are preempted, and
 * every answer is what it is alone. */
static void test_preempted_loses_nothing(void **state)
{
    static struct answer alone[6], among;
    struct sl_engine_opts eo;
    struct sl_engine *small = NULL, *big = engine;
    struct sl_gen_opts o;
    struct sl_gen *g[6];
    int32_t ids[100];

    (void)state;
    for (int i = 0; i < 6; i++) {
        make_opts(&o, ids, 60, i);
        o.max_tokens = 150;
        g[i] = submit(&o);
        collect(g[i], &alone[i]);
        sl_gen_close(&g[i]);
    }
    sl_engine_opts_init(&eo);
    eo.n_thread = 1;
    eo.pin = false;
    eo.max_num_seqs = 6;
    eo.max_num_batched_tokens = 64;
    eo.max_model_len = 256;
    eo.kv_pool_tokens = 512;
    assert_int_equal(sl_engine_open(&small, DIR, &eo, NULL), 0);
    engine = small;
    for (int i = 0; i < 6; i++) {
        make_opts(&o, ids, 60, i);
        o.max_tokens = 150;
        g[i] = submit(&o);
    }
    for (int i = 0; i < 6; i++) {
        collect(g[i], &among);
        assert_memory_equal(&alone[i], &among, sizeof(among));
        sl_gen_close(&g[i]);
    }
    engine = big;
    sl_engine_close(&small);
}

/* The next turn of a conversation does not read the last one again, and gets
 * the answer of an engine that reads everything. */
static void test_next_turn_is_cached(void **state)
{
    static struct answer first, warm, cold;
    struct sl_engine_opts eo;
    struct sl_engine *none = NULL, *with = engine;
    struct sl_gen_opts o;
    struct sl_gen *g;
    int32_t ids[400], other[1];
    size_t n = 150;

    (void)state;
    sl_engine_opts_init(&eo);
    eo.n_thread = 1;
    eo.pin = false;
    eo.max_num_seqs = 1;
    eo.max_num_batched_tokens = 100;
    eo.max_model_len = 512;
    eo.prefix_cache = false;
    assert_int_equal(sl_engine_open(&none, DIR, &eo, NULL), 0);
    for (int turn = 0; turn < 3; turn++) {
        make_opts(&o, other, 1, 1);
        if (turn == 0)
            make_opts(&o, ids, n, 31);
        o.ids = ids;
        o.n_ids = n;
        engine = with;
        g = submit(&o);
        collect(g, &warm);
        sl_gen_close(&g);
        assert_int_equal(n_cached, turn == 0 ? 0 : n - 11);
        engine = none;
        g = submit(&o);
        collect(g, &cold);
        sl_gen_close(&g);
        assert_int_equal(n_cached, 0);
        assert_memory_equal(&warm, &cold, sizeof(warm));
        first = warm;
        memcpy(ids + n, first.ids, first.n * sizeof(*ids));
        n += first.n;
        for (int i = 0; i < 10; i++)
            ids[n++] = (7 * i + turn) % 90;
    }
    engine = with;
    sl_engine_close(&none);
}

/* Every depth of drafting gives the answers of none, greedy and sampled, alone
 * and together; and some drafts are right, so that accepting is tried too. */
static void test_drafts_change_nothing(void **state)
{
    static struct answer plain[8], drafted;
    struct sl_engine *with = engine;
    uint32_t n_accept = 0;

    (void)state;
    for (uint32_t depth = 0; depth <= 7; depth += depth ? 3 : 1) {
        struct sl_engine_opts eo;
        struct sl_gen_opts o;
        struct sl_gen_stats st;
        struct sl_gen *g[8];
        int32_t ids[100];

        sl_engine_opts_init(&eo);
        eo.n_thread = 2;
        eo.pin = false;
        eo.max_num_seqs = 3;
        eo.max_num_batched_tokens = 40;
        eo.max_model_len = 512;
        eo.draft = depth ? SL_DRAFT_ALL : SL_DRAFT_OFF;
        eo.draft_depth = depth;
        engine = NULL;
        assert_int_equal(sl_engine_open(&engine, DIR, &eo, NULL), 0);
        for (int i = 0; i < 8; i++) {
            make_opts(&o, ids, 1 + (size_t)i * 12, i);
            o.max_tokens = 120;
            g[i] = submit(&o);
        }
        for (int i = 0; i < 8; i++) {
            collect(g[i], depth ? &drafted : &plain[i]);
            if (depth)
                assert_memory_equal(&drafted, &plain[i], sizeof(drafted));
            sl_gen_stats(g[i], &st);
            n_accept += st.n_accept;
            assert_true(depth ? st.n_draft > 0 : st.n_draft == 0);
            assert_int_equal(st.n_round + st.n_accept, st.n_output);
            sl_gen_close(&g[i]);
        }
        sl_engine_close(&engine);
    }
    print_message("%u drafts accepted\n", n_accept);
    assert_true(n_accept > 10);
    engine = with;
}

/* --------------------------------------- drafters of ours, in the engine's thread */

static struct answer script;      /* what `oracle` proposes */
static atomic_uint n_short, n_seen, n_made_up;

static uint32_t look_script(struct sl_gen *g, uint32_t most,
                            enum sl_odds_of *odds)
{
    uint32_t at = g->n_known - g->n_prompt, n = 0;

    *odds = SL_ODDS_SHORT;
    for (; n < most && at + n < script.n; n++)
        g->draft[n] = script.ids[at + n];
    return n;
}

/* Are there pages for the step that verifies what was decided? */
static void look_at_pages(struct sl_engine *e)
{
    for (uint32_t i = 0; i < e->n_run; i++) {
        const struct sl_gen *g = e->run[i];

        if (g->n_draft == 0 || e->part[i].why != SL_FINISH_NONE)
            continue;
        n_seen++;
        n_short += g->seq->n_page * SL_KV_PAGE < g->seq->n_tok + 1 + g->n_draft;
    }
}

static const struct sl_drafter oracle = {
    .name = "oracle", .look = look_script, .run = look_at_pages};

static void open_drafting(const struct sl_engine_opts *more)
{
    struct sl_engine_opts eo = *more;
    struct sl_err err = {0};

    eo.n_thread = 1;
    eo.pin = false;
    eo.max_num_seqs = 1;
    eo.max_num_batched_tokens = 64;
    eo.max_model_len = 512;
    engine = NULL;
    if (sl_engine_open(&engine, DIR, &eo, &err))
        fail_msg("%s", err.msg);
}

static void ask_greedy(struct answer *a, struct sl_gen_stats *st, size_t n_ids,
                       uint32_t max_tokens, const int32_t *stop)
{
    struct sl_gen_opts o;
    int32_t ids[200];
    struct sl_gen *g;

    make_opts(&o, ids, n_ids, 2);
    o.max_tokens = max_tokens;
    o.stop_ids = stop;
    o.n_stop_ids = stop ? 1 : 0;
    g = submit(&o);
    collect(g, a);
    sl_gen_stats(g, st);
    sl_gen_close(&g);
}

/* A right draft that ends the answer is a right draft; and each draft has its
 * page before it is decided on. */
static void test_right_to_the_end(void **state)
{
    static struct answer got;
    struct sl_engine *with = engine;
    struct sl_engine_opts eo;
    struct sl_gen_stats st;
    int32_t stop;

    (void)state;
    ask_greedy(&script, &st, 60, 100, NULL);
    stop = script.ids[99];
    sl_engine_opts_init(&eo);
    eo.drafter = SL_DRAFTER_NGRAM;
    for (uint32_t depth = 1; depth <= 7; depth++) {
        eo.draft_depth = depth;
        open_drafting(&eo);
        engine->drafter[SL_BY_NGRAM] = &oracle;
        ask_greedy(&got, &st, 60, 100, NULL);
        assert_memory_equal(&got, &script, sizeof(got));
        assert_int_equal(st.n_draft, st.n_accept);
        assert_int_equal(st.n_round + st.n_accept, 100);
        /* It comes first wherever it comes first. */
        ask_greedy(&got, &st, 60, 400, &stop);
        assert_int_equal(got.finish, SL_FINISH_STOP);
        assert_in_range(st.n_round + st.n_accept, st.n_output,
                        st.n_output + 1);
        assert_int_equal(st.n_accept, (st.n_output - 1) / (depth + 1) * depth +
                                          (st.n_output - 1) % (depth + 1));
        sl_engine_close(&engine);
    }
    assert_true(n_seen > 100);
    assert_int_equal(n_short, 0);
    engine = with;
}

static uint32_t look_wrong(struct sl_gen *g, uint32_t most,
                           enum sl_odds_of *odds)
{
    uint32_t n = look_script(g, most, odds);

    for (uint32_t k = 0; k < n; k++)
        g->draft[k] = (g->draft[k] + 1) % 90;
    return n;
}

/* Drafts behind a wrong one were tried as well: their depth is in use. */
static void test_wrong_ones_count_whole(void **state)
{
    static const struct sl_drafter wrong = {.name = "wrong",
                                            .look = look_wrong};
    static struct answer got;
    struct sl_engine *with = engine;
    struct sl_engine_opts eo;
    struct sl_gen_stats st;

    (void)state;
    ask_greedy(&script, &st, 60, 100, NULL);
    sl_engine_opts_init(&eo);
    eo.drafter = SL_DRAFTER_NGRAM;
    eo.draft_depth = 4;
    open_drafting(&eo);
    engine->drafter[SL_BY_NGRAM] = &wrong;
    ask_greedy(&got, &st, 60, 100, NULL);
    assert_memory_equal(&got, &script, sizeof(got));
    assert_int_equal(st.n_accept, 0);
    assert_true(st.n_draft > 300);
    assert_int_equal(engine->spec.n_draft, st.n_draft);
    sl_engine_close(&engine);
    engine = with;
}

static uint32_t first_from, first_cached;

static uint32_t look_and_tell(struct sl_gen *g, uint32_t most,
                              enum sl_odds_of *odds)
{
    if (first_from == 0)
        first_from = g->seq->from[SL_PLANE_MTP];
    return sl_draft_mtp.look(g, most, odds);
}

/* What a request that did not draft has read is shared; that the draft head saw
 * nothing of it is known. */
static void test_unseen_prefix_is_known(void **state)
{
    static struct answer a;
    struct sl_engine *with = engine;
    struct sl_engine_opts eo;
    struct sl_drafter told = sl_draft_mtp;
    struct sl_gen_opts o;
    struct sl_gen *g;
    int32_t ids[300];

    (void)state;
    sl_engine_opts_init(&eo);
    eo.draft = SL_DRAFT_GREEDY;
    eo.drafter = SL_DRAFTER_MTP;
    eo.draft_depth = 2;
    open_drafting(&eo);
    told.look = look_and_tell;
    engine->drafter[SL_BY_MTP] = &told;
    make_opts(&o, ids, 150, 1);
    for (int i = 0; i < 2; i++) {
        o.temperature = i == 0 ? 1 : 0;
        g = submit(&o);
        collect(g, &a);
        sl_gen_close(&g);
        if (i > 0)
            break;
        memcpy(ids + 150, a.ids, a.n * sizeof(*ids));
        o.n_ids = 150 + a.n;
    }
    first_cached = n_cached;
    assert_true(first_cached > 100);
    assert_int_equal(first_from, first_cached);
    sl_engine_close(&engine);
    engine = with;
}

static void run_marked(struct sl_engine *e)
{
    for (uint32_t i = 0; i < e->n_run; i++)
        memset(e->run[i]->draft, 0xff, sizeof(e->run[i]->draft));
    sl_draft_mtp.run(e);
    for (uint32_t i = 0; i < e->n_run; i++)
        for (uint32_t k = 0; k < e->run[i]->n_draft; k++)
            n_made_up += e->run[i]->draft[k] < 0;
}

/* Where the draft head saw nothing of a prompt it has no row to draft from: then
 * nothing is verified that nobody proposed. */
static void test_nothing_primed(void **state)
{
    static struct answer plain, got;
    struct sl_engine *with = engine;
    struct sl_drafter marked = sl_draft_mtp;
    struct sl_engine_opts eo;
    struct sl_gen_stats st;

    (void)state;
    ask_greedy(&plain, &st, 60, 40, NULL);
    sl_engine_opts_init(&eo);
    eo.drafter = SL_DRAFTER_MTP;
    eo.draft_depth = 3;
    eo.mtp_prime = 0;
    open_drafting(&eo);
    marked.run = run_marked;
    engine->drafter[SL_BY_MTP] = &marked;
    ask_greedy(&got, &st, 60, 40, NULL);
    assert_memory_equal(&got, &plain, sizeof(got));
    assert_true(st.n_draft > 0);
    assert_int_equal(n_made_up, 0);
    sl_engine_close(&engine);
    engine = with;
}

static void expect_no_engine(const struct sl_engine_opts *o, const char *word)
{
    struct sl_engine *e = NULL;
    struct sl_err err = {0};

    assert_int_equal(sl_engine_open(&e, DIR, o, &err), SL_EARG);
    assert_null(e);
    if (!strstr(err.msg, word))
        fail_msg("'%s' does not say '%s'", err.msg, word);
}

static void test_drafting_that_cannot_be(void **state)
{
    struct sl_engine_opts o;

    (void)state;
    sl_engine_opts_init(&o);
    o.draft_depth = 99;
    expect_no_engine(&o, "at most 7");
    sl_engine_opts_init(&o);
    o.draft = SL_DRAFT_OFF;
    o.draft_depth = 2;
    expect_no_engine(&o, "nobody drafts");
    o.draft_depth = 0;
    o.drafter = SL_DRAFTER_MTP;
    expect_no_engine(&o, "--speculate off");
    sl_engine_opts_init(&o);
    o.drafter = SL_DRAFTER_NGRAM;
    o.mtp_prime = 100;
    expect_no_engine(&o, "--mtp-prime");
    sl_engine_opts_init(&o);
    o.accept = SL_KEEP_LENIENT;
    o.lenience = 0;
    expect_no_engine(&o, "lenience");
    o.lenience = -1;
    expect_no_engine(&o, "lenience");
    sl_engine_opts_init(&o);
    o.lenience = 0.5f;
    expect_no_engine(&o, "--accept lenient");
    o.lenience = 1;
    o.relax_threshold = 0.5f;
    expect_no_engine(&o, "--accept relaxed");
    sl_engine_opts_init(&o);
    o.spec_ladder = "1:8,1:4";
    expect_no_engine(&o, "must rise");
    o.spec_ladder = "1:8";
    o.draft = SL_DRAFT_OFF;
    expect_no_engine(&o, "--spec-ladder");
    sl_engine_opts_init(&o);
    o.dflash_max_context = 100;
    expect_no_engine(&o, "must be below");
    o.dflash_hysteresis = 10;
    expect_no_engine(&o, "no block drafter");
    o.dflash_max_context = 0;
    expect_no_engine(&o, "nothing uses it");
    sl_engine_opts_init(&o);
    o.drafter = SL_DRAFTER_NONE;
    o.spec_log_rounds = 5;
    expect_no_engine(&o, "--spec-log-rounds");
    o.spec_log_rounds = 0;
    o.spec_disable_ratio = 0.9f;
    expect_no_engine(&o, "--spec-disable-ratio");
    sl_engine_opts_init(&o);
    o.draft = SL_DRAFT_GREEDY;
    o.accept = SL_KEEP_RELAXED;
    expect_no_engine(&o, "--speculate greedy");
    sl_engine_opts_init(&o);
    o.draft = SL_DRAFT_GREEDY;
    o.drafter = SL_DRAFTER_NONE;
    expect_no_engine(&o, "--speculate greedy");
    expect_no_engine(&o, "--drafter none");
    sl_engine_opts_init(&o);
    o.spec_ladder = "2:8,4:9";
    o.drafter = SL_DRAFTER_MTP;
    expect_no_engine(&o, "4:9 asks for 8 drafts");
    o.spec_ladder = "1:7";
    o.drafter = SL_DRAFTER_DFLASH;
    o.draft_model = "tests/golden/models/flash-v1";
    expect_no_engine(&o, "proposes at most");
    o.spec_ladder = "1:6:mtp";
    expect_no_engine(&o, "leaves out");
}

/* Of each option that says how to draft: with nobody who does it is refused, and
 * both are named. */
static void test_options_of_nobody(void **state)
{
    static const char *const who[] = {"--speculate off", "--drafter none"};

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(who); i++) {
        struct sl_engine_opts o, init;

        sl_engine_opts_init(&init);
        init.draft = i ? SL_DRAFT_ALL : SL_DRAFT_OFF;
        init.drafter = i ? SL_DRAFTER_NONE : SL_DRAFTER_AUTO;
#define REFUSED(field, value, name)                                            \
    (o = init, o.field = (value), expect_no_engine(&o, name),                  \
     expect_no_engine(&o, who[i]))
        REFUSED(accept, SL_KEEP_LENIENT, "--accept");
        REFUSED(mtp_prime, 0, "--mtp-prime");
        REFUSED(draft_depth, 2, "--draft-depth");
        REFUSED(spec_ladder, "1:2", "--spec-ladder");
        REFUSED(draft_weights, SL_DRAFT_WEIGHTS_Q8, "--draft-dtype");
        REFUSED(draft_model, "x", "--draft-model");
        REFUSED(dflash_max_context, 5000, "--dflash-max-context");
#undef REFUSED
    }
}

/* And with a drafter that does not use it. */
static void test_options_of_another(void **state)
{
    struct sl_engine_opts o;

    (void)state;
    sl_engine_opts_init(&o);
    o.drafter = SL_DRAFTER_NGRAM;
    o.draft_weights = SL_DRAFT_WEIGHTS_Q4;
    expect_no_engine(&o, "--draft-dtype");
    expect_no_engine(&o, "--drafter leaves it out");
    sl_engine_opts_init(&o);
    o.drafter = SL_DRAFTER_DFLASH;
    o.draft_model = "tests/golden/models/flash-v1";
    o.mtp_prime = 5;
    expect_no_engine(&o, "--drafter leaves it out");
    o.mtp_prime = UINT32_MAX;
    o.draft_depth = 7;
    expect_no_engine(&o, "tokens at once");
}

#define LOST "build/test-engine-lost"

/* dense-r1, which has no head, as if it had one. */
static void write_announced_head(void)
{
    json_t *j = json_load_file("tests/golden/models/dense-r1/config.json", 0,
                               NULL);

    mkdir(LOST, 0777);
    json_object_set_new(j, "mtp_num_hidden_layers", json_integer(1));
    assert_int_equal(json_dump_file(j, LOST "/config.json", 0), 0);
    json_decref(j);
    scratch_link(LOST, "model.safetensors", "models/dense-r1/model.safetensors");
    scratch_link(LOST, "tokenizer.json", "tokenizer/tokenizer.json");
}

static char told[300];

static void take_line(void *ctx, enum sl_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    if (strstr(line, "event=no_draft_head") ||
        strstr(line, "event=spec_ladder_cut"))
        snprintf(told, sizeof(told), "%s", line);
}

/* A configuration that announces a head, and files without: refused where it is
 * asked for, and told where it is not. */
static void test_lost_head(void **state)
{
    struct sl_engine_opts o;
    struct sl_engine *e = NULL;
    struct sl_err err = {0};

    (void)state;
    write_announced_head();
    sl_engine_opts_init(&o);
    o.n_thread = 1;
    o.max_num_seqs = 1;
    o.max_model_len = 64;
    o.drafter = SL_DRAFTER_MTP;
    assert_int_equal(sl_engine_open(&e, LOST, &o, &err), SL_EARG);
    assert_non_null(strstr(err.msg, "metadata announces"));
    sl_log_set(take_line, NULL, SL_LOG_WARN);
    o.drafter = SL_DRAFTER_AUTO;
    assert_int_equal(sl_engine_open(&e, LOST, &o, &err), 0);
    sl_engine_close(&e);
    assert_non_null(strstr(told, "files do not have all of it"));
    told[0] = 0;
    o.drafter = SL_DRAFTER_NGRAM;
    assert_int_equal(sl_engine_open(&e, LOST, &o, &err), 0);
    sl_engine_close(&e);
    assert_int_equal(told[0], 0);
    sl_log_set(NULL, NULL, SL_LOG_WARN);
}

/* A ladder for other drafters: refused where the user wrote it, cut and told
 * where it came with the model. */
static void test_ladder_of_others(void **state)
{
    struct sl_engine_opts o;
    struct sl_engine *e = NULL;
    struct sl_err err = {0};

    (void)state;
    sl_engine_opts_init(&o);
    o.n_thread = 1;
    o.max_num_seqs = 1;
    o.max_model_len = 64;
    o.spec_ladder = "1:16,2:4,4:3:dflash,8:1";
    expect_no_engine(&o, "lower it to 8 rows");
    o.spec_ladder_cut = true;
    told[0] = 0;
    sl_log_set(take_line, NULL, SL_LOG_WARN);
    assert_int_equal(sl_engine_open(&e, DIR, &o, &err), 0);
    assert_non_null(strstr(told, "rungs=2 most_rows=8"));
    assert_int_equal(sl_ladder_rows(&e->spec.ladder, 1), 8);
    assert_int_equal(sl_ladder_rows(&e->spec.ladder, 2), 4);
    assert_int_equal(sl_ladder_rows(&e->spec.ladder, 4), 3);
    assert_int_equal(sl_ladder_who(&e->spec.ladder, 4), SL_BY_NONE);
    sl_engine_close(&e);
    told[0] = 0;
    o.spec_ladder = "1:8";
    assert_int_equal(sl_engine_open(&e, DIR, &o, &err), 0);
    sl_engine_close(&e);
    assert_int_equal(told[0], 0);
    sl_log_set(NULL, NULL, SL_LOG_WARN);
}

/* Lossy rules: with a lenience of 1, for greedy answers and with
 * log-probabilities, the bits of exact ones; otherwise more drafts are kept, and
 * the distance is told. */
static void test_lossy_rules(void **state)
{
    static struct answer plain[4], got;
    static const struct {
        enum sl_accept_how how;
        float lenience, relax;
    } rule[] = {{SL_KEEP_EXACT, 1, 0.3f},
                {SL_KEEP_LENIENT, 1, 0.3f},
                {SL_KEEP_LENIENT, 0.2f, 0.3f},
                {SL_KEEP_RELAXED, 1, 0.2f}};
    uint32_t n_accept[SL_COUNTOF(rule)] = {0};
    struct sl_engine *with = engine;

    (void)state;
    for (size_t r = 0; r < SL_COUNTOF(rule); r++) {
        struct sl_engine_opts eo;
        struct sl_gen_opts o;
        struct sl_gen_stats st;
        struct sl_gen *g;
        int32_t ids[100];

        sl_engine_opts_init(&eo);
        eo.n_thread = 1;
        eo.pin = false;
        eo.max_num_seqs = 1;
        eo.max_num_batched_tokens = 64;
        eo.max_model_len = 256;
        eo.draft_depth = 2;
        eo.accept = rule[r].how;
        eo.lenience = rule[r].lenience;
        eo.relax_threshold = rule[r].relax;
        engine = NULL;
        assert_int_equal(sl_engine_open(&engine, DIR, &eo, NULL), 0);
        for (int i = 0; i < 4; i++) {
            bool lossy = r >= 2 && i >= 2;

            make_opts(&o, ids, 12, i + 1);
            o.max_tokens = 100;
            o.temperature = i == 0 ? 0 : 1;
            o.want_logprobs = i == 1;
            g = submit(&o);
            collect(g, r == 0 ? &plain[i] : &got);
            sl_gen_stats(g, &st);
            assert_int_equal(st.n_round + st.n_accept, st.n_output);
            assert_int_equal(st.n_judged > 0, lossy);
            assert_int_equal(st.tv > 0, lossy);
            assert_true(st.tv <= st.n_judged);
            if (i >= 2)
                n_accept[r] += st.n_accept;
            if (!lossy && r > 0)
                assert_memory_equal(&plain[i], &got, sizeof(got));
            sl_gen_close(&g);
        }
        sl_engine_close(&engine);
    }
    engine = with;
    assert_true(n_accept[2] > 2 * n_accept[0]);
    assert_true(n_accept[3] > 2 * n_accept[0]);
}

/* With one thread who wakes a reader is the engine's thread. Returns the engine
 * of the other tests. */
static struct sl_engine *open_single(void)
{
    struct sl_engine *with = engine;
    struct sl_engine_opts eo;
    struct sl_err err;

    sl_engine_opts_init(&eo);
    eo.n_thread = 1;
    eo.pin = false;
    eo.max_num_seqs = 2;
    eo.max_model_len = 512;
    if (sl_engine_open(&engine, DIR, &eo, &err))
        fail_msg("%s", err.msg);
    return with;
}

static void close_single(struct sl_engine *with)
{
    sl_engine_close(&engine);
    engine = with;
}

/* What /metrics shows when the reader is told of the end. */
static void look_at_stats(void *ctx)
{
    sl_engine_stats(engine, ctx);
}

static void an_end_is_told_after_it_shows(void **state)
{
    struct sl_engine_stats idle, at_end = {.n_run = 99};
    struct sl_engine *with = open_single();
    struct sl_gen_opts o;
    struct answer a;
    int32_t ids[30];
    struct sl_gen *g;

    (void)state;
    sl_engine_stats(engine, &idle);
    assert_int_equal(idle.n_run, 0);
    make_opts(&o, ids, 30, 3);
    o.no_cache = true;
    o.wake = look_at_stats;
    o.wake_ctx = &at_end;
    g = submit(&o);
    collect(g, &a);
    sl_gen_close(&g); /* from here on the call-back is not called */
    assert_int_equal(a.n, 40);
    assert_int_equal(at_end.n_run, 0);
    assert_true(at_end.n_step > idle.n_step);
    /* And of one that nobody wants any more. */
    at_end.n_run = 99;
    o.max_tokens = 400;
    g = submit(&o);
    sl_gen_cancel(g);
    sl_gen_close(&g);
    assert_int_equal(at_end.n_run, 0);
    close_single(with);
}

/* Two that run, as the engine's thread sees them when it wakes a reader. */
struct pair {
    struct sl_gen *g[2];
    atomic_bool ready;
    bool begun;
    uint32_t ahead, n_change; /* how far the first is; how often that changed */
    uint32_t last, n_twice;   /* tokens of both; how often they were the same */
};

static uint32_t n_answered(const struct sl_gen *g)
{
    uint32_t n = g->n_known - g->n_prompt;

    return n < g->max_out ? n : 0;
}

static void compare(void *ctx)
{
    struct pair *p = ctx;
    uint32_t a, b;

    while (!atomic_load(&p->ready))
        ;
    a = n_answered(p->g[0]);
    b = n_answered(p->g[1]);
    if (!a || !b)
        return;
    p->n_change += p->begun && a - b != p->ahead;
    p->n_twice += p->begun && a + b == p->last;
    p->last = a + b;
    p->begun = true;
    p->ahead = a - b;
}

static void await_let_go(struct sl_gen *g)
{
    sl_lock(&g->mu);
    while (!g->let_go)
        sl_cond_wait(&g->ready, &g->mu);
    sl_unlock(&g->mu);
}

/* A reader that ran while the others' tokens are drawn would take their time. */
static void readers_are_woken_once_a_step(void **state)
{
    struct pair p = {.n_change = 0};
    struct sl_engine *with = open_single();
    struct sl_gen_opts o;
    struct answer a;
    int32_t ids[30];

    (void)state;
    engine->opts.draft = SL_DRAFT_GREEDY; /* so not these: a token of each */
    for (int i = 0; i < 2; i++) {
        make_opts(&o, ids, 30, 2 * i + 1);
        o.max_tokens = 60;
        o.wake = compare;
        o.wake_ctx = &p;
        p.g[i] = submit(&o);
    }
    atomic_store(&p.ready, true);
    for (int i = 0; i < 2; i++)
        collect(p.g[i], &a);
    for (int i = 0; i < 2; i++)
        await_let_go(p.g[i]); /* from here on the call-back is not called */
    for (int i = 0; i < 2; i++)
        sl_gen_close(&p.g[i]);
    assert_true(p.begun);
    assert_int_equal(p.n_change, 0);
    assert_int_equal(p.n_twice, 0);
    close_single(with);
}

/* How often a reader began to be woken, and how often that ended. */
struct late {
    atomic_uint n_in, n_out;
};

/* The first call, which is a worker's if one waits, lasts longer than the rest
 * of the answer. */
static void wake_slowly(void *ctx)
{
    struct late *l = ctx;

    if (atomic_fetch_add(&l->n_in, 1) == 0)
        usleep(4000);
    atomic_fetch_add(&l->n_out, 1);
}

/* When a generation is closed nobody is waking its reader, nor about to. */
static void nobody_wakes_who_has_closed(void **state)
{
    struct sl_gen_opts o;
    struct answer a;
    int32_t ids[30];

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct late l = {0};
        struct sl_gen *g;

        make_opts(&o, ids, 30, i);
        o.max_tokens = 4;
        o.wake = wake_slowly;
        o.wake_ctx = &l;
        g = submit(&o);
        collect(g, &a);
        sl_gen_close(&g);
        assert_true(atomic_load(&l.n_in) > 0);
        assert_int_equal(atomic_load(&l.n_in), atomic_load(&l.n_out));
    }
}

/* Shapes that are kept are bounded in bytes; the newest one stays. */
static void shapes_are_few(void **state)
{
    static const char *const choice[] = {"[\"a\"]", "[\"b\"]", "[\"c\"]"};
    struct sl_gen_opts o;
    int32_t ids[5];
    struct answer a;

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        struct sl_gen *g;

        make_opts(&o, ids, 5, 1);
        o.ignore_eos = false;
        o.shape = SL_SHAPE_CHOICE;
        o.shape_text = choice[i % 3];
        o.n_shape_text = strlen(o.shape_text);
        g = submit(&o);
        collect(g, &a);
        sl_gen_close(&g);
        assert_int_equal(a.n_text, 1);
        if (i == 5) {
            assert_int_equal(sl_shapes_n_kept(engine->shapes), 3);
            sl_shapes_limit(engine->shapes, 1);
        }
        if (i >= 5)
            assert_int_equal(sl_shapes_n_kept(engine->shapes), 1);
    }
    sl_shapes_limit(engine->shapes, SIZE_MAX);
}

/* What the answers depend on has another fingerprint, and nothing else has. */
static void fingerprints(void **state)
{
    static const struct {
        enum sl_kv_type kv;
        uint32_t n_thread, cpu_mask;
        const char *sampling;
        bool same;
    } cases[] = {{SL_KV_BF16, 1, UINT32_MAX, NULL, true},
                 {SL_KV_BF16, 2, 0, NULL, true},
                 {SL_KV_F32, 1, UINT32_MAX, NULL, false},
                 {SL_KV_BF16, 1, UINT32_MAX, "{\"top_k\": 3}", false}};
    char first[SL_FINGERPRINT] = "";

    (void)state;
    for (size_t i = 0; i < SL_COUNTOF(cases); i++) {
        struct sl_engine_opts o;
        struct sl_engine_info info;
        struct sl_engine *e = NULL;

        sl_engine_opts_init(&o);
        o.draft = SL_DRAFT_OFF;
        o.pin = false;
        o.max_model_len = 128;
        o.kv_type = cases[i].kv;
        o.n_thread = cases[i].n_thread;
        o.cpu_mask = cases[i].cpu_mask;
        o.sampling = cases[i].sampling;
        assert_int_equal(sl_engine_open(&e, DIR, &o, NULL), 0);
        sl_engine_info(e, &info);
        sl_engine_close(&e);
        if (i == 0)
            memcpy(first, info.fingerprint, sizeof(first));
        assert_int_equal(strlen(info.fingerprint), SL_FINGERPRINT - 1);
        assert_int_equal(!strcmp(first, info.fingerprint), cases[i].same);
    }
}

/* A prompt's last row alone in a step is no round. */
static void rounds_are_of_answers(void **state)
{
    static struct answer a;
    struct sl_record r = {.n_round = 0};
    struct sl_gen_stats st;

    (void)state;
    engine->record = &r;
    ask_greedy(&a, &st, 1, 9, NULL);
    engine->record = NULL;
    assert_int_equal(a.n, 9);
    assert_int_equal(r.n_tok, 8);
}

static void print_again(char out[SL_FINGERPRINT],
                        const struct sl_engine_opts *o, const char *drafter)
{
    engine->opts = *o;
    engine->spec.ladder.n = 0;
    if (o->spec_ladder)
        assert_int_equal(
            sl_ladder_parse(&engine->spec.ladder, o->spec_ladder, NULL), 0);
    engine->fingerprint[0] = 0;
    sl_engine_fingerprint(engine, drafter);
    memcpy(out, engine->fingerprint, SL_FINGERPRINT);
}

/* Who drafts, and how much, belongs to it where the rule lets it matter. */
static void drafters_have_fingerprints(void **state)
{
    const struct sl_engine_opts was = engine->opts;
    const struct sl_ladder ladder = engine->spec.ladder;
    char old[SL_FINGERPRINT];

    (void)state;
    memcpy(old, engine->fingerprint, sizeof(old));
    for (int rule = SL_KEEP_EXACT; rule <= SL_KEEP_RELAXED; rule++) {
        char first[SL_FINGERPRINT], got[SL_FINGERPRINT];
        struct sl_engine_opts init = was, o;

        init.accept = (enum sl_accept_how)rule;
        print_again(first, &init, NULL);
        assert_int_equal(strlen(first), SL_FINGERPRINT - 1);
#define MATTERS(field, value)                                                  \
    (o = init, o.field = (value), print_again(got, &o, NULL),                  \
     assert_int_equal(!strcmp(first, got), rule == SL_KEEP_EXACT))
        MATTERS(draft, SL_DRAFT_GREEDY);
        MATTERS(drafter, SL_DRAFTER_NGRAM);
        MATTERS(draft_weights, SL_DRAFT_WEIGHTS_Q8);
        MATTERS(draft_depth, 5);
        MATTERS(spec_ladder, "1:3");
        MATTERS(spec_ladder, "1:3:mtp");
        MATTERS(spec_disable_ratio, 0.5f);
        MATTERS(dflash_max_context, 5000);
        MATTERS(dflash_hysteresis, 10);
        MATTERS(mtp_prime, 7);
#undef MATTERS
        print_again(got, &init, "tests/golden/models/flash-v1");
        assert_int_equal(!strcmp(first, got), rule == SL_KEEP_EXACT);
        o = init;
        o.spec_log_rounds = 3;
        print_again(got, &o, NULL);
        assert_string_equal(first, got);
    }
    engine->opts = was;
    engine->spec.ladder = ladder;
    memcpy(engine->fingerprint, old, sizeof(old));
}

/* Reasoning ends with the token of its tag, not with words that spell it. */
static void reasoning_ends_with_its_token(void **state)
{
    const struct sl_gen_opts o = {.shape = SL_SHAPE_CHOICE,
                                  .shape_text = "[\"a\"]",
                                  .n_shape_text = 5,
                                  .shape_after_think = true};
    int32_t tag = sl_token_named(engine, SL_TOKEN_THINK_END);
    struct sl_encoder *enc = NULL;
    struct sl_shaping x;
    struct sl_ids ids;
    bool whole;

    (void)state;
    assert_true(tag >= 0);
    sl_ids_init(&ids, 100);
    assert_int_equal(sl_encoder_open(&enc, engine->tok, NULL), 0);
    assert_int_equal(
        sl_tokenize_encode(enc, "</think>a", 9, false, &ids, NULL), 0);
    assert_int_equal(sl_shaping_open(&x, engine->shapes, &o, NULL), 0);
    for (size_t i = 0; i < ids.len; i++) {
        assert_int_equal(
            sl_shaping_put(&x, engine->tok, ids.p[i], &whole, NULL), 0);
        assert_true(x.waits && !whole);
    }
    assert_int_equal(sl_shaping_put(&x, engine->tok, tag, &whole, NULL), 0);
    assert_true(!x.waits && !whole);
    assert_int_equal(sl_shaping_put(&x, engine->tok, ids.p[ids.len - 1], &whole,
                                    NULL),
                     0);
    assert_true(whole);
    sl_shaping_close(&x);
    sl_encoder_close(&enc);
    sl_ids_deinit(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_equals_among_others),
        cmocka_unit_test(test_seed_decides),
        cmocka_unit_test(test_stop_id),
        cmocka_unit_test(test_stop_text_ends_an_answer),
        cmocka_unit_test(test_cancel_and_close_at_any_point),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_allocation_in_the_token_loop),
        cmocka_unit_test(test_open_refuses),
        cmocka_unit_test(test_stop_at_any_cut),
        cmocka_unit_test(test_stop_that_began_early),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_stop_shown_and_minimum),
        cmocka_unit_test(test_cancelled_in_the_queue),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_places_are_shared),
        cmocka_unit_test(test_prompt_is_scored),
        cmocka_unit_test(test_cache_apart),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_preempted_loses_nothing),
        cmocka_unit_test(test_next_turn_is_cached),
        cmocka_unit_test(test_drafts_change_nothing),
        cmocka_unit_test(test_drafting_that_cannot_be),
        cmocka_unit_test(test_right_to_the_end),
        cmocka_unit_test(test_wrong_ones_count_whole),
        cmocka_unit_test(test_unseen_prefix_is_known),
        cmocka_unit_test(test_nothing_primed),
        cmocka_unit_test(test_options_of_nobody),
        cmocka_unit_test(test_ladder_of_others),
        cmocka_unit_test(test_options_of_another),
        cmocka_unit_test(test_lost_head),
        cmocka_unit_test(test_lossy_rules),
        cmocka_unit_test(an_end_is_told_after_it_shows),
        cmocka_unit_test(readers_are_woken_once_a_step),
        cmocka_unit_test(nobody_wakes_who_has_closed),
        cmocka_unit_test(shapes_are_few),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(rounds_are_of_answers),
        cmocka_unit_test(drafters_have_fingerprints),
        cmocka_unit_test(reasoning_ends_with_its_token),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
