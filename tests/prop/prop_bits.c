/* D1 and D2 by bits: the same tokens give the same logits however the work is
 * cut.
 *
 * The oracle is the scalar kernels on one thread, one token at a time. Against
 * it, by memcmp: prefill chunks of 1, 2, 3, 7, 64 and whole; 1, 2 and 4
 * threads; every instruction set of this machine; alone and packed with 31
 * other sequences; KV in fp32 and in bf16.
 *
 * Usage: prop_bits [SEED]
 */
#include "base/num.h"
#include "../help/rig.h"

#define N_TOK 270 /* two attention blocks, five pages */
#define N_OTHER 31

static unsigned n_pass, n_fail;

static void verdict(bool ok, const char *model, const char *what)
{
    if (ok)
        n_pass++;
    else
        n_fail++;
    if (!ok)
        printf("FAIL %s: %s\n", model, what);
}

static int32_t *random_tokens(uint32_t n, uint32_t vocab, uint64_t *seed)
{
    int32_t *tok = calloc(n, sizeof(*tok));

    for (uint32_t i = 0; i < n; i++)
        tok[i] = (int32_t)(rig_random(seed) % vocab);
    return tok;
}

struct oracle {
    const char *model;
    const struct rig *rig;
    enum sl_dtype kv;
    const int32_t *tok;
    float *logits; /* [N_TOK][vocab] */
    size_t bytes;
};

static void try_cut(const struct oracle *o, unsigned threads, unsigned mask,
                    uint32_t chunk)
{
    char what[100];
    struct rig_opts opts;
    struct rig r;
    struct sl_seq *q;
    float *logits = calloc(1, o->bytes);

    rig_opts_init(&opts);
    opts.n_thread = threads;
    opts.cpu_mask = mask;
    opts.kv_type = o->kv;
    rig_open(&r, NULL, o->rig, &opts);
    q = rig_seq(&r);
    rig_feed(&r, q, o->tok, N_TOK, chunk, logits);
    snprintf(what, sizeof(what), "kv %s, %u threads, %s, chunks of %u",
             sl_dtype_get(o->kv)->name, threads, r.kern.isa, chunk);
    verdict(memcmp(logits, o->logits, o->bytes) == 0, o->model, what);
    sl_seq_close(&q);
    rig_close(&r);
    free(logits);
}

/* The tokens of the oracle in chunks, in steps that also hold chunks of other
 * sequences, before and behind it. */
static void try_packed(const struct oracle *o, uint64_t *seed)
{
    uint32_t vocab = o->rig->w->conf.vocab;
    struct sl_seq *q[N_OTHER + 1];
    struct rig_opts opts;
    struct rig r;
    int32_t *tok;
    uint32_t row[8], fed = 0;
    bool ok = true;

    rig_opts_init(&opts);
    opts.n_thread = 2;
    opts.kv_type = o->kv;
    rig_open(&r, NULL, o->rig, &opts);
    for (int i = 0; i <= N_OTHER; i++)
        q[i] = rig_seq(&r);
    tok = random_tokens(opts.max_row, vocab, seed);
    while (fed < N_TOK) {
        uint32_t k = 1 + (uint32_t)(rig_random(seed) % 7);
        struct sl_step s = {.seq = q, .tok = tok, .logit_row = row};

        k = k < N_TOK - fed ? k : N_TOK - fed;
        for (int i = 0; i <= N_OTHER; i++) {
            uint32_t n = 1 + (uint32_t)(rig_random(seed) % 9);

            if (i == 13)
                for (n = 0; n < k; n++) {
                    row[n] = s.n_row + n;
                    tok[s.n_row + n] = o->tok[fed + n];
                }
            if (i != 13 && q[i]->n_tok + n > opts.max_tok)
                n = 0;
            ok &= sl_seq_begin(q[i], n, 0, NULL) == 0;
            s.n_row += n;
            s.n_seq++;
        }
        s.n_logit = k;
        sl_forward(r.m, &s);
        for (int i = 0; i <= N_OTHER; i++)
            sl_seq_end(q[i], 0);
        ok &= memcmp(s.logits, o->logits + (size_t)fed * vocab,
                     (size_t)k * vocab * sizeof(float)) == 0;
        fed += k;
    }
    verdict(ok, o->model, "packed with 31 others");
    for (int i = 0; i <= N_OTHER; i++)
        sl_seq_close(&q[i]);
    rig_close(&r);
    free(tok);
}

