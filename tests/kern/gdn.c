/* tests/kern/gdn.c - the gated delta rule
 *
 * The mathematics is the textbook form, S = g S; d = b (v - S'k); S = S + k d';
 * o = S'q, with the update before the output. A bound on the error of every
 * element goes along with it (running error analysis: Higham, Accuracy and
 * Stability of Numerical Algorithms, 2nd ed., 3.3), so any number of rows can
 * be compared; with small integers everything is exact.
 */
#include <math.h>

#include "check.h"

#define U 0x1p-24
#define MORE 1.01 /* for what is of second order in U */
enum { MAX_DK = 130 };

/* A state in double, and a bound on how far a kernel may be from it. */
struct exact {
    double s[MAX_DK][SL_TILE], e[MAX_DK][SL_TILE];
    size_t dk;
    bool exact; /* nothing rounds: all bounds are 0 */
};

static void exact_init(struct exact *x, const float *s, size_t dk, bool exact)
{
    memset(x, 0, sizeof(*x));
    x->dk = dk;
    x->exact = exact;
    for (size_t i = 0; i < dk; i++)
        for (size_t j = 0; j < SL_TILE; j++)
            x->s[i][j] = (double)s[i * SL_TILE + j];
}

/* S = S + k d, d off by at most ed. */
static void exact_update(struct exact *x, const float *k, double d, double ed,
                         size_t j)
{
    for (size_t i = 0; i < x->dk; i++) {
        x->s[i][j] += (double)k[i] * d;
        x->e[i][j] = MORE * (x->e[i][j] + fabs((double)k[i]) * ed +
                             U * fabs(x->s[i][j]));
    }
}

static void exact_decay(struct exact *x, float decay)
{
    for (size_t i = 0; i < x->dk; i++) {
        for (size_t j = 0; j < SL_TILE; j++) {
            x->s[i][j] *= (double)decay;
            x->e[i][j] = MORE * (x->e[i][j] * fabs((double)decay) +
                                 U * fabs(x->s[i][j]));
        }
    }
}

/* Sum over i of a_i S_ij, and a bound on the error of a chain of it. */
static double exact_sum(const struct exact *x, const float *a, size_t j,
                        double *err)
{
    double sum = 0, mag = 0, e = 0;

    for (size_t i = 0; i < x->dk; i++) {
        sum += (double)a[i] * x->s[i][j];
        mag += fabs((double)a[i] * x->s[i][j]);
        e += fabs((double)a[i]) * x->e[i][j];
    }
    *err = MORE * (e + gamma_n(x->dk) * mag);
    return sum;
}

static void near(struct check *c, const struct exact *x, const char *what,
                 size_t i, float got, double want, double err)
{
    compare_near(c, what, i, got, want, x->exact ? 0 : MORE * err);
}

/* Row r; compares o and, if d_out, d. */
static void exact_step(struct check *c, struct exact *x, const struct sl_gdn *g,
                       size_t r, const float *d_out)
{
    const float *k = g->k + r * g->ld_k, *q = g->q + r * g->ld_q;
    const float *v = g->v + r * g->ld_v, *o = g->o + r * g->ld_o;
    double beta = (double)g->beta[r * g->ld_beta];
    double kq = (double)g->kq[r * g->ld_kq];

    exact_decay(x, g->decay[r * g->ld_decay]);
    for (size_t j = 0; j < SL_TILE; j++) {
        double em, ep, ed, kq_err;
        double m = exact_sum(x, k, j, &em);
        double d = beta * ((double)v[j] - m), out;

        exact_sum(x, q, j, &ep);
        ed = MORE * (fabs(beta) * em + 2 * U * fabs(d));
        if (d_out)
            near(c, x, "d", r * SL_TILE + j, d_out[j], d, ed);
        exact_update(x, k, d, ed, j);
        out = exact_sum(x, q, j, &kq_err);
        /* kq came rounded to fp32: U of it. */
        near(c, x, "o", r * SL_TILE + j, o[j], out,
             ep + fabs(kq) * ed + U * fabs(kq * d) + U * fabs(out));
    }
}

