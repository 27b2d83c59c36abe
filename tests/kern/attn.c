/* tests/kern/attn.c - keys and values into pages, and attention over them
 */
#include <math.h>

#include "check.h"
#include "kern/math.h"
#include "kern/quantise.h"

#define U 0x1p-24
enum { N_PAGES = SL_KV_BLOCK / SL_KV_PAGE };

/* Bytes of the keys, or the values, of a page. */
static size_t half_bytes(enum sl_dtype type, size_t dim)
{
    return SL_KV_PAGE * sl_dtype_bytes(type, dim);
}

/* Alignment of a page. */
static size_t align_of(enum sl_dtype type)
{
    return type == SL_F32 ? 4 : type == SL_BF16 ? 2 : 1;
}

/* A dimension that the type can have. */
static size_t any_dim(struct check *c, enum sl_dtype type)
{
    if (type == SL_BFP8)
        return SL_BFP * below(c, 17);
    return any_size(c, 260);
}

static float bfp8(const void *page, size_t exponent, size_t code)
{
    const int8_t *p = page;

    return ldexpf((float)p[code], (uint8_t)p[exponent] - 133);
}

/* Element d of the key of a position, by the description in kern.h: four tiles
 * of [dim][16 positions]; bfp8 has them by sixteens of d, behind a row of
 * exponents. */
static float get_key(enum sl_dtype type, const void *page, size_t pos, size_t d,
                     size_t dim)
{
    size_t tile = pos / 16, lane = pos % 16;
    size_t at = tile * 16 * dim + d * 16 + lane;
    size_t block = tile * dim / 16 + d / 16;

    if (type == SL_BFP8)
        return bfp8(page, block * 272 + lane, at + (block + 1) * 16);
    return type == SL_F32 ? ((const float *)page)[at]
                          : sl_bf16_f32(((const uint16_t *)page)[at]);
}

static float get_value(enum sl_dtype type, const void *page, size_t pos,
                       size_t d, size_t dim)
{
    size_t at = pos * dim + d, row = pos * (dim / 16 + dim);

    if (type == SL_BFP8)
        return bfp8(page, row + d / 16, row + dim / 16 + d);
    return type == SL_F32 ? ((const float *)page)[at]
                          : sl_bf16_f32(((const uint16_t *)page)[at]);
}

/* What storing makes of a row. */
static void rounded(enum sl_dtype type, float *y, const float *x, size_t dim)
{
    unsigned char blocks[512];

    if (type == SL_BFP8) {
        SL_CHECK(sl_dtype_bytes(SL_BFP8, dim) <= sizeof(blocks));
        sl_quantise_row(type, blocks, x, NULL, dim);
        sl_dequantise_row(type, y, blocks, dim);
    }
    for (size_t d = 0; type != SL_BFP8 && d < dim; d++)
        y[d] = type == SL_F32 ? x[d] : sl_bf16_f32(sl_f32_bf16(x[d]));
}

static void put(struct check *c, enum sl_dtype type, bool key)
{
    size_t dim = any_dim(c, type), pos = below(c, SL_KV_PAGE);
    size_t bytes = half_bytes(type, dim);
    float *x = in_floats(c, dim), y[260];
    void *want = out_bytes(c, bytes / align_of(type), align_of(type));
    void *page = out_bytes(c, bytes / align_of(type), align_of(type));

    describe(c, "position %zu, dim %zu, fill %d", pos, dim, (int)c->fill);
    if (key) {
        c->ref->put_k[type](want, pos, x, dim);
        c->fast->put_k[type](page, pos, x, dim);
    } else {
        c->ref->put_v[type](want, pos, x, dim);
        c->fast->put_v[type](page, pos, x, dim);
    }
    compare_bytes(c, "page", page, want, bytes);
    if (type == SL_BFP8 && c->fill == FILL_BITS)
        return; /* what is not finite gives some legal block */
    rounded(type, y, x, dim);
    for (size_t d = 0; d < dim; d++) {
        float got = key ? get_key(type, page, pos, d, dim)
                        : get_value(type, page, pos, d, dim);

        if (!same(got, y[d]))
            complain(c, "element %zu is not at its place", d);
    }
}

/* How many positions each query sees: all the same, rows of a prompt, any. */
static uint32_t *draw_valid(struct check *c, size_t n_q, size_t *most)
{
    uint32_t *v = in_bytes(c, n_q, sizeof(*v));
    size_t kind = below(c, 3), start = below(c, SL_KV_BLOCK + 1);
    size_t group = 1 + below(c, 6);

    *most = 0;
    for (size_t t = 0; t < n_q; t++) {
        size_t n = kind == 0   ? start
                   : kind == 1 ? start + t / group
                               : any_size(c, SL_KV_BLOCK);

        v[t] = (uint32_t)sl_min(n, SL_KV_BLOCK);
        *most = sl_max(*most, v[t]);
    }
    touched(c, v);
    return v;
}

