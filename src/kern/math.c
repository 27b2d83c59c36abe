/* kern/math.c - exp, log, sin, cos and what is made of them
 *
 * Each function is a reduction of the argument, a polynomial in fused
 * multiply-adds, and a way back, without a branch that matters: the vector
 * versions do exactly the same for every lane and choose at the end. The
 * constants and their errors are in coef.h; the methods are the usual ones
 * (Cody and Waite, Software Manual for the Elementary Functions, 1980; Muller,
 * Elementary Functions, 3rd ed., 2016).
 *
 * Measured against double over every binary32 bit pattern of the domain
 * (tests/unit/test_math.c repeats a part): see the comments below.
 */
#include "kern/math.h"

#include <math.h>
#include <string.h>

#include "kern/coef.h"

static uint32_t bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static float from_bits(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

/* 2^n for -126 <= n <= 127. */
static float pow2(int32_t n)
{
    return from_bits((uint32_t)(n + 127) << 23);
}

/* An arithmetic shift, which C leaves to the compiler for negative numbers.
 * All that we support shift in copies of the sign. */
static int32_t shift_right(uint32_t u, int n)
{
    return (int32_t)u >> n;
}

/* exp(x) = 2^n exp(r), r = x - n ln 2, |r| <= ln(2) / 2. The power is applied
 * in two steps: half of n is always a normal number, the first product is
 * exact, and the second rounds once even when the result is subnormal. */
float sl_exp(float x)
{
    float t, n, r, p;
    uint32_t k;
    int32_t half;

    x = x > SL_EXP_MAX ? SL_EXP_MAX : x;
    x = x < SL_EXP_MIN ? SL_EXP_MIN : x;
    t = fmaf(x, SL_LOG2E, SL_ROUND_MAGIC);
    n = t - SL_ROUND_MAGIC;
    k = bits(t) - SL_ROUND_MAGIC_BITS;
    r = fmaf(n, -SL_LN2_HI, x);
    r = fmaf(n, -SL_LN2_LO, r);
    p = fmaf(SL_EXP_C6, r, SL_EXP_C5);
    p = fmaf(p, r, SL_EXP_C4);
    p = fmaf(p, r, SL_EXP_C3);
    p = fmaf(p, r, SL_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    if (isnan(x))
        return x;
    half = shift_right(k, 1);
    return p * pow2(half) * pow2((int32_t)k - half);
}

/* log(2^e (1 + f)); e is a small integer. */
static float log_tail(float f, float e)
{
    float z = f * f;
    float p = fmaf(SL_LOG_C10, f, SL_LOG_C9);
    float y;

    p = fmaf(p, f, SL_LOG_C8);
    p = fmaf(p, f, SL_LOG_C7);
    p = fmaf(p, f, SL_LOG_C6);
    p = fmaf(p, f, SL_LOG_C5);
    p = fmaf(p, f, SL_LOG_C4);
    p = fmaf(p, f, SL_LOG_C3);
    y = p * f * z;
    y = fmaf(e, SL_LN2_LO, y);
    y = fmaf(-0.5f, z, y);
    y = f + y;
    return fmaf(e, SL_LN2_HI, y);
}

/* x = 2^e m with sqrt(1/2) <= m < sqrt(2), for normal x. */
static int32_t log_split(float x, float *m)
{
    uint32_t u = bits(x);
    int32_t e = shift_right(u - SL_SQRT_HALF_BITS, 23);

    *m = from_bits(u - ((uint32_t)e << 23));
    return e;
}

float sl_ln(float x)
{
    float scaled = x < SL_MIN_NORMAL ? x * 0x1p23f : x;
    float m;
    int32_t e = log_split(scaled, &m) - (x < SL_MIN_NORMAL ? 23 : 0);

    if (x == 0)
        return -INFINITY;
    if (x == INFINITY)
        return x;
    if (!(x > 0))
        return NAN;
    return log_tail(m - 1, (float)e);
}

/* With 1 + x = 2^e (1 + f):  f = 2^-e x + (2^-e - 1), which one fma rounds
 * once; 2^-e - 1 is exact where it matters. When x is so large that the 1 is
 * lost, f comes from its bits (and 2^-e would be no normal number). */
float sl_log1p(float x)
{
    float u = 1 + x;
    float m, f;
    int32_t e = log_split(u, &m);

    if (u == 0)
        return -INFINITY;
    if (u == INFINITY)
        return u;
    if (!(u > 0))
        return NAN;
    if (e < 64) /* any limit between 26 and 126 */
        f = fmaf(x, pow2(-e), pow2(-e) - 1);
    else
        f = m - 1;
    return log_tail(f, (float)e);
}

/* x = n pi / 2 + r, |r| <= pi / 4 and a little; the low bits of the result are
 * n. */
static uint32_t quadrant(float x, float *r)
{
    float t = fmaf(x, SL_TWO_OVER_PI, SL_ROUND_MAGIC);
    float n = t - SL_ROUND_MAGIC;

    *r = fmaf(n, -SL_PIO2_1, x);
    *r = fmaf(n, -SL_PIO2_2, *r);
    *r = fmaf(n, -SL_PIO2_3, *r);
    return bits(t);
}

static float sin_poly(float r)
{
    float z = r * r;
    float p = fmaf(SL_SIN_C7, z, SL_SIN_C5);

    p = fmaf(p, z, SL_SIN_C3);
    return fmaf(r * z, p, r);
}

static float cos_poly(float r)
{
    float z = r * r;
    float p = fmaf(SL_COS_C8, z, SL_COS_C6);

    p = fmaf(p, z, SL_COS_C4);
    return fmaf(z * z, p, fmaf(-0.5f, z, 1.0f));
}

float sl_sin(float x)
{
    float r;
    uint32_t n = quadrant(x, &r);
    float y = n & 1 ? cos_poly(r) : sin_poly(r);

    return n & 2 ? -y : y;
}

float sl_cos(float x)
{
    float r;
    uint32_t n = quadrant(x, &r);
    float y = n & 1 ? sin_poly(r) : cos_poly(r);

    return (n + 1) & 2 ? -y : y;
}

float sl_sigmoid(float x)
{
    return 1 / (1 + sl_exp(-x));
}

float sl_silu(float x)
{
    return x / (1 + sl_exp(-x));
}

float sl_softplus(float x)
{
    return x > 20 ? x : sl_log1p(sl_exp(x));
}

/* ln x for normal x > 0:  x = 2^e m, ln m = 2 artanh((m - 1) / (m + 1)). */
static double log_double(double x)
{
    uint64_t u;
    double m, s, z, sum = 0;
    int e;

    memcpy(&u, &x, sizeof(u));
    e = (int)(u >> 52 & 0x7ff) - 1023;
    u = (u & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    memcpy(&m, &u, sizeof(m));
    s = (m - 1) / (m + 1); /* below 1/3: 18 terms reach 2^-57 */
    z = s * s;
    for (int k = 17; k >= 0; k--)
        sum = sum * z + 1.0 / (2 * k + 1);
    return e * 0x1.62e42fefa39efp-1 + 2 * s * sum;
}

/* e^y for |y| <= 700: e^y = 2^n e^r, Taylor's series for r. */
static double exp_double(double y)
{
    double r, sum = 1, scale;
    int n = (int)(y * 0x1.71547652b82fep+0 + (y < 0 ? -0.5 : 0.5));
    uint64_t u = (uint64_t)(n + 1023) << 52;

    r = y - n * 0x1.62e42feep-1 - n * 0x1.a39ef35793c76p-33;
    for (int k = 14; k > 0; k--) /* 0.35^15 / 15! is below 2^-62 */
        sum = 1 + sum * r / k;
    memcpy(&scale, &u, sizeof(scale));
    return sum * scale;
}

/* The reference divides the index by dim in fp32 first, which is exact only
 * when dim is a power of two. */
void sl_inv_freq(float *out, double theta, size_t dim)
{
    double log_theta = log_double(theta);

    for (size_t i = 0; i < dim / 2; i++) {
        double y = (double)((float)(2 * i) / (float)dim) * log_theta;

        y = y > 700 ? 700 : y; /* theta comes from a file */
        y = y > -700 ? y : -700;
        out[i] = 1 / (float)exp_double(y);
    }
}

/* s eeee mmm, bias 7: as the exponent and mantissa of a float it is 2^-120
 * times its value, subnormal ones included. */
float sl_e4m3_f32(uint8_t b)
{
    uint32_t mag = b & 0x7f;
    float f = from_bits(mag << 20) * 0x1p120f;

    if (mag == 0x7f)
        return NAN;
    return b & 0x80 ? -f : f;
}

/* s eeeee mmmmmmmmmm, bias 15. */
float sl_f16_f32(uint16_t h)
{
    uint32_t mag = h & 0x7fff;
    float f = from_bits(mag << 13) * 0x1p112f;

    if (mag >= 0x7c00)
        f = from_bits(mag << 13 | 0x7f800000u);
    return h & 0x8000 ? -f : f;
}
