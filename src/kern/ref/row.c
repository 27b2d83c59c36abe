/* kern/ref/row.c - what happens to one row: norms, gates, maps, rotations
 */
#include <math.h>

#include "kern/math.h"
#include "kern/ref/ref.h"

/* Added to the sum of squares of the delta rule's keys and queries; the
 * constant of the model's definition. */
#define L2_EPS 1e-6f

float sl_lanes_sum__ref(float lane[16])
{
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

float sl_dot__ref(const float *restrict a, const float *restrict b, size_t n)
{
    float lane[16] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(a[i], b[i], lane[i % 16]);
    return sl_lanes_sum__ref(lane);
}

static float sum_of_squares(const float *x, size_t n)
{
    float lane[16] = {0};

    for (size_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    return sl_lanes_sum__ref(lane);
}

/* 1 / sqrt(mean(x^2) + eps) */
static float inverse_rms(const float *x, size_t n, float eps)
{
    return 1 / sqrtf(sum_of_squares(x, n) / (float)n + eps);
}

static void rmsnorm(float *y, const float *x, const float *restrict w, size_t n,
                    float eps)
{
    float s = inverse_rms(x, n, eps);

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * s * w[i];
}

static void gatednorm_silu(float *y, const float *x, const float *restrict z,
                           const float *restrict w, size_t n, float eps)
{
    float s = inverse_rms(x, n, eps);

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * s * w[i] * sl_silu(z[i]);
}

static void gatednorm_sigmoid(float *y, const float *x, const float *restrict z,
                              const float *restrict w, size_t n, float eps)
{
    float s = inverse_rms(x, n, eps);

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * s * w[i] * sl_sigmoid(z[i]);
}

static void l2norm(float *y, const float *x, size_t n, float scale)
{
    float s = 1 / sqrtf(sum_of_squares(x, n) + L2_EPS);

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * s * scale;
}

static void add(float *restrict y, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void axpy(float *restrict y, float a, const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void silu_mul(float *y, const float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sl_silu(g[i]) * u[i];
}

static void sigmoid_mul(float *y, const float *x, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * sl_sigmoid(g[i]);
}

static void exp_map(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sl_exp(x[i]);
}

static void sincos_map(float *restrict s, float *restrict c,
                       const float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s[i] = sl_sin(x[i]);
        c[i] = sl_cos(x[i]);
    }
}

static void rope(float *restrict x, const float *restrict s,
                 const float *restrict c, size_t half)
{
    for (size_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];

        x[i] = fmaf(a, c[i], -(b * s[i]));
        x[i + half] = fmaf(b, c[i], a * s[i]);
    }
}

static void conv(float *restrict y, const float *u0, const float *u1,
                 const float *u2, const float *u3, const float *restrict w,
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float a = w[i] * u0[i];

        a = fmaf(w[n + i], u1[i], a);
        a = fmaf(w[2 * n + i], u2[i], a);
        a = fmaf(w[3 * n + i], u3[i], a);
        y[i] = sl_silu(a);
    }
}

static void div_map(float *y, const float *x, float l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / l;
}

static size_t argmax(float *max, const float *x, size_t n)
{
    size_t best = 0;

    *max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (x[i] > *max) {
            *max = x[i];
            best = i;
        }
    }
    return best;
}

void sl_kern_init_ref_row(struct sl_kern *k)
{
    k->rmsnorm = rmsnorm;
    k->gatednorm_silu = gatednorm_silu;
    k->gatednorm_sigmoid = gatednorm_sigmoid;
    k->l2norm = l2norm;
    k->dot = sl_dot__ref;
    k->add = add;
    k->axpy = axpy;
    k->silu_mul = silu_mul;
    k->sigmoid_mul = sigmoid_mul;
    k->exp = exp_map;
    k->sincos = sincos_map;
    k->rope = rope;
    k->conv = conv;
    k->div = div_map;
    k->argmax = argmax;
}
