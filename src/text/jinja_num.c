/* text/jinja_num.c - Python's numbers; see jinja_num.h
 *
 * repr() of a float is the shortest decimal that reads back as the same float:
 * the first precision at which printing and reading round-trips. printf and
 * strtod of the C library round correctly, so this is what Python prints too.
 *
 * What would need wider integers or libm's pow is refused rather than guessed:
 * a template of a chat has no use for it.
 */
#include "text/jinja_num.h"

#include <float.h>
#include <locale.h>

#include "base/num.h"
#include "text/jinja_text.h"

#define EXACT ((int64_t)1 << 53) /* every smaller integer is a double */
#define TWO63 9223372036854775808.0

/* "-d.ddddde-xx" of the C library, whatever its decimal point. */
static bool round_trips(const char *text, double f)
{
    double back = 0;

    return sl_num_f64(&back, text, strlen(text), -DBL_MAX, DBL_MAX, "", NULL) ==
               0 &&
           memcmp(&back, &f, sizeof(f)) == 0;
}

static void scientific(char out[SL_JINJA_FLOAT_TEXT], double f)
{
    for (int prec = 0; prec < 17; prec++) {
        snprintf(out, SL_JINJA_FLOAT_TEXT, "%.*e", prec, f);
        if (prec > 0) {
            char *point = strpbrk(out, localeconv()->decimal_point);

            if (point)
                *point = '.';
        }
        if (round_trips(out, f))
            return;
    }
}

/* The digits and the power of ten of the first. */
static int split(char digits[20], const char *sci, int *n)
{
    const char *e = strchr(sci, 'e');
    int64_t exp = 0;

    *n = 0;
    for (const char *p = sci; e && p < e && *n < 19; p++)
        if (*p >= '0' && *p <= '9')
            digits[(*n)++] = *p;
    if (e && sl_num_i64(&exp, e + 1, strlen(e + 1), -400, 400, "", NULL))
        exp = 0;
    return (int)exp;
}

void sl_jinja_float_text(char out[SL_JINJA_FLOAT_TEXT], double f)
{
    char sci[SL_JINJA_FLOAT_TEXT], d[20];
    const char *sign = __builtin_signbit(f) ? "-" : "";
    int n, e;

    if (f != f) {
        snprintf(out, SL_JINJA_FLOAT_TEXT, "nan");
        return;
    }
    if (f > DBL_MAX || f < -DBL_MAX) {
        snprintf(out, SL_JINJA_FLOAT_TEXT, "%sinf", sign);
        return;
    }
    scientific(sci, f);
    e = split(d, sci, &n);
    /* Python's float_repr_style: plain from 1e-4 up to below 1e16. */
    if (e < -4 || e >= 16)
        snprintf(out, SL_JINJA_FLOAT_TEXT, "%s%c%s%.*se%c%02d", sign, d[0],
                 n > 1 ? "." : "", n - 1, d + 1, e < 0 ? '-' : '+',
                 e < 0 ? -e : e);
    else if (e < 0)
        snprintf(out, SL_JINJA_FLOAT_TEXT, "%s0.%.*s%.*s", sign, -e - 1, "000",
                 n, d);
    else if (n <= e + 1)
        snprintf(out, SL_JINJA_FLOAT_TEXT, "%s%.*s%.*s.0", sign, n, d,
                 e + 1 - n, "0000000000000000");
    else
        snprintf(out, SL_JINJA_FLOAT_TEXT, "%s%.*s.%.*s", sign, e + 1, d,
                 n - e - 1, d + e + 1);
}

bool sl_jinja_float_round(double *out, double f, int64_t digits)
{
    char text[400];
    char *point;

    /* More decimals than a double has change nothing; fewer than none would
     * need rounding at powers of ten, which nobody asks for. */
    if (f != f || f > DBL_MAX || f < -DBL_MAX || digits > 300) {
        *out = f;
        return true;
    }
    if (digits < 0)
        return false;
    snprintf(text, sizeof(text), "%.*f", (int)sl_min((size_t)digits, 60), f);
    point = strpbrk(text, localeconv()->decimal_point);
    if (point)
        *point = '.';
    if (sl_num_f64(out, text, strlen(text), -DBL_MAX, DBL_MAX, "", NULL))
        *out = f; /* longer than sl_num takes: it was whole already */
    if (*out == 0 && __builtin_signbit(f))
        *out = -0.0;
    return true;
}

bool sl_jinja_float_floor(int64_t *out, double f)
{
    int64_t i;

    if (!(f >= -TWO63 && f < TWO63))
        return false;
    i = (int64_t)f; /* toward zero */
    if ((double)i > f) {
        if (i == INT64_MIN)
            return false;
        i--;
    }
    *out = i;
    return true;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    return 99;
}