static void against_mathematics(struct check *c, const struct sl_gdn *g,
                                const float *src)
{
    static struct exact x;

    exact_init(&x, src, g->dk, c->fill == FILL_INT);
    for (size_t r = 0; r < g->n_pend; r++) {
        exact_decay(&x, g->pend_decay[r * g->ld_pend_decay]);
        for (size_t j = 0; j < SL_TILE; j++)
            exact_update(&x, g->pend_k + r * g->ld_pend_k,
                         (double)g->pend_d[r * g->ld_pend_d + j], 0, j);
    }
    for (size_t r = 0; r < g->n_firm; r++)
        exact_step(c, &x, g, r, NULL);
    for (size_t i = 0; i < g->dk; i++)
        for (size_t j = 0; j < SL_TILE; j++)
            near(c, &x, "dst", i * SL_TILE + j, g->dst[i * SL_TILE + j],
                 x.s[i][j], x.e[i][j]);
    for (size_t t = 0; t < g->n_tent; t++)
        exact_step(c, &x, g, g->n_firm + t, g->d_out + t * g->ld_d);
}

/* n rows of `width`, `ld` apart. */
static float *rows(struct check *c, size_t n, size_t width, size_t *ld)
{
    *ld = width + below(c, 4);
    return in_floats(c, n ? (n - 1) * *ld + width : 0);
}

static float *out_rows(struct check *c, size_t n, size_t width, size_t ld)
{
    return out_floats(c, n ? (n - 1) * ld + width : 0);
}

/* One value per row, in (0, 1); 1/2 or 1 where all must be exact. */
static float *gate_rows(struct check *c, size_t n, size_t *ld)
{
    float *p = rows(c, n, 1, ld);

    for (size_t r = 0; r < n && c->fill != FILL_BITS; r++)
        p[r * *ld] = c->fill != FILL_INT ? uniform(c, 0, 1)
                     : one_in(c, 2)      ? 1
                                         : 0.5f;
    touched(c, p);
    return p;
}

static void draw_visit(struct check *c, struct sl_gdn *g)
{
    size_t n = g->n_firm + g->n_tent;
    float *kq;

    g->pend_k = rows(c, g->n_pend, g->dk, &g->ld_pend_k);
    g->pend_d = rows(c, g->n_pend, SL_TILE, &g->ld_pend_d);
    g->pend_decay = gate_rows(c, g->n_pend, &g->ld_pend_decay);
    g->k = rows(c, n, g->dk, &g->ld_k);
    g->q = rows(c, n, g->dk, &g->ld_q);
    g->v = rows(c, n, SL_TILE, &g->ld_v);
    g->decay = gate_rows(c, n, &g->ld_decay);
    g->beta = gate_rows(c, n, &g->ld_beta);
    g->kq = kq = rows(c, n, 1, &g->ld_kq);
    for (size_t r = 0; r < n && c->fill != FILL_BITS; r++) {
        double sum = 0;

        for (size_t i = 0; i < g->dk; i++)
            sum +=
                (double)g->k[r * g->ld_k + i] * (double)g->q[r * g->ld_q + i];
        kq[r * g->ld_kq] = (float)sum;
    }
    touched(c, kq);
    g->ld_o = SL_TILE + below(c, 3);
    g->ld_d = SL_TILE + below(c, 3);
}

/* The same visit with outputs of its own; `in_place` makes src dst. */
static void outputs(struct check *c, struct sl_gdn *g, const float *s0,
                    bool in_place)
{
    size_t n = g->dk * SL_TILE;

    g->dst = in_place ? out_copy(c, s0, n) : out_floats(c, n);
    g->src = in_place ? g->dst : s0;
    g->o = out_rows(c, g->n_firm + g->n_tent, SL_TILE, g->ld_o);
    g->d_out = g->n_tent ? out_rows(c, g->n_tent, SL_TILE, g->ld_d) : NULL;
    g->scratch = out_floats(c, n);
}

