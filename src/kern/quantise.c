/* kern/quantise.c - numbers -> blocks and back; see quantise.h
 *
 * Every scale is rounded to its stored form before the elements are divided by
 * it, so an element is the nearest to its value that the stored scale allows.
 * Scales of q4_0 and of the K types are fitted to the error (quant_fit.h); what
 * the rounding of scales of scales loses is looked for again among their
 * neighbours, and the scale of all is fitted once more to what was chosen. q8_0
 * and bfp have nothing to search for: the extreme decides.
 *
 * Packing is in kern/quant_pack.c.
 */
#include "kern/quantise.h"

#include <math.h>
#include <string.h>

#include "kern/coef.h"
#include "kern/math.h"
#include "kern/quant.h"
#include "kern/quant_file.h"
#include "kern/quant_fit.h"

#define F16_MAX 65504.0f

static uint32_t bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

/* Round to the nearest half, ties to even; beyond the largest, the largest. */
static uint16_t to_f16(float f)
{
    uint16_t sign = bits(f) >> 31 ? 0x8000 : 0;
    float mag = fabsf(f);
    uint32_t u;

    if (!(mag < F16_MAX))
        return (uint16_t)(sign | 0x7bff);
    if (mag < 0x1p-14f) /* denormal: the last bit of 0.5 + mag counts 2^-24 */
        return (uint16_t)(sign | (bits(mag + 0.5f) - bits(0.5f)));
    u = bits(mag);
    u += 0xfff + (u >> 13 & 1);
    return (uint16_t)(sign | (u - (112u << 23)) >> 13);
}

/* The first of the elements with the largest magnitude. */
static float extreme(const float *x, size_t n)
{
    float v = 0;

    for (size_t i = 0; i < n; i++)
        v = fabsf(x[i]) > fabsf(v) ? x[i] : v;
    return v;
}

/* --- q8_0: d = amax / 127 --- */

static void quantise_q8_0(void *dst, const float *x, const float *w)
{
    struct sl_q8_0_block *k = dst;
    float d;

    (void)w;
    k->d = to_f16(fabsf(extreme(x, 32)) / 127);
    d = sl_f16_f32(k->d);
    for (size_t i = 0; i < 32; i++)
        k->q[i] = (int8_t)sl_fit_divide(x[i], d, -127, 127, 0);
}

static void dequantise_q8_0(float *y, const void *src)
{
    const struct sl_q8_0_block *k = src;

    for (size_t i = 0; i < 32; i++)
        y[i] = sl_f16_f32(k->d) * (float)k->q[i];
}

/* --- q4_0: the extreme becomes -8, the only end without an opposite --- */

static void put_q4_0(void *dst, const float *x, float scale)
{
    struct sl_q4_0_block *k = dst;
    float d;

    k->d = to_f16(scale);
    d = sl_f16_f32(k->d);
    for (size_t i = 0; i < 16; i++) {
        int lo = sl_fit_divide(x[i], d, -8, 7, 0) + 8;
        int hi = sl_fit_divide(x[i + 16], d, -8, 7, 0) + 8;

        k->q[i] = (uint8_t)(lo | hi << 4);
    }
}

static void quantise_q4_0(void *dst, const float *x, const float *w)
{
    put_q4_0(dst, x, sl_fit_scale(x, w, 32, -8, 7));
}

static void quick_q4_0(void *dst, const float *x, const float *w)
{
    put_q4_0(dst, x, sl_fit_quick(x, w, 32, -8, 7));
}

static void dequantise_q4_0(float *y, const void *src)
{
    const struct sl_q4_0_block *k = src;
    float d = sl_f16_f32(k->d);

    for (size_t i = 0; i < 16; i++) {
        y[i] = d * (float)((k->q[i] & 15) - 8);
        y[i + 16] = d * (float)((k->q[i] >> 4) - 8);
    }
}

/* --- q4_k and q5_k --- */

/* What the two have in common: elements 0 to `top` on the range of each
 * sub-block, which holds 0. */
struct k_scales {
    uint16_t d, dmin;
    uint8_t sc[8], m[8];
};

/* How much the error of each element counts: as its column does, and the more
 * the larger it is beside the others of its sub-block. A weight grows with the
 * inputs that it was trained on, its gradient being input times error, so a
 * large one hints at large inputs, in this row more than the mean of its column
 * can say. Squares alone clip the largest for the sake of the many. With the
 * magnitude the outputs of a model differ less, with or without a calibration;
 * twice of it was no better, and six bits gain nothing (doc/perf-log.md). */
