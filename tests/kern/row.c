/* tests/kern/row.c - norms, gates, maps, rotations
 *
 * Bounds are sums of relative errors of the operations on the way, in units of
 * u = 2^-24; a function of kern/math.h that promises 2 units of the last place
 * counts as 4 u.
 */
#include <math.h>

#include "check.h"

#define U 0x1p-24
/* silu and sigmoid: exp (4 u), the sum, the quotient, and room. */
#define SILU_ERR (8 * U)
#define MAX_LEN 700

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* y may be x: half of the cases are in place. */
static float *maybe_in_place(struct check *c, const float **x, size_t n)
{
    float *y;

    if (one_in(c, 2))
        return out_floats(c, n);
    y = out_copy(c, *x, n);
    *x = y;
    return y;
}

/* A sum of squares in sixteen lanes, its mean, the square root and quotient:
 * half of n / 16 + 7 roundings, then two, and the products. */
static double norm_err(size_t n)
{
    return gamma_n(n / 16 + 14);
}

static double sum_of_squares(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

static void check_rmsnorm(struct check *c)
{
    size_t n = 1 + any_size(c, MAX_LEN);
    const float eps = 1e-6f;
    float *x = in_floats(c, n), *w = in_floats(c, n);
    float *want = out_floats(c, n);
    const float *arg = x;
    float *y = maybe_in_place(c, &arg, n);
    double s = 1 / sqrt(sum_of_squares(x, n) / (double)n + (double)eps);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->rmsnorm(want, x, w, n, eps);
    c->fast->rmsnorm(y, arg, w, n, eps);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        double v = (double)x[i] * s * (double)w[i];

        compare_near(c, "y", i, y[i], v, norm_err(n) * fabs(v));
    }
}

static void gatednorm(struct check *c, sl_gatednorm_fn *ref,
                      sl_gatednorm_fn *fast, bool silu)
{
    size_t n = 1 + any_size(c, MAX_LEN);
    const float eps = 1e-6f;
    float *x = in_floats(c, n), *w = in_floats(c, n), *z = in_floats(c, n);
    float *want = out_floats(c, n);
    const float *arg = x;
    float *y = maybe_in_place(c, &arg, n);
    double s = 1 / sqrt(sum_of_squares(x, n) / (double)n + (double)eps);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    ref(want, x, z, w, n, eps);
    fast(y, arg, z, w, n, eps);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        double g = sigmoid((double)z[i]) * (silu ? (double)z[i] : 1);
        double v = (double)x[i] * s * (double)w[i] * g;

        compare_near(c, "y", i, y[i], v, (norm_err(n) + SILU_ERR) * fabs(v));
    }
}

static void check_gatednorm_silu(struct check *c)
{
    gatednorm(c, c->ref->gatednorm_silu, c->fast->gatednorm_silu, true);
}

static void check_gatednorm_sigmoid(struct check *c)
{
    gatednorm(c, c->ref->gatednorm_sigmoid, c->fast->gatednorm_sigmoid, false);
}

static void check_l2norm(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float scale = uniform(c, 0, 1);
    float *x = in_floats(c, n), *want = out_floats(c, n);
    const float *arg = x;
    float *y = maybe_in_place(c, &arg, n);
    double s = (double)scale / sqrt(sum_of_squares(x, n) + 1e-6);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->l2norm(want, x, n, scale);
    c->fast->l2norm(y, arg, n, scale);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++)
        compare_near(c, "y", i, y[i], (double)x[i] * s,
                     norm_err(n) * fabs((double)x[i] * s));
}

static void check_dot(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float *a = in_floats(c, n), *b = in_floats(c, n);
    float want, y;
    double sum = 0, mag = 0;

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    want = c->ref->dot(a, b, n);
    y = c->fast->dot(a, b, n);
    compare(c, "y", &y, &want, 1);
    for (size_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
        mag += fabs((double)a[i] * (double)b[i]);
    }
    if (c->fill != FILL_BITS)
        compare_near(c, "y", 0, y, sum,
                     c->fill == FILL_INT ? 0 : gamma_n(n) * mag);
}

