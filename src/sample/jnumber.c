/* sample/jnumber.c - numbers of a JSON schema */
#include "sample/jnumber.h"

#include "sample/jmerge.h"
#include "sample/number_range.h"

#define MAX_STEP 100    /* of multipleOf without limits: 1500 states; chosen */
#define MAX_LISTED 2000 /* multiples between two limits; chosen */
#define MAX_LISTED_VALUE 1e12 /* and far from where doubles lose ones */
#define MAX_NOT 32      /* numbers that are left out; chosen */

static struct sl_limit limit(struct sl_jschema *j, const json_t *s,
                             const char *plain, const char *excl, bool low,
                             const char *path)
{
    const json_t *a = json_object_get(s, plain), *b = json_object_get(s, excl);
    struct sl_limit out = {0};

    if ((a && !json_is_number(a)) ||
        (b && !json_is_number(b) && !json_is_boolean(b))) {
        sl_jtext_refuse(j, path, a && !json_is_number(a) ? plain : excl,
                        "must be a number");
        return out;
    }
    if (a)
        out = (struct sl_limit){.has = true,
                                .excluded = json_is_true(b), /* draft 4 */
                                .value = json_number_value(a)};
    if (json_is_number(b)) {
        double x = json_number_value(b);

        if (!a || (low ? x >= out.value : x <= out.value))
            out = (struct sl_limit){true, true, x};
    }
    return out;
}

/* A machine of the digits of multiples of m: a state for each remainder and
 * number of digits. Zero is written apart. */
static uint32_t multiples(struct sl_jschema *j, uint32_t m, bool negative,
                          bool zero)
{
    struct sl_grammar *g = j->g;
    uint32_t n = 1 + m * SL_NUMBER_DIGITS, all = sl_grammar_alt(g), k, out;

    out = sl_grammar_machine(g, n);
    for (uint32_t at = 0; at < n && !g->failed; at++) {
        uint32_t rest = at ? (at - 1) % m : 0, len = at ? (at - 1) / m + 1 : 0;

        for (uint32_t d = len ? 0 : 1; d < 10 && len < SL_NUMBER_DIGITS; d++) {
            k = 1 + len * m + (rest * 10 + d) % m;
            sl_grammar_arc(g, out,
                           (struct sl_arc){.from = at,
                                           .to = k,
                                           .lo = (uint8_t)('0' + d),
                                           .hi = (uint8_t)('0' + d)});
        }
        if (len && rest == 0)
            sl_grammar_arc(g, out,
                           (struct sl_arc){.from = at, .to = n, .lo = 1});
    }
    if (negative)
        out = sl_jtext_seq(j, sl_jtext_optional(j, sl_jtext_lit(j, "-")), out);
    sl_grammar_add(g, all, out);
    if (zero)
        sl_grammar_add(g, all, sl_jtext_lit(j, "0"));
    return all;
}

/* All multiples between, if there are few. */
static uint32_t listed(struct sl_jschema *j, int64_t m, int64_t first,
                       int64_t last)
{
    uint32_t all = sl_grammar_alt(j->g);

    for (int64_t v = first; v <= last && !j->g->failed; v += m) {
        json_t *x = json_integer(v);

        sl_grammar_add(j->g, all, sl_jtext_value(j, x));
        json_decref(x);
    }
    return all;
}

static uint32_t refuse_multiple(struct sl_jschema *j, const char *path)
{
    return sl_jtext_refuse(
        j, path, "multipleOf",
        "is supported for whole numbers: from 1 to 100 with no limit or with "
        "minimum 0 or 1, or any with two limits that have up to 2000 multiples "
        "between them; change it or leave it out");
}

static bool is_empty(struct sl_limit a, struct sl_limit b)
{
    return a.has && b.has &&
           (b.value < a.value ||
            (b.value == a.value && (a.excluded || b.excluded)));
}

