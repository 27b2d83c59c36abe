/* Kept prefixes change no bit, and keep what the next prompt needs.
 *
 * usage: prop_cache [ROUNDS [SEED [PARTS]]]; 120 rounds, 1,000 when SL_TEST_FULL
 * is set, which also makes the long conversations 16k tokens long. Three parts;
 * the first alone is enough for a thread sanitizer.
 *
 * First, random conversations that grow, are edited, cut, branched and mixed,
 * several at once and some cancelled, against an engine whose cache has room for
 * a handful of states and a few pages, and a folder on the disk for about twice
 * as much, which outlives the engine several times: every answer that was
 * completed, ids and log probabilities, is that of an engine without a cache.
 *
 * Then the patterns of agents, with room: how many tokens of each prompt were
 * read again, against the least that is possible, which is what follows the
 * longest common beginning with anything seen before. Last, conversations of
 * twenty turns that only add, one alone and eight interleaved: each turn reads
 * what is new and at most a page, and the last ones say what a cold engine says.
 */
#include <string.h>

#include "../help/rig.h"
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "base/tree.h"
#include "engine/engine.h"

#define DIR "tests/golden/models/dense-r2"

enum {
    TURN = 7,       /* the token that begins a turn */
    VOCAB = 96,
    MAX_TOK = 700,  /* of a conversation */
    MAX_OUT = 12,
    N_CONV = 10,
    N_TOGETHER = 4,
    PAGE = 64,
    LIVES = 4,        /* engines, one after the other, with one folder */
    DISK = 1 << 20,   /* bytes of it */
};

static char disk[64];

static const char *model = DIR;
static uint32_t n_pass, n_fail;

static void verdict(bool ok, const char *what, uint32_t round)
{
    n_pass += ok;
    n_fail += !ok;
    if (!ok)
        printf("FAILED: %s, round %u\n", what, round);
}

static struct sl_engine *open_engine(uint64_t cache_bytes, uint32_t pool,
                                     uint32_t seqs, uint32_t max_len,
                                     const char *dir)
{
    struct sl_engine *e = NULL;
    struct sl_engine_opts o;
    struct sl_err err;

    sl_engine_opts_init(&o);
    o.n_thread = 1;
    o.pin = false;
    o.dummy = true; /* the folder has no tokenizer */
    o.max_num_seqs = seqs;
    o.max_num_batched_tokens = 128;
    o.max_model_len = max_len;
    o.kv_pool_tokens = pool;
    o.prefix_cache = cache_bytes > 0;
    o.prefix_cache_bytes = cache_bytes;
    o.prefix_cache_dir = dir;
    o.prefix_cache_dir_bytes = dir ? DISK : 0;
    if (sl_engine_open(&e, model, &o, &err)) {
        printf("FAILED: %s\n", err.msg);
        exit(1);
    }
    e->turn_id = TURN;
    return e;
}

/* ---------------------------------------------------------------- answers */

struct answer {
    int32_t ids[MAX_OUT];
    float logprob[MAX_OUT];
    uint32_t n, n_cached;
    enum sl_finish finish;
};

struct conv {
    int32_t tok[MAX_TOK];
    uint32_t n;
};

static struct sl_gen *submit(struct sl_engine *e, const int32_t *tok,
                             uint32_t n, uint32_t max_out, uint64_t seed)
{
    struct sl_gen *g = NULL;
    struct sl_gen_opts o;
    struct sl_err err;

    sl_gen_opts_init(&o, e);
    o.ids = tok;
    o.n_ids = n;
    o.max_tokens = max_out;
    o.ignore_eos = true;
    o.temperature = seed % 2 ? 0.9f : 0;
    o.seed = seed;
    o.has_seed = true;
    o.want_logprobs = true;
    if (sl_gen_submit(&g, e, &o, &err)) {
        printf("FAILED: %s\n", err.msg);
        exit(1);
    }
    return g;
}

static void collect(struct sl_gen **g, struct answer *a)
{
    struct sl_piece p;

    memset(a, 0, sizeof(*a));
    while (sl_gen_next(*g, &p, NULL) > 0) {
        for (size_t i = 0; i < p.n_ids && a->n < MAX_OUT; i++, a->n++) {
            a->ids[a->n] = p.ids[i];
            a->logprob[a->n] = p.logprobs[i].logprob;
        }
        a->finish = p.finish;
        a->n_cached = p.n_cached;
    }
    sl_gen_close(g);
}

