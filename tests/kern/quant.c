/* tests/kern/quant.c - products with quantised weights, rows out of them, and
 * activations as int8
 *
 * Weights are drawn as blocks, the bytes a file would hold, and packed by the
 * function that loads them; what they mean is worked out here in double from
 * the description of the format. So a mistake in packing, layout or arithmetic
 * shows against the mathematics.
 */
#include <math.h>

#include "check.h"
#include "kern/math.h"
#include "kern/quant.h"
#include "kern/quantise.h"

enum { MAX_TOK = 17 };

struct qmatrix {
    enum sl_dtype type;
    size_t rows, cols;
    void *w;               /* groups, exact size */
    unsigned char *blocks; /* [rows][row_bytes] */
    size_t row_bytes;
};

struct qrows {
    struct sl_qact a;
    int8_t *q;
    float *scale;
    int16_t *sum;
};

/* --- drawing weights --- */

static uint16_t any_f16(struct check *c)
{
    static const uint16_t ints[] = {0x3c00, 0x4000}; /* 1, 2 */

    if (c->fill == FILL_BITS)
        return (uint16_t)next_u64(c);
    if (c->fill == FILL_INT)
        return ints[below(c, 2)];
    return (uint16_t)(0x1000 + below(c, 0x2000) + (one_in(c, 2) ? 0x8000 : 0));
}

/* Twelve bytes of scales and minima; small ones for exact sums. */
static void any_scales(struct check *c, uint8_t s[12])
{
    for (size_t i = 0; i < 12; i++) {
        s[i] = (uint8_t)next_u64(c);
        if (c->fill == FILL_INT) /* 0 to 3 each, no high bits */
            s[i] = (uint8_t)(i < 8 ? s[i] & 3 : s[i] & 0x33);
    }
}

static uint8_t any_exponent(struct check *c, unsigned unit)
{
    if (c->fill == FILL_BITS)
        return (uint8_t)next_u64(c);
    if (c->fill == FILL_INT)
        return (uint8_t)(unit + below(c, 2));
    return (uint8_t)(unit - 20 + below(c, 24));
}

/* The scales of one block whose elements are there already. */
static void draw_scales(struct check *c, enum sl_dtype t, unsigned char *p)
{
    struct sl_q4_k_block *k = (void *)p; /* q5_k begins like q4_k */
    struct sl_q6_k_block *k6 = (void *)p;
    struct sl_q2_k_block *k2 = (void *)p;
    struct sl_q3_k_block *k3 = (void *)p;
    struct sl_iq4_xs_block *x4 = (void *)p;
    uint16_t h = any_f16(c);

    if (t == SL_MXFP4) {
        p[0] = any_exponent(c, 128);
    } else if (t == SL_Q2_K) {
        k2->d = h;
        k2->dmin = any_f16(c);
        for (size_t i = 0; i < 16 && c->fill == FILL_INT; i++)
            k2->s[i] &= 0x33;
    } else if (t == SL_Q3_K) {
        k3->d = h;
        for (size_t i = 0; i < 12 && c->fill == FILL_INT; i++)
            k3->s[i] = i < 8 ? k3->s[i] & 0x33 : 0xaa; /* 32 to 35 */
    } else if (t == SL_IQ4_XS) {
        x4->d = h;
        for (size_t i = 0; i < 4 && c->fill == FILL_INT; i++)
            x4->sl[i] &= 0x33;
        if (c->fill == FILL_INT)
            x4->sh = 0xaaaa;
    } else if (t == SL_Q4_1 || t == SL_Q5_1) {
        memcpy(p, &h, sizeof(h));
        h = any_f16(c);
        memcpy(p + 2, &h, sizeof(h));
    } else if (sl_dtype_get(t)->block == 32) {
        memcpy(p, &h, sizeof(h));
    } else if (t == SL_Q4_K || t == SL_Q5_K) {
        k->d = h;
        k->dmin = any_f16(c);
        any_scales(c, k->s);
    } else if (t == SL_Q6_K) {
        k6->d = h;
        for (size_t i = 0; i < 16 && c->fill == FILL_INT; i++)
            k6->sc[i] = (int8_t)((int)below(c, 5) - 2);
    } else {
        p[0] = any_exponent(c, t == SL_BFP8 ? 133 : 129);
    }
}

