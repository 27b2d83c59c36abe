/* sample/number_range.c - decimal numbers between limits, as a node
 *
 * Digit by digit: a number follows a limit as long as its digits are the
 * limit's, and is free once one is larger (or smaller). Whole parts are taken
 * by length, fractions from the left. The negative numbers of a range are a "-"
 * and the positive numbers of the range with its ends changed over.
 *
 * All recursions go one digit further each time, so their depth is the number
 * of digits.
 */
#include "sample/number_range.h"

#include "base/num.h"

#define DIGITS SL_NUMBER_DIGITS
#define LARGEST 999999999999999u /* of DIGITS digits */
#define ONE (LARGEST + 1)

/* A limit that is not negative: whole.frac */
struct decimal {
    bool none; /* no limit */
    bool excluded;
    uint64_t whole;
    char frac[DIGITS + 1]; /* digits, without zeros at the end */
};

static uint32_t digits(struct sl_grammar *g, char a, char b, uint32_t lo,
                       uint32_t hi)
{
    struct sl_range r = {(unsigned char)a, (unsigned char)b};

    return sl_grammar_repeat(g, sl_grammar_set(g, &r, 1), lo, hi);
}

static uint32_t seq2(struct sl_grammar *g, uint32_t a, uint32_t b)
{
    uint32_t s = sl_grammar_seq(g);

    sl_grammar_add(g, s, a);
    sl_grammar_add(g, s, b);
    return s;
}

static bool all_are(const char *p, uint32_t n, char c)
{
    for (uint32_t i = 0; i < n; i++)
        if (p[i] != c)
            return false;
    return true;
}

/* ------------------------------------------------------------- whole numbers
 */

/* Numbers of n digits from a to b, zeros in front allowed. */
static uint32_t same_length(struct sl_grammar *g, const char *a, const char *b,
                            uint32_t n)
{
    static const char zeros[] = "0000000000000000000",
                      nines[] = "9999999999999999999";
    char lo = *a, hi = *b;
    uint32_t alt;

    if (all_are(a, n, '0') && all_are(b, n, '9'))
        return digits(g, '0', '9', n, n);
    if (lo == hi)
        return seq2(g, digits(g, lo, lo, 1, 1),
                    same_length(g, a + 1, b + 1, n - 1));
    alt = sl_grammar_alt(g);
    if (!all_are(a + 1, n - 1, '0')) {
        sl_grammar_add(g, alt,
                       seq2(g, digits(g, lo, lo, 1, 1),
                            same_length(g, a + 1, nines, n - 1)));
        lo++;
    }
    if (!all_are(b + 1, n - 1, '9')) {
        sl_grammar_add(g, alt,
                       seq2(g, digits(g, hi, hi, 1, 1),
                            same_length(g, zeros, b + 1, n - 1)));
        hi--;
    }
    if (lo <= hi)
        sl_grammar_add(g, alt,
                       seq2(g, digits(g, lo, hi, 1, 1),
                            digits(g, '0', '9', n - 1, n - 1)));
    return alt;
}

/* a to b, no zeros in front. */
static uint32_t between(struct sl_grammar *g, uint64_t a, uint64_t b)
{
    uint32_t alt = sl_grammar_alt(g);
    uint64_t least = 0, most = 9;

    for (uint32_t n = 1; n <= DIGITS && a <= b; n++) {
        char lo[DIGITS + 1], hi[DIGITS + 1];

        if (a <= most && b >= least) {
            snprintf(lo, sizeof(lo), "%0*llu", (int)n,
                     (unsigned long long)(a > least ? a : least));
            snprintf(hi, sizeof(hi), "%0*llu", (int)n,
                     (unsigned long long)(b < most ? b : most));
            sl_grammar_add(g, alt, same_length(g, lo, hi, n));
        }
        least = most + 1;
        most = most * 10 + 9;
    }
    return alt;
}

/* ------------------------------------------------------------------ fractions
 */

static char frac_digit(const struct decimal *d, uint32_t i)
{
    return i < strlen(d->frac) ? d->frac[i] : '0';
}

static bool is_zero_from(const struct decimal *d, uint32_t i)
{
    return i >= strlen(d->frac);
}

/* The digits of a fraction from the i-th on, `left` at most, so that it lies
 * between the limits' from there; a limit that is NULL is met already. */
