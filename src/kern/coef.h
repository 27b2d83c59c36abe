/* kern/coef.h - the constants of exp, log, sin and cos
 *
 * Shared by the scalar functions (math.c) and their vector copies, which do
 * the same operations in the same order.
 *
 * The polynomials are minimax fits of our own (Lawson's iteration on 4,000
 * Chebyshev points in double, coefficients rounded to binary32 from the highest
 * down, the lower ones fitted again after each). The error behind each is that
 * of the rounded polynomial in exact arithmetic.
 */
#ifndef SL_KERN_COEF_H
#define SL_KERN_COEF_H

/* As bit patterns: the constant below, and sqrt(1/2). */
enum { SL_ROUND_MAGIC_BITS = 0x4b400000, SL_SQRT_HALF_BITS = 0x3f3504f3 };

/* Adding and taking away 1.5 * 2^23 rounds a float of magnitude below 2^22 to
 * the nearest integer, and leaves that integer in the low bits between. */
#define SL_ROUND_MAGIC 0x1.8p23f

#define SL_LOG2E 0x1.715476p+0f
/* ln 2 in two parts; the first has 16 bits, so that n * HI is exact for every
 * exponent n. */
#define SL_LN2_HI 0x1.62e4p-1f
#define SL_LN2_LO 0x1.7f7d1cp-20f

/* exp: beyond these the result is inf or 0 whatever follows. */
#define SL_EXP_MAX 89.0f
#define SL_EXP_MIN -104.0f
/* exp(r) = 1 + r + r^2 P(r), |r| <= ln(2) / 2: relative error 2^-27.8. */
#define SL_EXP_C2 0x1.fffffcp-2f
#define SL_EXP_C3 0x1.55549p-3f
#define SL_EXP_C4 0x1.5558f8p-5f
#define SL_EXP_C5 0x1.123b04p-7f
#define SL_EXP_C6 0x1.6a2252p-10f

/* log(1 + f) = f - f^2 / 2 + f^3 P(f), sqrt(1/2) <= 1 + f < sqrt(2): relative
 * error 2^-27.2. */
#define SL_LOG_C3 0x1.555554p-2f
#define SL_LOG_C4 -0x1.000226p-2f
#define SL_LOG_C5 0x1.99a008p-3f
#define SL_LOG_C6 -0x1.547244p-3f
#define SL_LOG_C7 0x1.22da24p-3f
#define SL_LOG_C8 -0x1.0d8554p-3f
#define SL_LOG_C9 0x1.055b44p-3f
#define SL_LOG_C10 -0x1.38b4ccp-4f
#define SL_MIN_NORMAL 0x1p-126f

#define SL_TWO_OVER_PI 0x1.45f306p-1f
/* pi / 2 in three parts of 24 bits. For |x| <= 2^19, x - n * P1 is exact. */
#define SL_PIO2_1 0x1.921fb6p+0f
#define SL_PIO2_2 -0x1.777a5cp-25f
#define SL_PIO2_3 -0x1.ee59dap-50f
/* sin(r) = r + r^3 P(r^2), cos(r) = 1 - r^2 / 2 + r^4 P(r^2), |r| <= 1.01 pi/4:
 * absolute errors 2^-28.0 and 2^-32.7. */
#define SL_SIN_C3 -0x1.55553ep-3f
#define SL_SIN_C5 0x1.11053ep-7f
#define SL_SIN_C7 -0x1.98b568p-13f
#define SL_COS_C4 0x1.55554ap-5f
#define SL_COS_C6 -0x1.6c0c22p-10f
#define SL_COS_C8 0x1.99e338p-16f

#endif
