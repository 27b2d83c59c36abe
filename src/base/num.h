/* base/num.h - numbers from text (rule U4)
 *
 * Pointer and length, the whole text must be the number: no spaces, no
 * trailing bytes. The message names `what`, the text and the range.
 */
#ifndef SL_BASE_NUM_H
#define SL_BASE_NUM_H

#include "base/err.h"

int sl_num_i64(int64_t *out, const char *s, size_t len, int64_t lo, int64_t hi,
               const char *what, struct sl_err *err);

/* Decimal with optional fraction and exponent; finite, lo <= x <= hi. Does not
 * depend on the locale. */
int sl_num_f64(double *out, const char *s, size_t len, double lo, double hi,
               const char *what, struct sl_err *err);

#endif
