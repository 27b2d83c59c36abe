/* D3 and D4 by bits: who drafts, and how much, changes nothing but the time.
 *
 * The oracle is an engine without drafts, one request after the other. Against
 * its ids, log-probabilities, alternatives and ends: every way of drafting, the
 * requests one by one and sixteen at a time; with the prompts resumed from the
 * prefix cache; with a pool so small that some are preempted; while others beside
 * them are cancelled; up to the last token of the context; and across that from
 * which on a block drafter is not used. Requests are greedy, and sampled with everything
 * that changes a distribution.
 *
 * Usage: prop_draft [N_REQUEST]; 24 by default, 200 when SL_TEST_FULL is set.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "engine/drafter.h"
#include "engine/gen.h"
#include "sluice/sluice.h"
#include "../help/rig.h"
#include "../help/st_out.h"

#define DIR "build/test-draft-model"
#define N_OUT 48
#define MAX_PROMPT 130
#define MAX_REQUEST 200
#define N_TOP 2
#define TOGETHER 16
#define ENDS 2  /* requests whose context ends with them, of each way */
#define KEPT 24 /* requests whose states the cache holds */

static unsigned n_pass, n_fail;
static uint64_t n_drafted, n_accepted;

struct ask {
    int32_t ids[MAX_PROMPT + N_OUT + 8];
    size_t n_ids;
    uint32_t kind, seed;
};

struct answer {
    int32_t ids[N_OUT];
    struct sl_logprob logprob[N_OUT], top[N_OUT * N_TOP];
    size_t n;
    enum sl_finish finish;
    uint32_t n_cached;
};

/* One way to draft. */
struct way {
    const char *name;
    enum sl_draft_who who;
    uint32_t depth;
    enum sl_draft_by by;
    const struct sl_drafter *instead; /* of who was asked for: one of ours */
};

/* ---------------------------------------- drafters that mean no good, or know
 *
 * They stand in the place of the n-gram drafter. */

static struct {
    const struct ask *ask;
    const struct answer *want;
    int n;
    uint64_t random;
} known;

/* The plain answer to the request of g; NULL when it is not one of ours. */
static const struct answer *answer_of(const struct sl_gen *g)
{
    for (int i = 0; i < known.n; i++)
        if (known.ask[i].n_ids == g->n_prompt &&
            known.ask[i].seed == g->sample.seed &&
            memcmp(known.ask[i].ids, g->tok,
                   g->n_prompt * sizeof(*g->tok)) == 0)
            return &known.want[i];
    return NULL;
}

/* Right with a chance of `of_8` / 8; what is wrong is any other token. */
static uint32_t propose(struct sl_gen *g, uint32_t most, uint32_t of_8)
{
    const struct answer *a = answer_of(g);
    uint32_t out = g->n_known - g->n_prompt, vocab = g->e->n_vocab;

    for (uint32_t k = 0; k < most; k++) {
        uint64_t r = rig_random(&known.random);
        int32_t right = a && out + k < a->n ? a->ids[out + k] : 0;

        g->draft[k] = r % 8 < of_8
                          ? right
                          : (right + 1 + (int32_t)(r / 8 % (vocab - 1))) %
                                (int32_t)vocab;
    }
    return most > 0 ? 1 + (uint32_t)(rig_random(&known.random) % most) : 0;
}

static uint32_t look_wrong(struct sl_gen *g, uint32_t most,
                           enum sl_odds_of *odds)
{
    *odds = SL_ODDS_SHORT;
    return propose(g, most, 0);
}

static uint32_t look_random(struct sl_gen *g, uint32_t most,
                            enum sl_odds_of *odds)
{
    *odds = SL_ODDS_SHORT;
    for (uint32_t k = 0; k < most; k++)
        g->draft[k] =
            (int32_t)(rig_random(&known.random) % g->e->weights->conf.vocab);
    return most;
}

static uint32_t look_oracle(struct sl_gen *g, uint32_t most,
                            enum sl_odds_of *odds)
{
    *odds = SL_ODDS_SHORT;
    return propose(g, most, 6);
}

static const struct sl_drafter wrong = {.name = "wrong", .look = look_wrong},
                               chance = {.name = "random",
                                         .look = look_random},
                               oracle = {.name = "oracle",
                                         .look = look_oracle};

