/* D3 by bits: random schedules equal stepping one token at a time.
 *
 * A tape is a random string of tokens; the oracle steps it token by token and
 * keeps the logits and the recurrent state behind every token. A schedule runs
 * up to four sequences along the tape with random steps: firm rows, tentative
 * rows of which some are the tape's and some are wrong, any number of the right
 * ones accepted, rows of several sequences in one step, flushes, forks,
 * snapshots kept aside, restores from them, closes. Every row whose past is the
 * tape's must have the oracle's logits, and after a flush the oracle's state.
 *
 * Usage: prop_schedule [N_SCHEDULE [SEED]]
 */
#include "base/num.h"
#include "../help/rig.h"

#define TAPE 160   /* tokens; crosses two page boundaries */
#define PER_TAPE 100 /* schedules on one tape */
#define LIVE 4     /* sequences that run */
#define SNAP 2     /* and that are kept aside */
#define TENT 5

static unsigned n_pass, n_fail;

struct tape {
    int32_t tok[TAPE];
    float *logits; /* [TAPE][vocab]: behind token i */
    float *state;  /* [TAPE + 1][slot_floats]: behind i tokens */
};

struct world {
    struct rig *r;
    const struct tape *t;
    uint64_t *seed;
    size_t vocab, slot;
    struct sl_seq *live[LIVE], *snap[SNAP];
    bool ok;
};

static uint32_t pick(struct world *w, uint32_t n)
{
    return (uint32_t)(rig_random(w->seed) % n);
}

static void make_tape(struct rig *r, struct tape *t, uint64_t *seed)
{
    size_t vocab = r->w->conf.vocab, slot = r->mem->rec->slot_floats;
    struct sl_seq *q = rig_seq(r);

    for (int i = 0; i < TAPE; i++)
        t->tok[i] = (int32_t)(rig_random(seed) % vocab);
    t->logits = calloc(TAPE * vocab, sizeof(float));
    t->state = calloc((TAPE + 1) * slot, sizeof(float));
    for (int i = 0; i < TAPE; i++) {
        rig_feed(r, q, t->tok + i, 1, 1, t->logits + (size_t)i * vocab);
        memcpy(t->state + (size_t)(i + 1) * slot,
               sl_rec_get(r->mem->rec, &q->rec), slot * sizeof(float));
    }
    sl_seq_close(&q);
}

/* Rows of one sequence in one step: tokens, and how many are the tape's. */
struct part {
    struct sl_seq *q;
    uint32_t firm, tent, good;
};

static void plan_part(struct world *w, struct part *p, int32_t *tok)
{
    uint32_t left = TAPE - p->q->n_tok;
    uint32_t style = pick(w, 4), vocab = (uint32_t)w->vocab;

    /* Usually one firm row, as in drafting; sometimes a chunk, or none. */
    p->firm = style == 0 ? pick(w, 40) : style == 1 ? 0 : 1;
    p->firm = p->firm < left ? p->firm : left;
    left -= p->firm;
    p->tent = pick(w, TENT + 1);
    p->tent = p->tent < left ? p->tent : left;
    p->good = pick(w, p->tent + 1);
    for (uint32_t i = 0; i < p->firm + p->tent; i++) {
        int32_t right = w->t->tok[p->q->n_tok + i];
        int32_t wrong = (right + 1 + (int32_t)pick(w, vocab - 1)) %
                        (int32_t)vocab;

        tok[i] = i < p->firm + p->good ? right : wrong;
    }
}

static void step(struct world *w, bool flush)
{
    struct part part[LIVE];
    struct sl_seq *seq[LIVE];
    int32_t tok[LIVE * 64];
    uint32_t row[LIVE * 64], n = 0;
    struct sl_step s = {.seq = seq, .tok = tok, .logit_row = row};
    const float *got;

    for (int i = 0; i < LIVE; i++) {
        struct part *p = &part[n];

        if (!w->live[i] || (!flush && pick(w, 3) == 0))
            continue;
        *p = (struct part){.q = w->live[i]};
        if (!flush)
            plan_part(w, p, tok + s.n_row);
        if (sl_seq_begin(p->q, p->firm, p->tent, NULL)) {
            w->ok = false;
            continue;
        }
        for (uint32_t k = 0; k < p->firm + p->good; k++)
            row[s.n_logit++] = s.n_row + k;
        seq[n++] = p->q;
        s.n_row += p->firm + p->tent;
    }
    s.n_seq = n;
    sl_forward(w->r->m, &s);
    got = s.logits;
    for (uint32_t i = 0; i < n; i++) {
        const struct part *p = &part[i];
        size_t rows = p->firm + p->good;

        w->ok &= memcmp(got, w->t->logits + p->q->n_tok * w->vocab,
                        rows * w->vocab * sizeof(float)) == 0;
        got += rows * w->vocab;
        sl_seq_end(p->q, p->good ? pick(w, p->good + 1) : 0);
    }
}

