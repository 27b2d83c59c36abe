/* text/jinja_filter.c - filters that make one value of one value
 *
 * As jinja2.filters has them, but tojson, which is transformers'. The filters
 * over sequences are in jinja_seq.c; the table of all is here.
 */
#include "text/jinja_filter.h"

#include "text/jinja_attr.h"
#include "text/jinja_json.h"
#include "text/jinja_num.h"
#include "text/jinja_print.h"
#include "text/jinja_seq.h"
#include "text/jinja_text.h"

#define MAX_INDENT 1000 /* spaces; more is a mistake or an attack */
#define MAX_CHARS 256   /* in the argument of trim */
#define MAX_POWER 15    /* decimals of ceil and floor: 10^15 is exact */

/* soft_str: text as it is, everything else printed. */
static const struct sl_jstr *text(struct sl_jrun *r, struct sl_jval v)
{
    v = sl_jinja_text(r, v);
    return r->rc ? NULL : v.u.s;
}

static struct sl_jval f_default(struct sl_jrun *r, struct sl_jval v,
                                const struct sl_jargs *a)
{
    struct sl_jval o[2];
    bool falsy = false;

    if (!sl_jinja_bind(r, a, "default_value boolean", 0, o))
        return v;
    sl_jinja_arg_bool(r, o[1], &falsy);
    if (v.kind != SL_J_UNDEF && !(falsy && !sl_jinja_truth(r, v)))
        return v;
    return o[0].kind == SL_J_MISSING ? sl_jinja_borrow(r, "", 0) : o[0];
}

static struct sl_jval f_string(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a)
{
    sl_jinja_bind(r, a, "", 0, NULL);
    return sl_jinja_text(r, v);
}

static struct sl_jval f_safe(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jargs *a)
{
    sl_jinja_bind(r, a, "", 0, NULL);
    return sl_jinja_safe(r, sl_jinja_text(r, v), true);
}

static struct sl_jval f_escape(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a)
{
    size_t mark = sl_jinja_mark(r);
    const struct sl_jstr *s;

    sl_jinja_bind(r, a, "", 0, NULL);
    if (v.kind == SL_J_STR && v.u.s->safe)
        return v;
    s = text(r, v);
    if (s)
        sl_jinja_emit_escaped(r, s->p, s->len);
    return sl_jinja_safe(r, sl_jinja_take(r, mark), true);
}

static struct sl_jval f_trim(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jargs *a)
{
    const struct sl_jstr *s, *chars = NULL;
    struct sl_jval o[1];
    const char *p;
    size_t len;

    if (!sl_jinja_bind(r, a, "chars", 0, o))
        return v;
    s = text(r, v);
    if (o[0].kind != SL_J_MISSING && o[0].kind != SL_J_NONE)
        chars = sl_jinja_arg_str(r, a, o[0]);
    if (chars && chars->len > MAX_CHARS)
        sl_jinja_fail(r, SL_EARG, "trim takes at most %d characters",
                      MAX_CHARS);
    if (r->rc)
        return v;
    SL_ASSERT(s);
    p = s->p;
    len = s->len;
    sl_jinja_strip(&p, &len, chars ? chars->p : NULL, chars ? chars->len : 0,
                   true, true);
    sl_jinja_spend(r, (s->len - len) / 64 * (1 + (chars ? chars->len : 0)));
    return sl_jinja_safe(r, sl_jinja_borrow(r, p, len), s->safe);
}

static struct sl_jval in_case(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a, char what)
{
    size_t mark;
    const struct sl_jstr *s;

    sl_jinja_bind(r, a, "", 0, NULL);
    s = text(r, v);
    mark = sl_jinja_mark(r);
    if (s)
        sl_jinja_emit_case(r, s->p, s->len, what);
    /* title joins plain pieces, the others are methods of the string. */
    return sl_jinja_safe(r, sl_jinja_take(r, mark),
                         s && s->safe && what != 'j');
}

static struct sl_jval f_upper(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a)
{
    return in_case(r, v, a, 'u');
}

static struct sl_jval f_lower(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a)
{
    return in_case(r, v, a, 'l');
}

static struct sl_jval f_title(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a)
{
    return in_case(r, v, a, 'j');
}

static struct sl_jval f_capitalize(struct sl_jrun *r, struct sl_jval v,
                                   const struct sl_jargs *a)
{
    return in_case(r, v, a, 'c');
}