/* Positions that nobody sees hold anything. */
static void draw_pages(struct check *c, struct sl_attn *a, enum sl_dtype type,
                       size_t most)
{
    size_t n_pages = (most + SL_KV_PAGE - 1) / SL_KV_PAGE;

    for (size_t i = 0; i < n_pages; i++) {
        size_t size = align_of(type), count = half_bytes(type, a->dim) / size;
        void *k = in_bytes(c, count, size), *v = in_bytes(c, count, size);
        size_t n = sl_min(most - i * SL_KV_PAGE, SL_KV_PAGE);
        float row[SL_BFP * 17];

        for (size_t p = 0; p < n; p++) {
            for (size_t d = 0; d < a->dim; d++)
                row[d] = any_float(c, c->fill);
            c->ref->put_k[type](k, p, row, a->dim);
            for (size_t d = 0; d < a->dim; d++)
                row[d] = any_float(c, c->fill);
            c->ref->put_v[type](v, p, row, a->dim);
        }
        touched(c, k);
        touched(c, v);
        a->k[i] = k;
        a->v[i] = v;
    }
}

static void outputs(struct check *c, struct sl_attn *a)
{
    a->m = out_floats(c, a->n_q);
    a->l = out_floats(c, a->n_q);
    a->o = out_floats(c, a->n_q * a->dim);
    a->scratch = out_floats(c, a->n_q * SL_KV_BLOCK);
}

/* The exact score of position p, and a bound on its error. */
static double score(const struct sl_attn *a, enum sl_dtype type, size_t t,
                    size_t p, double *err)
{
    const float *q = a->q + t * a->ld_q;
    const void *page = a->k[p / SL_KV_PAGE];
    double sum = 0, mag = 0;

    for (size_t d = 0; d < a->dim; d++) {
        double k = (double)get_key(type, page, p % SL_KV_PAGE, d, a->dim);

        sum += (double)q[d] * k;
        mag += fabs((double)q[d] * k);
    }
    *err = (gamma_n(a->dim) + U) * mag * fabs((double)a->scale);
    return sum * (double)a->scale;
}

/* With the kernel's own m (checked first): each weight is off by the error of
 * its score, of the difference, and of exp (4 U). */
static void query_mathematics(struct check *c, const struct sl_attn *a,
                              enum sl_dtype type, size_t t)
{
    double e[SL_KV_BLOCK], off[SL_KV_BLOCK];
    double max = (double)-INFINITY, max_err = 0, l = 0, l_err = 0;
    double m = (double)a->m[t];
    size_t n = a->n_valid[t], skip = a->n_skip ? a->n_skip[t] : 0;

    for (size_t p = skip; p < n; p++) {
        double err, s = score(a, type, t, p, &err);

        max = fmax(max, s);
        max_err = fmax(max_err, err);
        e[p] = exp(s - m);
        off[p] = exp(err + U * fabs(s - m)) * (1 + 4 * U) - 1;
        l += e[p];
        l_err += e[p] * off[p];
    }
    if (n > 0)
        compare_near(c, "m", t, a->m[t], max, max_err);
    compare_near(c, "l", t, a->l[t], l, (l_err + gamma_n(n + 4) * l) * 1.01);
    for (size_t d = 0; d < a->dim; d++) {
        double o = 0, tol = 0;

        for (size_t p = skip; p < n; p++) {
            const void *page = a->v[p / SL_KV_PAGE];
            double v =
                (double)get_value(type, page, p % SL_KV_PAGE, d, a->dim);

            o += e[p] * v;
            tol += e[p] * fabs(v) * (off[p] + gamma_n(n));
        }
        compare_near(c, "o", t * a->dim + d, a->o[t * a->dim + d], o,
                     1.01 * tol);
    }
}

/* Positions in front that count for nothing, fewer than are valid. */
static const uint32_t *draw_skip(struct check *c, const uint32_t *valid,
                                 size_t n)
{
    uint32_t *skip = in_bytes(c, n, sizeof(*skip));

    for (size_t i = 0; i < n; i++)
        skip[i] = valid[i] > 0 ? (uint32_t)below(c, valid[i]) : 0;
    touched(c, skip);
    return skip;
}