static uint32_t multiple_of(struct sl_jschema *j, double m, struct sl_limit lo,
                            struct sl_limit hi, const char *path)
{
    int64_t step = m >= 1 && m <= 1e9 ? (int64_t)m : 0, first, last;

    if (!step || (double)step != m)
        return refuse_multiple(j, path);
    if (is_empty(lo, hi))
        return sl_grammar_alt(j->g);
    if (lo.has && hi.has) {
        /* Since lo <= hi, both lie between: the casts hold. */
        if (lo.value < -MAX_LISTED_VALUE || hi.value > MAX_LISTED_VALUE)
            return refuse_multiple(j, path);
        first = (int64_t)(lo.value / m) * step - step;
        while ((double)first < lo.value ||
               (lo.excluded && (double)first <= lo.value))
            first += step;
        last = (int64_t)(hi.value / m) * step + step;
        while ((double)last > hi.value ||
               (hi.excluded && (double)last >= hi.value))
            last -= step;
        if (last >= first && (last - first) / step > MAX_LISTED)
            return refuse_multiple(j, path);
        return listed(j, step, first, last);
    }
    if (step > MAX_STEP || hi.has || (lo.has && lo.value != 0 && lo.value != 1))
        return refuse_multiple(j, path);
    if (lo.has && lo.value == 1 && lo.excluded && step == 1)
        return refuse_multiple(j, path);
    return multiples(j, (uint32_t)step, !lo.has,
                     !lo.has || (lo.value == 0 && !lo.excluded));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Between the numbers that it must not be. */
static uint32_t between(struct sl_jschema *j, const json_t * not,
                        struct sl_limit lo, struct sl_limit hi, bool whole,
                        const char *path)
{
    uint32_t all = sl_grammar_alt(j->g);
    double v[MAX_NOT];
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(not ); i++) {
        const json_t *x = json_array_get(not, i);

        if (!json_is_number(x) || (whole && json_is_real(x)))
            continue; /* whole ones are integers: sl_jschema_open */
        if (n == MAX_NOT)
            return sl_jtext_refuse(j, path, "not",
                                   "of more than 32 numbers is not supported");
        v[n++] = json_number_value(x);
    }
    qsort(v, n, sizeof(*v), by_value);
    for (size_t i = 0; i <= n; i++) {
        struct sl_limit a = i ? (struct sl_limit){true, true, v[i - 1]} : lo;
        struct sl_limit b = i < n ? (struct sl_limit){true, true, v[i]} : hi;

        if (i && lo.has && lo.value > a.value)
            a = lo;
        if (i < n && hi.has && hi.value < b.value)
            b = hi;
        if (is_empty(a, b))
            continue;
        sl_grammar_add(j->g, all,
                       a.has || b.has ? sl_number_range(j->g, a, b, whole)
                                      : sl_number_any(j->g, whole));
    }
    return all;
}

uint32_t sl_jnumber_node(struct sl_jschema *j, const json_t *s, bool whole,
                         const char *path)
{
    struct sl_limit lo = limit(j, s, "minimum", "exclusiveMinimum", true, path);
    struct sl_limit hi =
        limit(j, s, "maximum", "exclusiveMaximum", false, path);
    const json_t *m = json_object_get(s, "multipleOf");
    const json_t *not = json_object_get(s, SL_JMERGE_NOT);

    if (m && (!json_is_number(m) || json_number_value(m) <= 0))
        return sl_jtext_refuse(j, path, "multipleOf",
                               "must be a number above 0");
    if (m && whole && json_number_value(m) == 1)
        m = NULL;
    if (m && not )
        return sl_jtext_refuse(j, path, "multipleOf",
                               "beside a negation is not supported");
    if (m)
        return multiple_of(j, json_number_value(m), lo, hi, path);
    if (not )
        return between(j, not, lo, hi, whole, path);
    if (!lo.has && !hi.has)
        return sl_jtext_call(j, whole ? SL_JTEXT_INTEGER : SL_JTEXT_NUMBER);
    return sl_number_range(j->g, lo, hi, whole);
}