static void check_gdn(struct check *c)
{
    bool small = c->fill == FILL_INT; /* so that nothing rounds */
    struct sl_gdn g = {.dk = one_in(c, 3) ? 128 : any_size(c, MAX_DK)};
    struct sl_gdn want;
    float *s0;

    if (small)
        g.dk = below(c, 9);
    g.n_pend = below(c, small ? 3 : 5);
    g.n_firm = below(c, small ? 2 : 6);
    g.n_tent = below(c, small ? 2 : 5);
    describe(c, "dk %zu, pending %zu, firm %zu, tentative %zu, fill %d", g.dk,
             g.n_pend, g.n_firm, g.n_tent, (int)c->fill);
    s0 = in_floats(c, g.dk * SL_TILE);
    draw_visit(c, &g);
    want = g;
    outputs(c, &want, s0, false);
    outputs(c, &g, s0, one_in(c, 2));
    c->ref->gdn(&want);
    c->fast->gdn(&g);
    compare(c, "dst", g.dst, want.dst, g.dk * SL_TILE);
    for (size_t r = 0; r < g.n_firm + g.n_tent; r++)
        compare(c, "o", g.o + r * g.ld_o, want.o + r * g.ld_o, SL_TILE);
    compare_gaps(c, g.o, g.n_firm + g.n_tent, g.ld_o, SL_TILE);
    for (size_t t = 0; t < g.n_tent; t++)
        compare(c, "d", g.d_out + t * g.ld_d, want.d_out + t * g.ld_d, SL_TILE);
    compare_gaps(c, g.d_out, g.n_tent, g.ld_d, SL_TILE);
    if (c->fill != FILL_BITS)
        against_mathematics(c, &g, s0);
}

/* Rows as firm ones in one visit against: some firm, the rest tentative, and
 * these pending in a second visit without rows (D3). */
static void check_gdn_accepted(struct check *c)
{
    struct sl_gdn g = {.dk = one_in(c, 2) ? 128 : 1 + below(c, MAX_DK)};
    struct sl_gdn all, flush;
    size_t n = 1 + below(c, 6), n_firm = below(c, n);
    float *s0;

    describe(c, "dk %zu, rows %zu, firm %zu, fill %d", g.dk, n, n_firm,
             (int)c->fill);
    s0 = in_floats(c, g.dk * SL_TILE);
    g.n_firm = n_firm;
    g.n_tent = n - n_firm;
    draw_visit(c, &g);
    outputs(c, &g, s0, false);
    all = g;
    all.n_firm = n;
    all.n_tent = 0;
    outputs(c, &all, s0, false);
    c->fast->gdn(&all);
    c->fast->gdn(&g);
    flush = (struct sl_gdn){
        .src = g.dst,
        .dst = g.dst,
        .dk = g.dk,
        .n_pend = n - n_firm,
        .pend_k = g.k + n_firm * g.ld_k,
        .ld_pend_k = g.ld_k,
        .pend_d = g.d_out,
        .ld_pend_d = g.ld_d,
        .pend_decay = g.decay + n_firm * g.ld_decay,
        .ld_pend_decay = g.ld_decay,
    };
    c->fast->gdn(&flush);
    compare(c, "state", g.dst, all.dst, g.dk * SL_TILE);
    for (size_t r = 0; r < n; r++)
        compare(c, "o", g.o + r * g.ld_o, all.o + r * g.ld_o, SL_TILE);
}

static void check_gdn_gates(struct check *c)
{
    size_t n = any_size(c, 70);
    float *a = in_floats(c, n), *b = in_floats(c, n);
    float *a_neg = in_floats(c, n), *dt = in_floats(c, n);
    float *want_decay = out_floats(c, n), *want_beta = out_floats(c, n);
    float *decay = out_floats(c, n), *beta = out_floats(c, n);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    for (size_t i = 0; i < n && c->fill == FILL_UNIFORM; i++)
        a[i] = one_in(c, 2) ? a[i] * 30 : 20 + a[i]; /* limit of softplus */
    touched(c, a);
    c->ref->gdn_gates(want_decay, want_beta, a, b, a_neg, dt, n);
    c->fast->gdn_gates(decay, beta, a, b, a_neg, dt, n);
    compare(c, "decay", decay, want_decay, n);
    compare(c, "beta", beta, want_beta, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        double x = (double)a[i] + (double)dt[i];
        double sp = x > 20 ? x : log1p(exp(x));
        double v = exp((double)a_neg[i] * sp), w = 1 / (1 + exp(-(double)b[i]));
        /* The sum, softplus (slope <= 1; exp and log1p 4 U each), the product,
         * and exp of it. Beyond 20 softplus is off by e^-20 < U. */
        double arg_err = fabs((double)a_neg[i]) * (U * fabs(x) + 10 * U * sp);

        compare_near(c, "decay", i, decay[i], v, MORE * v * (arg_err + 4 * U));
        compare_near(c, "beta", i, beta[i], w, 8 * U * w);
    }
}

const struct entry gdn_entries[] = {
    {"gdn", check_gdn},
    {"gdn_accepted", check_gdn_accepted},
    {"gdn_gates", check_gdn_gates},
    {NULL, NULL},
};
