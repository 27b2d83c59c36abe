/* kern/ref/attn.c - keys and values into pages, and attention over them
 *
 * A page of one KV head: keys as four tiles [dim][16 positions], values as
 * [64 positions][dim]; bfp8 has exponents before them (kern.h). The formulas are
 * the same for every element type; only the functions that fetch an element
 * differ.
 */
#include <math.h>
#include <string.h>

#include "kern/math.h"
#include "kern/quant.h"
#include "kern/quantise.h"
#include "kern/ref/ref.h"

/* Element d of the key of a position. */
static size_t key_at(size_t pos, size_t d, size_t dim)
{
    return (pos / SL_TILE * dim + d) * SL_TILE + pos % SL_TILE;
}

static void put_k_f32(void *restrict page, size_t pos, const float *k,
                      size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        ((float *)page)[key_at(pos, d, dim)] = k[d];
}

static void put_k_bf16(void *restrict page, size_t pos, const float *k,
                       size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        ((uint16_t *)page)[key_at(pos, d, dim)] = sl_f32_bf16(k[d]);
}

static void put_v_f32(void *restrict page, size_t pos, const float *v,
                      size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        ((float *)page)[pos * dim + d] = v[d];
}

static void put_v_bf16(void *restrict page, size_t pos, const float *v,
                       size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        ((uint16_t *)page)[pos * dim + d] = sl_f32_bf16(v[d]);
}

/* Code of element i of a block: its sign and magnitude as a number. */
static int8_t code(const struct sl_bfp8_block *b, size_t i)
{
    int m = b->q[i] & 127;

    return (int8_t)(b->q[i] >> 7 ? -m : m);
}

/* Exponents and codes of block b of the keys around a position. */
static size_t key_block(size_t pos, size_t b, size_t dim)
{
    return (pos / SL_TILE * (dim / SL_BFP) + b) * (SL_BFP + 1) * SL_TILE;
}

static void put_k_bfp8(void *restrict page, size_t pos, const float *k,
                       size_t dim)
{
    for (size_t b = 0; b < dim / SL_BFP; b++) {
        int8_t *to = (int8_t *)page + key_block(pos, b, dim) + pos % SL_TILE;
        struct sl_bfp8_block x;

        sl_quantise_row(SL_BFP8, &x, k + b * SL_BFP, NULL, SL_BFP);
        to[0] = (int8_t)x.e;
        for (size_t i = 0; i < SL_BFP; i++)
            to[(i + 1) * SL_TILE] = code(&x, i);
    }
}

static void put_v_bfp8(void *restrict page, size_t pos, const float *v,
                       size_t dim)
{
    size_t n = dim / SL_BFP;
    int8_t *to = (int8_t *)page + pos * (n + dim);

    for (size_t b = 0; b < n; b++) {
        struct sl_bfp8_block x;

        sl_quantise_row(SL_BFP8, &x, v + b * SL_BFP, NULL, SL_BFP);
        to[b] = (int8_t)x.e;
        for (size_t i = 0; i < SL_BFP; i++)
            to[n + b * SL_BFP + i] = code(&x, i);
    }
}

/* Element d of the key or value of a position of a page. */
typedef float element_fn(const void *page, size_t pos, size_t d, size_t dim);

struct elements {
    element_fn *key, *value;
};

static float key_f32(const void *page, size_t pos, size_t d, size_t dim)
{
    return ((const float *)page)[key_at(pos, d, dim)];
}

static float value_f32(const void *page, size_t pos, size_t d, size_t dim)
{
    return ((const float *)page)[pos * dim + d];
}

static float key_bf16(const void *page, size_t pos, size_t d, size_t dim)
{
    return sl_bf16_f32(((const uint16_t *)page)[key_at(pos, d, dim)]);
}

static float value_bf16(const void *page, size_t pos, size_t d, size_t dim)
{
    return sl_bf16_f32(((const uint16_t *)page)[pos * dim + d]);
}

