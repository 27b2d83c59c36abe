/* kern/ref/quant_mul.c - products with quantised weights, and rows out of them
 *
 * For each type: `u_...`, the integer of an element as it is stored;
 * `step_...`, what one block of 32 columns does to an accumulator; `value_...`,
 * what an element is worth. The layouts are drawn in kern/quant.h.
 */
#include <math.h>

#include "kern/math.h"
#include "kern/quant.h"
#include "kern/ref/ref.h"

/* Quantised activations of 32 columns. */
struct act {
    const int8_t *q;
    float scale;
    int sum[2];
};

/* Column c of 32, row r of 8, stored as halves of bytes. */
static int nibble(const uint8_t q[4][8][4], size_t r, size_t c)
{
    int byte = q[c % 16 / 4][r][c % 4];

    return c < 16 ? byte & 15 : byte >> 4;
}

/* --- q8_0 --- */

static int u_q8_0(const struct sl_q8_0_group *g, size_t r, size_t c)
{
    return g->q[c / 4][r][c % 4];
}

static float step_q8_0(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q8_0_group *g = (const struct sl_q8_0_group *)w + b;
    int i = 0;

    for (size_t c = 0; c < 32; c++)
        i += (u_q8_0(g, r, c) - 128) * x->q[c];
    return fmaf(sl_f16_f32(g->d[r]) * x->scale, (float)i, acc);
}

static float value_q8_0(const void *w, size_t r, size_t c)
{
    const struct sl_q8_0_group *g = (const struct sl_q8_0_group *)w + c / 32;

    return sl_f16_f32(g->d[r]) * (float)(u_q8_0(g, r, c % 32) - 128);
}

/* --- q4_0 --- */

static float step_q4_0(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q4_0_group *g = (const struct sl_q4_0_group *)w + b;
    int i = 0;

    for (size_t c = 0; c < 32; c++)
        i += (nibble(g->q, r, c) - 8) * x->q[c];
    return fmaf(sl_f16_f32(g->d[r]) * x->scale, (float)i, acc);
}

static float value_q4_0(const void *w, size_t r, size_t c)
{
    const struct sl_q4_0_group *g = (const struct sl_q4_0_group *)w + c / 32;

    return sl_f16_f32(g->d[r]) * (float)(nibble(g->q, r, c % 32) - 8);
}

/* --- q5_0, iq4_nl and mxfp4: as q4_0, with other integers --- */

/* The fifth bit, or the third of q3_k. */
static int extra(const uint8_t h[8][4], size_t r, size_t c)
{
    return h[r][c % 4] >> c / 4 & 1;
}

static int i_q5_0(const struct sl_q5_0_group *g, size_t r, size_t c)
{
    return (nibble(g->q, r, c) | extra(g->h, r, c) << 4) - 16;
}

static float step_q5_0(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q5_0_group *g = (const struct sl_q5_0_group *)w + b;
    int i = 0;

    for (size_t c = 0; c < 32; c++)
        i += i_q5_0(g, r, c) * x->q[c];
    return fmaf(sl_f16_f32(g->d[r]) * x->scale, (float)i, acc);
}

static float value_q5_0(const void *w, size_t r, size_t c)
{
    const struct sl_q5_0_group *g = (const struct sl_q5_0_group *)w + c / 32;

    return sl_f16_f32(g->d[r]) * (float)i_q5_0(g, r, c % 32);
}

/* Sum of t[u] q. */
static int sum_table(const int8_t t[16], const uint8_t q[4][8][4], size_t r,
                     const struct act *x)
{
    int i = 0;

    for (size_t c = 0; c < 32; c++)
        i += t[nibble(q, r, c)] * x->q[c];
    return i;
}

static float step_iq4_nl(float acc, const void *w, size_t b, size_t r,
                         const struct act *x)
{
    const struct sl_q4_0_group *g = (const struct sl_q4_0_group *)w + b;
    int i = sum_table(sl_quant_iq4, g->q, r, x);

    return fmaf(sl_f16_f32(g->d[r]) * x->scale, (float)i, acc);
}