static void check_add(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float *x = in_floats(c, n), *y0 = in_floats(c, n);
    float *want = out_copy(c, y0, n), *y = out_copy(c, y0, n);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->add(want, x, n);
    c->fast->add(y, x, n);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        double v = (double)x[i] + (double)y0[i];

        compare_near(c, "y", i, y[i], v, U * fabs(v));
    }
}

static void check_axpy(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float a = any_float(c, c->fill);
    float *x = in_floats(c, n), *y0 = in_floats(c, n);
    float *want = out_copy(c, y0, n), *y = out_copy(c, y0, n);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->axpy(want, a, x, n);
    c->fast->axpy(y, a, x, n);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        double v = (double)a * (double)x[i] + (double)y0[i];

        compare_near(c, "y", i, y[i], v, U * fabs(v));
    }
}

static void check_silu_mul(struct check *c)
{
    size_t n = any_size(c, MAX_LEN), in_place = below(c, 3);
    float *g = in_floats(c, n), *u = in_floats(c, n);
    float *want = out_floats(c, n);
    float *y = in_place == 0   ? out_floats(c, n)
               : in_place == 1 ? out_copy(c, g, n)
                               : out_copy(c, u, n);

    describe(c, "n %zu, fill %d, in place %zu", n, (int)c->fill, in_place);
    c->ref->silu_mul(want, g, u, n);
    c->fast->silu_mul(y, in_place == 1 ? y : g, in_place == 2 ? y : u, n);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        double v = (double)g[i] * sigmoid((double)g[i]) * (double)u[i];

        compare_near(c, "y", i, y[i], v, SILU_ERR * fabs(v));
    }
}

static void check_sigmoid_mul(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float *x = in_floats(c, n), *g = in_floats(c, n);
    float *want = out_floats(c, n);
    const float *arg = x;
    float *y = maybe_in_place(c, &arg, n);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->sigmoid_mul(want, x, g, n);
    c->fast->sigmoid_mul(y, arg, g, n);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        double v = (double)x[i] * sigmoid((double)g[i]);

        compare_near(c, "y", i, y[i], v, SILU_ERR * fabs(v));
    }
}

/* Uniform values from all of the domain in some cases. */
static float *arguments(struct check *c, size_t n, float range)
{
    float *x = in_floats(c, n);

    if (c->fill == FILL_UNIFORM)
        for (size_t i = 0; i < n; i++)
            x[i] *= range;
    touched(c, x);
    return x;
}

static void check_exp(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float *x = arguments(c, n, 100), *want = out_floats(c, n);
    const float *arg = x;
    float *y = maybe_in_place(c, &arg, n);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->exp(want, x, n);
    c->fast->exp(y, arg, n);
    compare(c, "y", y, want, n);
    for (size_t i = 0; i < n; i++) {
        double v = exp((double)x[i]);

        if (c->fill != FILL_BITS && v < 0x1p127)
            compare_near(c, "y", i, y[i], v, 4 * U * v + 0x1p-149);
    }
}

static void check_sincos(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float *x = arguments(c, n, 0x1p19f);
    float *want_s = out_floats(c, n), *want_c = out_floats(c, n);
    float *s = out_floats(c, n), *co = out_floats(c, n);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->sincos(want_s, want_c, x, n);
    c->fast->sincos(s, co, x, n);
    compare(c, "s", s, want_s, n);
    compare(c, "c", co, want_c, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        compare_near(c, "s", i, s[i], sin((double)x[i]), 0x1p-23);
        compare_near(c, "c", i, co[i], cos((double)x[i]), 0x1p-23);
    }
}

