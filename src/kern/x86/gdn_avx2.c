/* kern/x86/gdn_avx2.c - the gated delta rule on a tile of sixteen value columns
 *
 * Two registers hold the sixteen columns of one key index; time runs along the
 * key indices, so there is no sum across lanes. The tile (8 KB for 128 keys)
 * stays in the first-level cache.
 *
 * The update of a row, S = fma(k_i, d_j, S), needs d, which is known only after
 * a sweep over the whole tile. It is not given a sweep of its own but done in
 * the sweep of the next row, just before the decay (the lagged update of
 * performance.md 2.14): one load and one store of the state per row, and the
 * same operations per element as the contract.
 */
#include <string.h>

#include "kern/x86/math_avx2.h"
#include "kern/x86/x86.h"

/* Sixteen floats. */
struct pair {
    __m256 lo, hi;
};

SL_INLINE struct pair load_pair(const float *p)
{
    return (struct pair){_mm256_loadu_ps(p), _mm256_loadu_ps(p + VEC)};
}

SL_INLINE void store_pair(float *p, struct pair v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + VEC, v.hi);
}

SL_INLINE struct pair mul_pair(__m256 a, struct pair b)
{
    return (struct pair){_mm256_mul_ps(a, b.lo), _mm256_mul_ps(a, b.hi)};
}

SL_INLINE struct pair fma_pair(__m256 a, struct pair b, struct pair c)
{
    return (struct pair){_mm256_fmadd_ps(a, b.lo, c.lo),
                         _mm256_fmadd_ps(a, b.hi, c.hi)};
}

SL_INLINE struct pair sub_pair(struct pair a, struct pair b)
{
    return (struct pair){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}

/* The update of a row that has not reached the state yet. */
struct lag {
    const float *k; /* NULL: there is none */
    struct pair d;
};

/* S = fma(k_i, d_j, decay * S) for all pending rows, src to dst. */
static void replay(const struct sl_gdn *g)
{
    for (size_t i = 0; i < g->dk; i++) {
        struct pair s = load_pair(g->src + i * SL_TILE);

        for (size_t r = 0; r < g->n_pend; r++) {
            __m256 decay = set(g->pend_decay[r * g->ld_pend_decay]);
            __m256 k = set(g->pend_k[r * g->ld_pend_k + i]);
            struct pair d = load_pair(g->pend_d + r * g->ld_pend_d);

            s = fma_pair(k, d, mul_pair(decay, s));
        }
        store_pair(g->dst + i * SL_TILE, s);
    }
}

/* One sweep: the lagged update if there is one, the decay, and the two sums
 * m_j = chain of k_i S_ij and p_j = chain of q_i S_ij. */
SL_INLINE void sweep(bool lagged, const struct lag *lag, float *dst,
                     const float *src, __m256 decay, const float *k,
                     const float *q, size_t dk, struct pair *m_out,
                     struct pair *p_out)
{
    struct pair m = {_mm256_setzero_ps(), _mm256_setzero_ps()}, p = m;
    struct pair d = lag->d;

    for (size_t i = 0; i < dk; i++) {
        struct pair s = load_pair(src + i * SL_TILE);

        if (lagged)
            s = fma_pair(set(lag->k[i]), d, s);
        s = mul_pair(decay, s);
        m = fma_pair(set(k[i]), s, m);
        p = fma_pair(set(q[i]), s, p);
        store_pair(dst + i * SL_TILE, s);
    }
    *m_out = m;
    *p_out = p;
}

/* Row r of the step; its update is left in *lag. */
static void step(const struct sl_gdn *g, size_t r, float *dst, const float *src,
                 struct lag *lag)
{
    const float *k = g->k + r * g->ld_k, *q = g->q + r * g->ld_q;
    __m256 decay = set(g->decay[r * g->ld_decay]);
    __m256 beta = set(g->beta[r * g->ld_beta]);
    __m256 kq = set(g->kq[r * g->ld_kq]);
    struct pair v = load_pair(g->v + r * g->ld_v);
    struct pair m, p;

    if (lag->k)
        sweep(true, lag, dst, src, decay, k, q, g->dk, &m, &p);
    else
        sweep(false, lag, dst, src, decay, k, q, g->dk, &m, &p);
    lag->k = k;
    lag->d = mul_pair(beta, sub_pair(v, m));
    store_pair(g->o + r * g->ld_o, fma_pair(kq, lag->d, p));
}

/* S = fma(k_i, d_j, S) */
static void settle(float *s, size_t dk, const struct lag *lag)
{
    struct pair d = lag->d;

    for (size_t i = 0; i < dk; i++) {
        struct pair old = load_pair(s + i * SL_TILE);

        store_pair(s + i * SL_TILE, fma_pair(set(lag->k[i]), d, old));
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
        store_pair(g->d_out + t * g->ld_d, lag.d);
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
        __m256 x = _mm256_add_ps(load_n(a + i, l), load_n(dt + i, l));

        x = _mm256_mul_ps(load_n(a_neg + i, l), vec_softplus(x));
        store_n(decay + i, vec_exp(x), l);
        store_n(beta + i, vec_sigmoid(load_n(b + i, l)), l);
    }
}

void sl_kern_init_gdn__avx2(struct sl_kern *k)
{
    k->gdn = gdn;
    k->gdn_gates = gdn_gates;
}