static struct sl_jval f_replace(struct sl_jrun *r, struct sl_jval v,
                                const struct sl_jargs *a)
{
    const struct sl_jstr *s, *old, *with;
    struct sl_jval o[3];
    int64_t max = -1;
    size_t mark;

    if (!sl_jinja_bind(r, a, "old new count", 2, o))
        return v;
    s = text(r, v);
    old = text(r, o[0]);
    with = text(r, o[1]);
    if (o[2].kind != SL_J_NONE)
        sl_jinja_arg_int(r, a, o[2], &max);
    if (!s || !old || !with || r->rc)
        return v;
    mark = sl_jinja_mark(r);
    sl_jinja_emit_replaced(r, s, old, with, max);
    return sl_jinja_take(r, mark);
}

/* The indentation asked for: a number of spaces, or a text. */
static const struct sl_jstr *
indentation(struct sl_jrun *r, const struct sl_jargs *a, struct sl_jval width)
{
    size_t mark = sl_jinja_mark(r);
    int64_t n = 4;

    if (width.kind == SL_J_STR)
        return width.u.s;
    sl_jinja_arg_int(r, a, width, &n);
    if (n > MAX_INDENT)
        sl_jinja_fail(r, SL_EARG, "an indent of %lld is more than %d",
                      (long long)n, MAX_INDENT);
    for (; n > 0 && !r->rc; n--)
        sl_jinja_emit(r, " ", 1);
    width = sl_jinja_take(r, mark);
    return r->rc ? NULL : width.u.s;
}

static struct sl_jval f_indent(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a)
{
    static const struct sl_jstr nl = {.p = "\n", .len = 1, .n_cp = 1};
    bool first = false, blank = false;
    const struct sl_jstr *s, *in;
    struct sl_jval o[3], lines;
    size_t mark;

    if (!sl_jinja_bind(r, a, "width first blank", 0, o))
        return v;
    sl_jinja_arg_bool(r, o[1], &first);
    sl_jinja_arg_bool(r, o[2], &blank);
    s = sl_jinja_arg_str(r, a, v);
    in = indentation(r, a, o[0]);
    if (!s || !in)
        return v;
    lines = sl_jinja_lines(r, sl_jinja_concat(r, s, &nl).u.s, false);
    mark = sl_jinja_mark(r);
    for (size_t i = 0; !r->rc && i < lines.u.l->n; i++) {
        const struct sl_jstr *line = lines.u.l->v[i].u.s;

        if (i)
            sl_jinja_emit(r, "\n", 1);
        if (i ? (blank || line->len) : first)
            sl_jinja_emit(r, in->p, in->len);
        sl_jinja_emit(r, line->p, line->len);
    }
    return sl_jinja_safe(r, sl_jinja_take(r, mark), s->safe);
}

static struct sl_jval f_truncate(struct sl_jrun *r, struct sl_jval v,
                                 const struct sl_jargs *a)
{
    struct sl_jval o[4], cut, end = sl_jinja_borrow(r, "...", 3);
    int64_t length = 255, leeway = 5;
    const struct sl_jstr *s, *e;
    bool killwords = false;

    if (!sl_jinja_bind(r, a, "length killwords end leeway", 0, o))
        return v;
    sl_jinja_arg_int(r, a, o[0], &length);
    sl_jinja_arg_bool(r, o[1], &killwords);
    if (o[3].kind != SL_J_NONE)
        sl_jinja_arg_int(r, a, o[3], &leeway);
    s = sl_jinja_arg_str(r, a, v);
    e = sl_jinja_arg_str(r, a, o[2].kind == SL_J_MISSING ? end : o[2]);
    if (!s || !e)
        return v;
    if (length < (int64_t)e->n_cp || leeway < 0 || length > INT32_MAX ||
        leeway > INT32_MAX)
        sl_jinja_fail(r, SL_EARG,
                      "truncate: length must be at least that of "
                      "its end, and leeway not below 0");
    if (r->rc || (int64_t)s->n_cp <= length + leeway)
        return v;
    cut = sl_jinja_cut(r, s, 0, (size_t)length - e->n_cp);
    if (r->rc)
        return v;
    if (!killwords) {
        const char *space =
            cut.u.s->len ? memrchr(cut.u.s->p, ' ', cut.u.s->len) : NULL;

        if (space)
            cut = sl_jinja_borrow(r, cut.u.s->p, (size_t)(space - cut.u.s->p));
    }
    return r->rc ? v : sl_jinja_concat(r, cut.u.s, e);
}

static struct sl_jval f_tojson(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a)
{
    struct sl_jjson_style style = {0};
    struct sl_jval o[4];
    size_t mark;