/* "0x" and its like, where the base allows it. */
static bool skip_prefix(const char **s, size_t *len, int64_t *base)
{
    static const char letter[] = "xXoObB";
    static const int64_t of[] = {16, 8, 2};
    const char *at;

    if (*len < 2 || (*s)[0] != '0' || !(*s)[1])
        return false;
    at = strchr(letter, (*s)[1]);
    if (!at || (*base && *base != of[(at - letter) / 2]))
        return false;
    *base = of[(at - letter) / 2];
    *s += 2;
    *len -= 2;
    return true;
}

bool sl_jinja_int_parse(int64_t *out, const char *s, size_t len, int64_t base)
{
    int64_t v = 0;
    bool minus, digit = false, zero_only = false;

    sl_jinja_strip(&s, &len, NULL, 0, true, true);
    minus = len > 0 && s[0] == '-';
    if (len > 0 && (s[0] == '-' || s[0] == '+')) {
        s++;
        len--;
    }
    if (base != 0 && (base < 2 || base > 36))
        return false;
    if (skip_prefix(&s, &len, &base))
        digit = len > 0 && s[0] == '_'; /* 0x_1 is fine */
    if (digit) {
        s++;
        len--;
    }
    if (base == 0) {
        zero_only = len > 1 && s[0] == '0'; /* 007 is not, 000 is */
        base = 10;
    }
    digit = false;
    for (size_t i = 0; i < len; i++) {
        int d = digit_of(s[i]);

        if (s[i] == '_' && digit && i + 1 < len) {
            digit = false; /* one, and only between digits */
            continue;
        }
        if (d >= base || (zero_only && d))
            return false;
        digit = true;
        if (__builtin_mul_overflow(v, base, &v) ||
            __builtin_add_overflow(v, minus ? -d : d, &v))
            return false;
    }
    if (!digit)
        return false;
    *out = v;
    return true;
}

