/* engine/bench_speculate.c - what drafting gains; see bench.h
 *
 * One engine with all drafters. Between two generations, while its thread
 * sleeps, who may draft is changed; so all ways share weights, memory and tables,
 * and take turns on every prompt. What the controller learned belongs to a way
 * and is put aside with it.
 *
 * With an oracle (oracle.h) the first turn of the plain way is recorded, and the
 * others replay it.
 */
#include "engine/bench.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/gen.h"
#include "engine/median.h"
#include "engine/oracle.h"
#include "model/source.h"

#define MAX_PAIRS (1u << 20)
#define DUMMY_PROMPT 64 /* ids, without a tokenizer */
#define MAX_PROMPT 4096 /* ids of a random prompt */
#define MAX_USERS 64
#define CONTEXT 8192    /* tokens at most, unless asked for otherwise */
#define CUT 3           /* drafts of a block that is verified in part */
#define LENIENCE 0.7f
#define RELAX 0.3f

struct way {
    enum sl_by by; /* NONE: plain; N_BY: all */
    uint32_t depth;
    struct sl_speculate spec;
    struct sl_record record;
    double s[SL_BENCH_PAIRS]; /* of all prompts */
    uint64_t n_tok;        /* of one sample */
    double decode_s;
};

struct bench {
    const struct sl_speculation_opts *o;
    struct sl_engine *e;
    bool mtp;
    struct sl_flash *flash; /* the engine's, while it is not to be used */
    struct sl_oracle oracle;
    struct way way[SL_BENCH_WAYS + 1]; /* and one that is none */
    uint32_t n_way;
    int32_t *ids;   /* [n_prompt][max_tokens] plain answers */
    uint32_t *n_id; /* [n_prompt] */
};

static const char *const names[SL_N_BY + 1] = {"plain", "ngram", "mtp",
                                               "dflash", "auto"};

/* ------------------------------------------------------------- the ways */

static void add_way(struct bench *b, enum sl_by by, uint32_t depth)
{
    struct way *w = &b->way[b->n_way++];

    *w = (struct way){.by = by, .depth = depth, .spec = b->e->spec};
    w->spec.fixed = depth;
}

static bool wants(const struct bench *b, enum sl_draft_by by)
{
    return b->o->only == SL_DRAFTER_AUTO || b->o->only == by;
}

static void add_ways(struct bench *b)
{
    const struct sl_engine *e = b->e;

    add_way(b, SL_BY_NONE, 0);
    if (b->mtp && wants(b, SL_DRAFTER_MTP)) {
        add_way(b, SL_BY_MTP, 1);
        add_way(b, SL_BY_MTP, 2);
        add_way(b, SL_BY_MTP, 3);
        add_way(b, SL_BY_MTP, 4);
        add_way(b, SL_BY_MTP, 5);
        add_way(b, SL_BY_MTP, 7);
    }
    if (b->o->synthetic < 0 && wants(b, SL_DRAFTER_NGRAM))
        add_way(b, SL_BY_NGRAM, 3);
    if (b->flash && wants(b, SL_DRAFTER_DFLASH)) {
        if (e->flash_conf->block > CUT + 1)
            add_way(b, SL_BY_FLASH, CUT);
        add_way(b, SL_BY_FLASH, e->flash_conf->block - 1);
    }
    if (wants(b, SL_DRAFTER_NONE))
        add_way(b, SL_N_BY, 0);
}

/* From now on drafts are made this way. The engine's thread sleeps. */
static void use(struct bench *b, const struct way *w)
{
    struct sl_engine *e = b->e;
    bool oracle = b->o->synthetic >= 0, all = w->by == SL_N_BY;
    bool mtp = b->mtp && (all || w->by == SL_BY_MTP);
    bool flash = b->flash && (all || w->by == SL_BY_FLASH);

    e->drafts = w->by != SL_BY_NONE;
    e->uses_mtp = mtp;
    e->flash = flash ? b->flash : NULL;
    e->drafter[SL_BY_MTP] =
        !mtp ? NULL : oracle ? &sl_oracle_mtp : &sl_draft_mtp;
    e->drafter[SL_BY_FLASH] =
        !flash ? NULL : oracle ? &sl_oracle_flash : &sl_draft_flash;
    e->drafter[SL_BY_NGRAM] =
        !oracle && (all || w->by == SL_BY_NGRAM) ? &sl_draft_ngram : NULL;
    e->spec = w->spec;
    /* What passes took in the other way does not show how the machine moved. */
    memset(e->pace.seen, 0, sizeof(e->pace.seen));
    e->draft_s = e->pass_s = 0; /* the next round is of no other way */
}