static float key_bfp8(const void *page, size_t pos, size_t d, size_t dim)
{
    const int8_t *at = (const int8_t *)page +
                       key_block(pos, d / SL_BFP, dim) + pos % SL_TILE;

    return sl_quant_bfp_unit((uint8_t)at[0], 6) *
           (float)at[(d % SL_BFP + 1) * SL_TILE];
}

static float value_bfp8(const void *page, size_t pos, size_t d, size_t dim)
{
    const int8_t *at =
        (const int8_t *)page + pos * (dim / SL_BFP + dim);

    return sl_quant_bfp_unit((uint8_t)at[d / SL_BFP], 6) *
           (float)at[dim / SL_BFP + d];
}

/* s_p = (chain over d of q_d * k_pd) * scale; returns their maximum. */
static float scores(element_fn *key, const struct sl_attn *a, size_t t,
                    float *s)
{
    const float *q = a->q + t * a->ld_q;
    float max = -INFINITY;

    for (size_t p = 0; p < a->n_valid[t]; p++) {
        const void *page = a->k[p / SL_KV_PAGE];
        float acc = 0;

        for (size_t d = 0; d < a->dim; d++) {
            float k = key(page, p % SL_KV_PAGE, d, a->dim);

            acc = fmaf(q[d], k, acc);
        }
        s[p] = a->n_skip && p < a->n_skip[t] ? -INFINITY : acc * a->scale;
        max = s[p] > max ? s[p] : max;
    }
    return max;
}

/* o_d = chain over p of e_p * v_pd */
static void mix(element_fn *value, const struct sl_attn *a, size_t t,
                const float *e)
{
    for (size_t d = 0; d < a->dim; d++) {
        float acc = 0;

        for (size_t p = 0; p < a->n_valid[t]; p++) {
            const void *page = a->v[p / SL_KV_PAGE];
            float v = value(page, p % SL_KV_PAGE, d, a->dim);

            acc = fmaf(e[p], v, acc);
        }
        a->o[t * a->dim + d] = acc;
    }
}

static void attn(struct elements of, const struct sl_attn *a)
{
    for (size_t t = 0; t < a->n_q; t++) {
        float *e = a->scratch + t * SL_KV_BLOCK;
        float lane[16] = {0};
        float m = scores(of.key, a, t, e);

        for (size_t p = 0; p < a->n_valid[t]; p++) {
            e[p] = sl_exp(e[p] - m);
            lane[p % 16] += e[p];
        }
        a->m[t] = m;
        a->l[t] = sl_lanes_sum__ref(lane);
        mix(of.value, a, t, e);
    }
}

static void attn_f32(const struct sl_attn *a)
{
    attn((struct elements){key_f32, value_f32}, a);
}

static void attn_bf16(const struct sl_attn *a)
{
    attn((struct elements){key_bf16, value_bf16}, a);
}

static void attn_bfp8(const struct sl_attn *a)
{
    attn((struct elements){key_bfp8, value_bfp8}, a);
}

static void attn_merge(float *restrict m, float *restrict l, float *restrict o,
                       float m2, float l2, const float *restrict o2, size_t dim)
{
    float max = m2 > *m ? m2 : *m;
    float a = sl_exp(*m - max);
    float b = sl_exp(m2 - max);

    *l = fmaf(l2, b, *l * a);
    for (size_t d = 0; d < dim; d++)
        o[d] = fmaf(o2[d], b, o[d] * a);
    *m = max;
}

void sl_kern_init_ref_attn(struct sl_kern *k)
{
    k->put_k[SL_F32] = put_k_f32;
    k->put_k[SL_BF16] = put_k_bf16;
    k->put_v[SL_F32] = put_v_f32;
    k->put_v[SL_BF16] = put_v_bf16;
    k->attn[SL_F32] = attn_f32;
    k->attn[SL_BF16] = attn_bf16;
    k->put_k[SL_BFP8] = put_k_bfp8;
    k->put_v[SL_BFP8] = put_v_bfp8;
    k->attn[SL_BFP8] = attn_bfp8;
    k->attn_merge = attn_merge;
}