static bool same(const struct answer *a, const struct answer *b)
{
    return a->n == b->n && a->finish == b->finish &&
           !memcmp(a->ids, b->ids, sizeof(a->ids)) &&
           !memcmp(a->logprob, b->logprob, sizeof(a->logprob));
}

/* ---------------------------------------------------- random conversations */

static uint32_t below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(rig_random(seed) % n);
}

static void add(struct conv *c, int32_t tok)
{
    if (c->n < MAX_TOK - MAX_OUT)
        c->tok[c->n++] = tok;
}

static void add_turn(struct conv *c, uint32_t n, uint64_t *seed)
{
    add(c, TURN);
    for (uint32_t i = 0; i < n; i++)
        add(c, (int32_t)(8 + below(seed, VOCAB - 8)));
}

/* What users and agents do to a history. */
static void change(struct conv *conv, struct conv *c, uint64_t *seed)
{
    uint32_t at = below(seed, c->n), n;

    switch (below(seed, 6)) {
    case 0: /* another token in the middle */
        c->tok[at] = (int32_t)below(seed, VOCAB);
        break;
    case 1: /* forget the end */
        c->n = at + 1;
        break;
    case 2: /* leave out a part */
        n = below(seed, c->n - at) / 2;
        memmove(c->tok + at, c->tok + at + n,
                (c->n - at - n) * sizeof(*c->tok));
        c->n -= n;
        break;
    case 3: /* a branch of another one */
        *c = conv[below(seed, N_CONV)];
        break;
    case 4: /* a new one */
        c->n = 0;
        break;
    default: /* it just goes on */
        break;
    }
    add_turn(c, 1 + below(seed, 90), seed);
    add_turn(c, 1, seed);
    if (c->n > MAX_TOK / 2 && below(seed, 3) == 0)
        c->n /= 2;
}

static uint64_t random_round(struct sl_engine *warm, struct sl_engine *cold,
                             struct conv *conv, uint32_t round, uint64_t *seed)
{
    struct conv *c[N_TOGETHER];
    struct sl_gen *g[N_TOGETHER];
    uint32_t n = 1 + below(seed, N_TOGETHER), n_out[N_TOGETHER];
    uint64_t sample = rig_random(seed) >> 1, n_cached = 0;
    struct answer a, want;

