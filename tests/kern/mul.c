/* tests/kern/mul.c - products with a weight matrix, and rows out of one
 *
 * The weights are drawn one by one as numbers, kept in plain rows, and packed
 * here; so a mistake in the layout shows against the mathematics.
 */
#include <math.h>

#include "check.h"
#include "kern/math.h"

struct matrix {
    enum sl_dtype type;
    size_t rows, cols;
    void *w;      /* packed, exact size */
    float *scale; /* FP8 only */
    float *plain; /* [rows][cols], what each weight means */
};

/* The value of an E4M3 byte, from its definition. */
static double e4m3(unsigned b)
{
    int e = (int)(b >> 3 & 15);
    double m = b & 7;
    double v = e ? ldexp(1 + m / 8, e - 7) : ldexp(m / 8, -6);

    if ((b & 0x7f) == 0x7f)
        return (double)NAN;
    return b & 0x80 ? -v : v;
}

static unsigned any_e4m3(struct check *c)
{
    static const unsigned ints[] = {0x38, 0x40, 0x44, 0xb8, 0xc0, 0xc4};
    unsigned b = (unsigned)below(c, 256);

    if (c->fill == FILL_INT)
        return ints[below(c, SL_COUNTOF(ints))]; /* 1, 2, 3 and negative */
    if (c->fill != FILL_BITS && (b & 0x7f) == 0x7f)
        return 0x7e;
    return b;
}

/* The value of an IEEE half, from its definition. */
static double f16(unsigned h)
{
    int e = (int)(h >> 10 & 31);
    double m = h & 1023;
    double v = e ? ldexp(1 + m / 1024, e - 15) : ldexp(m / 1024, -14);

    if (e == 31)
        v = m > 0 ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -v : v;
}

/* f cut off to a half, or any bits. */
static unsigned any_f16(struct check *c, float f)
{
    double mag = fabs((double)f);
    unsigned sign = f < 0 ? 0x8000 : 0;
    int e;

    if (c->fill == FILL_BITS)
        return (unsigned)below(c, 0x10000);
    if (!(mag >= 0x1p-14))
        return sign | (unsigned)(mag * 0x1p24);
    mag = frexp(fmin(mag, 65504), &e); /* mag 2^e, 1/2 <= mag < 1 */
    return sign | (unsigned)(e + 14) << 10 | ((unsigned)(mag * 2048) & 1023);
}

/* Draw weight i in the order of the packed matrix, return what it means. */
static float draw(struct check *c, struct matrix *m, size_t at, float scale)
{
    float f = any_float(c, c->fill);
    uint32_t u;
    unsigned b;

    switch (m->type) {
    case SL_F32:
        ((float *)m->w)[at] = f;
        return f;
    case SL_BF16: /* cut off: the low bits play no part */
        memcpy(&u, &f, sizeof(u));
        u &= 0xffff0000u;
        ((uint16_t *)m->w)[at] = (uint16_t)(u >> 16);
        memcpy(&f, &u, sizeof(f));
        return f;
    case SL_F16:
        b = any_f16(c, f);
        ((uint16_t *)m->w)[at] = (uint16_t)b;
        return (float)f16(b);
    default:
        b = any_e4m3(c);
        ((uint8_t *)m->w)[at] = (uint8_t)b;
        return (float)(e4m3(b) * (double)scale); /* exact before it rounds */
    }
}

static float any_scale(struct check *c)
{
    if (c->fill == FILL_INT)
        return one_in(c, 2) ? 1.0f : 2.0f;
    if (c->fill == FILL_BITS)
        return any_float(c, FILL_BITS);
    return uniform(c, 0.001f, 0.1f);
}

static void draw_matrix(struct check *c, struct matrix *m)
{
    size_t groups = (m->rows + SL_GROUP - 1) / SL_GROUP;
    size_t blocks = (m->cols + SL_FP8_BLOCK - 1) / SL_FP8_BLOCK;
    size_t n = groups * SL_GROUP * m->cols;

    m->w = in_bytes(c, n, sl_dtype_get(m->type)->bytes);
    m->scale = m->type == SL_FP8 ? in_floats(c, groups * blocks) : NULL;
    m->plain = out_floats(c, m->rows * m->cols);
    for (size_t i = 0; m->scale && i < groups * blocks; i++)
        m->scale[i] = any_scale(c);
    memset(m->w, 0, n * sl_dtype_get(m->type)->bytes);
    for (size_t r = 0; r < m->rows; r++) {
        for (size_t col = 0; col < m->cols; col++) {
            size_t group = r / SL_GROUP;
            size_t at = (group * m->cols + col) * SL_GROUP + r % SL_GROUP;
            float s =
                m->scale ? m->scale[group * blocks + col / SL_FP8_BLOCK] : 1;

            m->plain[r * m->cols + col] = draw(c, m, at, s);
        }
    }
    touched(c, m->w);
    if (m->scale)
        touched(c, m->scale);
}