/* Wait until the engine's thread has published that it has nothing to do: some
 * microseconds. */
static void wait_idle(struct sl_engine *e)
{
    struct sl_engine_stats st;

    do
        sl_engine_stats(e, &st);
    while (st.n_run > 0);
}

/* --------------------------------------------------------------- one run */

static void fill_opts(const struct bench *b, struct sl_gen_opts *go,
                      int32_t ids[MAX_PROMPT], uint32_t i, uint32_t user,
                      double temperature)
{
    uint32_t n = b->o->n_random ? b->o->n_random : DUMMY_PROMPT;
    uint64_t z = b->o->seed + i * 64 + user + 1;

    sl_gen_opts_init(go, b->e);
    go->max_tokens = b->o->max_tokens;
    go->ignore_eos = b->o->ignore_eos;
    go->temperature = (float)temperature;
    if (b->o->n_random) { /* as hard as can be */
        go->top_k = 0;
        go->top_p = 1;
    }
    go->seed = z;
    go->has_seed = true;
    if (b->e->tok && !b->o->n_random) {
        go->messages = b->o->messages[i];
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        z = z * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
        ids[k] = (int32_t)((z >> 33) % b->e->n_vocab);
    }
    go->ids = ids;
    go->n_ids = n;
}

/* Read an answer to its end; its ids go to `out` unless NULL. */
static int drain(struct sl_gen *g, int32_t *out, uint32_t *n_out,
                 struct sl_err *err)
{
    struct sl_piece p;
    int rc;

    *n_out = 0;
    while ((rc = sl_gen_next(g, &p, err)) > 0)
        for (size_t k = 0; k < p.n_ids; k++) {
            if (out)
                out[*n_out] = p.ids[k];
            ++*n_out;
        }
    return rc;
}

/* All users ask prompt i. What it took is added to *s: of one user behind the
 * first token. A plain answer is kept for the oracle. */
static int answer(struct bench *b, struct way *w, uint32_t i,
                  double temperature, double *s, struct sl_err *err)
{
    int32_t ids[MAX_PROMPT], *out = b->ids + (size_t)i * b->o->max_tokens;
    bool keep = w->by == SL_BY_NONE && b->o->n_user == 1;
    struct sl_gen *g[MAX_USERS] = {NULL};
    struct sl_gen_stats st;
    struct sl_gen_opts go;
    uint64_t t0 = sl_clock_ns();
    uint32_t n = 0;
    double took = 0;
    int rc = 0;

    b->oracle.ids = out;
    b->oracle.n = b->n_id[i];
    for (uint32_t u = 0; !rc && u < b->o->n_user; u++) {
        fill_opts(b, &go, ids, i, u, temperature);
        rc = sl_gen_submit(&g[u], b->e, &go, err);
    }
    for (uint32_t u = 0; u < b->o->n_user; u++) {
        if (!rc)
            rc = drain(g[u], keep ? out : NULL, &n, err);
        if (!rc) {
            sl_gen_stats(g[u], &st);
            took = b->o->n_user == 1 ? st.decode_s
                                     : sl_clock_s(t0, sl_clock_ns());
            /* An answer that ended at once has no first token either. */
            w->n_tok += n - (n > 0 && b->o->n_user == 1);
        }
        sl_gen_close(&g[u]);
    }
    if (keep)
        b->n_id[i] = n;
    *s += took;
    w->decode_s += took;
    wait_idle(b->e);
    return rc;
}

/* In what order the ways answer. What one leaves in the cache is of use to one
 * that drafts alike, so nobody always follows the same. What an oracle replays has
 * to be there first. */
static void shuffle(struct way *order[], struct bench *b, uint64_t seed)
{
    uint32_t first = b->o->synthetic >= 0;

    for (uint32_t j = 0; j < b->n_way; j++)
        order[j] = &b->way[j];
    for (uint32_t j = b->n_way; j-- > first + 1;) {
        uint32_t k = first;
        struct way *w = order[j];

        seed = seed * 6364136223846793005u + 1442695040888963407u; /* MMIX */
        k += (uint32_t)((seed >> 33) % (j + 1 - first));
        order[j] = order[k];
        order[k] = w;
    }
}

