/* text/jinja_test.c - what may stand behind `is`
 *
 * As jinja2.tests has them, with Python's surprises: True is a number and is
 * no integer, an undefined value is iterable, a sequence and even callable.
 */
#include "text/jinja_filter.h"
#include "text/jinja_num.h"
#include "text/jinja_text.h"

typedef bool test_fn(struct sl_jrun *r, struct sl_jval v,
                     const struct sl_jval *arg);

static bool is_defined(struct sl_jrun *r, struct sl_jval v,
                       const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind != SL_J_UNDEF;
}

static bool is_undefined(struct sl_jrun *r, struct sl_jval v,
                         const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_UNDEF;
}

static bool is_none(struct sl_jrun *r, struct sl_jval v,
                    const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_NONE;
}

static bool is_boolean(struct sl_jrun *r, struct sl_jval v,
                       const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_BOOL;
}

static bool is_true(struct sl_jrun *r, struct sl_jval v,
                    const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_BOOL && v.u.b;
}

static bool is_false(struct sl_jrun *r, struct sl_jval v,
                     const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_BOOL && !v.u.b;
}

static bool is_integer(struct sl_jrun *r, struct sl_jval v,
                       const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_INT;
}

static bool is_float(struct sl_jrun *r, struct sl_jval v,
                     const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_FLOAT;
}

static bool is_number(struct sl_jrun *r, struct sl_jval v,
                      const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return sl_jinja_is_number(v);
}

static bool is_string(struct sl_jrun *r, struct sl_jval v,
                      const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_STR;
}

static bool is_mapping(struct sl_jrun *r, struct sl_jval v,
                       const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_DICT;
}

static bool is_sequence(struct sl_jrun *r, struct sl_jval v,
                        const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return sl_jinja_len(r, v) >= 0 && v.kind != SL_J_VIEW;
}

static bool is_iterable(struct sl_jrun *r, struct sl_jval v,
                        const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return sl_jinja_is_iterable(v);
}

static bool is_callable(struct sl_jrun *r, struct sl_jval v,
                        const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_UNDEF || v.kind == SL_J_LOOP ||
           v.kind == SL_J_MACRO || v.kind == SL_J_FUNC || v.kind == SL_J_METHOD;
}

static bool is_escaped(struct sl_jrun *r, struct sl_jval v,
                       const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_STR && v.u.s->safe;
}

/* v modulo n == want, for numbers. */
static bool modulo(struct sl_jrun *r, struct sl_jval v, struct sl_jval n,
                   int64_t want)
{
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    else if (!sl_jinja_is_number(v) || !sl_jinja_is_number(n))
        sl_jinja_fail(r, SL_EARG,
                      "odd, even and divisibleby need numbers, "
                      "not %s",
                      sl_jinja_type(sl_jinja_is_number(v) ? n : v));
    if (r->rc)
        return false;
    v = sl_jinja_arith(r, '%', v, n);
    return sl_jinja_order_num(v, sl_jinja_int(want)) == 0;
}

static bool is_odd(struct sl_jrun *r, struct sl_jval v,
                   const struct sl_jval *arg)
{
    (void)arg;
    return modulo(r, v, sl_jinja_int(2), 1);
}

static bool is_even(struct sl_jrun *r, struct sl_jval v,
                    const struct sl_jval *arg)
{
    (void)arg;
    return modulo(r, v, sl_jinja_int(2), 0);
}

static bool is_divisible(struct sl_jrun *r, struct sl_jval v,
                         const struct sl_jval *arg)
{
    return modulo(r, v, arg[0], 0);
}

static bool is_eq(struct sl_jrun *r, struct sl_jval v,
                  const struct sl_jval *arg)
{
    return sl_jinja_eq(r, v, arg[0]);
}

static bool is_ne(struct sl_jrun *r, struct sl_jval v,
                  const struct sl_jval *arg)
{
    return !sl_jinja_eq(r, v, arg[0]);
}

static bool is_lt(struct sl_jrun *r, struct sl_jval v,
                  const struct sl_jval *arg)
{
    return sl_jinja_order(r, v, arg[0], "<") < 0;
}

static bool is_le(struct sl_jrun *r, struct sl_jval v,
                  const struct sl_jval *arg)
{
    return sl_jinja_order(r, v, arg[0], "<=") <= 0;
}

static bool is_gt(struct sl_jrun *r, struct sl_jval v,
                  const struct sl_jval *arg)
{
    return sl_jinja_order(r, v, arg[0], ">") == 1;
}

static bool is_ge(struct sl_jrun *r, struct sl_jval v,
                  const struct sl_jval *arg)
{
    int c = sl_jinja_order(r, v, arg[0], ">=");

    return c == 0 || c == 1;
}