static uint32_t fraction(struct sl_grammar *g, const struct decimal *lo,
                         const struct decimal *hi, uint32_t i, uint32_t left)
{
    uint32_t alt = sl_grammar_alt(g);
    char a, b;

    if (lo && is_zero_from(lo, i) && !lo->excluded)
        lo = NULL;
    if (!lo && !hi)
        return digits(g, '0', '9', 0, left);
    if (!lo && !(hi->excluded && is_zero_from(hi, i)))
        sl_grammar_add(g, alt, sl_grammar_seq(g)); /* no further digits */
    if (left == 0 || (hi && hi->excluded && is_zero_from(hi, i)))
        return alt;
    a = lo ? frac_digit(lo, i) : '0';
    b = hi ? frac_digit(hi, i) : '9';
    if (a > b)
        return alt;
    if (a == b && lo && hi) {
        sl_grammar_add(g, alt,
                       seq2(g, digits(g, a, a, 1, 1),
                            fraction(g, lo, hi, i + 1, left - 1)));
        return alt;
    }
    if (lo) {
        sl_grammar_add(g, alt,
                       seq2(g, digits(g, a, a, 1, 1),
                            fraction(g, lo, NULL, i + 1, left - 1)));
        a++;
    }
    if (hi) {
        sl_grammar_add(g, alt,
                       seq2(g, digits(g, b, b, 1, 1),
                            fraction(g, NULL, hi, i + 1, left - 1)));
        b--;
    }
    if (a <= b)
        sl_grammar_add(
            g, alt,
            seq2(g, digits(g, a, b, 1, 1), digits(g, '0', '9', 0, left - 1)));
    return alt;
}

/* "." and digits between the limits, or nothing if zero lies there. */
static uint32_t point(struct sl_grammar *g, const struct decimal *lo,
                      const struct decimal *hi)
{
    uint32_t alt = sl_grammar_alt(g), f;

    if ((!lo || (is_zero_from(lo, 0) && !lo->excluded)) &&
        (!hi || !(is_zero_from(hi, 0) && hi->excluded)))
        sl_grammar_add(g, alt, sl_grammar_seq(g));
    /* A point wants a digit: "0" in front of the last choice makes it so. */
    if (!lo && !hi) {
        f = digits(g, '0', '9', 1, DIGITS);
    } else {
        f = sl_grammar_alt(g);
        for (char c = '0'; c <= '9'; c++) {
            char a = lo ? frac_digit(lo, 0) : '0';
            char b = hi ? frac_digit(hi, 0) : '9';

            if (c < a || c > b)
                continue;
            sl_grammar_add(
                g, f,
                seq2(g, digits(g, c, c, 1, 1),
                     fraction(g, lo && c == a ? lo : NULL,
                              hi && c == b ? hi : NULL, 1, DIGITS - 1)));
        }
    }
    sl_grammar_add(g, alt, seq2(g, sl_grammar_bytes(g, ".", 1), f));
    return alt;
}

/* --------------------------------------------------------------------- ranges
 */

/* Numbers that are not negative. */
static uint32_t positive(struct sl_grammar *g, const struct decimal *lo,
                         const struct decimal *hi, bool whole)
{
    uint64_t first = lo->whole, last = hi->none ? LARGEST : hi->whole;
    uint32_t alt = sl_grammar_alt(g);

    if (whole) {
        first += lo->frac[0] || lo->excluded;
        if (!hi->none && !hi->frac[0] && hi->excluded) {
            if (last == 0)
                return alt;
            last--;
        }
        sl_grammar_add(g, alt, between(g, first, last));
        return alt;
    }
    if (!hi->none && first == last) {
        sl_grammar_add(g, alt,
                       seq2(g, between(g, first, first), point(g, lo, hi)));
        return alt;
    }
    if (first > last)
        return alt;
    sl_grammar_add(g, alt,
                   seq2(g, between(g, first, first), point(g, lo, NULL)));
    if (!hi->none)
        sl_grammar_add(g, alt,
                       seq2(g, between(g, last, last), point(g, NULL, hi)));
    if (first + 1 <= last - !hi->none)
        sl_grammar_add(g, alt,
                       seq2(g, between(g, first + 1, last - !hi->none),
                            point(g, NULL, NULL)));
    return alt;
}

/* "12.50" -> whole 12, frac "5" */
static void read_decimal(struct decimal *d, const char *text)
{
    size_t n;

    d->whole = 0;
    while (*text >= '0' && *text <= '9')
        d->whole = d->whole * 10 + (uint64_t)(*text++ - '0');
    snprintf(d->frac, sizeof(d->frac), "%s", *text ? text + 1 : "");
    for (n = strlen(d->frac); n > 0 && d->frac[n - 1] == '0';)
        d->frac[--n] = 0;
}