/* All prompts all ways, in turn. */
static int sample(struct bench *b, uint32_t k, struct sl_err *err)
{
    struct way *order[SL_BENCH_WAYS];
    int rc = 0;

    for (uint32_t i = 0; !rc && i < b->o->n_prompt; i++) {
        shuffle(order, b, b->o->seed + ((uint64_t)k << 32) + i);
        for (uint32_t j = 0; !rc && j < b->n_way; j++) {
            struct way *w = order[j];

            use(b, w);
            b->e->record = &w->record;
            rc = answer(b, w, i, b->o->temperature, &w->s[k], err);
            b->e->record = NULL;
            w->spec = b->e->spec;
        }
    }
    return rc;
}

/* ---------------------------------------------------------------- results */

static void tell_way(struct sl_bench_way *out, const struct bench *b,
                     const struct way *w)
{
    const struct way *plain = &b->way[0];
    uint32_t n = b->o->n_sample;
    double rate[SL_BENCH_PAIRS], ratio[SL_BENCH_PAIRS];

    for (uint32_t k = 0; k < n; k++) {
        rate[k] = (double)w->n_tok / n / w->s[k];
        ratio[k] = plain->s[k] / w->s[k];
    }
    *out = (struct sl_bench_way){
        .drafter = names[w->by],
        .depth = w->depth,
        .tok_s = sl_median(rate, n),
        .tokens = (double)w->record.n_tok / (double)w->record.n_round,
        .break_even = w->record.round_s / (double)w->record.n_round /
                      (plain->record.round_s / (double)plain->record.n_round),
        .step = w->depth ? sl_cost_predict(&b->e->verify, w->depth + 1, 0) /
                               sl_cost_predict(&b->e->verify, 1, 0)
                         : 0,
        .pass = w->depth ? sl_speculate_passes_s(&w->spec, w->by, 1, 1) /
                               sl_cost_predict(&b->e->verify, 1, 0)
                         : 0,
        .beside = b->o->n_user == 1
                      ? 1 - (w->record.round_s - w->record.plan_s) / w->decode_s
                      : 0,
        .experts = w->record.experts / (double)w->record.n_round,
        .n_pair = n,
        .n_accept = 0};
    /* Before the median puts them in order. */
    memcpy(out->pair, ratio, n * sizeof(*ratio));
    out->speedup = sl_median(ratio, n);
    while (out->n_accept < SL_MAX_DRAFT && w->record.seen[out->n_accept] > 0) {
        uint32_t i = out->n_accept++;

        out->accept[i] =
            (double)w->record.right[i] / (double)w->record.seen[i];
    }
}

/* Seconds of a token beside the steps and the drafters: draws, texts, what wakes
 * the reader. They are the same for each way. */
static double beside_s(const struct way *plain)
{
    double s = plain->decode_s - plain->record.round_s;

    return s > 0 ? s / (double)plain->record.n_tok : 0;
}

/* Tokens of a round at depth k of way w, and its time by the tables. */
static double at_depth(double *tokens, const struct bench *b,
                       const struct way *w, uint32_t k)
{
    const struct sl_speculate *s = &b->way[b->n_way - 1].spec;
    uint64_t depth = DUMMY_PROMPT + b->o->max_tokens / 2;
    double n = (double)w->record.n_round, plain_s, share;

    plain_s = sl_cost_predict(&b->e->verify, 1, depth);
    *tokens = 1;
    for (uint32_t i = 0; i < k; i++)
        *tokens += (double)w->record.right[i] / n;
    if (k == 0)
        return plain_s;
    /* Not every round has a draft: n-grams are not always found. */
    share = (double)w->record.seen[k - 1] / n;
    return (1 - share) * plain_s +
           share * (sl_cost_predict(&b->e->verify, k + 1, (k + 1) * depth) +
                    sl_speculate_passes_s(s, w->by, k, 1));
}

/* The best rate of any drafter and depth, from the tables at the end and what
 * the deepest way of each drafter kept. Tables leave out what happens now and
 * then, which a mean does not: so their ratios are taken, to the plain rounds as
 * they were. */
static void find_ceiling(struct sl_bench_speculation *out,
                         const struct bench *b)
{
    const struct way *plain = &b->way[0];
    double beside = beside_s(plain), tokens, real;

    real = plain->record.round_s / (double)plain->record.n_round /
           at_depth(&tokens, b, plain, 0);
    out->best = names[0];
    out->ceiling = 1 / (at_depth(&tokens, b, plain, 0) * real + beside);
    for (uint32_t j = 1; j < b->n_way; j++) {
        const struct way *w = &b->way[j];

        if (w->by == SL_N_BY || w[1].by == w->by)
            continue; /* not the deepest */
        for (uint32_t k = 1; k <= w->depth && w->record.seen[k - 1]; k++) {
            double t = at_depth(&tokens, b, w, k) * real + tokens * beside;

            if (tokens / t > out->ceiling) {
                out->ceiling = tokens / t;
                out->best = names[w->by];
                out->best_depth = k;
            }
        }
    }
}