static const struct way ways[] = {
    {"mtp 1", SL_DRAFT_ALL, 1, SL_DRAFTER_MTP, NULL},
    {"mtp 2", SL_DRAFT_ALL, 2, SL_DRAFTER_MTP, NULL},
    {"mtp 3", SL_DRAFT_ALL, 3, SL_DRAFTER_MTP, NULL},
    {"mtp 4", SL_DRAFT_ALL, 4, SL_DRAFTER_MTP, NULL},
    {"mtp 5", SL_DRAFT_ALL, 5, SL_DRAFTER_MTP, NULL},
    {"mtp 6", SL_DRAFT_ALL, 6, SL_DRAFTER_MTP, NULL},
    {"mtp 7", SL_DRAFT_ALL, 7, SL_DRAFTER_MTP, NULL},
    {"n-gram 4", SL_DRAFT_ALL, 4, SL_DRAFTER_NGRAM, NULL},
    {"controller", SL_DRAFT_ALL, 0, SL_DRAFTER_AUTO, NULL},
    {"always wrong", SL_DRAFT_ALL, 5, SL_DRAFTER_NGRAM, &wrong},
    {"random", SL_DRAFT_ALL, 3, SL_DRAFTER_NGRAM, &chance},
    {"oracle", SL_DRAFT_ALL, 7, SL_DRAFTER_NGRAM, &oracle},
    {"controller, oracle, mtp", SL_DRAFT_ALL, 0, SL_DRAFTER_AUTO, &oracle},
    {"greedy ones", SL_DRAFT_GREEDY, 3, SL_DRAFTER_AUTO, NULL},
    {"dflash 2", SL_DRAFT_ALL, 2, SL_DRAFTER_DFLASH, NULL},
    {"dflash 4", SL_DRAFT_ALL, 4, SL_DRAFTER_DFLASH, NULL},
};

static void verdict(bool ok, const char *model, const struct way *w,
                    const char *what, int i)
{
    if (ok)
        n_pass++;
    else
        n_fail++;
    if (!ok)
        printf("FAIL %s, %s, %s: request %d\n", model, w->name, what, i);
}

/* -------------------------------------------------------------- requests */

static void make_ask(struct ask *a, int i, uint32_t vocab, uint64_t *seed)
{
    /* Few distinct tokens, so that something repeats; lengths on both sides of
     * a page. */
    uint32_t few = 3 + (uint32_t)i % 40;

    a->kind = (uint32_t)i;
    a->seed = (uint32_t)i * 7 + 1;
    a->n_ids = 1 + (size_t)(i * 37) % MAX_PROMPT;
    for (size_t k = 0; k < a->n_ids; k++)
        a->ids[k] = (int32_t)(rig_random(seed) % few * 5 % vocab);
}

/* Everything that changes a distribution, a few at a time. */
static void fill_opts(struct sl_gen_opts *o, const struct ask *a,
                      const struct sl_engine *e)
{
    static const int32_t bias_ids[] = {3, 17, 40, 55};
    static const float bias[] = {2.5f, -100, 1.25f, -1};
    static const int32_t stop[] = {11};

    sl_gen_opts_init(o, e);
    o->ids = a->ids;
    o->n_ids = a->n_ids;
    o->max_tokens = N_OUT;
    o->ignore_eos = true;
    o->seed = a->seed;
    o->has_seed = true;
    o->want_logprobs = true;
    o->n_top_logprobs = N_TOP;
    o->temperature = 1;
    o->top_p = 1;
    o->top_k = 0;
    o->min_p = 0;
    o->repetition_penalty = 1;
    switch (a->kind % 12) {
    case 0:
        o->temperature = 0;
        break;
    case 1:
        o->temperature = 0.6f;
        o->top_k = 20;
        break;
    case 2:
        o->temperature = 0.6f;
        o->top_p = 0.8f;
        break;
    case 3:
        o->min_p = 0.1f;
        break;
    case 4:
        break;
    case 5:
        o->temperature = 0;
        o->repetition_penalty = 1.3f;
        break;
    case 6:
        o->temperature = 0.6f;
        o->presence_penalty = 0.7f;
        o->frequency_penalty = 0.4f;
        break;
    case 7:
        o->bias_ids = bias_ids;
        o->bias = bias;
        o->n_bias = SL_COUNTOF(bias);
        break;
    case 8:
        o->top_k = 40;
        o->top_p = 0.9f;
        o->min_p = 0.02f;
        o->choice = 1;
        break;
    case 9: /* another choice of the same request */
        o->top_k = 40;
        o->top_p = 0.9f;
        o->min_p = 0.02f;
        o->choice = 2;
        break;
    case 10:
        o->temperature = 0;
        o->bias_ids = bias_ids;
        o->bias = bias;
        o->n_bias = SL_COUNTOF(bias);
        o->frequency_penalty = 1;
        break;
    case 11:
        o->temperature = 0.6f;
        o->repetition_penalty = 0.8f;
        o->min_tokens = 9;
        o->stop_ids = stop;
        o->n_stop_ids = 1;
        break;
    }
}