    for (uint32_t i = 0; i < n; i++) {
        c[i] = &conv[(round * 3 + i) % N_CONV];
        change(conv, c[i], seed);
        n_out[i] = 1 + below(seed, MAX_OUT);
        g[i] = submit(warm, c[i]->tok, c[i]->n, n_out[i], sample + i);
        if (below(seed, 5) == 0)
            sl_gen_cancel(g[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct sl_gen *alone;

        collect(&g[i], &a);
        if (a.finish == SL_FINISH_CANCEL)
            continue;
        n_cached += a.n_cached;
        alone = submit(cold, c[i]->tok, c[i]->n, n_out[i], sample + i);
        collect(&alone, &want);
        verdict(same(&a, &want), "an answer differs from a cold one", round);
        for (uint32_t k = 0; k < a.n && below(seed, 8); k++)
            add(c[i], a.ids[k]);
    }
    return n_cached;
}

static void add_bytes(void *ctx, const char *name)
{
    struct sl_file_stamp s;
    char path[256];

    snprintf(path, sizeof(path), "%s/%.180s", disk, name);
    if (sl_file_stamp(&s, path))
        *(uint64_t *)ctx += s.size;
}

/* By all engines. One alone may find that reading again is faster. */
static uint64_t n_disk_load;

/* Rounds of one engine: the budget holds, in memory and on the disk. */
static uint64_t one_life(struct sl_engine *cold, struct conv *conv,
                         uint32_t first, uint32_t end, uint64_t *seed)
{
    /* A handful of states, and pages for two and a half conversations. */
    struct sl_engine *e = open_engine(300000, 1792, N_TOGETHER, MAX_TOK, disk);
    uint64_t n_cached = 0, bytes = 0;
    struct sl_engine_stats st;

    for (uint32_t r = first; r < end; r++)
        n_cached += random_round(e, cold, conv, r, seed);
    verdict(e->n_keep >= 3 && e->n_keep <= 20, "a small budget", e->n_keep);
    sl_engine_stats(e, &st);
    verdict(st.prefix.n_evict > (end - first) / 10, "nothing was given up",
            end);
    verdict(st.prefix.n_kept <= e->n_keep, "more states than the budget", end);
    verdict(st.prefix.page_bytes <= e->mem->kv->bytes, "more pages than there "
            "are", end);
    n_disk_load += st.prefix.n_disk_load;
    verdict(st.prefix.n_disk_drop == 0, "a file was damaged", end);
    sl_engine_close(&e);
    verdict(sl_dir_each(disk, add_bytes, &bytes, NULL) == 0 && bytes > 0 &&
                bytes <= DISK,
            "more on the disk than the budget", end);
    return n_cached;
}

static void random_part(uint32_t rounds, uint64_t seed)
{
    static struct conv conv[N_CONV];
    struct sl_engine *cold = open_engine(0, MAX_TOK + PAGE, 1, MAX_TOK, NULL);
    uint64_t n_cached = 0;

    snprintf(disk, sizeof(disk), "build/prop-cache-%d", (int)getpid());
    (void)sl_tree_remove(disk, NULL);
    for (int i = 0; i < N_CONV; i++)
        add_turn(&conv[i], 20, &seed);
    for (uint32_t i = 0; i < LIVES; i++)
        n_cached += one_life(cold, conv, rounds * i / LIVES,
                             rounds * (i + 1) / LIVES, &seed);
    verdict(n_cached > 20 * rounds, "the cache was hardly used", rounds);
    verdict(n_disk_load > 0, "the disk was not used", rounds);
    sl_engine_close(&cold);
    (void)sl_tree_remove(disk, NULL);
}

/* ------------------------------------------------------ patterns of agents */

enum { TURNS = 20, MESSAGE = 90, REPLY = 10, LONG = 4000 };

enum pattern { APPEND, STRIP, DATE, EDIT };

struct agent {
    int32_t hist[LONG], seen[TURNS][LONG];
    uint32_t n, n_seen[TURNS], n_turn;
};

static void say(struct agent *a, uint32_t n, uint64_t *seed)
{
    a->hist[a->n++] = TURN;
    for (uint32_t i = 1; i < n; i++)
        a->hist[a->n++] = (int32_t)(8 + below(seed, VOCAB - 8));
}

/* Tokens that the history shares with the beginning of what was seen. */
static uint32_t common(const struct agent *a)
{
    uint32_t most = 0;

    for (uint32_t t = 0; t < a->n_turn; t++) {
        uint32_t k = 0;

        while (k < a->n && k < a->n_seen[t] && a->hist[k] == a->seen[t][k])
            k++;
        most = k > most ? k : most;
    }
    return most;
}

/* One turn: what is read again beyond the least possible. */
static uint32_t turn(struct agent *a, struct sl_engine *e, enum pattern p)
{
    uint32_t least, excess, keep;
    struct answer ans;
    struct sl_gen *g;

    a->hist[a->n++] = TURN; /* the prompt of the generation */
    a->hist[a->n++] = 8;
    least = a->n - common(a);
    g = submit(e, a->hist, a->n, REPLY, 2);
    collect(&g, &ans);
    excess = a->n - ans.n_cached - least;
    memcpy(a->seen[a->n_turn], a->hist, a->n * sizeof(*a->hist));
    memcpy(a->seen[a->n_turn] + a->n, ans.ids, ans.n * sizeof(*ans.ids));
    a->n_seen[a->n_turn++] = a->n + ans.n;
    /* Thoughts are left out of the history that is sent next. */
    keep = p == STRIP ? ans.n / 2 : ans.n;
    memcpy(a->hist + a->n, ans.ids + (ans.n - keep),
           keep * sizeof(*ans.ids));
    a->n += keep;
    return excess;
}

/* What happens to the past between two turns. */
static void revise(struct agent *a, enum pattern p, uint64_t *seed)
{
    if (p == DATE && a->n_turn % 7 == 0)
        a->hist[10] = (int32_t)(8 + a->n_turn);
    if (p == EDIT && a->n_turn % 3 == 0)
        a->hist[a->n / 2 + below(seed, 20)] = 9;
}

static void pattern_part(enum pattern p, const char *name, uint64_t seed)
{
    static struct agent a;
    struct sl_engine *e = open_engine(64 << 20, 16384, 1, 4096, NULL);

    a = (struct agent){0};
    say(&a, 200, &seed);
    for (uint32_t t = 0; t < TURNS; t++) {
        uint32_t excess;

        revise(&a, p, &seed);
        say(&a, MESSAGE, &seed);
        excess = turn(&a, e, p);
        /* A turn that only adds is read from where the last one ended: the
         * last token that was drawn was never read. */
        verdict(excess <= (p == APPEND ? PAGE : PAGE + 200), name, t);
    }
    sl_engine_close(&e);
}

/* ------------------------------------------------------ long conversations */

enum { LONG_TURNS = 20, EIGHT = 8, LONG_REPLY = 8, LONGEST = 16384 };

static void long_part(uint32_t n_conv, uint32_t len, uint64_t seed)
{
    uint32_t message = len / LONG_TURNS - LONG_REPLY - 2;
    struct sl_engine *e = open_engine(64 << 20, (n_conv + 1) * (len + PAGE),
                                      2, len + PAGE, NULL);
    struct sl_engine *cold = open_engine(0, len + PAGE, 1, len + PAGE, NULL);
    static int32_t tok[EIGHT][LONGEST];
    uint32_t n[EIGHT] = {0}, known[EIGHT] = {0};

    for (uint32_t t = 0; t < LONG_TURNS; t++)
        for (uint32_t c = 0; c < n_conv; c++) {
            struct answer a, b;
            struct sl_gen *g;

            tok[c][n[c]++] = TURN;
            for (uint32_t i = 1; i < message; i++)
                tok[c][n[c]++] = (int32_t)(8 + below(&seed, VOCAB - 8));
            tok[c][n[c]++] = TURN; /* the prompt of the generation */
            tok[c][n[c]++] = 8;
            g = submit(e, tok[c], n[c], LONG_REPLY, c);
            collect(&g, &a);
            verdict(n[c] - a.n_cached <= n[c] - known[c] + PAGE,
                    "a turn read more than is new and a page", t);
            verdict(t == 0 || a.n_cached > 0, "a turn read all", t);
            if (t + 1 == LONG_TURNS && c + 2 >= n_conv) {
                g = submit(cold, tok[c], n[c], LONG_REPLY, c);
                collect(&g, &b);
                verdict(same(&a, &b), "a long answer differs from a cold one",
                        c);
            }
            memcpy(tok[c] + n[c], a.ids, a.n * sizeof(*a.ids));
            n[c] += a.n;
            known[c] = n[c];
        }
    sl_engine_close(&e);
    sl_engine_close(&cold);
}

int main(int argc, char **argv)
{
    bool full = getenv("SL_TEST_FULL") != NULL;
    int64_t rounds = full ? 1000 : 120, seed = 1, parts = 3;
    uint32_t len = full ? LONGEST : 2048;

    if ((argc > 1 && sl_num_i64(&rounds, argv[1], strlen(argv[1]), 1, 1 << 30,
                                "ROUNDS", NULL)) ||
        (argc > 2 && sl_num_i64(&seed, argv[2], strlen(argv[2]), 0, 1 << 30,
                                "SEED", NULL)) ||
        (argc > 3 && sl_num_i64(&parts, argv[3], strlen(argv[3]), 1, 3,
                                "PARTS", NULL)))
        return 2;
    random_part((uint32_t)rounds, (uint64_t)seed);
    if (parts > 1) {
        pattern_part(APPEND, "a turn that only adds", (uint64_t)seed);
        pattern_part(STRIP, "thoughts are stripped", (uint64_t)seed);
        pattern_part(DATE, "the date changes", (uint64_t)seed);
        pattern_part(EDIT, "an edit in the middle", (uint64_t)seed);
    }
    if (parts > 2) {
        if (full)
            model = "models/demo"; /* the others are made for 4,096 tokens */
        long_part(1, len, (uint64_t)seed);
        long_part(EIGHT, len, (uint64_t)seed);
    }
    printf("%u passed, %u failed\n", n_pass, n_fail);
    return n_fail != 0;
}