static void check_attn(struct check *c, enum sl_dtype type)
{
    struct sl_attn a = {.n_q = below(c, 14), .scale = uniform(c, 0, 0.3f)};
    struct sl_attn want, alone;
    size_t most, t;

    a.dim = 8 * (one_in(c, 4) ? 32 : below(c, 17));
    if (type == SL_BFP8)
        a.dim -= a.dim % SL_BFP;
    a.ld_q = a.dim + below(c, 5);
    a.q = in_floats(c, a.n_q ? (a.n_q - 1) * a.ld_q + a.dim : 0);
    a.n_valid = draw_valid(c, a.n_q, &most);
    a.n_skip = one_in(c, 2) ? draw_skip(c, a.n_valid, a.n_q) : NULL;
    describe(c, "queries %zu, dim %zu, up to %zu positions, fill %d", a.n_q,
             a.dim, most, (int)c->fill);
    draw_pages(c, &a, type, most);
    want = a;
    outputs(c, &want);
    outputs(c, &a);
    c->ref->attn[type](&want);
    c->fast->attn[type](&a);
    compare(c, "m", a.m, want.m, a.n_q);
    compare(c, "l", a.l, want.l, a.n_q);
    compare(c, "o", a.o, want.o, a.n_q * a.dim);
    if (a.n_q == 0)
        return;
    t = below(c, a.n_q);
    if (c->fill != FILL_BITS)
        query_mathematics(c, &a, type, t);
    alone = a;
    alone.n_q = 1;
    alone.q = a.q + t * a.ld_q;
    alone.n_valid = a.n_valid + t;
    alone.n_skip = a.n_skip ? a.n_skip + t : NULL;
    outputs(c, &alone);
    c->fast->attn[type](&alone);
    compare(c, "one query alone: m", alone.m, a.m + t, 1);
    compare(c, "one query alone: l", alone.l, a.l + t, 1);
    compare(c, "one query alone: o", alone.o, a.o + t * a.dim, a.dim);
}

static void check_attn_merge(struct check *c)
{
    size_t dim = any_size(c, 300);
    float m0 = one_in(c, 5) ? -INFINITY : any_float(c, c->fill);
    float l0 = any_float(c, c->fill), l2 = any_float(c, c->fill);
    float m2 = any_float(c, c->fill);
    float *o0 = in_floats(c, dim), *o2 = in_floats(c, dim);
    float *want = out_copy(c, o0, dim), *o = out_copy(c, o0, dim);
    float ml[2] = {m0, l0}, want_ml[2] = {m0, l0};
    double max = fmax((double)m0, (double)m2);
    double a = exp((double)m0 - max), b = exp((double)m2 - max);
    /* The difference, exp, the product, the sum. */
    double err = U * (fabs((double)m2 - (double)m0) + 6);

    describe(c, "dim %zu, m %a, m2 %a, fill %d", dim, (double)m0, (double)m2,
             (int)c->fill);
    c->ref->attn_merge(&want_ml[0], &want_ml[1], want, m2, l2, o2, dim);
    c->fast->attn_merge(&ml[0], &ml[1], o, m2, l2, o2, dim);
    compare(c, "m and l", ml, want_ml, 2);
    compare(c, "o", o, want, dim);
    if (c->fill == FILL_BITS)
        return;
    if (m0 == -INFINITY)
        err = 6 * U;
    compare_near(c, "m", 0, ml[0], max, 0);
    compare_near(c, "l", 0, ml[1], (double)l2 * b + (double)l0 * a,
                 err * (fabs((double)l2 * b) + fabs((double)l0 * a)));
    for (size_t d = 0; d < dim; d++) {
        double x = (double)o2[d] * b, y = (double)o0[d] * a;

        compare_near(c, "o", d, o[d], x + y, err * (fabs(x) + fabs(y)));
    }
}

static void check_put_k_f32(struct check *c)
{
    put(c, SL_F32, true);
}

static void check_put_k_bf16(struct check *c)
{
    put(c, SL_BF16, true);
}

static void check_put_v_f32(struct check *c)
{
    put(c, SL_F32, false);
}

static void check_put_v_bf16(struct check *c)
{
    put(c, SL_BF16, false);
}

static void check_attn_f32(struct check *c)
{
    check_attn(c, SL_F32);
}

static void check_attn_bf16(struct check *c)
{
    check_attn(c, SL_BF16);
}

static void check_put_k_bfp8(struct check *c)
{
    put(c, SL_BFP8, true);
}

static void check_put_v_bfp8(struct check *c)
{
    put(c, SL_BFP8, false);
}

static void check_attn_bfp8(struct check *c)
{
    check_attn(c, SL_BFP8);
}

const struct entry attn_entries[] = {
    {"put_k_f32", check_put_k_f32},   {"put_k_bf16", check_put_k_bf16},
    {"put_k_bfp8", check_put_k_bfp8}, {"put_v_f32", check_put_v_f32},
    {"put_v_bf16", check_put_v_bf16}, {"put_v_bfp8", check_put_v_bfp8},
    {"attn_f32", check_attn_f32},     {"attn_bf16", check_attn_bf16},
    {"attn_bfp8", check_attn_bfp8},   {"attn_merge", check_attn_merge},
    {NULL, NULL},
};