static void weigh_k(float v[256], const float *x, const float *w)
{
    for (size_t b = 0; b < 256; b += 32) {
        double sum = 0, rms;

        for (size_t i = b; i < b + 32; i++)
            sum += (double)x[i] * (double)x[i];
        rms = sqrt(sum / 32);
        for (size_t i = b; i < b + 32; i++)
            v[i] = rms > 0
                       ? (float)((double)w[i] * (1 + fabs((double)x[i]) / rms))
                       : w[i];
    }
}

/* Eight non-negative numbers as a half and six bits each. */
static uint16_t six_bits(uint8_t q[8], const float v[8])
{
    uint16_t h = to_f16(extreme(v, 8) / 63);

    for (size_t b = 0; b < 8; b++)
        q[b] = (uint8_t)sl_fit_divide(v[b], sl_f16_f32(h), 0, 63, 0);
    return h;
}

/* The neighbours of a sub-block's scale and minimum that lose least. */
static void search_k(struct k_scales *s, size_t b, const float *x,
                     const float *w, int top)
{
    float d = sl_f16_f32(s->d), dmin = sl_f16_f32(s->dmin);
    int sc = s->sc[b], m = s->m[b];
    double best =
        sl_fit_error(x, w, 32, d * (float)sc, dmin * (float)m, 0, top);

    for (int i = 0; i < 9; i++) {
        int c = sc + i / 3 - 1, n = m + i % 3 - 1;
        double e;

        if (i == 4 || c < 0 || c > 63 || n < 0 || n > 63)
            continue;
        e = sl_fit_error(x, w, 32, d * (float)c, dmin * (float)n, 0, top);
        if (e < best) {
            best = e;
            s->sc[b] = (uint8_t)c;
            s->m[b] = (uint8_t)n;
        }
    }
}

static void elements_k(const struct k_scales *s, uint8_t u[256], const float *x,
                       int top)
{
    for (size_t i = 0; i < 256; i++) {
        float dw = sl_f16_f32(s->d) * (float)s->sc[i / 32];
        float mw = sl_f16_f32(s->dmin) * (float)s->m[i / 32];

        u[i] = (uint8_t)sl_fit_divide(x[i] + mw, dw, 0, top, 0);
    }
}

static double error_k(const struct k_scales *s, const float *x, const float *w,
                      int top)
{
    double e = 0;

    for (size_t b = 0; b < 8; b++)
        e += sl_fit_error(x + 32 * b, w + 32 * b, 32,
                          sl_f16_f32(s->d) * (float)s->sc[b],
                          sl_f16_f32(s->dmin) * (float)s->m[b], 0, top);
    return e;
}

/* d and dmin that fit what was chosen: least squares over
 * d * (sc u) - dmin * m. */
static void refit_k(struct k_scales *s, const uint8_t u[256], const float *x,
                    const float *w, int top)
{
    double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0, det;
    struct k_scales t = *s;

    for (size_t i = 0; i < 256; i++) {
        double a = (double)s->sc[i / 32] * u[i], b = s->m[i / 32];

        aa += (double)w[i] * (a * a);
        ab += (double)w[i] * (a * b);
        bb += (double)w[i] * (b * b);
        xa += (double)w[i] * ((double)x[i] * a);
        xb += (double)w[i] * ((double)x[i] * b);
    }
    det = aa * bb - ab * ab;
    if (!(det > 0))
        return;
    t.d = to_f16((float)((xa * bb - xb * ab) / det));
    t.dmin = to_f16((float)((xa * ab - xb * aa) / det));
    if (t.d >> 15 || t.dmin >> 15)
        return;
    if (error_k(&t, x, w, top) < error_k(s, x, w, top))
        *s = t;
}

/* Scales and all elements (u, 0 to top) of 256 values. */
static void quantise_k(struct k_scales *s, uint8_t u[256], const float *x,
                       const float *importance, int top)
{
    float scale[8], min[8], w[256];

    weigh_k(w, x, importance);
    for (size_t b = 0; b < 8; b++)
        sl_fit_affine(&scale[b], &min[b], x + 32 * b, w + 32 * b, 32, top);
    s->d = six_bits(s->sc, scale);
    s->dmin = six_bits(s->m, min);
    for (size_t b = 0; b < 8; b++)
        search_k(s, b, x + 32 * b, w + 32 * b, top);
    elements_k(s, u, x, top);
    refit_k(s, u, x, w, top);
    for (size_t b = 0; b < 8; b++)
        search_k(s, b, x + 32 * b, w + 32 * b, top);
    elements_k(s, u, x, top);
}

