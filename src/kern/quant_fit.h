/* kern/quant_fit.h - the scale of a block that loses least
 *
 * From its extremes alone a block gets a scale that keeps the outermost value
 * and costs all others. Here some scales around that are tried, each with the
 * scale that fits its integers best (least squares, closed form), and the one
 * with the smallest sum of squared errors is kept, each times the importance w
 * of its column. With the mean square of a column's input for w that sum is the
 * expected error of the product, for inputs that do not depend on each other.
 *
 * Pure; the same input gives the same bits everywhere. n is a multiple of 8.
 */
#ifndef SL_KERN_QUANT_FIT_H
#define SL_KERN_QUANT_FIT_H

#include "base/base.h"

/* v / d rounded to the nearest integer, ties to even, within lo .. hi; `zero`
 * for d = 0. NaN gives lo. */
int sl_fit_divide(float v, float d, int lo, int hi, int zero);

/* x = scale * u, u from lo to hi with -lo > hi: the scale, with the sign that
 * lets the extreme be lo. */
float sl_fit_scale(const float *x, const float *w, size_t n, int lo, int hi);

/* The same for the integers of the extremes alone: ten times as fast. */
float sl_fit_quick(const float *x, const float *w, size_t n, int lo, int hi);

/* x = scale * u - min, u from 0 to top, both >= 0. */
void sl_fit_affine(float *scale, float *min, const float *x, const float *w,
                   size_t n, int top);

/* Sum of weighted squared errors of x against scale * u - min with the nearest
 * u. */
double sl_fit_error(const float *x, const float *w, size_t n, float scale,
                    float min, int lo, int hi);

#endif