/* No minus zero in bfp: its sign would be lost. */
static void no_minus_zero(enum sl_dtype t, unsigned char *p)
{
    for (size_t i = 1; t == SL_BFP8 && i < 17; i++)
        p[i] = p[i] == 0x80 ? 0 : p[i];
    for (size_t i = 1; t == SL_BFP4 && i < 9; i++) {
        p[i] = (p[i] & 15) == 8 ? p[i] & 0xf0 : p[i];
        p[i] = p[i] >> 4 == 8 ? p[i] & 15 : p[i];
    }
}

/* Random elements, or the extremes of all of them now and then. */
static void draw_matrix(struct check *c, struct qmatrix *m)
{
    static const unsigned char extremes[] = {0x00, 0xff, 0x80, 0x7f};
    const struct sl_dtype_info *d = sl_dtype_get(m->type);
    size_t n_block = m->cols / d->block;
    size_t groups = (m->rows + SL_GROUP - 1) / SL_GROUP;
    bool extreme = one_in(c, 5);

    m->row_bytes = n_block * d->bytes;
    m->blocks = in_bytes(c, m->rows * m->row_bytes + 1, 2);
    for (size_t i = 0; i < m->rows * n_block; i++) {
        unsigned char b[256] SL_ALIGNED(8), *p = m->blocks + i * d->bytes;

        memcpy(b, p, d->bytes);
        if (extreme)
            memset(b, extremes[below(c, SL_COUNTOF(extremes))], d->bytes);
        draw_scales(c, m->type, b);
        no_minus_zero(m->type, b);
        memcpy(p, b, d->bytes);
    }
    touched(c, m->blocks);
    m->w = in_bytes(c, groups * SL_GROUP * m->row_bytes / 2, 2);
    for (size_t g = 0; g < groups; g++) {
        const void *rows[SL_GROUP] = {NULL};

        for (size_t r = 0; r < SL_GROUP && g * SL_GROUP + r < m->rows; r++)
            rows[r] = m->blocks + (g * SL_GROUP + r) * m->row_bytes;
        sl_quant_pack(m->type, (char *)m->w + g * SL_GROUP * m->row_bytes, rows,
                      m->cols);
    }
    touched(c, m->w);
}

/* --- what they mean: model.md 10.5 and 12.1, and for the types that it does
 * not draw the gguf package --- */

struct worth {
    double v;   /* the value */
    double mag; /* sum of the magnitudes of its parts */
};

static double half(uint16_t h)
{
    int e = h >> 10 & 31;
    double m = h & 1023;
    double v = e ? ldexp(1 + m / 1024, e - 15) : ldexp(m, -24);

    if (e == 31)
        v = m > 0 ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -v : v;
}

static struct worth simple(double v)
{
    return (struct worth){v, fabs(v)};
}

static struct worth both(double p, double off)
{
    return (struct worth){p + off, fabs(p) + fabs(off)};
}