/* The text of a number with DIGITS behind the point, its last digit changed. */
static void nudge(char *text, size_t cap, bool up)
{
    uint64_t n = 0;

    for (const char *c = text; *c; c++)
        if (*c != '.')
            n = n * 10 + (uint64_t)(*c - '0');
    n = up ? n + 1 : n - 1;
    snprintf(text, cap, "%llu.%0*llu", (unsigned long long)(n / ONE), DIGITS,
             (unsigned long long)(n % ONE));
}

/* |x| in as few digits as tell it from other doubles. Where these are more than
 * DIGITS behind the point it is rounded, up or down, and then reached by no
 * number. False when it is too large. */
static bool decimal(struct decimal *d, struct sl_limit x, bool up)
{
    double v = x.value < 0 ? -x.value : x.value, back = 0;
    bool same = false;
    char text[64];

    *d = (struct decimal){.none = !x.has, .excluded = x.excluded};
    if (!x.has)
        return true;
    if (!(v <= (double)LARGEST))
        return false;
    for (int p = 0; p <= DIGITS && !same; p++) {
        snprintf(text, sizeof(text), "%.*f", p, v);
        same = !sl_num_f64(&back, text, strlen(text), 0, (double)LARGEST, "",
                           NULL) &&
               back == v;
    }
    if (!same) {
        /* 17 digits tell any double, so this one is below 100: the nudge has
         * room. */
        d->excluded = false;
        if (up ? back < v : back > v)
            nudge(text, sizeof(text), up);
    }
    read_decimal(d, text);
    return true;
}

uint32_t sl_number_range(struct sl_grammar *g, struct sl_limit lo,
                         struct sl_limit hi, bool whole)
{
    uint32_t alt = sl_grammar_alt(g);
    struct decimal a, b, zero = {.excluded = true};
    bool fits;

    /* Inwards: the magnitude of a low limit up, but of one below zero down. */
    fits = decimal(&a, lo, lo.value >= 0);
    if (!fits || !decimal(&b, hi, hi.value < 0))
        return sl_grammar_fail(g, SL_EARG,
                               "a limit of a number is %g, and those with up "
                               "to %d digits are supported",
                               fits ? hi.value : lo.value, DIGITS);
    if (!hi.has || hi.value >= 0) {
        struct decimal from = a;

        if (!lo.has || lo.value < 0)
            from = (struct decimal){0};
        sl_grammar_add(g, alt, positive(g, &from, &b, whole));
    }
    if (!lo.has || lo.value < 0) {
        if (!hi.has || hi.value >= 0)
            b = zero;
        sl_grammar_add(
            g, alt,
            seq2(g, sl_grammar_bytes(g, "-", 1), positive(g, &b, &a, whole)));
    }
    return alt;
}

uint32_t sl_number_any(struct sl_grammar *g, bool whole)
{
    uint32_t s = sl_grammar_seq(g), alt = sl_grammar_alt(g), e;

    sl_grammar_add(g, s,
                   sl_grammar_repeat(g, sl_grammar_bytes(g, "-", 1), 0, 1));
    sl_grammar_add(g, alt, sl_grammar_bytes(g, "0", 1));
    sl_grammar_add(
        g, alt,
        seq2(g, digits(g, '1', '9', 1, 1), digits(g, '0', '9', 0, DIGITS - 1)));
    sl_grammar_add(g, s, alt);
    if (whole)
        return s;
    sl_grammar_add(g, s,
                   sl_grammar_repeat(g,
                                     seq2(g, sl_grammar_bytes(g, ".", 1),
                                          digits(g, '0', '9', 1, DIGITS)),
                                     0, 1));
    e = sl_grammar_seq(g);
    sl_grammar_add(
        g, e,
        sl_grammar_set(g, (struct sl_range[]){{'E', 'E'}, {'e', 'e'}}, 2));
    sl_grammar_add(
        g, e,
        sl_grammar_repeat(
            g,
            sl_grammar_set(g, (struct sl_range[]){{'+', '+'}, {'-', '-'}}, 2),
            0, 1));
    sl_grammar_add(g, e, digits(g, '0', '9', 1, 2));
    sl_grammar_add(g, s, sl_grammar_repeat(g, e, 0, 1));
    return s;
}