    if (!sl_jinja_bind(r, a, "ensure_ascii indent separators sort_keys", 0, o))
        return v;
    sl_jinja_arg_bool(r, o[0], &style.ascii);
    sl_jinja_arg_bool(r, o[3], &style.sort);
    if (o[1].kind != SL_J_MISSING && o[1].kind != SL_J_NONE)
        style.indent = indentation(r, a, o[1]);
    if (o[2].kind != SL_J_MISSING && o[2].kind != SL_J_NONE) {
        struct sl_jlist *l = sl_jinja_elements(r, o[2], "separators");

        if (!r->rc && l->n != 2)
            sl_jinja_fail(r, SL_EARG, "tojson: separators are two strings");
        style.item = r->rc ? NULL : sl_jinja_arg_str(r, a, l->v[0]);
        style.key = r->rc ? NULL : sl_jinja_arg_str(r, a, l->v[1]);
    }
    mark = sl_jinja_mark(r);
    if (!r->rc)
        sl_jinja_emit_json(r, v, &style);
    return sl_jinja_take(r, mark);
}

/* int(v) for a number: toward zero. */
static bool whole(struct sl_jrun *r, struct sl_jval v, int64_t *out)
{
    double f;

    if (sl_jinja_is_int(v)) {
        *out = sl_jinja_int_of(v);
        return true;
    }
    f = v.u.f;
    if (f != f)
        return false; /* ValueError: the default */
    if (!sl_jinja_float_floor(out, f < 0 ? -f : f)) {
        sl_jinja_fail(r, SL_EARG, "int: the number has more than 63 bits");
        return true;
    }
    if (f < 0)
        *out = -*out;
    return true;
}

static struct sl_jval f_int(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a)
{
    struct sl_jval o[2];
    int64_t base = 10, i;
    double f;

    if (!sl_jinja_bind(r, a, "default base", 0, o))
        return v;
    sl_jinja_arg_int(r, a, o[1], &base);
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    if (r->rc)
        return v;
    if (v.kind == SL_J_STR) {
        if (sl_jinja_int_parse(&i, v.u.s->p, v.u.s->len, base))
            return sl_jinja_int(i);
        if (sl_jinja_float_parse(&f, v.u.s->p, v.u.s->len) && f - f == 0 &&
            whole(r, sl_jinja_float(f), &i))
            return sl_jinja_int(i);
    } else if (sl_jinja_is_number(v) && whole(r, v, &i)) {
        return sl_jinja_int(i);
    }
    return o[0].kind == SL_J_MISSING ? sl_jinja_int(0) : o[0];
}

static struct sl_jval f_float(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a)
{
    struct sl_jval o[1];
    double f;

    if (!sl_jinja_bind(r, a, "default", 0, o))
        return v;
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    if (sl_jinja_is_number(v))
        return sl_jinja_float(sl_jinja_float_of(v));
    if (v.kind == SL_J_STR && sl_jinja_float_parse(&f, v.u.s->p, v.u.s->len))
        return sl_jinja_float(f);
    return o[0].kind == SL_J_MISSING ? sl_jinja_float(0) : o[0];
}

static struct sl_jval need_number(struct sl_jrun *r, struct sl_jval v,
                                  const char *who)
{
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    else if (!sl_jinja_is_number(v))
        sl_jinja_fail(r, SL_EARG, "%s needs a number, not %s", who,
                      sl_jinja_type(v));
    return v;
}

static struct sl_jval f_abs(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a)
{
    sl_jinja_bind(r, a, "", 0, NULL);
    need_number(r, v, "abs");
    if (r->rc)
        return v;
    if (v.kind == SL_J_FLOAT)
        return sl_jinja_float(__builtin_signbit(v.u.f) ? -v.u.f : v.u.f);
    if (sl_jinja_int_of(v) < 0)
        return sl_jinja_arith(r, '-', sl_jinja_int(0), v);
    return sl_jinja_int(sl_jinja_int_of(v));
}