/* The inverse of sl_quant_k_scale and sl_quant_k_min. */
static void put_scales(uint8_t s[12], const uint8_t sc[8], const uint8_t m[8])
{
    for (size_t b = 0; b < 4; b++) {
        s[b] = (uint8_t)(sc[b] | sc[b + 4] >> 4 << 6);
        s[b + 4] = (uint8_t)(m[b] | m[b + 4] >> 4 << 6);
        s[b + 8] = (uint8_t)((sc[b + 4] & 15) | (m[b + 4] & 15) << 4);
    }
}

/* The low four bits of all elements. */
static void put_nibbles(uint8_t q[128], const uint8_t u[256])
{
    for (size_t i = 0; i < 128; i++) {
        const uint8_t *at = u + i / 32 * 64 + i % 32;

        q[i] = (uint8_t)((at[0] & 15) | (at[32] & 15) << 4);
    }
}

/* Element i of 256. */
static unsigned get_nibble(const uint8_t q[128], size_t i)
{
    return (unsigned)q[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}

static void quantise_q4_k(void *dst, const float *x, const float *w)
{
    struct sl_q4_k_block *k = dst;
    struct k_scales s;
    uint8_t u[256];

    quantise_k(&s, u, x, w, 15);
    k->d = s.d;
    k->dmin = s.dmin;
    put_scales(k->s, s.sc, s.m);
    put_nibbles(k->q, u);
}

static void quantise_q5_k(void *dst, const float *x, const float *w)
{
    struct sl_q5_k_block *k = dst;
    struct k_scales s;
    uint8_t u[256];

    quantise_k(&s, u, x, w, 31);
    k->d = s.d;
    k->dmin = s.dmin;
    put_scales(k->s, s.sc, s.m);
    put_nibbles(k->q, u);
    memset(k->h, 0, sizeof(k->h));
    for (size_t i = 0; i < 256; i++)
        k->h[i % 32] = (uint8_t)(k->h[i % 32] | u[i] >> 4 << i / 32);
}

/* (d * sc) * u - dmin * m */
static float value_k(uint16_t d, uint16_t dmin, const uint8_t s[12], size_t i,
                     unsigned u)
{
    float dw = sl_f16_f32(d) * (float)sl_quant_k_scale(s, 1, i / 32);
    float mw = sl_f16_f32(dmin) * (float)sl_quant_k_min(s, 1, i / 32);

    return dw * (float)u - mw;
}

static void dequantise_q4_k(float *y, const void *src)
{
    const struct sl_q4_k_block *k = src;

    for (size_t i = 0; i < 256; i++)
        y[i] = value_k(k->d, k->dmin, k->s, i, get_nibble(k->q, i));
}

static void dequantise_q5_k(float *y, const void *src)
{
    const struct sl_q5_k_block *k = src;

    for (size_t i = 0; i < 256; i++) {
        unsigned h = (unsigned)k->h[i % 32] >> i / 32 & 1;

        y[i] = value_k(k->d, k->dmin, k->s, i, get_nibble(k->q, i) | h << 4);
    }
}

/* --- q6_k: sixteen signed scales of eight bits --- */

static double error_q6_k(const struct sl_q6_k_block *k, float d, const float *x,
                         const float *w)
{
    double e = 0;

    for (size_t b = 0; b < 16; b++)
        e += sl_fit_error(x + 16 * b, w + 16 * b, 16, d * (float)k->sc[b], 0,
                          -32, 31);
    return e;
}

/* The neighbour of each scale that loses least. */
static void search_q6_k(struct sl_q6_k_block *k, const float *x, const float *w)
{
    float d = sl_f16_f32(k->d);

    for (size_t b = 0; b < 16; b++) {
        int at = k->sc[b];
        double best =
            sl_fit_error(x + 16 * b, w + 16 * b, 16, d * (float)at, 0, -32, 31);

        for (int c = at - 1; c <= at + 1; c += 2) {
            double e;

            if (c < -127 || c > 127)
                continue;
            e = sl_fit_error(x + 16 * b, w + 16 * b, 16, d * (float)c, 0, -32,
                             31);
            if (e < best) {
                best = e;
                k->sc[b] = (int8_t)c;
            }
        }
    }
}

/* d that fits what was chosen. */
static void refit_q6_k(struct sl_q6_k_block *k, const float *x, const float *w)
{
    float d = sl_f16_f32(k->d);
    double xa = 0, aa = 0;
    uint16_t h;

    for (size_t i = 0; i < 256; i++) {
        float ds = d * (float)k->sc[i / 16];
        double a = (double)k->sc[i / 16] * sl_fit_divide(x[i], ds, -32, 31, 0);

        xa += (double)w[i] * ((double)x[i] * a);
        aa += (double)w[i] * (a * a);
    }
    if (!(aa > 0) || !(xa > 0))
        return;
    h = to_f16((float)(xa / aa));
    if (error_q6_k(k, sl_f16_f32(h), x, w) < error_q6_k(k, d, x, w))
        k->d = h;
}

static void quantise_q6_k(void *dst, const float *x, const float *w)
{
    struct sl_q6_k_block *k = dst;
    float scale[16], d;

    for (size_t b = 0; b < 16; b++)
        scale[b] = sl_fit_scale(x + 16 * b, w + 16 * b, 16, -32, 31);
    k->d = to_f16(fabsf(extreme(scale, 16)) / 127);
    d = sl_f16_f32(k->d);
    for (size_t b = 0; b < 16; b++)
        k->sc[b] = (int8_t)sl_fit_divide(scale[b], d, -127, 127, 0);
    search_q6_k(k, x, w);
    refit_q6_k(k, x, w);
    d = sl_f16_f32(k->d);
    memset(k->ql, 0, sizeof(k->ql));
    memset(k->qh, 0, sizeof(k->qh));
    for (size_t i = 0; i < 256; i++) {
        float ds = d * (float)k->sc[i / 16];
        unsigned u = (unsigned)(sl_fit_divide(x[i], ds, -32, 31, 0) + 32);
        size_t half = i / 128, part = i / 32 % 4, l = i % 32;
        uint8_t *lo = &k->ql[64 * half + 32 * (part % 2) + l];
        uint8_t *hi = &k->qh[32 * half + l];

        *lo = (uint8_t)(*lo | (u & 15) << part / 2 * 4);
        *hi = (uint8_t)(*hi | (u >> 4) << 2 * part);
    }
}

static void dequantise_q6_k(float *y, const void *src)
{
    const struct sl_q6_k_block *k = src;

    for (size_t i = 0; i < 256; i++) {
        size_t half = i / 128, part = i / 32 % 4, l = i % 32;
        int lo = k->ql[64 * half + 32 * (part % 2) + l] >> part / 2 * 4 & 15;
        int hi = k->qh[32 * half + l] >> 2 * part & 3;
        float ds = sl_f16_f32(k->d) * (float)k->sc[i / 16];

        y[i] = ds * (float)((lo | hi << 4) - 32);
    }
}

/* --- bfp8 and bfp4 --- */

/* As the host code of Tenstorrent's tt-metal rounds, `width` bits of magnitude:
 * align to the largest exponent cutting off, then round to nearest, ties to
 * even, and never past the largest magnitude. Denormals count as zero. */
static unsigned bfp_magnitude(float f, unsigned e_max, unsigned width)
{
    unsigned e = bits(f) >> 23 & 255, k = 24 - width, shift = e_max - e;
    uint32_t m = e ? (bits(f) & 0x7fffff) | 0x800000 : 0;
    uint32_t rest, half = 1u << (k - 1), top = (1u << width) - 1;

    m = shift < 24 ? m >> shift : 0;
    rest = m & ((1u << k) - 1);
    m >>= k;
    if (rest > half || (rest == half && (m & 1)))
        m++;
    return m > top ? top : m;
}

static unsigned bfp_exponent(const float *x)
{
    unsigned e_max = 0;

    for (size_t i = 0; i < 16; i++) {
        unsigned e = bits(x[i]) >> 23 & 255;

        e_max = e > e_max ? e : e_max;
    }
    return e_max;
}

/* Sign above magnitude; no minus zero. */
static unsigned bfp_code(float f, unsigned e_max, unsigned width)
{
    unsigned m = bfp_magnitude(f, e_max, width);

    return m ? (bits(f) >> 31) << width | m : 0;
}

static float bfp_value(unsigned code, unsigned e, unsigned width)
{
    float m = (float)(code & ((1u << width) - 1));

    return sl_quant_bfp_unit(e, width - 1) * (code >> width ? -m : m);
}

static void quantise_bfp8(void *dst, const float *x, const float *w)
{
    struct sl_bfp8_block *k = dst;
    unsigned e = bfp_exponent(x);

    (void)w;
    k->e = (uint8_t)e;
    for (size_t i = 0; i < 16; i++)
        k->q[i] = (uint8_t)bfp_code(x[i], e, 7);
}

static void dequantise_bfp8(float *y, const void *src)
{
    const struct sl_bfp8_block *k = src;

    for (size_t i = 0; i < 16; i++)
        y[i] = bfp_value(k->q[i], k->e, 7);
}

static void quantise_bfp4(void *dst, const float *x, const float *w)
{
    struct sl_bfp4_block *k = dst;
    unsigned e = bfp_exponent(x);

    (void)w;
    k->e = (uint8_t)e;
    for (size_t i = 0; i < 8; i++)
        k->q[i] = (uint8_t)(bfp_code(x[2 * i], e, 3) |
                            bfp_code(x[2 * i + 1], e, 3) << 4);
}

static void dequantise_bfp4(float *y, const void *src)
{
    const struct sl_bfp4_block *k = src;

    for (size_t i = 0; i < 16; i++)
        y[i] = bfp_value((unsigned)k->q[i / 2] >> i % 2 * 4 & 15, k->e, 3);
}

/* --- by type --- */

/* w: the importance of each element. */
typedef void quantise_fn(void *dst, const float *x, const float *w);
typedef void dequantise_fn(float *y, const void *src);

static const struct {
    quantise_fn *quantise;
    dequantise_fn *dequantise;
} types[SL_N_DTYPE] = {
    [SL_Q8_0] = {quantise_q8_0, dequantise_q8_0},
    [SL_Q6_K] = {quantise_q6_k, dequantise_q6_k},
    [SL_Q5_K] = {quantise_q5_k, dequantise_q5_k},
    [SL_Q4_K] = {quantise_q4_k, dequantise_q4_k},
    [SL_Q4_0] = {quantise_q4_0, dequantise_q4_0},
    [SL_BFP8] = {quantise_bfp8, dequantise_bfp8},
    [SL_BFP4] = {quantise_bfp4, dequantise_bfp4},
};

bool sl_quant_is(enum sl_dtype t)
{
    return (size_t)t < SL_N_DTYPE &&
           (types[t].quantise != NULL || sl_quant_file_is(t));
}

/* w NULL: all elements alike. */
static void each_block(quantise_fn *fn, enum sl_dtype t, void *dst,
                       const float *x, const float *w, size_t n)
{
    const struct sl_dtype_info *d = sl_dtype_get(t);
    unsigned char block[sizeof(struct sl_q6_k_block)] SL_ALIGNED(8);
    float alike[SL_QSUPER];

    SL_CHECK(fn && n % d->block == 0);
    for (size_t i = 0; !w && i < d->block; i++)
        alike[i] = 1;
    for (size_t i = 0; i < n / d->block; i++) {
        fn(block, x + i * d->block, w ? w + i * d->block : alike);
        memcpy((unsigned char *)dst + i * d->bytes, block, d->bytes);
    }
}

void sl_quantise_row(enum sl_dtype t, void *dst, const float *x, const float *w,
                     size_t n)
{
    each_block(types[t].quantise, t, dst, x, w, n);
}

void sl_quantise_quick(enum sl_dtype t, void *dst, const float *x, size_t n)
{
    each_block(t == SL_Q4_0 ? quick_q4_0 : types[t].quantise, t, dst, x, NULL,
               n);
}

void sl_dequantise_row(enum sl_dtype t, float *y, const void *src, size_t n)
{
    const struct sl_dtype_info *d = sl_dtype_get(t);
    unsigned char block[sizeof(struct sl_q6_k_block)] SL_ALIGNED(8);

    if (sl_quant_file_is(t)) {
        sl_quant_file_row(t, y, src, n);
        return;
    }
    SL_CHECK(sl_quant_is(t) && n % d->block == 0);
    for (size_t i = 0; i < n / d->block; i++) {
        memcpy(block, (const unsigned char *)src + i * d->bytes, d->bytes);
        types[t].dequantise(y + i * d->block, block);
    }
}