static void die(const struct sl_err *err)
{
    fprintf(stderr, "prop_draft: %s\n", err->msg);
    exit(1);
}

static struct sl_gen *submit(struct sl_engine *e, const struct ask *a)
{
    struct sl_err err = {0};
    struct sl_gen_opts o;
    struct sl_gen *g = NULL;

    fill_opts(&o, a, e);
    if (sl_gen_submit(&g, e, &o, &err))
        die(&err);
    return g;
}

static void collect(struct sl_gen **g, struct answer *a)
{
    struct sl_err err = {0};
    struct sl_gen_stats st;
    struct sl_piece p;
    int rc;

    memset(a, 0, sizeof(*a));
    while ((rc = sl_gen_next(*g, &p, &err)) > 0) {
        memcpy(a->ids + a->n, p.ids, p.n_ids * sizeof(*p.ids));
        memcpy(a->logprob + a->n, p.logprobs, p.n_ids * sizeof(*p.logprobs));
        memcpy(a->top + a->n * N_TOP, p.top,
               p.n_ids * N_TOP * sizeof(*p.top));
        a->n += p.n_ids;
        a->finish = p.finish;
        a->n_cached = p.n_cached;
    }
    if (rc < 0)
        die(&err);
    sl_gen_stats(*g, &st);
    n_drafted += st.n_draft;
    n_accepted += st.n_accept;
    sl_gen_close(g);
}

static bool same(const struct answer *a, const struct answer *b)
{
    return a->n == b->n && a->finish == b->finish &&
           memcmp(a->ids, b->ids, sizeof(a->ids)) == 0 &&
           memcmp(a->logprob, b->logprob, sizeof(a->logprob)) == 0 &&
           memcmp(a->top, b->top, sizeof(a->top)) == 0;
}

/* -------------------------------------------------------------- engines */

static void engine_opts(struct sl_engine_opts *o, const struct way *w,
                        uint32_t n_seq)
{
    sl_engine_opts_init(o);
    o->n_thread = 1;
    o->pin = false;
    o->max_num_seqs = n_seq;
    o->max_num_batched_tokens = 96;
    o->max_model_len = 256;
    o->prefix_cache_bytes = 8 << 20;
    o->draft = w ? w->who : SL_DRAFT_OFF;
    o->draft_depth = w ? w->depth : 0;
    o->drafter = w ? w->by : SL_DRAFTER_AUTO;
}

static struct sl_engine *open_with(const char *dir, const struct way *w,
                                   const struct sl_engine_opts *o)
{
    struct sl_engine *e = NULL;
    struct sl_err err = {0};

    if (sl_engine_open(&e, dir, o, &err))
        die(&err);
    /* Nothing was submitted yet, so the engine's thread does not look. */
    if (w && w->instead)
        e->drafter[SL_BY_NGRAM] = w->instead;
    return e;
}

static struct sl_engine *open_engine(const char *dir, const struct way *w,
                                     uint32_t n_seq, uint32_t pool,
                                     bool prefix)
{
    struct sl_engine_opts o;

    engine_opts(&o, w, n_seq);
    o.kv_pool_tokens = pool;
    o.prefix_cache = prefix;
    return open_with(dir, w, &o);
}

/* All requests, up to `at_once` at a time. */
static void ask_all(struct sl_engine *e, const struct ask *a, int n,
                    int at_once, struct answer *out)
{
    struct sl_gen *g[TOGETHER];

    for (int i = 0; i < n; i += at_once) {
        int m = n - i < at_once ? n - i : at_once;

        for (int k = 0; k < m; k++)
            g[k] = submit(e, &a[i + k]);
        for (int k = 0; k < m; k++)
            collect(&g[k], &out[i + k]);
    }
}

struct world {
    const char *name, *dir;
    int n;
    bool has_flash; /* a block drafter is there */
    struct ask *ask;
    struct answer *want, *got;
};

static void compare(const struct world *w, const struct way *way,
                    const char *what)
{
    for (int i = 0; i < w->n; i++)
        verdict(same(&w->want[i], &w->got[i]), w->name, way, what, i);
}