static float value_iq4_nl(const void *w, size_t r, size_t c)
{
    const struct sl_q4_0_group *g = (const struct sl_q4_0_group *)w + c / 32;

    return sl_f16_f32(g->d[r]) * (float)sl_quant_iq4[nibble(g->q, r, c % 32)];
}

static float scale_iq4_xs(const struct sl_iq4_xs_group *g, size_t b, size_t r)
{
    int sc = (int)sl_quant_six(&g->s[0][r], 8, 8, b) - 32;

    return sl_f16_f32(g->d[r]) * (float)sc;
}

static float step_iq4_xs(float acc, const void *w, size_t b, size_t r,
                         const struct act *x)
{
    const struct sl_iq4_xs_group *g = (const struct sl_iq4_xs_group *)w + b / 8;
    int i = sum_table(sl_quant_iq4, g->q[b % 8], r, x);

    return fmaf(scale_iq4_xs(g, b % 8, r) * x->scale, (float)i, acc);
}

static float value_iq4_xs(const void *w, size_t r, size_t c)
{
    const struct sl_iq4_xs_group *g =
        (const struct sl_iq4_xs_group *)w + c / 256;
    size_t b = c / 32 % 8;

    return scale_iq4_xs(g, b, r) *
           (float)sl_quant_iq4[nibble(g->q[b], r, c % 32)];
}

static float step_mxfp4(float acc, const void *w, size_t b, size_t r,
                        const struct act *x)
{
    const struct sl_mxfp4_group *g = (const struct sl_mxfp4_group *)w + b;
    int i = sum_table(sl_quant_e2m1, g->q, r, x);

    return fmaf(sl_quant_mxfp4_unit(g->e[r]) * x->scale, (float)i, acc);
}

static float value_mxfp4(const void *w, size_t r, size_t c)
{
    const struct sl_mxfp4_group *g = (const struct sl_mxfp4_group *)w + c / 32;

    return sl_quant_mxfp4_unit(g->e[r]) *
           (float)sl_quant_e2m1[nibble(g->q, r, c % 32)];
}

/* --- q4_k and q5_k: scales dw = d * sc and minima mw = dmin * m, exact --- */

static float k_scale(uint16_t d, const uint8_t s[12][8], size_t b, size_t r)
{
    return sl_f16_f32(d) * (float)sl_quant_k_scale(&s[0][r], 8, b);
}

static float k_min(uint16_t dmin, const uint8_t s[12][8], size_t b, size_t r)
{
    return sl_f16_f32(dmin) * (float)sl_quant_k_min(&s[0][r], 8, b);
}

static float k_step(float acc, float dw, float mw, int i, const struct act *x)
{
    acc = fmaf(dw * x->scale, (float)i, acc);
    return fmaf(-mw, x->scale * (float)(x->sum[0] + x->sum[1]), acc);
}

static float step_q4_k(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q4_k_group *g = (const struct sl_q4_k_group *)w + b / 8;
    int i = 0;

    b %= 8;
    for (size_t c = 0; c < 32; c++)
        i += nibble(g->q[b], r, c) * x->q[c];
    return k_step(acc, k_scale(g->d[r], g->s, b, r),
                  k_min(g->dmin[r], g->s, b, r), i, x);
}

static float value_q4_k(const void *w, size_t r, size_t c)
{
    const struct sl_q4_k_group *g = (const struct sl_q4_k_group *)w + c / 256;
    size_t b = c / 32 % 8;
    float p = k_scale(g->d[r], g->s, b, r) * (float)nibble(g->q[b], r, c % 32);

    return p - k_min(g->dmin[r], g->s, b, r);
}

static int u_q5_k(const struct sl_q5_k_group *g, size_t b, size_t r, size_t c)
{
    return nibble(g->q[b], r, c) | extra(g->h[b], r, c) << 4;
}

static float step_q5_k(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q5_k_group *g = (const struct sl_q5_k_group *)w + b / 8;
    int i = 0;

    b %= 8;
    for (size_t c = 0; c < 32; c++)
        i += u_q5_k(g, b, r, c) * x->q[c];
    return k_step(acc, k_scale(g->d[r], g->s, b, r),
                  k_min(g->dmin[r], g->s, b, r), i, x);
}