/* Score one recorded set under every rule; a round takes as long as it did. */
static void score(struct sl_bench_speculation *out, const struct bench *b,
                  const struct way *w, const struct sl_record *r)
{
    static const struct {
        const char *name;
        struct sl_accept_opts o;
    } rule[] = {
        {"exact", {SL_ACCEPT_EXACT, 1, RELAX}},
        {"lenient 0.7", {SL_ACCEPT_LENIENT, LENIENCE, RELAX}},
        {"relaxed 0.3", {SL_ACCEPT_RELAXED, 1, RELAX}},
    };
    const struct sl_record *plain = &b->way[0].record;
    double round_s = w->record.round_s / (double)w->record.n_round;
    double plain_s = plain->round_s / (double)plain->n_round;

    for (size_t i = 0; i < SL_COUNTOF(rule); i++) {
        struct sl_bench_rule *x = &out->rule[out->n_rule++];

        *x = (struct sl_bench_rule){.drafter = names[w->by],
                                    .rule = rule[i].name,
                                    .depth = w->depth,
                                    .n_pair = r->n_pair};
        sl_record_score(&x->tokens, &x->tv, r, &rule[i].o);
        x->tok_s = x->tokens / round_s;
        x->speedup = x->tokens / (round_s / plain_s);
    }
}

/* Record pairs of the deepest way of each drafter, at temperature 1. */
static int score_all(struct sl_bench_speculation *out, struct bench *b,
                     struct sl_err *err)
{
    struct sl_record r = {.max_pair = MAX_PAIRS};
    double s = 0;
    int rc = sl_mem_alloc(&r.pair, r.max_pair, sizeof(*r.pair), "the pairs",
                          err);

    if (!rc)
        rc = sl_mem_alloc(&r.row, b->e->weights->conf.vocab, sizeof(*r.row),
                          "a row of logits", err);
    for (uint32_t j = 1; !rc && j < b->n_way; j++) {
        struct way w = b->way[j];

        if (w.by == SL_N_BY || b->way[j + 1].by == w.by)
            continue;
        r.n_pair = 0;
        r.n_round = 0;
        use(b, &w);
        b->e->record = &r;
        for (uint32_t i = 0; !rc && i < b->o->n_prompt; i++)
            rc = answer(b, &w, i, 1, &s, err);
        b->e->record = NULL;
        if (!rc)
            score(out, b, &b->way[j], &r);
    }
    sl_mem_free(r.pair);
    sl_mem_free(r.row);
    return rc;
}

/* Answers of one token, or of none, have no rounds: nothing can be divided by
 * them. */
static int check_measured(const struct bench *b, struct sl_err *err)
{
    for (uint32_t j = 0; j < b->n_way; j++)
        if (b->way[j].n_tok == 0 || b->way[j].record.n_round == 0)
            return sl_fail(err, SL_EARG,
                           "no answer was longer than a token, so that nothing "
                           "was drafted; give other prompts, or leave out "
                           "--no-ignore-eos");
    return 0;
}

/* The first steps behind loading are slow, and plain ones come first: without
 * this every way would be compared with them. */
static int warm_up(struct bench *b, struct sl_err *err)
{
    struct way w = b->way[0];
    double s = 0;

    use(b, &w);
    return answer(b, &w, 0, b->o->temperature, &s, err);
}

static int measure(struct sl_bench_speculation *out, struct bench *b,
                   struct sl_err *err)
{
    const struct way *last = &b->way[b->n_way - 1];
    int rc = warm_up(b, err);

    for (uint32_t k = 0; !rc && k < b->o->n_sample; k++)
        rc = sample(b, k, err);
    if (!rc)
        rc = check_measured(b, err);
    if (rc)
        return rc;
    for (uint32_t j = 0; j < b->n_way; j++)
        tell_way(&out->way[out->n_way++], b, &b->way[j]);
    find_ceiling(out, b);
    if (last->by == SL_N_BY && b->o->n_user == 1)
        out->reached = (double)last->n_tok / last->decode_s;
    return b->o->synthetic < 0 && b->o->n_user == 1 ? score_all(out, b, err)
                                                    : 0;
}

