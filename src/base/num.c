/* base/num.c - numbers from text; see num.h */
#include "base/num.h"

#include <locale.h>

#define MAX_DIGITS 64 /* bytes of a number that anybody writes */

static int bad(struct sl_err *err, const char *s, size_t len, const char *what)
{
    return sl_fail(err, SL_EARG, "%s: '%.*s' is not a number", what,
                   (int)sl_min(len, MAX_DIGITS), s);
}

int sl_num_i64(int64_t *out, const char *s, size_t len, int64_t lo, int64_t hi,
               const char *what, struct sl_err *err)
{
    size_t i = len > 0 && (s[0] == '-' || s[0] == '+');
    bool minus = i && s[0] == '-';
    int64_t v = 0;

    if (i == len)
        return bad(err, s, len, what);
    for (; i < len; i++) {
        int d = s[i] - '0';

        if (d < 0 || d > 9)
            return bad(err, s, len, what);
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, minus ? -d : d, &v))
            return sl_fail(err, SL_EARG,
                           "%s: %.*s is outside %lld to %lld", what,
                           (int)sl_min(len, MAX_DIGITS), s, (long long)lo,
                           (long long)hi);
    }
    if (v < lo || v > hi)
        return sl_fail(err, SL_EARG, "%s: %lld is outside %lld to %lld", what,
                       (long long)v, (long long)lo, (long long)hi);
    *out = v;
    return 0;
}

/* Digits, one point, one exponent, in this order; strtod alone would also take
 * spaces, hexadecimal, "inf" and "nan". */
static bool looks_decimal(const char *s, size_t len)
{
    size_t i = len > 0 && (s[0] == '-' || s[0] == '+'), n = 0, e = 0;

    for (; i < len && s[i] >= '0' && s[i] <= '9'; i++)
        n++;
    if (i < len && s[i] == '.')
        for (i++; i < len && s[i] >= '0' && s[i] <= '9'; i++)
            n++;
    if (n == 0)
        return false;
    if (i == len)
        return true;
    if (s[i] != 'e' && s[i] != 'E')
        return false;
    i++;
    if (i < len && (s[i] == '-' || s[i] == '+'))
        i++;
    for (; i < len && s[i] >= '0' && s[i] <= '9'; i++)
        e++;
    return i == len && e > 0;
}

int sl_num_f64(double *out, const char *s, size_t len, double lo, double hi,
               const char *what, struct sl_err *err)
{
    char text[MAX_DIGITS + 1];
    double v;

    if (len > MAX_DIGITS || !looks_decimal(s, len))
        return bad(err, s, len, what);
    memcpy(text, s, len);
    text[len] = 0;
    /* The library never calls setlocale; a host program that does is asked
     * for its decimal point. */
    for (char *p = text; *p; p++)
        if (*p == '.')
            *p = localeconv()->decimal_point[0];
    v = strtod(text, NULL);
    if (!(v >= lo && v <= hi))
        return sl_fail(err, SL_EARG, "%s: %.*s is outside %g to %g", what,
                       (int)len, s, lo, hi);
    *out = v;
    return 0;
}