static float value_q5_k(const void *w, size_t r, size_t c)
{
    const struct sl_q5_k_group *g = (const struct sl_q5_k_group *)w + c / 256;
    size_t b = c / 32 % 8;
    float p = k_scale(g->d[r], g->s, b, r) * (float)u_q5_k(g, b, r, c % 32);

    return p - k_min(g->dmin[r], g->s, b, r);
}

/* --- q4_1 and q5_1: d and -m for the scale and minimum of q4_k --- */

static float step_q4_1(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q4_1_group *g = (const struct sl_q4_1_group *)w + b;
    int i = 0;

    for (size_t c = 0; c < 32; c++)
        i += nibble(g->q, r, c) * x->q[c];
    return k_step(acc, sl_f16_f32(g->d[r]), -sl_f16_f32(g->m[r]), i, x);
}

static float value_q4_1(const void *w, size_t r, size_t c)
{
    const struct sl_q4_1_group *g = (const struct sl_q4_1_group *)w + c / 32;
    float p = sl_f16_f32(g->d[r]) * (float)nibble(g->q, r, c % 32);

    return p + sl_f16_f32(g->m[r]);
}

static int u_q5_1(const struct sl_q5_1_group *g, size_t r, size_t c)
{
    return nibble(g->q, r, c) | extra(g->h, r, c) << 4;
}

static float step_q5_1(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q5_1_group *g = (const struct sl_q5_1_group *)w + b;
    int i = 0;

    for (size_t c = 0; c < 32; c++)
        i += u_q5_1(g, r, c) * x->q[c];
    return k_step(acc, sl_f16_f32(g->d[r]), -sl_f16_f32(g->m[r]), i, x);
}

static float value_q5_1(const void *w, size_t r, size_t c)
{
    const struct sl_q5_1_group *g = (const struct sl_q5_1_group *)w + c / 32;
    float p = sl_f16_f32(g->d[r]) * (float)u_q5_1(g, r, c % 32);

    return p + sl_f16_f32(g->m[r]);
}

/* --- q6_k, q3_k and q2_k: an integer scale for each half --- */

/* Two bits of column c of 32. */
static int two_bits(const uint8_t h[2][8][4], size_t r, size_t c)
{
    return h[c / 16][r][c % 4] >> c % 16 / 4 * 2 & 3;
}

static int u_q6_k(const struct sl_q6_k_group *g, size_t b, size_t r, size_t c)
{
    return nibble(g->q[b], r, c) | two_bits(g->h[b], r, c) << 4;
}

static float step_q6_k(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q6_k_group *g = (const struct sl_q6_k_group *)w + b / 8;
    int i[2] = {0, 0};

    b %= 8;
    for (size_t c = 0; c < 32; c++)
        i[c / 16] += (u_q6_k(g, b, r, c) - 32) * x->q[c];
    i[0] = g->sc[b][r][0] * i[0] + g->sc[b][r][1] * i[1];
    return fmaf(sl_f16_f32(g->d[r]) * x->scale, (float)i[0], acc);
}

static float value_q6_k(const void *w, size_t r, size_t c)
{
    const struct sl_q6_k_group *g = (const struct sl_q6_k_group *)w + c / 256;
    size_t b = c / 32 % 8;
    float d = sl_f16_f32(g->d[r]) * (float)g->sc[b][r][c % 32 / 16];

    return d * (float)(u_q6_k(g, b, r, c % 32) - 32);
}

static int i_q3_k(const struct sl_q3_k_group *g, size_t b, size_t r, size_t c)
{
    return (two_bits(g->q[b], r, c) | extra(g->h[b], r, c) << 2) - 4;
}

/* Scale of 16 columns. */
static int scale_q3_k(const struct sl_q3_k_group *g, size_t r, size_t k)
{
    return (int)sl_quant_six(&g->s[0][r], 8, 16, k) - 32;
}

static float step_q3_k(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q3_k_group *g = (const struct sl_q3_k_group *)w + b / 8;
    int i = 0;

    b %= 8;
    for (size_t c = 0; c < 32; c++)
        i += scale_q3_k(g, r, 2 * b + c / 16) * i_q3_k(g, b, r, c) * x->q[c];
    return fmaf(sl_f16_f32(g->d[r]) * x->scale, (float)i, acc);
}

