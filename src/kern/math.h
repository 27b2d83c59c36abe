/* kern/math.h - the functions of one number that the token path may use
 *
 * libm differs between versions and machines, so these are ours: only fmaf and
 * sqrtf, which are correctly rounded by definition, come from outside. Each is
 * a fixed sequence of operations; vector versions repeat it to the bit. NaN
 * gives NaN.
 */
#ifndef SL_KERN_MATH_H
#define SL_KERN_MATH_H

#include "base/base.h"

float sl_exp(float x);      /* <= 2 ulp; 0 below -103.97, inf above 88.72 */
float sl_ln(float x);       /* <= 2 ulp for normal x > 0; ln(0) = -inf */
float sl_log1p(float x);    /* <= 2 ulp for x > -1 */
float sl_sin(float x);      /* |x| <= 2^19, absolute error <= 2^-23 */
float sl_cos(float x);      /* the same */
float sl_sigmoid(float x);  /* 1 / (1 + exp(-x)) */
float sl_silu(float x);     /* x * sigmoid's denominator: x / (1 + exp(-x)) */
float sl_softplus(float x); /* x > 20 ? x : log1p(exp(x)) */

/* theta^(-2 i / dim) for i < dim / 2, as the reference rounds it: the power in
 * double, then to fp32, then 1 / that in fp32. */
void sl_inv_freq(float *out, double theta, size_t dim);

static inline float sl_bf16_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;

    __builtin_memcpy(&f, &u, sizeof(f));
    return f;
}

/* Round to nearest even; NaN stays NaN (made quiet). */
static inline uint16_t sl_f32_bf16(float f)
{
    uint32_t u;

    __builtin_memcpy(&u, &f, sizeof(u));
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float sl_e4m3_f32(uint8_t b); /* FP8 E4M3 "fn": bias 7, no infinity */
float sl_f16_f32(uint16_t h);

#endif
