/* tests/prop/prop_sample.c - the sampler against a slow and plain one
 *
 * The plain one works on the whole vocabulary, sorts it, follows vLLM's order
 * step by step, and decides top-p and min-p in double with libm's exp. Where it
 * finds itself within rounding of a boundary it abstains, and a check at the
 * end sees to it that this is rare. Everywhere else the sets of survivors must
 * be the same, and the drawn token, by D4's sums, too.
 *
 * Usage: prop_sample [SEED [CASES]]
 */
#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "base/num.h"
#include "kern/math.h"
#include "sample/accept.h"
#include "sample/philox.h"
#include "sample/sample.h"

#define MAX_VOCAB 6000
#define MAX_HIST 200
#define MAX_TENT 20
#define MAX_BAD 4
#define CASES 2000
#define SEED 1

static int n_passed, n_failed;
static uint64_t seed0 = SEED;

static void result(bool ok, const char *name)
{
    if (ok)
        n_passed++;
    else
        n_failed++;
    if (!ok)
        printf("FAIL %s (seed %" PRIu64 ")\n", name, seed0);
}

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014. */
struct rng {
    uint64_t s;
};

static uint64_t next(struct rng *r)
{
    uint64_t z = r->s += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static uint32_t below(struct rng *r, uint32_t n)
{
    return (uint32_t)(next(r) >> 32) % n;
}

static float uniform(struct rng *r)
{
    return (float)(next(r) >> 40) * 0x1p-24f;
}

static float normal(struct rng *r) /* near enough: twelve uniforms */
{
    float s = -6;

    for (int i = 0; i < 12; i++)
        s += uniform(r);
    return s;
}

/* One random case, everything a draw takes. */
struct test_case {
    uint32_t n;
    float z[MAX_VOCAB];
    int32_t hist[MAX_HIST], tent[MAX_TENT];
    uint32_t n_prompt, n_hist, n_tent;
    struct sl_bias bias[8];
    int32_t allowed[64], end[3], bad_ids[MAX_BAD][3];
    struct sl_bad_word bad[MAX_BAD];
    struct sl_sample_opts o;
    uint64_t pos;
};

static void make_logits(struct test_case *c, struct rng *r)
{
    uint32_t kind = below(r, 7);
    float scale = 0.1f + 8 * uniform(r);

    for (uint32_t i = 0; i < c->n; i++) {
        c->z[i] = scale * normal(r);
        if (kind == 1) /* many ties, both zeros */
            c->z[i] = (float)((int)below(r, 7) - 3) * (below(r, 2) ? 1 : -1.0f);
        if (kind == 2) /* flat */
            c->z[i] = 1.5f;
        if ((kind == 3 || kind == 4) && below(r, 3) == 0)
            c->z[i] = -INFINITY;
        if (kind >= 4 && below(r, 10) == 0)
            c->z[i] = NAN;
        if (kind == 6 && below(r, 50) == 0)
            c->z[i] = -3e38f;
    }
    if (below(r, 40) == 0) /* nothing to draw */
        for (uint32_t i = 0; i < c->n; i++)
            c->z[i] = below(r, 2) ? NAN : -INFINITY;
}

static void make_opts(struct test_case *c, struct rng *r)
{
    static const float temps[] = {0, 0.005f, 0.3f, 0.7f, 1, 1, 1, 1.3f, 2};
    static const float ps[] = {1, 1, 0.95f, 0.8f, 0.3f, 1e-6f, 0.999f};
    struct sl_sample_opts *o = &c->o;

    sl_sample_opts_init(o);
    o->temperature = temps[below(r, SL_COUNTOF(temps))];
    o->top_p = ps[below(r, SL_COUNTOF(ps))];
    if (below(r, 2))
        o->top_k = (int32_t)below(r, below(r, 2) ? 30 : 2 * c->n) - 1;
    if (below(r, 3) == 0)
        o->min_p = below(r, 8) ? 0.2f * uniform(r) : 1;
    if (below(r, 2))
        o->presence = 4 * uniform(r) - 2;
    if (below(r, 2))
        o->frequency = 4 * uniform(r) - 2;
    if (below(r, 2))
        o->repetition = 0.5f + uniform(r);
    o->seed = next(r);
    o->choice = below(r, 3);
    o->min_tokens = below(r, 3) ? 0 : below(r, MAX_HIST);
    o->end = c->end;
    o->n_end = below(r, 4);
    for (int i = 0; i < 3; i++) /* some beyond the vocabulary */
        c->end[i] = (int32_t)below(r, c->n + c->n / 4 + 1);
    o->bias = c->bias;
    o->n_bias = below(r, 3) ? 0 : below(r, 9);
    for (int i = 0; i < 8; i++)
        c->bias[i] = (struct sl_bias){(int32_t)below(r, c->n), 10 * normal(r)};
    for (int i = 0; i < 64; i++)
        c->allowed[i] = (int32_t)below(r, c->n);
    if (below(r, 6) == 0) {
        o->allowed = c->allowed;
        o->n_allowed = 1 + below(r, 64);
    }
}

static void make_bad_words(struct test_case *c, struct rng *r)
{
    uint32_t n_all = c->n_hist + c->n_tent;

    c->o.bad = c->bad;
    c->o.n_bad = below(r, 2) ? 0 : below(r, MAX_BAD + 1);
    for (int b = 0; b < MAX_BAD; b++) {
        c->bad[b].ids = c->bad_ids[b];
        c->bad[b].n = 1 + below(r, 3);
        /* What was just generated, then any token, so that many match. */
        for (uint32_t i = 0; i < c->bad[b].n; i++) {
            uint32_t back = c->bad[b].n - 1 - i;
            uint32_t at = n_all - back;

            c->bad_ids[b][i] = (int32_t)below(r, c->n);
            if (back > 0 && back <= n_all && below(r, 8))
                c->bad_ids[b][i] =
                    at < c->n_hist ? c->hist[at] : c->tent[at - c->n_hist];
        }
    }
}

static void make_case(struct test_case *c, struct rng *r)
{
    static const uint32_t sizes[] = {1,   2,   3,   31,  63,   64,   65,  100,
                                     127, 128, 129, 511, 1000, 1543, 5999};

    c->n = sizes[below(r, SL_COUNTOF(sizes))];
    make_logits(c, r);
    c->n_hist = below(r, 2) ? below(r, MAX_HIST + 1) : 0;
    c->n_prompt = c->n_hist ? below(r, c->n_hist + 1) : 0;
    c->n_tent = below(r, 2) ? below(r, MAX_TENT + 1) : 0;
    for (uint32_t i = 0; i < c->n_hist; i++)
        c->hist[i] = (int32_t)below(r, below(r, 2) ? c->n + 3 : 8);
    for (uint32_t i = 0; i < c->n_tent; i++)
        c->tent[i] = (int32_t)below(r, below(r, 2) ? c->n + 3 : 8);
    make_opts(c, r);
    make_bad_words(c, r);
    c->pos = next(r) >> below(r, 64);
}

/* What the plain sampler says. */
struct plain {
    float z[MAX_VOCAB];
    bool stays[MAX_VOCAB];
    bool vague[MAX_VOCAB]; /* so unlikely that it may have underflowed */
    bool none;             /* nothing can be drawn */
    bool unsure;           /* within rounding of a boundary */
    int32_t id;
    float total; /* of the weights drawn from */
};

static bool matches(const struct test_case *c, const struct sl_bad_word *bad)
{
    int32_t all[MAX_HIST + MAX_TENT];
    uint32_t n = 0;

    for (uint32_t i = c->n_prompt; i < c->n_hist; i++)
        all[n++] = c->hist[i];
    for (uint32_t i = 0; i < c->n_tent; i++)
        all[n++] = c->tent[i];
    if (bad->n - 1 > n)
        return false;
    for (uint32_t i = 0; i + 1 < bad->n; i++)
        if (all[n - (bad->n - 1) + i] != bad->ids[i])
            return false;
    return true;
}

static void plain_masks(struct plain *p, const struct test_case *c)
{
    uint32_t n_out = c->n_hist - c->n_prompt + c->n_tent;

    for (uint32_t i = 0; i < c->n; i++) {
        bool ok = !c->o.allowed;

        for (uint32_t k = 0; k < c->o.n_allowed; k++)
            ok |= c->o.allowed[k] == (int32_t)i;
        p->z[i] = ok && !isnan(c->z[i]) ? c->z[i] : -INFINITY;
    }
    for (uint32_t b = 0; b < c->o.n_bad; b++)
        if (matches(c, &c->bad[b]))
            p->z[c->bad[b].ids[c->bad[b].n - 1]] = -INFINITY;
    for (uint32_t i = 0; i < c->o.n_end; i++)
        if (n_out < c->o.min_tokens && c->end[i] < (int32_t)c->n)
            p->z[c->end[i]] = -INFINITY;
    for (uint32_t i = 0; i < c->o.n_bias; i++)
        p->z[c->bias[i].id] += c->bias[i].value;
}

static void plain_penalties(struct plain *p, const struct test_case *c)
{
    for (uint32_t t = 0; t < c->n; t++) {
        uint32_t n_out = 0, n_all = 0;

        for (uint32_t i = 0; i < c->n_hist; i++) {
            n_all += c->hist[i] == (int32_t)t;
            n_out += i >= c->n_prompt && c->hist[i] == (int32_t)t;
        }
        for (uint32_t i = 0; i < c->n_tent; i++)
            n_out += c->tent[i] == (int32_t)t;
        if (n_all + n_out > 0)
            p->z[t] = p->z[t] > 0 ? p->z[t] / c->o.repetition
                                  : p->z[t] * c->o.repetition;
        p->z[t] = p->z[t] - c->o.frequency * (float)n_out;
        if (n_out > 0)
            p->z[t] = p->z[t] - c->o.presence;
    }
}

static const float *sort_z;

static int by_value(const void *a, const void *b)
{
    int32_t i, j;

    memcpy(&i, a, sizeof(i));
    memcpy(&j, b, sizeof(j));
    if (sort_z[i] != sort_z[j])
        return sort_z[i] > sort_z[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

static bool close_to(double a, double b, double tol)
{
    return fabs(a - b) <= tol * fabs(b);
}

/* min-p, top-k, top-p, in vLLM's order, on sorted tokens. */
static void plain_truncate(struct plain *p, const struct test_case *c)
{
    static int32_t order[MAX_VOCAB];
    static double w[MAX_VOCAB];
    double temp = (double)fmaxf(c->o.temperature, 0.01f);
    double sum = 0, run = 0, tol;
    uint32_t n = 0, n_live = 0;

    for (uint32_t i = 0; i < c->n; i++)
        order[i] = (int32_t)i;
    sort_z = p->z;
    qsort(order, c->n, sizeof(*order), by_value);
    /* Of w, from the roundings of z / T, max / T and their difference, each
     * half a unit of max / T (other z matter less); and of the sums. */
    tol = 1e-5 + 4 * 0x1p-24 * fabs((double)p->z[order[0]]) / temp;
    for (uint32_t i = 0; i < c->n; i++) {
        w[i] = exp(((double)p->z[order[i]] - (double)p->z[order[0]]) / temp);
        p->vague[order[i]] = w[i] < 1e-35;
        if (c->o.min_p > 0 && w[i] != 1 &&
            close_to(w[i], (double)c->o.min_p, tol))
            p->unsure = true;
        if (w[i] > 0 && w[i] >= (double)c->o.min_p)
            n_live = i + 1;
    }
    n = n_live;
    if (c->o.top_k > 0 && (uint32_t)c->o.top_k < n)
        n = (uint32_t)c->o.top_k;
    for (uint32_t i = 0; i < n; i++)
        sum += w[i];
    for (uint32_t i = 0; i < n; i++) {
        double need = (double)c->o.top_p * sum;

        if (c->o.top_p < 1 && i > 0 && close_to(run, need, tol))
            p->unsure = true;
        if (c->o.top_p < 1 && i > 0 && run >= need)
            break;
        p->stays[order[i]] = true;
        run += w[i];
    }
}

/* D4, word by word. */
static int32_t plain_draw(struct plain *p, const struct test_case *c)
{
    float temp = fmaxf(c->o.temperature, 0.01f), max = -INFINITY;
    float u = sl_philox_u(c->o.seed, c->o.choice, c->pos, SL_STREAM_DRAW);
    float total = 0;

    for (uint32_t i = 0; i < c->n; i++)
        max = fmaxf(max, p->z[i]);
    for (int pass = 0; pass < 2; pass++) {
        float before = 0;

        for (uint32_t b = 0; b < c->n; b += 64) {
            float s = 0;

            for (uint32_t i = b; i < c->n && i < b + 64; i++) {
                if (!p->stays[i])
                    continue;
                s += sl_exp(p->z[i] / temp - max / temp);
                if (pass == 1 && before + s > u * total)
                    return (int32_t)i;
            }
            before += s;
        }
        p->total = total = before;
    }
    return -1;
}

static void plain_sample(struct plain *p, const struct test_case *c)
{
    *p = (struct plain){.none = true};
    plain_masks(p, c);
    plain_penalties(p, c);
    for (uint32_t i = 0; i < c->n; i++)
        if (p->z[i] > -INFINITY)
            p->none = false;
    if (p->none)
        return;
    if (c->o.temperature == 0) {
        for (uint32_t i = 1; i < c->n; i++)
            if (p->z[i] > p->z[p->id])
                p->id = (int32_t)i;
        p->stays[p->id] = true;
        return;
    }
    plain_truncate(p, c);
    p->id = plain_draw(p, c);
}

/* The same draw by the real one; -1 if it failed. */
static int32_t draw(struct sl_sampler *s, const struct test_case *c,
                    const struct sl_sample_opts *o, uint32_t n_pushed)
{
    static float z[MAX_VOCAB];
    struct sl_history *h = NULL;
    struct sl_draw d = {.id = -2};
    uint64_t n_mem;
    int rc;

    SL_CHECK(sl_history_open(&h, MAX_HIST + MAX_TENT, NULL) == 0);
    SL_CHECK(sl_history_push(h, c->hist, c->n_prompt, false, NULL) == 0);
    SL_CHECK(sl_history_push(h, c->hist + c->n_prompt, c->n_hist - c->n_prompt,
                             true, NULL) == 0);
    SL_CHECK(sl_history_push(h, c->tent, n_pushed, true, NULL) == 0);
    memcpy(z, c->z, c->n * sizeof(*z));
    n_mem = sl_mem_count();
    rc = sl_sampler_draw(s, &d, z, o, h, c->tent + n_pushed,
                         c->n_tent - n_pushed, c->pos, NULL);
    SL_CHECK(sl_mem_count() == n_mem); /* nothing is allocated */
    SL_CHECK(rc == 0 || rc == SL_EFORMAT || rc == SL_EARG);
    SL_CHECK(rc == 0 || d.id == -2); /* untouched */
    sl_history_close(&h);
    return rc ? -1 : d.id;
}

struct samplers {
    uint32_t n;
    struct sl_sampler *used, *fresh, *ref;
};

static bool same_probs(const struct sl_sampler *a, const struct sl_sampler *b,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float ma, mb;
        float pa = sl_sampler_prob(a, (int32_t)i, &ma);
        float pb = sl_sampler_prob(b, (int32_t)i, &mb);

        if (memcmp(&pa, &pb, sizeof(pa)) || memcmp(&ma, &mb, sizeof(ma)))
            return false;
    }
    return true;
}

static bool same_survivors(const struct sl_sampler *s, const struct plain *p,
                           uint32_t n)
{
    double sum = 0;
    float largest = p->total > 0 ? 1 / p->total : 1; /* by D4's sums */

    for (uint32_t i = 0; i < n; i++) {
        float max, prob = sl_sampler_prob(s, (int32_t)i, &max);

        sum += (double)prob;
        if (max != largest || prob > max ||
            (!p->vague[i] && (prob > 0) != p->stays[i]))
            return false;
    }
    return fabs(sum - 1) < 1e-4;
}

static bool check_case(const struct test_case *c, const struct sl_kern *all,
                       const struct sl_kern *ref, struct sl_sampler *used,
                       uint64_t *n_unsure)
{
    static struct plain p;
    struct sl_sampler *fresh, *slow;
    struct sl_sample_opts lp = c->o;
    bool ok = true;
    int32_t id;

    SL_CHECK(sl_sampler_open(&fresh, all, c->n, NULL) == 0);
    SL_CHECK(sl_sampler_open(&slow, ref, c->n, NULL) == 0);
    plain_sample(&p, c);
    id = draw(fresh, c, &c->o, 0);
    if (p.unsure)
        ++*n_unsure;
    else if (p.none)
        ok = id == -1;
    else
        ok = id == p.id && same_survivors(fresh, &p, c->n);

    /* Whatever the sampler did before, whatever the kernels, log-probabilities
     * or not, and with any number of the tentative tokens committed. */
    ok &= draw(used, c, &c->o, 0) == id && same_probs(used, fresh, c->n);
    ok &= draw(slow, c, &c->o, 0) == id && same_probs(slow, fresh, c->n);
    lp.n_logprob = 3;
    ok &= draw(used, c, &lp, 0) == id && same_probs(used, fresh, c->n);
    ok &=
        draw(used, c, &c->o, c->n_tent) == id && same_probs(used, fresh, c->n);
    ok &= draw(used, c, &c->o, c->n_tent / 2) == id &&
          same_probs(used, fresh, c->n);
    sl_sampler_close(&fresh);
    sl_sampler_close(&slow);
    return ok;
}

static void random_cases(uint64_t n_case)
{
    static struct test_case c;
    static struct sl_sampler *used[MAX_VOCAB + 1];
    struct sl_kern all, ref;
    uint64_t n_unsure = 0, n_bad = 0;

    sl_kern_init(&all, SL_CPU_ALL);
    sl_kern_init(&ref, 0);
    for (uint64_t i = 0; i < n_case; i++) {
        struct rng r = {seed0 * 1000003 + i};

        make_case(&c, &r);
        if (!used[c.n])
            SL_CHECK(sl_sampler_open(&used[c.n], &all, c.n, NULL) == 0);
        if (check_case(&c, &all, &ref, used[c.n], &n_unsure))
            continue;
        n_bad++;
        printf("FAIL case %" PRIu64 " of seed %" PRIu64 ": n %u T %g k %d p %g "
               "min_p %g\n",
               i, seed0, c.n, (double)c.o.temperature, c.o.top_k,
               (double)c.o.top_p, (double)c.o.min_p);
    }
    for (size_t i = 0; i < SL_COUNTOF(used); i++)
        sl_sampler_close(&used[i]);
    result(n_bad == 0, "random cases equal the plain sampler");
    printf("%" PRIu64 " cases, %" PRIu64 " undecided by the plain sampler\n",
           n_case, n_unsure);
    result(n_unsure * 20 <= n_case, "the plain sampler decides");
}

/* Wilson and Hilferty 1931: the chi-square quantile of `df` degrees at the
 * normal quantile `z`. */
static double chi_square(double df, double z)
{
    double t = 1 - 2 / (9 * df) + z * sqrt(2 / (9 * df));

    return df * t * t * t;
}

#define N_DRAW 100000
#define N_TOK 150
#define Z_BOUND 3.09 /* one in a thousand, upper end; the seeds are fixed */
#define MIN_COUNT 10 /* cells expected below that are put together */

/* Pearson's statistic of counts against probabilities, within its bound? */
static bool fits(const uint32_t *count, const double *prob, uint32_t n_tok)
{
    double x = 0, rest = 0, n_rest = 0;
    int df = -1;

    for (uint32_t i = 0; i < n_tok; i++) {
        double want = prob[i] * N_DRAW, d = count[i] - want;

        if (want < MIN_COUNT) {
            rest += want;
            n_rest += count[i];
            continue;
        }
        x += d * d / want;
        df++;
    }
    if (rest >= MIN_COUNT) {
        x += (n_rest - rest) * (n_rest - rest) / rest;
        df++;
    } else if (rest == 0 && n_rest > 0) {
        return false;
    }
    return df > 0 ? x <= chi_square(df, Z_BOUND) : x == 0;
}

enum vary { VARY_POS, VARY_SEED, VARY_CHOICE, VARY_POS_HIGH, N_VARY };

static void frequencies(const struct sl_sample_opts *base, enum vary vary,
                        const char *name)
{
    struct sl_sample_opts o = *base;
    struct sl_sampler *s;
    struct sl_history *h;
    struct sl_kern kern;
    struct sl_draw d;
    struct rng r = {seed0};
    float z[N_TOK], work[N_TOK], max;
    uint32_t count[N_TOK] = {0};
    double prob[N_TOK];

    sl_kern_init(&kern, SL_CPU_ALL);
    SL_CHECK(sl_sampler_open(&s, &kern, N_TOK, NULL) == 0);
    SL_CHECK(sl_history_open(&h, 1, NULL) == 0);
    for (int i = 0; i < N_TOK; i++)
        z[i] = 2 * normal(&r);
    for (uint32_t i = 0; i < N_DRAW; i++) {
        uint64_t pos = vary == VARY_POS        ? i
                       : vary == VARY_POS_HIGH ? (uint64_t)i << 32
                                               : 7;

        o.seed = vary == VARY_SEED ? base->seed + i : base->seed;
        o.choice = vary == VARY_CHOICE ? i : 0;
        memcpy(work, z, sizeof(z));
        SL_CHECK(!sl_sampler_draw(s, &d, work, &o, h, NULL, 0, pos, NULL));
        count[d.id]++;
    }
    for (int i = 0; i < N_TOK; i++)
        prob[i] = (double)sl_sampler_prob(s, i, &max);
    result(fits(count, prob, N_TOK), name);
    sl_sampler_close(&s);
    sl_history_close(&h);
}

static void all_frequencies(void)
{
    struct sl_sample_opts o;

    sl_sample_opts_init(&o);
    o.seed = seed0;
    frequencies(&o, VARY_POS, "frequencies over positions");
    frequencies(&o, VARY_POS_HIGH, "frequencies over high positions");
    frequencies(&o, VARY_SEED, "frequencies over seeds");
    frequencies(&o, VARY_CHOICE, "frequencies over choices");
    o.top_k = 20;
    o.top_p = 0.95f;
    frequencies(&o, VARY_POS, "frequencies, top-k and top-p");
    o.top_k = 0;
    o.temperature = 0.7f;
    frequencies(&o, VARY_POS, "frequencies, temperature and top-p");
    o.seed = 1ull << 63 | 5;
    o.min_p = 0.02f;
    frequencies(&o, VARY_POS, "frequencies, min-p, high seed");
}

/* A lossy rule emits the draft with probability a and the others in the
 * target's proportions. */
static bool rule_fits(enum sl_accept_rule rule, float p_draft, bool broken,
                      double *tv_error)
{
    float p[4] = {p_draft, 0.5f * (1 - p_draft), 0.3f * (1 - p_draft),
                  0.2f * (1 - p_draft)};
    uint32_t count[4] = {0};
    double want[4], tv = 0;
    struct sl_accept_opts o;
    float max = fmaxf(p[0], p[1]), a;

    sl_accept_opts_init(&o);
    o.rule = rule;
    o.lenience = 0.5f;
    for (uint32_t i = 0; i < N_DRAW; i++) {
        float u = sl_philox_u(seed0, 0, i, SL_STREAM_DRAW), run = p[0];
        float u2 = sl_philox_u(seed0, 0, i, SL_STREAM_ACCEPT);
        int32_t y = 0;

        while (y < 3 && !(run > u))
            run += p[++y];
        /* A rule that forgets that y may be the draft already. */
        if (broken && u2 < sl_accept_prob(&o, p[0], max))
            y = 0;
        count[sl_accept(&o, 0, y, p[0], max, u2, &tv) ? 0 : y]++;
    }
    a = rule == SL_ACCEPT_EXACT     ? p[0]
        : rule == SL_ACCEPT_LENIENT ? sqrtf(p[0])
        : p[0] >= 0.3f * max        ? 1
                                    : p[0];
    want[0] = (double)a;
    for (int i = 1; i < 4; i++)
        want[i] = (double)p[i] * (1 - (double)a) / (1 - (double)p[0]);
    *tv_error = fabs(tv / N_DRAW - (double)(a - p[0]));
    return fits(count, want, 4);
}

static void lossy(enum sl_accept_rule rule, float p_draft, const char *name)
{
    double tv_error;

    result(rule_fits(rule, p_draft, false, &tv_error), name);
    result(tv_error < 1e-6, name);
    if (rule == SL_ACCEPT_LENIENT)
        result(!rule_fits(rule, p_draft, true, &tv_error),
               "a wrong rule is caught");
}

int main(int argc, char **argv)
{
    int64_t v, n_case = CASES;

    if (argc > 1 &&
        !sl_num_i64(&v, argv[1], strlen(argv[1]), 0, INT64_MAX, "SEED", NULL))
        seed0 = (uint64_t)v;
    if (argc > 2)
        (void)sl_num_i64(&n_case, argv[2], strlen(argv[2]), 1, INT64_MAX,
                         "CASES", NULL);
    printf("seed %" PRIu64 "\n", seed0);
    random_cases((uint64_t)n_case);
    all_frequencies();
    lossy(SL_ACCEPT_EXACT, 0.3f, "exact");
    lossy(SL_ACCEPT_LENIENT, 0.3f, "lenient");
    lossy(SL_ACCEPT_LENIENT, 0.04f, "lenient, unlikely draft");
    lossy(SL_ACCEPT_RELAXED, 0.3f, "relaxed");
    lossy(SL_ACCEPT_RELAXED, 0.04f, "relaxed, unlikely draft");
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