static float value_q3_k(const void *w, size_t r, size_t c)
{
    const struct sl_q3_k_group *g = (const struct sl_q3_k_group *)w + c / 256;
    float d = sl_f16_f32(g->d[r]) * (float)scale_q3_k(g, r, c / 16 % 16);

    return d * (float)i_q3_k(g, c / 32 % 8, r, c % 32);
}

static float step_q2_k(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_q2_k_group *g = (const struct sl_q2_k_group *)w + b / 8;
    int i = 0, s = 0;

    b %= 8;
    for (size_t c = 0; c < 32; c++)
        i += (g->s[2 * b + c / 16][r] & 15) * two_bits(g->q[b], r, c) * x->q[c];
    for (size_t h = 0; h < 2; h++)
        s += (g->s[2 * b + h][r] >> 4) * x->sum[h];
    acc = fmaf(sl_f16_f32(g->d[r]) * x->scale, (float)i, acc);
    return fmaf(-sl_f16_f32(g->dmin[r]), x->scale * (float)s, acc);
}

static float value_q2_k(const void *w, size_t r, size_t c)
{
    const struct sl_q2_k_group *g = (const struct sl_q2_k_group *)w + c / 256;
    int s = g->s[c / 16 % 16][r];
    float d = sl_f16_f32(g->d[r]) * (float)(s & 15);

    return d * (float)two_bits(g->q[c / 32 % 8], r, c % 32) -
           sl_f16_f32(g->dmin[r]) * (float)(s >> 4);
}

/* --- bfp8 and bfp4 --- */

static float bfp_step(float acc, float unit0, float unit1, const int i[2],
                      float scale)
{
    acc = fmaf(unit0 * scale, (float)i[0], acc);
    return fmaf(unit1 * scale, (float)i[1], acc);
}

static float step_bfp8(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_bfp8_group *g = (const struct sl_bfp8_group *)w + b;
    int i[2] = {0, 0};

    for (size_t c = 0; c < 32; c++)
        i[c / 16] += (g->q[c / 4][r][c % 4] - 128) * x->q[c];
    return bfp_step(acc, sl_quant_bfp_unit(g->e[0][r], 6),
                    sl_quant_bfp_unit(g->e[1][r], 6), i, x->scale);
}

static float value_bfp8(const void *w, size_t r, size_t c)
{
    const struct sl_bfp8_group *g = (const struct sl_bfp8_group *)w + c / 32;
    float unit = sl_quant_bfp_unit(g->e[c % 32 / 16][r], 6);

    return unit * (float)(g->q[c % 32 / 4][r][c % 4] - 128);
}

static float step_bfp4(float acc, const void *w, size_t b, size_t r,
                       const struct act *x)
{
    const struct sl_bfp4_group *g = (const struct sl_bfp4_group *)w + b;
    int i[2] = {0, 0};

    for (size_t c = 0; c < 32; c++)
        i[c / 16] += (nibble(g->q, r, c) - 8) * x->q[c];
    return bfp_step(acc, sl_quant_bfp_unit(g->e[0][r], 2),
                    sl_quant_bfp_unit(g->e[1][r], 2), i, x->scale);
}

static float value_bfp4(const void *w, size_t r, size_t c)
{
    const struct sl_bfp4_group *g = (const struct sl_bfp4_group *)w + c / 32;
    float unit = sl_quant_bfp_unit(g->e[c % 32 / 16][r], 2);

    return unit * (float)(nibble(g->q, r, c % 32) - 8);
}

/* --- what the types have in common --- */

typedef float step_fn(float acc, const void *w, size_t b, size_t r,
                      const struct act *x);
typedef float value_fn(const void *w, size_t r, size_t c);

/* The group of eight rows that holds this one. */
static const void *group_of(enum sl_dtype t, const void *w, size_t row,
                            size_t cols)
{
    return (const unsigned char *)w +
           sl_dtype_bytes(t, row / SL_GROUP * SL_GROUP * cols);
}