/* Element i of 32 in sixteen bytes, and of 256 two bits in 64. */
static int four_bits(const uint8_t *q, size_t i)
{
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

static int two_bits(const uint8_t *q, size_t i)
{
    return q[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
}

/* Bit i of four bytes. */
static int fifth_bit(const uint8_t *h, size_t i)
{
    return h[i / 8] >> i % 8 & 1;
}

static struct worth worth_q3(const struct sl_q3_k_block *k, size_t i)
{
    size_t n = i / 16; /* of 16 scales: 4 low bits, 2 high ones */
    int low = n < 8 ? k->s[n] & 15 : k->s[n - 8] >> 4;
    int sc = (low | (k->s[8 + n % 4] >> 2 * (n / 4) & 3) << 4) - 32;
    int u = two_bits(k->q, i) + 4 * (k->h[i % 32] >> i / 32 & 1);

    return simple(half(k->d) * sc * (u - 4));
}

static struct worth worth_q2(const struct sl_q2_k_block *k, size_t i)
{
    int s = k->s[i / 16];

    return both(half(k->d) * (s & 15) * two_bits(k->q, i),
                -half(k->dmin) * (s >> 4));
}

/* The values of iq4_nl, iq4_xs and mxfp4. */
static struct worth worth_table(enum sl_dtype t, const unsigned char *p,
                                size_t i)
{
    static const int iq4[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
    static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const struct sl_iq4_xs_block *x4 = (const void *)p;
    size_t b = i / 32;
    uint16_t h;
    int sc, u;

    if (t == SL_MXFP4) {
        u = four_bits(p + 1, i);
        return simple(ldexp(u < 8 ? e2m1[u] : -e2m1[u - 8], p[0] - 127));
    }
    memcpy(&h, p, sizeof(h));
    if (t == SL_IQ4_NL)
        return simple(half(h) * iq4[four_bits(p + 2, i)]);
    sc = (x4->sl[b / 2] >> 4 * (b % 2) & 15) | (x4->sh >> 2 * b & 3) << 4;
    return simple(half(h) * (sc - 32) * iq4[four_bits(x4->q + 16 * b, i % 32)]);
}

static struct worth worth_k(const struct sl_q4_k_block *k, size_t b, int u)
{
    const uint8_t *s = k->s;
    int sc = b < 4 ? s[b] & 63 : (s[b + 4] & 15) | (s[b - 4] >> 6) << 4;
    int m = b < 4 ? s[b + 4] & 63 : s[b + 4] >> 4 | (s[b] >> 6) << 4;
    double p = half(k->d) * sc * u, off = half(k->dmin) * m;

    return (struct worth){p - off, fabs(p) + fabs(off)};
}

static struct worth worth_q6(const struct sl_q6_k_block *k, size_t i)
{
    size_t n = i / 128, l = i % 32, part = i % 128 / 32;
    const uint8_t *ql = k->ql + 64 * n, *qh = k->qh + 32 * n;
    int lo = part == 0   ? ql[l] & 15
             : part == 1 ? ql[l + 32] & 15
             : part == 2 ? ql[l] >> 4
                         : ql[l + 32] >> 4;
    int hi = qh[l] >> 2 * part & 3;
    int sc = k->sc[8 * n + 2 * part + l / 16];

    return simple(half(k->d) * sc * ((lo | hi << 4) - 32));
}

static struct worth worth_bfp(unsigned code, int e, int width)
{
    double m = code & ((1u << width) - 1);

    m = e ? ldexp(m, e - 127 - (width - 1)) : 0;
    return simple(code >> width ? -m : m);
}

static struct worth worth(enum sl_dtype t, const unsigned char *row, size_t i)
{
    const struct sl_dtype_info *d = sl_dtype_get(t);
    unsigned char p[256] SL_ALIGNED(8);
    const struct sl_q5_k_block *k5 = (void *)p;
    const struct sl_q4_k_block *k = (void *)p;
    uint16_t h, h2;

    memcpy(p, row + i / d->block * d->bytes, d->bytes);
    memcpy(&h, p, sizeof(h));
    memcpy(&h2, p + 2, sizeof(h2));
    i %= d->block;
    switch ((int)t) {
    case SL_Q8_0:
        return simple(half(h) * (int8_t)p[2 + i]);
    case SL_Q4_0:
        return simple(half(h) * ((p[2 + i % 16] >> i / 16 * 4 & 15) - 8));
    case SL_Q4_K:
        return worth_k(k, i / 32,
                       k->q[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15);
    case SL_Q5_K:
        return worth_k(k, i / 32,
                       (k5->q[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15) +
                           16 * (k5->h[i % 32] >> i / 32 & 1));
    case SL_Q6_K:
        return worth_q6((const void *)p, i);
    case SL_Q4_1:
        return both(half(h) * four_bits(p + 4, i), half(h2));
    case SL_Q5_0:
        return simple(half(h) *
                      (four_bits(p + 6, i) + 16 * fifth_bit(p + 2, i) - 16));
    case SL_Q5_1:
        return both(half(h) * (four_bits(p + 8, i) + 16 * fifth_bit(p + 4, i)),
                    half(h2));
    case SL_Q3_K:
        return worth_q3((const void *)p, i);
    case SL_Q2_K:
        return worth_q2((const void *)p, i);
    case SL_IQ4_NL:
    case SL_IQ4_XS:
    case SL_MXFP4:
        return worth_table(t, p, i);
    case SL_BFP8:
        return worth_bfp(p[1 + i], p[0], 7);
    default:
        return worth_bfp((unsigned)p[1 + i / 2] >> i % 2 * 4 & 15, p[0], 3);
    }
}

/* --- drawing activations --- */

static void draw_rows(struct check *c, struct qrows *x, size_t n_tok,
                      size_t cols)
{
    size_t ld = cols + 32 * below(c, 3);
    size_t n = n_tok ? (n_tok - 1) * ld + cols : 0;
    bool extreme = one_in(c, 5);

    x->q = in_bytes(c, n, 1);
    x->scale = in_floats(c, n / 32);
    x->sum = in_bytes(c, n / 16, 2);
    memset(x->sum, 0, n / 16 * 2);
    for (size_t i = 0; i < n; i++) {
        int v = extreme               ? 127
                : c->fill == FILL_INT ? 1 + (int)below(c, 3)
                                      : (int)below(c, 128);

        if (c->fill == FILL_INT && v > 3)
            v = 3;
        x->q[i] = (int8_t)(one_in(c, extreme ? 40 : 2) ? -v : v);
        x->sum[i / 16] = (int16_t)(x->sum[i / 16] + x->q[i]);
    }
    for (size_t i = 0; i < n / 32 && c->fill == FILL_INT; i++)
        x->scale[i] = one_in(c, 2) ? 1 : 2;
    touched(c, x->q);
    touched(c, x->scale);
    touched(c, x->sum);
    x->a = (struct sl_qact){x->q, x->scale, x->sum, ld};
}

/* Row t alone. */
static struct sl_qact one_row(const struct sl_qact *a, size_t t)
{
    return (struct sl_qact){a->q + t * a->ld, a->scale + t * (a->ld / 32),
                            a->sum + t * (a->ld / 16), a->ld};
}

/* --- the checks --- */

/* Whole units of columns; now and then so many that kernels cut them, or
 * enough tokens for the way of prompts. */
static void sizes(struct check *c, struct qmatrix *m, size_t *n_tok)
{
    size_t unit = sl_max(sl_dtype_get(m->type)->block, SL_QBLOCK);

    *n_tok = below(c, MAX_TOK + 1);
    m->rows = any_size(c, 40);
    m->cols = unit * any_size(c, unit == 32 ? 40 : 5);
    if (one_in(c, 40)) {
        m->rows = 1 + below(c, 20);
        m->cols = unit * (1 + below(c, 8192 / unit));
        *n_tok = below(c, 4);
        if (one_in(c, 4)) { /* more columns than are prepared at once */
            m->cols = unit * (20000 / unit);
            *n_tok = below(c, MAX_TOK + 1);
        }
    } else if (one_in(c, 40)) {
        m->cols = unit * (1 + below(c, 1024 / unit));
        *n_tok = 200 + below(c, 400);
        m->rows = 1 + below(c, 3);
    }
}

/* Each block rounds a scale, a sum and one or two steps of the accumulator. */
static void against_mathematics(struct check *c, const struct qmatrix *m,
                                const struct sl_qact *x, const float *y,
                                size_t ldy, size_t n_tok)
{
    double gamma = c->fill == FILL_INT ? 0 : gamma_n(2 * m->cols / 32 + 2);

    for (size_t r = 0; r < m->rows; r++) {
        size_t t = n_tok - 1 - r % n_tok; /* one token for each row */
        struct sl_qact a = one_row(x, t);
        double sum = 0, mag = 0;

        for (size_t i = 0; i < m->cols; i++) {
            struct worth w = worth(m->type, m->blocks + r * m->row_bytes, i);
            double v = (double)a.scale[i / 32] * a.q[i];

            sum += w.v * v;
            mag += w.mag * fabs(v);
        }
        compare_near(c, "y", t * ldy + r, y[t * ldy + r], sum, gamma * mag);
    }
}

static void check_mulq(struct check *c, enum sl_dtype type)
{
    struct qmatrix m = {.type = type};
    struct qrows x;
    struct sl_qact one;
    size_t n_tok, ldy, n, t;
    float *y, *want, *alone;

    sizes(c, &m, &n_tok);
    ldy = m.rows + below(c, 5);
    n = n_tok ? (n_tok - 1) * ldy + m.rows : 0;
    describe(c, "%zu tokens, %zu rows, %zu columns, ldy %zu, fill %d", n_tok,
             m.rows, m.cols, ldy, (int)c->fill);
    draw_matrix(c, &m);
    draw_rows(c, &x, n_tok, m.cols);
    want = out_floats(c, n);
    y = out_floats(c, n);
    c->ref->mulq[type](want, ldy, m.w, &x.a, n_tok, m.rows, m.cols);
    c->fast->mulq[type](y, ldy, m.w, &x.a, n_tok, m.rows, m.cols);
    compare(c, "y", y, want, n);
    compare_gaps(c, y, n_tok, ldy, m.rows);
    if (n_tok == 0)
        return;
    if (c->fill != FILL_BITS)
        against_mathematics(c, &m, &x.a, y, ldy, n_tok);
    t = below(c, n_tok);
    one = one_row(&x.a, t);
    alone = out_floats(c, m.rows);
    c->fast->mulq[type](alone, m.rows, m.w, &one, 1, m.rows, m.cols);
    compare(c, "one token alone: y", alone, y + t * ldy, m.rows);
}

/* Rows come back: as values, and as the blocks they were. */
static void check_qrow(struct check *c, enum sl_dtype type)
{
    struct qmatrix m = {.type = type};
    size_t n_tok, r;
    float *y, *want, *plain;
    unsigned char *back;

    sizes(c, &m, &n_tok);
    m.rows = sl_max(m.rows, 1);
    r = below(c, m.rows);
    describe(c, "row %zu of %zu, %zu columns", r, m.rows, m.cols);
    draw_matrix(c, &m);
    want = out_floats(c, m.cols);
    y = out_floats(c, m.cols);
    plain = out_floats(c, m.cols);
    c->ref->row[type](want, m.w, NULL, r, m.cols);
    c->fast->row[type](y, m.w, NULL, r, m.cols);
    compare(c, "y", y, want, m.cols);
    sl_dequantise_row(type, plain, m.blocks + r * m.row_bytes, m.cols);
    for (size_t i = 0; i < m.cols; i++) {
        float v = (float)worth(type, m.blocks + r * m.row_bytes, i).v;

        if (c->fill != FILL_BITS && !(fabsf(want[i] - v) <= 0))
            complain(c, "element %zu is %a, mathematics %a", i, (double)want[i],
                     (double)v);
        if (!same(plain[i], want[i]) && plain[i] + want[i] != 0)
            complain(c, "element %zu of the blocks is %a, of the group %a", i,
                     (double)plain[i], (double)want[i]);
    }
    back = out_bytes(c, m.row_bytes, 1);
    sl_quant_unpack(type, back,
                    (char *)m.w + r / SL_GROUP * SL_GROUP * m.row_bytes,
                    r % SL_GROUP, m.cols);
    compare_bytes(c, "blocks", back, m.blocks + r * m.row_bytes, m.row_bytes);
}

static void check_quant_act(struct check *c)
{
    size_t cols = SL_QBLOCK * any_size(c, 20), n = cols / SL_QBLOCK;
    float *x = in_floats(c, cols);
    float *s = out_floats(c, n), *want_s = out_floats(c, n);
    int8_t *q = out_bytes(c, cols, 1), *want_q = out_bytes(c, cols, 1);
    int16_t *sum = out_bytes(c, 2 * n, 2), *want_sum = out_bytes(c, 2 * n, 2);

    describe(c, "%zu columns, fill %d", cols, (int)c->fill);
    for (size_t i = 0; i < cols; i++) { /* blocks of zeros, and tiny ones */
        if (i / SL_QBLOCK % 7 == 3)
            x[i] = 0;
        if (i / SL_QBLOCK % 7 == 5)
            x[i] *= 0x1p-146f;
    }
    touched(c, x);
    c->ref->quant_act(want_q, want_s, want_sum, x, cols);
    c->fast->quant_act(q, s, sum, x, cols);
    compare_bytes(c, "q", q, want_q, cols);
    compare(c, "scale", s, want_s, n);
    compare_bytes(c, "sum", sum, want_sum, 4 * n);
    for (size_t b = 0; b < n && c->fill != FILL_BITS; b++) {
        double amax = 0;
        int total[2] = {0, 0};

        for (size_t i = b * SL_QBLOCK; i < (b + 1) * SL_QBLOCK; i++) {
            amax = fabs((double)x[i]) > amax ? fabs((double)x[i]) : amax;
            total[i / 16 % 2] += q[i];
            /* Half a unit, and the rounding of the quotient. Denormal scales
             * are too coarse for that. */
            if (s[b] > 0x1p-126f)
                compare_near(c, "q", i, (float)q[i],
                             (double)x[i] / (double)s[b], 0.5 + 0x1p-17);
        }
        compare_near(c, "scale", b, s[b], (double)(float)(amax / 127), 0);
        compare_near(c, "sum", 2 * b, sum[2 * b], total[0], 0);
        compare_near(c, "sum", 2 * b + 1, sum[2 * b + 1], total[1], 0);
    }
}

#define TYPE SL_Q8_0
#define NAME(x) x##_q8_0
#include "quant_tmpl.h"

#define TYPE SL_Q6_K
#define NAME(x) x##_q6_k
#include "quant_tmpl.h"

#define TYPE SL_Q5_K
#define NAME(x) x##_q5_k
#include "quant_tmpl.h"

#define TYPE SL_Q4_K
#define NAME(x) x##_q4_k
#include "quant_tmpl.h"

#define TYPE SL_Q4_0
#define NAME(x) x##_q4_0
#include "quant_tmpl.h"

#define TYPE SL_BFP8
#define NAME(x) x##_bfp8
#include "quant_tmpl.h"

#define TYPE SL_BFP4
#define NAME(x) x##_bfp4
#include "quant_tmpl.h"

#define TYPE SL_Q5_1
#define NAME(x) x##_q5_1
#include "quant_tmpl.h"

#define TYPE SL_Q5_0
#define NAME(x) x##_q5_0
#include "quant_tmpl.h"

#define TYPE SL_Q4_1
#define NAME(x) x##_q4_1
#include "quant_tmpl.h"

#define TYPE SL_Q3_K
#define NAME(x) x##_q3_k
#include "quant_tmpl.h"

#define TYPE SL_Q2_K
#define NAME(x) x##_q2_k
#include "quant_tmpl.h"

#define TYPE SL_IQ4_NL
#define NAME(x) x##_iq4_nl
#include "quant_tmpl.h"

#define TYPE SL_IQ4_XS
#define NAME(x) x##_iq4_xs
#include "quant_tmpl.h"

#define TYPE SL_MXFP4
#define NAME(x) x##_mxfp4
#include "quant_tmpl.h"

const struct entry quant_entries[] = {
    {"quant_act", check_quant_act},     {"mulq_q8_0", check_mulq_q8_0},
    {"mulq_q6_k", check_mulq_q6_k},     {"mulq_q5_k", check_mulq_q5_k},
    {"mulq_q4_k", check_mulq_q4_k},     {"mulq_q4_0", check_mulq_q4_0},
    {"mulq_bfp8", check_mulq_bfp8},     {"mulq_bfp4", check_mulq_bfp4},
    {"mulq_q5_1", check_mulq_q5_1},     {"mulq_q5_0", check_mulq_q5_0},
    {"mulq_q4_1", check_mulq_q4_1},     {"mulq_q3_k", check_mulq_q3_k},
    {"mulq_q2_k", check_mulq_q2_k},     {"mulq_iq4_nl", check_mulq_iq4_nl},
    {"mulq_iq4_xs", check_mulq_iq4_xs}, {"mulq_mxfp4", check_mulq_mxfp4},
    {"row_q8_0", check_qrow_q8_0},      {"row_q6_k", check_qrow_q6_k},
    {"row_q5_k", check_qrow_q5_k},      {"row_q4_k", check_qrow_q4_k},
    {"row_q4_0", check_qrow_q4_0},      {"row_bfp8", check_qrow_bfp8},
    {"row_bfp4", check_qrow_bfp4},      {"row_q5_1", check_qrow_q5_1},
    {"row_q5_0", check_qrow_q5_0},      {"row_q4_1", check_qrow_q4_1},
    {"row_q3_k", check_qrow_q3_k},      {"row_q2_k", check_qrow_q2_k},
    {"row_iq4_nl", check_qrow_iq4_nl},  {"row_iq4_xs", check_qrow_iq4_xs},
    {"row_mxfp4", check_qrow_mxfp4},    {NULL, NULL},
};