static void check_rope(struct check *c)
{
    size_t half = any_size(c, 130);
    float *x0 = in_floats(c, 2 * half), *s = in_floats(c, half);
    float *co = in_floats(c, half);
    float *want = out_copy(c, x0, 2 * half), *x = out_copy(c, x0, 2 * half);

    describe(c, "half %zu, fill %d", half, (int)c->fill);
    c->ref->rope(want, s, co, half);
    c->fast->rope(x, s, co, half);
    compare(c, "x", x, want, 2 * half);
    for (size_t i = 0; c->fill != FILL_BITS && i < half; i++) {
        double a = (double)x0[i], b = (double)x0[i + half];
        double vc = (double)co[i], vs = (double)s[i];

        compare_near(c, "x", i, x[i], a * vc - b * vs,
                     2 * U * (fabs(a * vc) + fabs(b * vs)));
        compare_near(c, "x", i + half, x[i + half], b * vc + a * vs,
                     2 * U * (fabs(b * vc) + fabs(a * vs)));
    }
}

static void check_conv(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float *u[4], *w, *y, *want;

    for (size_t i = 0; i < 4; i++) /* the inputs may be the same row */
        u[i] = i > 0 && one_in(c, 4) ? u[i - 1] : in_floats(c, n);
    w = in_floats(c, 4 * n);
    want = out_floats(c, n);
    y = out_floats(c, n);
    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->conv(want, u[0], u[1], u[2], u[3], w, n);
    c->fast->conv(y, u[0], u[1], u[2], u[3], w, n);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && i < n; i++) {
        double a = 0, mag = 0, v;

        for (size_t k = 0; k < 4; k++) {
            a += (double)w[k * n + i] * (double)u[k][i];
            mag += fabs((double)w[k * n + i] * (double)u[k][i]);
        }
        v = a * sigmoid(a);
        /* The slope of silu is at most 1.1. */
        compare_near(c, "y", i, y[i], v,
                     1.1 * gamma_n(4) * mag + SILU_ERR * fabs(v));
    }
}

static void check_div(struct check *c)
{
    size_t n = any_size(c, MAX_LEN);
    float l = any_float(c, c->fill);
    float *x = in_floats(c, n), *want = out_floats(c, n);
    const float *arg = x;
    float *y = maybe_in_place(c, &arg, n);

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    c->ref->div(want, x, l, n);
    c->fast->div(y, arg, l, n);
    compare(c, "y", y, want, n);
    for (size_t i = 0; c->fill != FILL_BITS && l != 0 && i < n; i++) {
        double v = (double)x[i] / (double)l;

        compare_near(c, "y", i, y[i], v, U * fabs(v) + 0x1p-150);
    }
}

/* From the definition: not less than any, and greater than all before it. */
static void check_argmax(struct check *c)
{
    size_t n = any_size(c, MAX_LEN), want, got;
    float *x = in_floats(c, n);
    float want_max, max;

    describe(c, "n %zu, fill %d", n, (int)c->fill);
    for (size_t i = 0; i < n; i++) /* zeros of both signs meet */
        if (c->fill == FILL_INT && x[i] > 0 && one_in(c, 2))
            x[i] = one_in(c, 2) ? 0.0f : -0.0f;
    touched(c, x);
    want = c->ref->argmax(&want_max, x, n);
    got = c->fast->argmax(&max, x, n);
    compare(c, "max", &max, &want_max, 1);
    if (got != want)
        complain(c, "index %zu, reference %zu", got, want);
    for (size_t i = 0; i < n; i++)
        if (x[i] > max || (i < got && x[i] == max))
            complain(c, "index %zu, but element %zu is %a", got, i,
                     (double)x[i]);
    if (n > 0 && max != -INFINITY && !same(max, x[got]))
        complain(c, "the maximum is not the element %zu", got);
}

const struct entry row_entries[] = {
    {"rmsnorm", check_rmsnorm},
    {"gatednorm_silu", check_gatednorm_silu},
    {"gatednorm_sigmoid", check_gatednorm_sigmoid},
    {"l2norm", check_l2norm},
    {"dot", check_dot},
    {"add", check_add},
    {"axpy", check_axpy},
    {"silu_mul", check_silu_mul},
    {"sigmoid_mul", check_sigmoid_mul},
    {"exp", check_exp},
    {"sincos", check_sincos},
    {"rope", check_rope},
    {"conv", check_conv},
    {"div", check_div},
    {"argmax", check_argmax},
    {NULL, NULL},
};