static void mulq(enum sl_dtype type, step_fn *step, float *restrict y,
                 size_t ldy, const void *restrict w, const struct sl_qact *x,
                 size_t n_tok, size_t rows, size_t cols)
{
    for (size_t t = 0; t < n_tok; t++) {
        const int8_t *q = x->q + t * x->ld;
        const float *scale = x->scale + t * (x->ld / 32);
        const int16_t *sum = x->sum + t * (x->ld / 16);

        for (size_t r = 0; r < rows; r++) {
            const void *g = group_of(type, w, r, cols);
            float acc = 0;

            for (size_t b = 0; b < cols / SL_QBLOCK; b++) {
                struct act a = {.q = q + b * 32,
                                .scale = scale[b],
                                .sum = {sum[2 * b], sum[2 * b + 1]}};

                acc = step(acc, g, b, r % SL_GROUP, &a);
            }
            y[t * ldy + r] = acc;
        }
    }
}

static void row(enum sl_dtype type, value_fn *value, float *restrict y,
                const void *restrict w, size_t r, size_t cols)
{
    const void *g = group_of(type, w, r, cols);

    for (size_t c = 0; c < cols; c++)
        y[c] = value(g, r % SL_GROUP, c);
}

#define TYPE SL_Q8_0
#define NAME(x) x##_q8_0
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q6_K
#define NAME(x) x##_q6_k
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q5_K
#define NAME(x) x##_q5_k
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q4_K
#define NAME(x) x##_q4_k
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q4_0
#define NAME(x) x##_q4_0
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_BFP8
#define NAME(x) x##_bfp8
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_BFP4
#define NAME(x) x##_bfp4
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q5_1
#define NAME(x) x##_q5_1
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q5_0
#define NAME(x) x##_q5_0
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q4_1
#define NAME(x) x##_q4_1
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q3_K
#define NAME(x) x##_q3_k
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_Q2_K
#define NAME(x) x##_q2_k
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_IQ4_NL
#define NAME(x) x##_iq4_nl
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_IQ4_XS
#define NAME(x) x##_iq4_xs
#include "kern/ref/quant_tmpl.h"
#define TYPE SL_MXFP4
#define NAME(x) x##_mxfp4
#include "kern/ref/quant_tmpl.h"

void sl_kern_init_ref_quant_mul(struct sl_kern *k)
{
    k->mulq[SL_Q8_0] = mulq_q8_0;
    k->row[SL_Q8_0] = row_q8_0;
    k->mulq[SL_Q6_K] = mulq_q6_k;
    k->row[SL_Q6_K] = row_q6_k;
    k->mulq[SL_Q5_K] = mulq_q5_k;
    k->row[SL_Q5_K] = row_q5_k;
    k->mulq[SL_Q4_K] = mulq_q4_k;
    k->row[SL_Q4_K] = row_q4_k;
    k->mulq[SL_Q4_0] = mulq_q4_0;
    k->row[SL_Q4_0] = row_q4_0;
    k->mulq[SL_BFP8] = mulq_bfp8;
    k->row[SL_BFP8] = row_bfp8;
    k->mulq[SL_BFP4] = mulq_bfp4;
    k->row[SL_BFP4] = row_bfp4;
    k->mulq[SL_Q5_1] = mulq_q5_1;
    k->row[SL_Q5_1] = row_q5_1;
    k->mulq[SL_Q5_0] = mulq_q5_0;
    k->row[SL_Q5_0] = row_q5_0;
    k->mulq[SL_Q4_1] = mulq_q4_1;
    k->row[SL_Q4_1] = row_q4_1;
    k->mulq[SL_Q3_K] = mulq_q3_k;
    k->row[SL_Q3_K] = row_q3_k;
    k->mulq[SL_Q2_K] = mulq_q2_k;
    k->row[SL_Q2_K] = row_q2_k;
    k->mulq[SL_IQ4_NL] = mulq_iq4_nl;
    k->row[SL_IQ4_NL] = row_iq4_nl;
    k->mulq[SL_IQ4_XS] = mulq_iq4_xs;
    k->row[SL_IQ4_XS] = row_iq4_xs;
    k->mulq[SL_MXFP4] = mulq_mxfp4;
    k->row[SL_MXFP4] = row_mxfp4;
}