static void check_state(struct world *w, const struct sl_seq *q)
{
    const float *s = sl_rec_get(w->r->mem->rec, &q->rec);

    if (q->n_tok > 0)
        w->ok &= s && memcmp(s, w->t->state + q->n_tok * w->slot,
                             w->slot * sizeof(float)) == 0;
}

/* A fork of `from` into an empty place. */
static void fork_into(struct world *w, struct sl_seq **to, struct sl_seq *from)
{
    if (from && !*to && sl_seq_fork(to, from, NULL))
        w->ok = false;
}

static void act(struct world *w)
{
    struct sl_seq **a = &w->live[pick(w, LIVE)];
    struct sl_seq **s = &w->snap[pick(w, SNAP)];

    switch (pick(w, 12)) {
    case 0: /* fork */
        step(w, true);
        fork_into(w, &w->live[pick(w, LIVE)], *a);
        break;
    case 1: /* snapshot */
        step(w, true);
        sl_seq_close(s);
        fork_into(w, s, *a);
        break;
    case 2: /* restore */
        if (*s) {
            sl_seq_close(a);
            fork_into(w, a, *s);
        }
        break;
    case 3: /* close, and begin anew */
        sl_seq_close(a);
        *a = rig_seq(w->r);
        break;
    case 4:
        step(w, true);
        for (int i = 0; i < LIVE; i++)
            if (w->live[i])
                check_state(w, w->live[i]);
        break;
    default:
        step(w, false);
    }
}

static void run_schedule(struct rig *r, const struct tape *t, uint64_t seed)
{
    uint64_t s = seed;
    struct world w = {.r = r,
                      .t = t,
                      .seed = &s,
                      .vocab = r->w->conf.vocab,
                      .slot = r->mem->rec->slot_floats,
                      .ok = true};
    uint32_t n = 4 + pick(&w, 16);

    w.live[0] = rig_seq(r);
    for (uint32_t i = 0; i < n; i++)
        act(&w);
    step(&w, true);
    for (int i = 0; i < LIVE; i++) {
        if (w.live[i])
            check_state(&w, w.live[i]);
        sl_seq_close(&w.live[i]);
    }
    for (int i = 0; i < SNAP; i++)
        sl_seq_close(&w.snap[i]);
    sl_kv_check(r->mem->kv);
    sl_rec_check(r->mem->rec);
    w.ok &= r->mem->kv->n_free == r->mem->kv->n_page;
    w.ok &= r->mem->rec->n_free == r->mem->rec->n_slot;
    if (w.ok)
        n_pass++;
    else
        n_fail++;
    if (!w.ok)
        printf("FAIL schedule with seed %llu\n", (unsigned long long)seed);
}

/* n schedules: odd ones on two threads, every tenth with the scalar kernels. */
static void run_model(const char *model, uint32_t n, uint64_t seed)
{
    char dir[200];
    struct rig_opts o;
    struct rig one, two, ref;
    struct tape t = {0};

    snprintf(dir, sizeof(dir), "tests/golden/models/%s", model);
    rig_opts_init(&o);
    o.max_tok = 192;
    o.max_seq = LIVE + SNAP;
    o.max_tent = TENT;
    o.kv_type = SL_BF16;
    rig_open(&one, dir, NULL, &o);
    o.n_thread = 2;
    rig_open(&two, NULL, &one, &o);
    o.n_thread = 1;
    o.cpu_mask = 0;
    rig_open(&ref, NULL, &one, &o);
    for (uint32_t i = 0; i < n; i++) {
        struct rig *r = i % 10 == 9 ? &ref : i % 2 ? &two : &one;

        if (i % PER_TAPE == 0) {
            free(t.logits);
            free(t.state);
            make_tape(&one, &t, &seed);
        }
        run_schedule(r, &t, seed + i);
    }
    free(t.logits);
    free(t.state);
    rig_close(&ref);
    rig_close(&two);
    rig_close(&one);
}

int main(int argc, char **argv)
{
    int64_t n = 10000, seed = 1;

    if (argc > 1 &&
        sl_num_i64(&n, argv[1], strlen(argv[1]), 1, 1 << 30, "N", NULL))
        return 2;
    if (argc > 2 &&
        sl_num_i64(&seed, argv[2], strlen(argv[2]), 0, 1 << 30, "SEED", NULL))
        return 2;
    printf("seed %lld\n", (long long)seed);
    run_model("dense-r2", (uint32_t)n / 2, (uint64_t)seed);
    run_model("moe-r2-f32", (uint32_t)(n - n / 2), (uint64_t)seed + 1000000);
    printf("%u passed, %u failed\n", n_pass, n_fail);
    return n_fail != 0;
}