/* ceil or floor of v * 10^digits, divided by it again. */
static struct sl_jval round_toward(struct sl_jrun *r, struct sl_jval v,
                                   int64_t digits, bool up)
{
    struct sl_jval ten = sl_jinja_int(1), x;
    int64_t i = 0;

    if (digits < 0 || digits > MAX_POWER) {
        sl_jinja_fail(r, SL_EUNSUP,
                      "round: a precision of %lld is not "
                      "supported",
                      (long long)digits);
        return v;
    }
    for (int64_t k = 0; k < digits; k++)
        ten.u.i *= 10;
    x = sl_jinja_arith(r, '*', v, ten);
    if (r->rc)
        return v;
    if (x.kind != SL_J_FLOAT)
        i = sl_jinja_int_of(x);
    else if (!sl_jinja_float_floor(&i, x.u.f))
        sl_jinja_fail(r, SL_EUNSUP, "round: the number has more than 63 bits");
    if (x.kind == SL_J_FLOAT && up && (double)i < x.u.f)
        i++;
    return r->rc ? v : sl_jinja_arith(r, '/', sl_jinja_int(i), ten);
}

static struct sl_jval f_round(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a)
{
    struct sl_jval o[2];
    int64_t digits = 0;
    double f = 0;

    if (!sl_jinja_bind(r, a, "precision method", 0, o))
        return v;
    sl_jinja_arg_int(r, a, o[0], &digits);
    need_number(r, v, "round");
    if (r->rc)
        return v;
    if (o[1].kind != SL_J_MISSING && !sl_jinja_is_str(o[1], "common")) {
        if (sl_jinja_is_str(o[1], "ceil") || sl_jinja_is_str(o[1], "floor"))
            return round_toward(r, v, digits, sl_jinja_is_str(o[1], "ceil"));
        sl_jinja_fail(r, SL_EARG,
                      "round: method must be common, ceil or floor");
        return v;
    }
    if (digits < 0 ||
        (v.kind == SL_J_FLOAT && !sl_jinja_float_round(&f, v.u.f, digits))) {
        sl_jinja_fail(r, SL_EUNSUP,
                      "round: a precision below 0 is not "
                      "supported");
        return v;
    }
    return v.kind == SL_J_FLOAT ? sl_jinja_float(f)
                                : sl_jinja_int(sl_jinja_int_of(v));
}

static struct sl_jval f_length(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a)
{
    int64_t n;

    sl_jinja_bind(r, a, "", 0, NULL);
    if (v.kind == SL_J_LOOP) {
        static const struct sl_jstr name = {.p = "length", .len = 6, .n_cp = 6};

        return v.u.loop->attr(r, v.u.loop, &name);
    }
    n = sl_jinja_len(r, v);
    if (n < 0)
        sl_jinja_fail(r, SL_EARG, "a %s has no length%s", sl_jinja_type(v),
                      v.kind == SL_J_GEN ? "; put '|list' before" : "");
    return sl_jinja_int(n);
}

typedef struct sl_jval filter_fn(struct sl_jrun *r, struct sl_jval v,
                                 const struct sl_jargs *a);

static const struct {
    const char *name;
    filter_fn *fn;
} filters[] = {
    {"abs", f_abs},
    {"capitalize", f_capitalize},
    {"count", f_length},
    {"d", f_default},
    {"default", f_default},
    {"dictsort", sl_jinja_dictsort},
    {"e", f_escape},
    {"escape", f_escape},
    {"first", sl_jinja_first},
    {"float", f_float},
    {"indent", f_indent},
    {"int", f_int},
    {"items", sl_jinja_items},
    {"join", sl_jinja_join},
    {"last", sl_jinja_last},
    {"length", f_length},
    {"list", sl_jinja_to_list},
    {"lower", f_lower},
    {"map", sl_jinja_map},
    {"max", sl_jinja_max},
    {"min", sl_jinja_min},
    {"reject", sl_jinja_reject},
    {"rejectattr", sl_jinja_rejectattr},
    {"replace", f_replace},
    {"reverse", sl_jinja_reverse},
    {"round", f_round},
    {"safe", f_safe},
    {"select", sl_jinja_select},
    {"selectattr", sl_jinja_selectattr},
    {"sort", sl_jinja_sort},
    {"string", f_string},
    {"sum", sl_jinja_sum},
    {"title", f_title},
    {"tojson", f_tojson},
    {"trim", f_trim},
    {"truncate", f_truncate},
    {"unique", sl_jinja_unique},
    {"upper", f_upper},
};

int sl_jinja_filter_find(const char *p, size_t len)
{
    for (size_t i = 0; i < SL_COUNTOF(filters); i++)
        if (strlen(filters[i].name) == len &&
            memcmp(filters[i].name, p, len) == 0)
            return (int)i;
    return -1;
}

struct sl_jval sl_jinja_filter(struct sl_jrun *r, int fn, struct sl_jval v,
                               const struct sl_jargs *a)
{
    if (!sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return v;
    v = filters[fn].fn(r, v, a);
    sl_jinja_leave(r);
    return v;
}
