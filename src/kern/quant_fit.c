/* kern/quant_fit.c - the scale of a block that loses least; see quant_fit.h */
#include "kern/quant_fit.h"

#include <math.h>

#include "kern/coef.h"

/* Scales that are tried: the range of integers is made up to a unit smaller or
 * larger than it is, in this many steps to either side. Chosen: twice as many
 * gain a hundredth of what these gain. */
#define STEPS 7
#define STEP 0.15f

int sl_fit_divide(float v, float d, int lo, int hi, int zero)
{
    float f = v / d;

    if (d == 0)
        return zero;
    if (!(f > (float)lo))
        return lo;
    if (f > (float)hi)
        return hi;
    return (int)(f + SL_ROUND_MAGIC - SL_ROUND_MAGIC);
}

/* Elements are taken eight at a time, each lane with sums of its own, so that a
 * compiler can use vectors and every compiler adds in the same order. */
#define LANES 8

static float total(const float a[LANES])
{
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

/* The nearest integer, as a float; NaN stays. */
static float nearest(float f, float lo, float hi)
{
    f = f < lo ? lo : f;
    f = f > hi ? hi : f;
    return f + SL_ROUND_MAGIC - SL_ROUND_MAGIC;
}

double sl_fit_error(const float *x, const float *w, size_t n, float scale,
                    float min, int lo, int hi)
{
    float inv = scale != 0 ? 1 / scale : 0;
    float sum[LANES] = {0};

    for (size_t i = 0; i < n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            float u = nearest((x[i + k] + min) * inv, (float)lo, (float)hi);
            float e = scale * u - min - x[i + k];

            sum[k] += w[i + k] * (e * e);
        }
    return (double)total(sum);
}

static float fit_scale(const float *x, const float *w, size_t n, int lo, int hi,
                       int steps)
{
    float v = 0, best = 0;
    double top = 0;

    for (size_t i = 0; i < n; i++)
        v = fabsf(x[i]) > fabsf(v) ? x[i] : v;
    if (v == 0)
        return 0;
    best = v / (float)lo;
    for (int k = -steps; k <= steps; k++) {
        float inv = ((float)lo + STEP * (float)k) / v;
        float sxu[LANES] = {0}, suu[LANES] = {0};
        double xu, uu;

        for (size_t i = 0; i < n; i += LANES)
            for (size_t j = 0; j < LANES; j++) {
                float u = nearest(x[i + j] * inv, (float)lo, (float)hi);

                sxu[j] += w[i + j] * (x[i + j] * u);
                suu[j] += w[i + j] * (u * u);
            }
        xu = (double)total(sxu);
        uu = (double)total(suu);
        /* The error is sum x^2 - xu^2 / uu. */
        if (uu > 0 && xu * xu > top * uu) {
            top = xu * xu / uu;
            best = (float)(xu / uu);
        }
    }
    return best;
}

float sl_fit_scale(const float *x, const float *w, size_t n, int lo, int hi)
{
    return fit_scale(x, w, n, lo, hi, STEPS);
}

float sl_fit_quick(const float *x, const float *w, size_t n, int lo, int hi)
{
    return fit_scale(x, w, n, lo, hi, 0);
}

/* Sums over a block for one choice of integers, times the importance. */
struct sums {
    double n, u, uu, x, xu;
};

/* The best scale and min for these integers, and the error less sum x^2. */
static double solve(const struct sums *s, double *scale, double *min)
{
    double det = s->n * s->uu - s->u * s->u;

    if (det <= 0)
        return 0;
    *scale = (s->n * s->xu - s->x * s->u) / det;
    *min = (*scale * s->u - s->x) / s->n;
    if (*min < 0) {
        *min = 0;
        *scale = s->uu > 0 ? s->xu / s->uu : 0;
    }
    if (*scale < 0)
        return 0;
    return *scale * *scale * s->uu + *min * *min * s->n -
           2 * *scale * *min * s->u - 2 * *scale * s->xu + 2 * *min * s->x;
}

void sl_fit_affine(float *scale, float *min, const float *x, const float *w,
                   size_t n, int top)
{
    float lo = 0, hi = x[0], sw[LANES] = {0}, sx[LANES] = {0};
    double best = 0;

    for (size_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    *min = -lo;
    *scale = hi > lo ? (hi - lo) / (float)top : 0;
    if (!(hi > lo))
        return;
    for (size_t i = 0; i < n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            sw[j] += w[i + j];
            sx[j] += w[i + j] * x[i + j];
        }
    for (int k = -STEPS; k <= STEPS; k++) {
        float inv = ((float)top + STEP * (float)k) / (hi - lo);
        float su[LANES] = {0}, suu[LANES] = {0}, sxu[LANES] = {0};
        struct sums s = {.n = (double)total(sw), .x = (double)total(sx)};
        double a = 0, b = 0, e;

        for (size_t i = 0; i < n; i += LANES)
            for (size_t j = 0; j < LANES; j++) {
                float u = nearest((x[i + j] - lo) * inv, 0, (float)top);

                su[j] += w[i + j] * u;
                suu[j] += w[i + j] * (u * u);
                sxu[j] += w[i + j] * (x[i + j] * u);
            }
        s.u = (double)total(su);
        s.uu = (double)total(suu);
        s.xu = (double)total(sxu);
        e = solve(&s, &a, &b);
        if (e < best) {
            best = e;
            *scale = (float)a;
            *min = (float)b;
        }
    }
}
