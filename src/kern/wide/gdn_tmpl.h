/* kern/wide/gdn_tmpl.h - the gated delta rule on a tile of sixteen value columns
 *
 * The algorithm of x86/gdn_avx2.c, lagged update included: time runs along the
 * key indices, columns lie in lanes. The rows of a tile are N registers.
 *
 * Includer: defines the operations of wide.h, and ISA(x).
 */
#include <string.h>

#include "kern/wide/math_tmpl.h"

enum { N = SL_TILE / VEC };

/* Sixteen floats. */
struct row {
    vf v[N];
};

SL_INLINE struct row load_row(const float *p)
{
    struct row r;

    UNROLL
    for (size_t i = 0; i < N; i++)
        r.v[i] = load(p + i * VEC);
    return r;
}

SL_INLINE void store_row(float *p, struct row r)
{
    UNROLL
    for (size_t i = 0; i < N; i++)
        store(p + i * VEC, r.v[i]);
}

SL_INLINE struct row mul_row(vf a, struct row b)
{
    UNROLL
    for (size_t i = 0; i < N; i++)
        b.v[i] = vmul(a, b.v[i]);
    return b;
}

/* a * b + c */
SL_INLINE struct row fma_row(vf a, struct row b, struct row c)
{
    UNROLL
    for (size_t i = 0; i < N; i++)
        c.v[i] = vfma(a, b.v[i], c.v[i]);
    return c;
}

SL_INLINE struct row sub_row(struct row a, struct row b)
{
    UNROLL
    for (size_t i = 0; i < N; i++)
        a.v[i] = vsub(a.v[i], b.v[i]);
    return a;
}

/* The update of a row that has not reached the state yet. */
struct lag {
    const float *k; /* NULL: there is none */
    struct row d;
};

/* S = fma(k_i, d_j, decay * S) for all pending rows, src to dst. */
static void replay(const struct sl_gdn *g)
{
    for (size_t i = 0; i < g->dk; i++) {
        struct row s = load_row(g->src + i * SL_TILE);

        for (size_t r = 0; r < g->n_pend; r++) {
            vf decay = set(g->pend_decay[r * g->ld_pend_decay]);
            vf k = set(g->pend_k[r * g->ld_pend_k + i]);

            s = fma_row(k, load_row(g->pend_d + r * g->ld_pend_d),
                        mul_row(decay, s));
        }
        store_row(g->dst + i * SL_TILE, s);
    }
}

/* One sweep: the lagged update if there is one, the decay, and the two sums
 * m_j = chain of k_i S_ij and p_j = chain of q_i S_ij. */
SL_INLINE void sweep(bool lagged, const struct lag *lag, float *dst,
                     const float *src, vf decay, const float *k, const float *q,
                     size_t dk, struct row *m_out, struct row *p_out)
{
    struct row m, p, d = lag->d;

    UNROLL
    for (size_t i = 0; i < N; i++)
        m.v[i] = set(0);
    p = m;
    for (size_t i = 0; i < dk; i++) {
        struct row s = load_row(src + i * SL_TILE);

        if (lagged)
            s = fma_row(set(lag->k[i]), d, s);
        s = mul_row(decay, s);
        m = fma_row(set(k[i]), s, m);
        p = fma_row(set(q[i]), s, p);
        store_row(dst + i * SL_TILE, s);
    }
    *m_out = m;
    *p_out = p;
}

/* Row r of the step; its update is left in *lag. */
static void step(const struct sl_gdn *g, size_t r, float *dst, const float *src,
                 struct lag *lag)
{
    const float *k = g->k + r * g->ld_k, *q = g->q + r * g->ld_q;
    vf decay = set(g->decay[r * g->ld_decay]);
    vf beta = set(g->beta[r * g->ld_beta]), kq = set(g->kq[r * g->ld_kq]);
    struct row v = load_row(g->v + r * g->ld_v);
    struct row m, p;

    if (lag->k)
        sweep(true, lag, dst, src, decay, k, q, g->dk, &m, &p);
    else
        sweep(false, lag, dst, src, decay, k, q, g->dk, &m, &p);
    lag->k = k;
    lag->d = mul_row(beta, sub_row(v, m));
    store_row(g->o + r * g->ld_o, fma_row(kq, lag->d, p));
}

/* S = fma(k_i, d_j, S) */
static void settle(float *s, size_t dk, const struct lag *lag)
{
    struct row d = lag->d;

    for (size_t i = 0; i < dk; i++) {
        struct row old = load_row(s + i * SL_TILE);

        store_row(s + i * SL_TILE, fma_row(set(lag->k[i]), d, old));
    }
}

static void gdn(const struct sl_gdn *g)
{
    const float *src = g->src;
    struct lag lag = {.k = NULL};

    if (g->n_pend > 0) {
        replay(g);
        src = g->dst;
    }
    for (size_t r = 0; r < g->n_firm; r++) {
        step(g, r, g->dst, src, &lag);
        src = g->dst;
    }
    if (lag.k)
        settle(g->dst, g->dk, &lag);
    else if (src != g->dst && g->dk > 0)
        memcpy(g->dst, src, g->dk * SL_TILE * sizeof(float));
    lag.k = NULL;
    src = g->dst;
    for (size_t t = 0; t < g->n_tent; t++) {
        step(g, g->n_firm + t, g->scratch, src, &lag);
        store_row(g->d_out + t * g->ld_d, lag.d);
        src = g->scratch;
    }
}

static void gdn_gates(float *restrict decay, float *restrict beta,
                      const float *restrict a, const float *restrict b,
                      const float *restrict a_neg, const float *restrict dt,
                      size_t n)
{
    for (size_t i = 0; i < n; i += VEC) {
        size_t l = n - i;
        vf x = vadd(load_n(a + i, l), load_n(dt + i, l));

        x = vmul(load_n(a_neg + i, l), vec_softplus(x));
        store_n(decay + i, vec_exp(x), l);
        store_n(beta + i, vec_sigmoid(load_n(b + i, l)), l);
    }
}

void ISA(sl_kern_init_gdn)(struct sl_kern *k)
{
    k->gdn = gdn;
    k->gdn_gates = gdn_gates;
}