static void try_way(const struct world *w, const struct way *way)
{
    struct sl_engine *e;

    if (way->by == SL_DRAFTER_DFLASH && !w->has_flash)
        return;
    e = open_engine(w->dir, way, 1, 0, false);
    ask_all(e, w->ask, w->n, 1, w->got);
    sl_engine_close(&e);
    compare(w, way, "alone");
    e = open_engine(w->dir, way, TOGETHER, 0, true);
    ask_all(e, w->ask, w->n, TOGETHER, w->got);
    compare(w, way, "together");
    /* Every prompt is known now, but for its last token. */
    ask_all(e, w->ask, w->n, TOGETHER, w->got);
    compare(w, way, "resumed");
    sl_engine_close(&e);
}

/* A pool for three of eight requests, and every third one cancelled. */
static void try_hard(const struct world *w, const struct way *way)
{
    struct sl_engine *e;
    struct sl_gen *g[8], *other[8];
    struct sl_piece p;

    if (way->by == SL_DRAFTER_DFLASH && !w->has_flash)
        return;
    e = open_engine(w->dir, way, 8, 640, true);
    for (int i = 0; i < w->n; i += 8) {
        int m = w->n - i < 8 ? w->n - i : 8;

        for (int k = 0; k < m; k++) {
            g[k] = submit(e, &w->ask[i + k]);
            other[k] = k % 3 == 0 ? submit(e, &w->ask[(i + k) / 2]) : NULL;
        }
        for (int k = 0; k < m; k += 3) {
            for (int j = 0; j < k; j++)
                sl_gen_next(other[k], &p, NULL);
            sl_gen_close(&other[k]);
        }
        for (int k = 0; k < m; k++)
            collect(&g[k], &w->got[i + k]);
    }
    sl_engine_close(&e);
    compare(w, way, "preempted, beside cancelled ones");
}

/* A context that ends with the last token of the answer: drafts and blocks reach
 * to its end and not beyond. */
static void try_end(const struct world *all, const struct way *way)
{
    if (way->by == SL_DRAFTER_DFLASH && !all->has_flash)
        return;
    for (int i = 0; i < all->n && i < ENDS; i++) {
        struct world w = *all;
        struct sl_engine_opts o;
        struct sl_engine *e;

        w.ask += i;
        w.want += i;
        w.got += i;
        w.n = 1;
        engine_opts(&o, way, 1);
        o.max_model_len = (uint32_t)w.ask->n_ids + N_OUT;
        e = open_with(w.dir, way, &o);
        ask_all(e, w.ask, 1, 1, w.got);
        sl_engine_close(&e);
        compare(&w, way, "to the end of the context");
    }
}

/* The block drafter leaves within the answers, alone and together, and others go
 * on in its place. */
static void try_far(const struct world *all, const struct way *way)
{
    struct world some = *all, *w = &some;
    struct sl_engine_opts o;
    struct sl_engine *e;
    uint64_t before = n_drafted;

    if (!w->has_flash ||
        (way->by != SL_DRAFTER_DFLASH && way->by != SL_DRAFTER_AUTO))
        return;
    some.n = all->n < 8 ? all->n : 8;
    for (uint32_t seqs = 1; seqs <= 8; seqs += 7) {
        engine_opts(&o, way, seqs);
        o.dflash_max_context = 60;
        o.dflash_hysteresis = 10;
        e = open_with(w->dir, way, &o);
        ask_all(e, w->ask, w->n, (int)seqs, w->got);
        sl_engine_close(&e);
        compare(w, way, "across the block drafter's context");
    }
    verdict(n_drafted > before, w->name, way, "nobody drafted", -1);
}

/* The next turn: prompt, answer, and a few tokens more. */
static void next_turn(struct world *w)
{
    for (int i = 0; i < w->n; i++) {
        struct ask *a = &w->ask[i];

        if (a->n_ids > MAX_PROMPT)
            continue;
        memcpy(a->ids + a->n_ids, w->want[i].ids,
               w->want[i].n * sizeof(*a->ids));
        a->n_ids += w->want[i].n;
        for (int k = 0; k < 8; k++)
            a->ids[a->n_ids++] = (k * 13 + i) % 90;
    }
}

