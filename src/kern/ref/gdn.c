/* kern/ref/gdn.c - the gated delta rule on a tile of sixteen value columns
 *
 * The order of the steps is that of D3: what was accepted since the last visit,
 * then what is certain, then the state is put on record, then guesses on a
 * copy.
 */
#include <math.h>
#include <string.h>

#include "kern/math.h"
#include "kern/ref/ref.h"

/* S = fma(k_i, d_j, decay * S) */
static void replay(float *s, size_t dk, float decay, const float *k,
                   const float *d)
{
    for (size_t i = 0; i < dk; i++)
        for (size_t j = 0; j < SL_TILE; j++)
            s[i * SL_TILE + j] = fmaf(k[i], d[j], decay * s[i * SL_TILE + j]);
}

/* Row r of the step. */
static void step(const struct sl_gdn *g, float *s, size_t r, float d[SL_TILE])
{
    const float *k = g->k + r * g->ld_k;
    const float *q = g->q + r * g->ld_q;
    const float *v = g->v + r * g->ld_v;
    float *o = g->o + r * g->ld_o;
    float decay = g->decay[r * g->ld_decay];
    float beta = g->beta[r * g->ld_beta];
    float kq = g->kq[r * g->ld_kq];

    for (size_t j = 0; j < SL_TILE; j++) {
        float m = 0, p = 0;

        for (size_t i = 0; i < g->dk; i++) {
            float *s_ij = &s[i * SL_TILE + j];

            *s_ij = decay * *s_ij;
            m = fmaf(k[i], *s_ij, m);
            p = fmaf(q[i], *s_ij, p);
        }
        d[j] = beta * (v[j] - m);
        o[j] = fmaf(kq, d[j], p);
        for (size_t i = 0; i < g->dk; i++)
            s[i * SL_TILE + j] = fmaf(k[i], d[j], s[i * SL_TILE + j]);
    }
}

static void gdn(const struct sl_gdn *g)
{
    size_t bytes = g->dk * SL_TILE * sizeof(float);
    float d[SL_TILE];

    if (bytes)
        memmove(g->dst, g->src, bytes); /* they may be one */
    for (size_t r = 0; r < g->n_pend; r++)
        replay(g->dst, g->dk, g->pend_decay[r * g->ld_pend_decay],
               g->pend_k + r * g->ld_pend_k, g->pend_d + r * g->ld_pend_d);
    for (size_t r = 0; r < g->n_firm; r++)
        step(g, g->dst, r, d);
    if (g->n_tent && bytes)
        memcpy(g->scratch, g->dst, bytes);
    for (size_t t = 0; t < g->n_tent; t++) {
        step(g, g->scratch, g->n_firm + t, d);
        memcpy(g->d_out + t * g->ld_d, d, sizeof(d));
    }
}

static void gdn_gates(float *restrict decay, float *restrict beta,
                      const float *restrict a, const float *restrict b,
                      const float *restrict a_neg, const float *restrict dt,
                      size_t n)
{
    for (size_t i = 0; i < n; i++) {
        decay[i] = sl_exp(a_neg[i] * sl_softplus(a[i] + dt[i]));
        beta[i] = sl_sigmoid(b[i]);
    }
}

void sl_kern_init_ref_gdn(struct sl_kern *k)
{
    k->gdn = gdn;
    k->gdn_gates = gdn_gates;
}