/* Exact on integers; else within the bound of any order of summation. */
static void against_mathematics(struct check *c, const struct matrix *m,
                                const float *y, size_t ldy, const float *x,
                                size_t ldx, size_t n_tok)
{
    bool exact = c->fill == FILL_INT;

    for (size_t t = 0; t < n_tok; t++) {
        for (size_t r = 0; r < m->rows; r++) {
            double sum = 0, mag = 0;

            for (size_t i = 0; i < m->cols; i++) {
                double p =
                    (double)m->plain[r * m->cols + i] * (double)x[t * ldx + i];

                sum += p;
                mag += fabs(p);
            }
            compare_near(c, "y", t * ldy + r, y[t * ldy + r], sum,
                         exact ? 0 : gamma_n(m->cols) * mag);
        }
    }
}

/* Now and then few rows of very many columns, or of more tokens than a chunk
 * holds. */
static void sizes(struct check *c, struct matrix *m, size_t *n_tok)
{
    *n_tok = one_in(c, 5) ? 18 + below(c, 25) : below(c, 18);
    m->rows = any_size(c, 90);
    m->cols = any_size(c, 300);
    if (one_in(c, 60)) {
        m->rows = 1 + below(c, 20);
        m->cols = 8000 + below(c, 6000);
    } else if (one_in(c, 60)) {
        *n_tok = 150 + below(c, 300);
        m->rows = any_size(c, 20);
    }
}

static void check_mul(struct check *c, enum sl_dtype type)
{
    struct matrix m = {.type = type};
    size_t n_tok, ldx, ldy, t;
    float *x, *y, *want, *alone;

    sizes(c, &m, &n_tok);
    ldx = m.cols + below(c, 5);
    ldy = m.rows + below(c, 5);
    describe(c, "%zu tokens, %zu rows, %zu columns, ldx %zu, ldy %zu, fill %d",
             n_tok, m.rows, m.cols, ldx, ldy, (int)c->fill);
    draw_matrix(c, &m);
    x = in_floats(c, n_tok ? (n_tok - 1) * ldx + m.cols : 0);
    want = out_floats(c, n_tok ? (n_tok - 1) * ldy + m.rows : 0);
    y = out_floats(c, n_tok ? (n_tok - 1) * ldy + m.rows : 0);
    c->ref->mul[type](want, ldy, m.w, m.scale, x, ldx, n_tok, m.rows, m.cols);
    c->fast->mul[type](y, ldy, m.w, m.scale, x, ldx, n_tok, m.rows, m.cols);
    compare(c, "y", y, want, n_tok ? (n_tok - 1) * ldy + m.rows : 0);
    compare_gaps(c, y, n_tok, ldy, m.rows);
    if (c->fill != FILL_BITS)
        against_mathematics(c, &m, y, ldy, x, ldx, n_tok);
    if (n_tok == 0)
        return;
    t = below(c, n_tok);
    alone = out_floats(c, m.rows);
    c->fast->mul[type](alone, m.rows, m.w, m.scale, x + t * ldx, ldx, 1, m.rows,
                       m.cols);
    compare(c, "one token alone: y", alone, y + t * ldy, m.rows);
}

static void check_row(struct check *c, enum sl_dtype type)
{
    struct matrix m = {.type = type};
    size_t n_tok, r;
    float *y;

    sizes(c, &m, &n_tok);
    m.rows = sl_max(m.rows, 1);
    r = below(c, m.rows);
    describe(c, "row %zu of %zu, %zu columns", r, m.rows, m.cols);
    draw_matrix(c, &m);
    y = out_floats(c, m.cols);
    c->fast->row[type](y, m.w, m.scale, r, m.cols);
    compare(c, "y", y, m.plain + r * m.cols, m.cols);
}

static void check_mul_f32(struct check *c)
{
    check_mul(c, SL_F32);
}

static void check_mul_bf16(struct check *c)
{
    check_mul(c, SL_BF16);
}

static void check_mul_f16(struct check *c)
{
    check_mul(c, SL_F16);
}

static void check_mul_fp8(struct check *c)
{
    check_mul(c, SL_FP8);
}

static void check_row_f32(struct check *c)
{
    check_row(c, SL_F32);
}

static void check_row_bf16(struct check *c)
{
    check_row(c, SL_BF16);
}

static void check_row_f16(struct check *c)
{
    check_row(c, SL_F16);
}

static void check_row_fp8(struct check *c)
{
    check_row(c, SL_FP8);
}

const struct entry mul_entries[] = {
    {"mul_f32", check_mul_f32},
    {"mul_bf16", check_mul_bf16},
    {"mul_f16", check_mul_f16},
    {"mul_fp8", check_mul_fp8},
    {"row_f32", check_row_f32},
    {"row_bf16", check_row_bf16},
    {"row_f16", check_row_f16},
    {"row_fp8", check_row_fp8},
    {NULL, NULL},
};