/* As many at a time as the cache keeps until their next turn. */
static void try_turns(const struct world *all, const struct way *way)
{
    struct sl_engine *e = open_engine(all->dir, way, TOGETHER, 0, true);
    struct sl_engine *plain = open_engine(all->dir, NULL, 1, 0, false);

    for (int at = 0; at < all->n; at += KEPT) {
        struct world w = *all;
        uint32_t n_cached = 0;

        w.ask += at;
        w.want += at;
        w.got += at;
        w.n = all->n - at < KEPT ? all->n - at : KEPT;
        ask_all(e, w.ask, w.n, TOGETHER, w.got);
        next_turn(&w);
        ask_all(plain, w.ask, w.n, 1, w.want);
        ask_all(e, w.ask, w.n, TOGETHER, w.got);
        for (int i = 0; i < w.n; i++)
            n_cached += w.got[i].n_cached;
        compare(&w, way, "next turn");
        verdict(n_cached > 0, w.name, way, "nothing was cached", at);
    }
    sl_engine_close(&plain);
    sl_engine_close(&e);
}

/* Every `stride`-th way: a model with real weights takes its time. */
static void run_model(const char *name, const char *dir, int n,
                      uint32_t vocab, size_t stride)
{
    struct world w = {.name = name, .dir = dir, .n = n};
    char drafter[200];
    struct sl_engine *plain = open_engine(dir, NULL, 1, 0, false);
    uint64_t seed = 5;

    snprintf(drafter, sizeof(drafter), "%s/drafter/config.json", dir);
    w.has_flash = access(drafter, R_OK) == 0;
    w.ask = calloc((size_t)n, sizeof(*w.ask));
    w.want = calloc((size_t)n, sizeof(*w.want));
    w.got = calloc((size_t)n, sizeof(*w.got));
    for (int i = 0; i < n; i++)
        make_ask(&w.ask[i], i, vocab, &seed);
    ask_all(plain, w.ask, n, 1, w.want);
    sl_engine_close(&plain);
    known.ask = w.ask;
    known.want = w.want;
    known.n = n;
    verdict(n_drafted == 0, name, &ways[0], "the oracle drafted", -1);
    for (size_t i = 0; i < SL_COUNTOF(ways); i += stride)
        try_way(&w, &ways[i]);
    for (size_t i = 1; i < SL_COUNTOF(ways) && stride < 4; i += 2)
        try_hard(&w, &ways[i]);
    for (size_t i = 0; i < SL_COUNTOF(ways) && stride < 4; i += 3) {
        try_end(&w, &ways[i]);
        try_far(&w, &ways[i]);
    }
    for (size_t i = 0; i < SL_COUNTOF(ways) && stride < 4; i++)
        if (ways[i].by == SL_DRAFTER_DFLASH) {
            try_end(&w, &ways[i]);
            try_far(&w, &ways[i]);
        }
    try_turns(&w, &ways[3]);
    printf("%s: %llu of %llu drafts were right\n", name,
           (unsigned long long)n_accepted, (unsigned long long)n_drafted);
    verdict(stride > 3 || n_accepted > (uint64_t)n, name, &ways[0], "too few right", -1);
    n_drafted = n_accepted = 0;
    free(w.ask);
    free(w.want);
    free(w.got);
}

static void link_two(const char *model, const char *folder)
{
    char from[100], name[100];

    snprintf(from, sizeof(from), "models/%s/config.json", model);
    snprintf(name, sizeof(name), "%sconfig.json", folder);
    scratch_link(DIR, name, model[0] ? from : NULL);
    snprintf(from, sizeof(from), "models/%s/model.safetensors", model);
    snprintf(name, sizeof(name), "%smodel.safetensors", folder);
    scratch_link(DIR, name, model[0] ? from : NULL);
}

/* A small random model with the small test tokenizer beside it, and a block
 * drafter unless its name is empty. */
static void link_model(const char *model, const char *drafter)
{
    link_two(model, "");
    mkdir(DIR "/drafter", 0777);
    link_two(drafter, "drafter/");
    scratch_link(DIR, "tokenizer.json", "tokenizer/tokenizer.json");
    if (!drafter[0] && rmdir(DIR "/drafter"))
        exit(1);
}

int main(int argc, char **argv)
{
    int64_t n = getenv("SL_TEST_FULL") ? MAX_REQUEST : 24;

    if (argc > 1 && sl_num_i64(&n, argv[1], strlen(argv[1]), 4, MAX_REQUEST,
                               "N_REQUEST", NULL))
        return 2;
    link_model("dense-r2", "flash-v2");
    run_model("dense-r2", DIR, (int)n, 90, 1);
    link_model("dense-r2", "flash-v1");
    run_model("dense-r2, first drafter", DIR, (int)n / 4, 90, 7);
    link_model("moe-r2", "");
    run_model("moe-r2", DIR, (int)n, 90, 3);
    run_model("demo", "models/demo", 4, 3000, 4);
    printf("%u passed, %u failed\n", n_pass, n_fail);
    return n_fail != 0;
}