static bool is_in(struct sl_jrun *r, struct sl_jval v,
                  const struct sl_jval *arg)
{
    return sl_jinja_in(r, v, arg[0]);
}

/* Identity is only certain for the constants. */
static bool is_same(struct sl_jrun *r, struct sl_jval v,
                    const struct sl_jval *arg)
{
    if (v.kind != SL_J_NONE && v.kind != SL_J_BOOL &&
        arg[0].kind != SL_J_NONE && arg[0].kind != SL_J_BOOL)
        sl_jinja_fail(r, SL_EUNSUP,
                      "sameas is supported with true, false and none only");
    return v.kind == arg[0].kind && sl_jinja_eq(r, v, arg[0]);
}

static bool in_case(struct sl_jrun *r, struct sl_jval v, bool upper)
{
    bool cased = false;

    if (v.kind != SL_J_STR) {
        sl_jinja_fail(r, SL_EUNSUP, "lower and upper test strings only, not %s",
                      sl_jinja_type(v));
        return false;
    }
    for (size_t i = 0; i < v.u.s->len && sl_jinja_spend(r, 1); i++) {
        char c = v.u.s->p[i];
        bool up = c >= 'A' && c <= 'Z', low = c >= 'a' && c <= 'z';

        if ((unsigned char)c >= 0x80)
            sl_jinja_fail(r, SL_EUNSUP,
                          "lower and upper test ASCII only; use .islower()");
        if (upper ? low : up)
            return false;
        cased |= up || low;
    }
    return cased;
}

static bool is_lower(struct sl_jrun *r, struct sl_jval v,
                     const struct sl_jval *arg)
{
    (void)arg;
    return in_case(r, v, false);
}

static bool is_upper(struct sl_jrun *r, struct sl_jval v,
                     const struct sl_jval *arg)
{
    (void)arg;
    return in_case(r, v, true);
}

static bool is_filter(struct sl_jrun *r, struct sl_jval v,
                      const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_STR &&
           sl_jinja_filter_find(v.u.s->p, v.u.s->len) >= 0;
}

static bool is_test(struct sl_jrun *r, struct sl_jval v,
                    const struct sl_jval *arg)
{
    (void)r, (void)arg;
    return v.kind == SL_J_STR && sl_jinja_test_find(v.u.s->p, v.u.s->len) >= 0;
}

static const struct {
    const char *name;
    test_fn *fn;
    const char *args;
} tests[] = {
    {"boolean", is_boolean, ""},     {"callable", is_callable, ""},
    {"defined", is_defined, ""},     {"divisibleby", is_divisible, "num"},
    {"eq", is_eq, "other"},          {"equalto", is_eq, "other"},
    {"==", is_eq, "other"},          {"escaped", is_escaped, ""},
    {"even", is_even, ""},           {"false", is_false, ""},
    {"filter", is_filter, ""},       {"float", is_float, ""},
    {"ge", is_ge, "other"},          {">=", is_ge, "other"},
    {"greaterthan", is_gt, "other"}, {"gt", is_gt, "other"},
    {">", is_gt, "other"},           {"in", is_in, "seq"},
    {"integer", is_integer, ""},     {"iterable", is_iterable, ""},
    {"le", is_le, "other"},          {"<=", is_le, "other"},
    {"lessthan", is_lt, "other"},    {"lower", is_lower, ""},
    {"lt", is_lt, "other"},          {"<", is_lt, "other"},
    {"mapping", is_mapping, ""},     {"ne", is_ne, "other"},
    {"!=", is_ne, "other"},          {"none", is_none, ""},
    {"number", is_number, ""},       {"odd", is_odd, ""},
    {"sameas", is_same, "other"},    {"sequence", is_sequence, ""},
    {"string", is_string, ""},       {"test", is_test, ""},
    {"true", is_true, ""},           {"undefined", is_undefined, ""},
    {"upper", is_upper, ""},
};

int sl_jinja_test_find(const char *p, size_t len)
{
    for (size_t i = 0; i < SL_COUNTOF(tests); i++)
        if (strlen(tests[i].name) == len && memcmp(tests[i].name, p, len) == 0)
            return (int)i;
    return -1;
}

bool sl_jinja_test(struct sl_jrun *r, int fn, struct sl_jval v,
                   const struct sl_jargs *a)
{
    struct sl_jval arg[1];

    if (!sl_jinja_bind(r, a, tests[fn].args, tests[fn].args[0] != 0, arg))
        return false;
    return tests[fn].fn(r, v, arg);
}