static void run_model(const char *model, enum sl_dtype kv,
                      enum sl_dtype_plan plan, uint64_t seed)
{
    static const struct {
        unsigned threads;
        uint32_t chunk;
    } cut[] = {{1, 1}, {1, 2}, {1, 3}, {1, 7}, {1, 64}, {1, 0}, {2, 1},
               {2, 7}, {2, 0}, {4, 1}, {4, 3}, {4, 64}};
    char dir[200];
    struct rig_opts opts;
    struct rig r;
    struct sl_seq *q;
    struct oracle o = {.model = model, .rig = &r, .kv = kv};

    snprintf(dir, sizeof(dir), "tests/golden/models/%s", model);
    rig_opts_init(&opts);
    opts.cpu_mask = 0;
    opts.kv_type = kv;
    opts.plan = plan;
    rig_open(&r, dir, NULL, &opts);
    o.tok = random_tokens(N_TOK, r.w->conf.vocab, &seed);
    o.bytes = (size_t)N_TOK * r.w->conf.vocab * sizeof(float);
    o.logits = calloc(1, o.bytes);
    q = rig_seq(&r);
    rig_feed(&r, q, o.tok, N_TOK, 1, o.logits);
    sl_seq_close(&q);

    for (size_t i = 0; i < SL_COUNTOF(cut); i++)
        try_cut(&o, cut[i].threads, SL_CPU_ALL, cut[i].chunk);
    try_cut(&o, 2, 0, 64);
    try_packed(&o, &seed);
    rig_close(&r);
    free((void *)(uintptr_t)o.tok);
    free(o.logits);
}

/* Long contexts take another way through attention (waves of blocks, merged in
 * order; ops/attend.c): the last tokens one by one, on 1, 2 and 4 threads,
 * against the same tokens at the end of a long chunk. */
static void run_long(const char *model, uint64_t seed)
{
    enum { LONG = 3000, LAST = 8 };
    static const unsigned threads[] = {1, 2, 4};
    char dir[200], what[100];
    struct rig_opts opts;
    struct rig r, c;
    struct sl_seq *q;
    int32_t *tok;
    float *want, *got;
    size_t vocab;

    snprintf(dir, sizeof(dir), "tests/golden/models/%s", model);
    rig_opts_init(&opts);
    opts.max_tok = LONG;
    opts.max_seq = 1;
    rig_open(&r, dir, NULL, &opts);
    vocab = r.w->conf.vocab;
    tok = random_tokens(LONG, (uint32_t)vocab, &seed);
    want = calloc(LONG * vocab, sizeof(*want));
    got = calloc(LAST * vocab, sizeof(*got));
    q = rig_seq(&r);
    rig_feed(&r, q, tok, LONG, 500, want);
    sl_seq_close(&q);
    for (size_t i = 0; i < SL_COUNTOF(threads); i++) {
        opts.n_thread = threads[i];
        rig_open(&c, NULL, &r, &opts);
        q = rig_seq(&c);
        rig_feed(&c, q, tok, LONG - LAST, 333, NULL);
        rig_feed(&c, q, tok + LONG - LAST, LAST, 1, got);
        snprintf(what, sizeof(what), "%d tokens, %u threads", LONG,
                 threads[i]);
        verdict(memcmp(got, want + (LONG - LAST) * vocab,
                       LAST * vocab * sizeof(*got)) == 0,
                model, what);
        sl_seq_close(&q);
        rig_close(&c);
    }
    rig_close(&r);
    free(tok);
    free(want);
    free(got);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *model;
        enum sl_dtype kv;
        enum sl_dtype_plan plan;
    } run[] = {{"dense-r1-f32", SL_F32, SL_PLAN_AUTO},
               {"dense-r2", SL_F32, SL_PLAN_AUTO},
               {"dense-r2", SL_BF16, SL_PLAN_Q8},
               {"dense-r3", SL_BF16, SL_PLAN_AUTO},
               {"moe-r2", SL_BF16, SL_PLAN_AUTO},
               {"moe-r2", SL_BF16, SL_PLAN_BFP4},
               {"fp8", SL_F32, SL_PLAN_AUTO},
               {"nested", SL_BFP8, SL_PLAN_Q4}};
    int64_t seed = 1;

    if (argc > 1 &&
        sl_num_i64(&seed, argv[1], strlen(argv[1]), 0, 1 << 30, "SEED", NULL))
        return 2;
    printf("seed %lld\n", (long long)seed);
    for (size_t i = 0; i < SL_COUNTOF(run); i++)
        run_model(run[i].model, run[i].kv, run[i].plan,
                  (uint64_t)seed + i);
    run_long("dense-r1-f32", (uint64_t)seed);
    printf("%u passed, %u failed\n", n_pass, n_fail);
    return n_fail != 0;
}