static bool is_word(const char *s, size_t len, const char *word)
{
    size_t n = strlen(word);

    if (len != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((s[i] | 0x20) != word[i])
            return false;
    return true;
}

bool sl_jinja_float_parse(double *out, const char *s, size_t len)
{
    char text[64];
    size_t n = 0, sign;
    double inf = (double)__builtin_inff();

    sl_jinja_strip(&s, &len, NULL, 0, true, true);
    sign = len > 0 && (s[0] == '-' || s[0] == '+');
    if (is_word(s + sign, len - sign, "nan")) {
        *out = (double)__builtin_nanf("");
        return true;
    }
    if (is_word(s + sign, len - sign, "inf") ||
        is_word(s + sign, len - sign, "infinity")) {
        *out = len && s[0] == '-' ? -inf : inf;
        return true;
    }
    for (size_t i = 0; i < len; i++) {
        bool between = i > 0 && i + 1 < len && digit_of(s[i - 1]) < 10 &&
                       digit_of(s[i + 1]) < 10;

        if (s[i] == '_' && between)
            continue;
        if (s[i] == '_' || n == sizeof(text))
            return false;
        text[n++] = s[i];
    }
    return sl_num_f64(out, text, n, -DBL_MAX, DBL_MAX, "", NULL) == 0;
}

static int order_int_float(int64_t i, double f)
{
    int64_t whole;

    if (f != f)
        return SL_JINJA_UNORDERED;
    if (f >= TWO63)
        return -1;
    if (f < -TWO63)
        return 1;
    whole = (int64_t)f;
    if (i != whole)
        return i < whole ? -1 : 1;
    return (f < (double)whole) - (f > (double)whole);
}

int sl_jinja_order_num(struct sl_jval a, struct sl_jval b)
{
    int c;

    if (a.kind == SL_J_FLOAT && b.kind == SL_J_FLOAT) {
        if (a.u.f != a.u.f || b.u.f != b.u.f)
            return SL_JINJA_UNORDERED;
        return (a.u.f > b.u.f) - (a.u.f < b.u.f);
    }
    if (b.kind == SL_J_FLOAT)
        return order_int_float(sl_jinja_int_of(a), b.u.f);
    if (a.kind == SL_J_FLOAT) {
        c = order_int_float(sl_jinja_int_of(b), a.u.f);
        return c == SL_JINJA_UNORDERED ? c : -c;
    }
    return (sl_jinja_int_of(a) > sl_jinja_int_of(b)) -
           (sl_jinja_int_of(a) < sl_jinja_int_of(b));
}

static struct sl_jval overflow(struct sl_jrun *r)
{
    sl_jinja_fail(r, SL_EUNSUP,
                  "an integer of more than 63 bits; this engine has no wider "
                  "ones");
    return sl_jinja_none();
}

static struct sl_jval by_zero(struct sl_jrun *r)
{
    sl_jinja_fail(r, SL_EARG, "division by zero");
    return sl_jinja_none();
}

static struct sl_jval int_pow(struct sl_jrun *r, int64_t a, int64_t b)
{
    int64_t v = 1;

    if (b < 0) {
        sl_jinja_fail(r, SL_EUNSUP,
                      "'**' with a negative exponent is not "
                      "supported");
        return sl_jinja_none();
    }
    if (a == 0 || a == 1)
        return sl_jinja_int(b == 0 ? 1 : a);
    if (a == -1)
        return sl_jinja_int(b % 2 ? -1 : 1);
    for (; b > 0; b--)
        if (__builtin_mul_overflow(v, a, &v))
            return overflow(r);
    return sl_jinja_int(v);
}

static struct sl_jval int_div(struct sl_jrun *r, int64_t a, int64_t b)
{
    if (b == 0)
        return by_zero(r);
    if (a > EXACT || a < -EXACT || b > EXACT || b < -EXACT)
        return overflow(r);
    return sl_jinja_float((double)a / (double)b);
}

/* Toward minus infinity, and the remainder has the sign of the divisor. */
static struct sl_jval int_floor(struct sl_jrun *r, char op, int64_t a,
                                int64_t b)
{
    int64_t q, m;

    if (b == 0)
        return by_zero(r);
    if (b == -1) {
        if (op == '%')
            return sl_jinja_int(0);
        return a == INT64_MIN ? overflow(r) : sl_jinja_int(-a);
    }
    q = a / b;
    m = a % b;
    if (m != 0 && (m < 0) != (b < 0)) {
        q--;
        m += b;
    }
    return sl_jinja_int(op == '%' ? m : q);
}

static struct sl_jval int_arith(struct sl_jrun *r, char op, int64_t a,
                                int64_t b)
{
    int64_t v = 0;
    bool over = false;

    switch (op) {
    case '+':
        over = __builtin_add_overflow(a, b, &v);
        break;
    case '-':
        over = __builtin_sub_overflow(a, b, &v);
        break;
    case '*':
        over = __builtin_mul_overflow(a, b, &v);
        break;
    case '/':
        return int_div(r, a, b);
    case 'p':
        return int_pow(r, a, b);
    default:
        return int_floor(r, op, a, b);
    }
    return over ? overflow(r) : sl_jinja_int(v);
}

/* C's fmod: exact, by the shift-and-subtract it is defined by; both finite,
 * b not 0. */
static double fmod_exact(double a, double b)
{
    double x = a < 0 ? -a : a, y = b < 0 ? -b : b;

    while (x >= y) {
        double t = y;

        while (t <= x / 2)
            t *= 2;
        x -= t;
    }
    return __builtin_signbit(a) ? -x : x;
}

static double floor_of(double f)
{
    int64_t i;

    if (!sl_jinja_float_floor(&i, f))
        return f; /* so large that it is whole */
    return i == 0 && __builtin_signbit(f) ? -0.0 : (double)i;
}

/* As float_divmod of CPython computes them. */
static struct sl_jval float_floor(char op, double a, double b)
{
    double mod = fmod_exact(a, b), div = (a - mod) / b, whole;

    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = __builtin_signbit(b) ? -0.0 : 0.0;
    }
    if (op == '%')
        return sl_jinja_float(mod);
    if (div == 0)
        return sl_jinja_float((a / b) < 0 || __builtin_signbit(a / b) ? -0.0
                                                                      : 0.0);
    whole = floor_of(div);
    return sl_jinja_float(div - whole > 0.5 ? whole + 1 : whole);
}

static bool finite_value(double f)
{
    return f >= -DBL_MAX && f <= DBL_MAX;
}

static struct sl_jval float_arith(struct sl_jrun *r, char op, double a,
                                  double b)
{
    switch (op) {
    case '+':
        return sl_jinja_float(a + b);
    case '-':
        return sl_jinja_float(a - b);
    case '*':
        return sl_jinja_float(a * b);
    case '/':
        return b == 0 ? by_zero(r) : sl_jinja_float(a / b);
    case 'p':
        sl_jinja_fail(r, SL_EUNSUP, "'**' of floats is not supported");
        return sl_jinja_none();
    default:
        break;
    }
    if (b == 0)
        return by_zero(r);
    if (!finite_value(a) || !finite_value(b)) {
        sl_jinja_fail(r, SL_EUNSUP,
                      "'//' and '%%' of infinities are not supported");
        return sl_jinja_none();
    }
    return float_floor(op, a, b);
}

struct sl_jval sl_jinja_arith(struct sl_jrun *r, char op, struct sl_jval a,
                              struct sl_jval b)
{
    if (a.kind == SL_J_FLOAT || b.kind == SL_J_FLOAT)
        return float_arith(r, op, sl_jinja_float_of(a), sl_jinja_float_of(b));
    return int_arith(r, op, sl_jinja_int_of(a), sl_jinja_int_of(b));
}