static int check(const struct sl_speculation_opts *o, struct sl_err *err)
{
    if (o->n_sample == 0 || o->n_sample > SL_BENCH_PAIRS)
        return sl_fail(err, SL_EARG, "--samples is %u; 1 to %d are measured",
                       o->n_sample, SL_BENCH_PAIRS);
    if (o->max_tokens < 8)
        return sl_fail(err, SL_EARG,
                       "--max-tokens is %u; drafts cannot be measured with "
                       "less than 8",
                       o->max_tokens);
    if (o->n_user == 0 || o->n_user > MAX_USERS || o->n_random > MAX_PROMPT)
        return sl_fail(err, SL_EARG,
                       "%u users with prompts of %u random tokens: 1 to %d, and "
                       "at most %d tokens, are measured",
                       o->n_user, o->n_random, MAX_USERS, MAX_PROMPT);
    if (o->synthetic >= 0 && o->only == SL_DRAFTER_NGRAM)
        return sl_fail(err, SL_EARG,
                       "--synthetic-acceptance replays an answer in the place "
                       "of a drafter that has passes, and --drafter ngram has "
                       "none; remove one of them");
    if (o->synthetic >= 0 && o->n_user > 1)
        return sl_fail(err, SL_EARG,
                       "--synthetic-acceptance replays the answer of one user; "
                       "remove --max-concurrency");
    if (o->synthetic >= 0 && o->temperature > 0)
        return sl_fail(err, SL_EARG,
                       "--synthetic-acceptance replays a greedy answer; remove "
                       "--temperature");
    return 0;
}

/* Tokens of context, where nobody asked for a number: some models were trained
 * for fewer than a measurement would use. */
static int default_context(uint32_t *out, const struct sl_speculation_opts *o,
                           struct sl_err *err)
{
    struct sl_source *src = NULL;
    int rc;

    *out = CONTEXT; /* all shapes have more */
    if (o->shape)
        return 0;
    rc = sl_source_open(&src, o->dir, err);
    if (!rc)
        *out = (uint32_t)sl_min(CONTEXT, src->conf.max_pos);
    sl_source_close(&src);
    return sl_wrap(err, rc, "opening '%s'", o->dir);
}

static int open_bench(struct bench *b, struct sl_err *err)
{
    const struct sl_speculation_opts *o = b->o;
    struct sl_engine_opts eo = *o->engine;
    int rc = 0;

    eo.prefix_cache = false;
    eo.max_num_seqs = o->n_user;
    if (eo.max_model_len == 0)
        rc = default_context(&eo.max_model_len, o, err);
    if (rc)
        return rc;
    rc = o->shape ? sl_engine_open_shape(&b->e, o->shape, &eo, err)
                  : sl_engine_open(&b->e, o->dir, &eo, err);
    if (!rc)
        rc = sl_mem_alloc(&b->ids, (size_t)o->n_prompt * o->max_tokens,
                          sizeof(*b->ids), "the answers", err);
    if (!rc)
        rc = sl_mem_alloc(&b->n_id, o->n_prompt, sizeof(*b->n_id),
                          "the answers", err);
    if (rc)
        return rc;
    b->mtp = b->e->uses_mtp;
    b->flash = b->e->flash;
    b->oracle = (struct sl_oracle){.accept = o->synthetic, .random = o->seed};
    b->e->oracle = &b->oracle;
    add_ways(b);
    return 0;
}

int sl_bench_speculate(struct sl_bench_speculation *out,
                       const struct sl_speculation_opts *o, struct sl_err *err)
{
    struct bench *b = NULL;
    int rc = check(o, err);

    *out = (struct sl_bench_speculation){.n_way = 0};
    if (!rc)
        rc = sl_mem_alloc(&b, 1, sizeof(*b), "the measurement", err);
    if (rc)
        return rc;
    b->o = o;
    rc = open_bench(b, err);
    if (!rc)
        rc = measure(out, b, err);
    if (b->e) {
        out->n_thread = sl_pool_n_thread(b->e->pool);
        out->isa = b->e->kern.isa;
        /* It closes what it opened. */
        b->e->flash = b->flash ? b->flash : b->e->flash;
        b->e->uses_mtp = b->mtp;
    }
    sl_engine_close(&b->e);
    sl_mem_free(b->ids);
    sl_mem_free(b->n_id);
    sl_mem_free(b);
    return rc;
}
