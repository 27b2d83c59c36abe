/* text/jinja_method.c - methods of strings, dictionaries and lists
 *
 * Only those that leave their object alone: the sandbox of transformers forbids
 * the others (list.append, dict.update ...), and what it forbids is an
 * undefined value that fails when it is called. Names that Python knows and
 * this file does not are an error rather than undefined, so that a template
 * never quietly takes another path here than it takes there.
 */
#include "text/jinja_method.h"

#include "base/utf8.h"
#include "text/jinja_text.h"

#define MAX_CHARS 256     /* in the argument of strip */
#define MAX_WIDTH 1000000 /* of center, ljust, rjust, zfill */
#define BYTES_PER_STEP 64

#define UNSAFE -1  /* forbidden by the sandbox */
#define UNKNOWN -2 /* not written here */

enum {
    M_CAPITALIZE,
    M_CENTER,
    M_COUNT,
    M_ENDSWITH,
    M_FIND,
    M_INDEX,
    M_ISALNUM,
    M_ISALPHA,
    M_ISASCII,
    M_ISDECIMAL,
    M_ISDIGIT,
    M_ISLOWER,
    M_ISSPACE,
    M_ISUPPER,
    M_JOIN,
    M_LJUST,
    M_LOWER,
    M_LSTRIP,
    M_PARTITION,
    M_REMOVEPREFIX,
    M_REMOVESUFFIX,
    M_REPLACE,
    M_RFIND,
    M_RINDEX,
    M_RJUST,
    M_RPARTITION,
    M_RSPLIT,
    M_RSTRIP,
    M_SPLIT,
    M_SPLITLINES,
    M_STARTSWITH,
    M_STRIP,
    M_TITLE,
    M_UPPER,
    M_ZFILL,
    M_COPY,
    M_GET,
    M_ITEMS,
    M_KEYS,
    M_VALUES,
    M_LIST_COUNT,
    M_LIST_INDEX,
};

struct method_name {
    const char *name;
    int id;
};

static const struct method_name of_str[] = {
    {"capitalize", M_CAPITALIZE},
    {"casefold", UNKNOWN},
    {"center", M_CENTER},
    {"count", M_COUNT},
    {"encode", UNKNOWN},
    {"endswith", M_ENDSWITH},
    {"expandtabs", UNKNOWN},
    {"find", M_FIND},
    {"format", UNKNOWN},
    {"format_map", UNKNOWN},
    {"index", M_INDEX},
    {"isalnum", M_ISALNUM},
    {"isalpha", M_ISALPHA},
    {"isascii", M_ISASCII},
    {"isdecimal", M_ISDECIMAL},
    {"isdigit", M_ISDIGIT},
    {"isidentifier", UNKNOWN},
    {"islower", M_ISLOWER},
    {"isnumeric", M_ISDIGIT},
    {"isprintable", UNKNOWN},
    {"isspace", M_ISSPACE},
    {"istitle", UNKNOWN},
    {"isupper", M_ISUPPER},
    {"join", M_JOIN},
    {"ljust", M_LJUST},
    {"lower", M_LOWER},
    {"lstrip", M_LSTRIP},
    {"maketrans", UNKNOWN},
    {"partition", M_PARTITION},
    {"removeprefix", M_REMOVEPREFIX},
    {"removesuffix", M_REMOVESUFFIX},
    {"replace", M_REPLACE},
    {"rfind", M_RFIND},
    {"rindex", M_RINDEX},
    {"rjust", M_RJUST},
    {"rpartition", M_RPARTITION},
    {"rsplit", M_RSPLIT},
    {"rstrip", M_RSTRIP},
    {"split", M_SPLIT},
    {"splitlines", M_SPLITLINES},
    {"startswith", M_STARTSWITH},
    {"strip", M_STRIP},
    {"swapcase", UNKNOWN},
    {"title", M_TITLE},
    {"translate", UNKNOWN},
    {"upper", M_UPPER},
    {"zfill", M_ZFILL},
};

static const struct method_name of_dict[] = {
    {"clear", UNSAFE},  {"copy", M_COPY},     {"fromkeys", UNKNOWN},
    {"get", M_GET},     {"items", M_ITEMS},   {"keys", M_KEYS},
    {"pop", UNSAFE},    {"popitem", UNSAFE},  {"setdefault", UNSAFE},
    {"update", UNSAFE}, {"values", M_VALUES},
};

static const struct method_name of_list[] = {
    {"append", UNSAFE},  {"clear", UNSAFE},       {"copy", M_COPY},
    {"extend", UNSAFE},  {"count", M_LIST_COUNT}, {"index", M_LIST_INDEX},
    {"insert", UNSAFE},  {"pop", UNSAFE},         {"remove", UNSAFE},
    {"reverse", UNSAFE}, {"sort", UNSAFE},
};

static const struct method_name of_tuple[] = {
    {"count", M_LIST_COUNT},
    {"index", M_LIST_INDEX},
};

static const struct method_name of_number[] = {
    {"as_integer_ratio", UNKNOWN},
    {"bit_count", UNKNOWN},
    {"bit_length", UNKNOWN},
    {"conjugate", UNKNOWN},
    {"denominator", UNKNOWN},
    {"from_bytes", UNKNOWN},
    {"fromhex", UNKNOWN},
    {"hex", UNKNOWN},
    {"imag", UNKNOWN},
    {"is_integer", UNKNOWN},
    {"numerator", UNKNOWN},
    {"real", UNKNOWN},
    {"to_bytes", UNKNOWN},
};

static const struct method_name of_other[] = {
    {"start", UNKNOWN},        {"stop", UNKNOWN},
    {"step", UNKNOWN},         {"count", UNKNOWN},
    {"index", UNKNOWN},        {"mapping", UNKNOWN},
    {"isdisjoint", UNKNOWN},   {"arguments", UNKNOWN},
    {"name", UNKNOWN},         {"caller", UNKNOWN},
    {"catch_kwargs", UNKNOWN}, {"catch_varargs", UNKNOWN},
    {"fromkeys", UNKNOWN},
};

static const struct method_name *table(struct sl_jval v, size_t *n)
{
    switch (v.kind) {
    case SL_J_STR:
        *n = SL_COUNTOF(of_str);
        return of_str;
    case SL_J_DICT:
        *n = SL_COUNTOF(of_dict);
        return of_dict;
    case SL_J_LIST:
        *n = SL_COUNTOF(of_list);
        return of_list;
    case SL_J_TUPLE:
        *n = SL_COUNTOF(of_tuple);
        return of_tuple;
    case SL_J_BOOL:
    case SL_J_INT:
    case SL_J_FLOAT:
        *n = SL_COUNTOF(of_number);
        return of_number;
    case SL_J_RANGE:
    case SL_J_VIEW:
    case SL_J_MACRO:
    case SL_J_FUNC:
        *n = SL_COUNTOF(of_other);
        return of_other;
    case SL_J_MISSING:
    case SL_J_UNDEF:
    case SL_J_NONE:
    case SL_J_NS:
    case SL_J_GEN:
    case SL_J_LOOP:
    case SL_J_METHOD:
        break;
    }
    *n = 0;
    return of_tuple;
}

bool sl_jinja_method(struct sl_jrun *r, struct sl_jval v, const char *name,
                     size_t len, struct sl_jval *out)
{
    size_t n;
    const struct method_name *t = table(v, &n);
    struct sl_jmethod *m;

    for (; n > 0; n--, t++)
        if (strlen(t->name) == len && memcmp(t->name, name, len) == 0)
            break;
    if (n == 0)
        return false;
    if (t->id == UNSAFE) {
        *out = sl_jinja_undef(r, "this method would change its object, which "
                                 "a template may not do");
        return true;
    }
    if (t->id == UNKNOWN) {
        sl_jinja_fail(r, SL_EUNSUP, "'%s' of a %s is not supported", t->name,
                      sl_jinja_type(v));
        return true;
    }
    m = sl_jinja_get(r, 1, sizeof(*m));
    if (m)
        *m = (struct sl_jmethod){.obj = v, .id = t->id, .name = t->name};
    *out = (struct sl_jval){.kind = SL_J_METHOD, .u.method = m};
    return true;
}

struct ctx {
    struct sl_jrun *r;
    const struct sl_jmethod *m;
    const struct sl_jargs *a;
    const struct sl_jstr *s; /* the object, if it is a string */
};

static const struct sl_jstr *str_arg(const struct ctx *c, struct sl_jval v)
{
    return sl_jinja_arg_str(c->r, c->a, v);
}

/* Python's slice bounds: negative from the end, clipped; absent or None is
 * what `at` was. */
static void bound(const struct ctx *c, struct sl_jval v, int64_t n, int64_t *at)
{
    if (v.kind == SL_J_NONE)
        return;
    sl_jinja_arg_int(c->r, c->a, v, at);
    if (*at < 0)
        *at = *at + n < 0 ? 0 : *at + n;
}

/* The part [args 1, 2) of the string; false if start lies behind its end. */
static bool window(const struct ctx *c, const struct sl_jval v[3],
                   struct sl_jstr *out, size_t *first)
{
    int64_t n = (int64_t)c->s->n_cp, a = 0, b = n;
    size_t from, to;

    bound(c, v[1], n, &a);
    bound(c, v[2], n, &b);
    if (b > n)
        b = n;
    if (c->r->rc || a > b)
        return false;
    from = sl_jinja_offset(c->s, (size_t)a);
    to = sl_jinja_offset(c->s, (size_t)b);
    *first = (size_t)a;
    *out = (struct sl_jstr){
        .p = c->s->p + from, .len = to - from, .n_cp = (size_t)(b - a)};
    return true;
}

static size_t count_cp(const char *p, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

static bool affix(const struct sl_jstr *s, const struct sl_jstr *x, bool end)
{
    return x->len <= s->len &&
           memcmp(end ? s->p + s->len - x->len : s->p, x->p, x->len) == 0;
}

static struct sl_jval starts_ends(const struct ctx *c, bool end)
{
    struct sl_jval v[3];
    struct sl_jstr part;
    size_t first;

    if (!sl_jinja_bind(c->r, c->a, "prefix start end", 1, v))
        return v[0];
    if (v[0].kind != SL_J_TUPLE) {
        const struct sl_jstr *x = str_arg(c, v[0]);

        return sl_jinja_bool(x && window(c, v, &part, &first) &&
                             affix(&part, x, end));
    }
    if (!window(c, v, &part, &first))
        return sl_jinja_bool(false);
    for (size_t i = 0; i < v[0].u.l->n; i++) {
        const struct sl_jstr *x = str_arg(c, v[0].u.l->v[i]);

        if (x && affix(&part, x, end))
            return sl_jinja_bool(true);
    }
    return sl_jinja_bool(false);
}

static const char *find_last(struct sl_jrun *r, const struct sl_jstr *s,
                             const struct sl_jstr *x)
{
    if (x->len > s->len)
        return NULL;
    for (size_t at = s->len - x->len + 1; at > 0; at--)
        if (memcmp(s->p + at - 1, x->p, x->len) == 0 ||
            !sl_jinja_spend(r, x->len / BYTES_PER_STEP))
            return s->p + at - 1;
    return NULL;
}

static struct sl_jval find_in(const struct ctx *c, bool last, bool must)
{
    struct sl_jval v[3];
    const struct sl_jstr *x;
    const char *hit = NULL;
    struct sl_jstr part;
    size_t first = 0;

    if (!sl_jinja_bind(c->r, c->a, "sub start end", 1, v))
        return v[0];
    x = str_arg(c, v[0]);
    sl_jinja_spend(c->r, c->s->len / BYTES_PER_STEP);
    if (x && window(c, v, &part, &first)) {
        if (last)
            hit = find_last(c->r, &part, x);
        else if (x->len == 0)
            hit = part.p;
        else if (part.len)
            hit = memmem(part.p, part.len, x->p, x->len);
        if (hit)
            return sl_jinja_int(
                (int64_t)(first + count_cp(part.p, (size_t)(hit - part.p))));
    }
    if (must)
        sl_jinja_fail(c->r, SL_EARG, "%s(): substring not found", c->m->name);
    return sl_jinja_int(-1);
}

static struct sl_jval count_in(const struct ctx *c)
{
    struct sl_jval v[3];
    const struct sl_jstr *x;
    struct sl_jstr part;
    size_t first;
    int64_t n = 0;

    if (!sl_jinja_bind(c->r, c->a, "sub start end", 1, v))
        return v[0];
    x = str_arg(c, v[0]);
    sl_jinja_spend(c->r, c->s->len / BYTES_PER_STEP);
    if (!x || !window(c, v, &part, &first))
        return sl_jinja_int(0);
    if (x->len == 0)
        return sl_jinja_int((int64_t)part.n_cp + 1);
    while (part.len) {
        const char *hit = memmem(part.p, part.len, x->p, x->len);

        if (!hit)
            break;
        n++;
        part.len -= (size_t)(hit - part.p) + x->len;
        part.p = hit + x->len;
    }
    return sl_jinja_int(n);
}

static struct sl_jval strip(const struct ctx *c, bool left, bool right)
{
    const struct sl_jstr *chars = NULL;
    const char *p = c->s->p;
    size_t len = c->s->len;
    struct sl_jval v[1];

    if (!sl_jinja_bind(c->r, c->a, "chars", 0, v))
        return v[0];
    if (v[0].kind != SL_J_MISSING && v[0].kind != SL_J_NONE) {
        chars = str_arg(c, v[0]);
        if (chars && chars->len > MAX_CHARS)
            sl_jinja_fail(c->r, SL_EARG, "%s() takes at most %d characters",
                          c->m->name, MAX_CHARS);
    }
    if (c->r->rc)
        return v[0];
    sl_jinja_strip(&p, &len, chars ? chars->p : NULL, chars ? chars->len : 0,
                   left, right);
    sl_jinja_spend(c->r, (c->s->len - len) / BYTES_PER_STEP *
                             (1 + (chars ? chars->len : 0)));
    return sl_jinja_safe(c->r, sl_jinja_borrow(c->r, p, len), c->s->safe);
}

static struct sl_jval split(const struct ctx *c, bool from_right)
{
    const struct sl_jstr *sep = NULL;
    struct sl_jval v[2];
    int64_t max = -1;

    if (!sl_jinja_bind(c->r, c->a, "sep maxsplit", 0, v))
        return v[0];
    if (v[0].kind != SL_J_MISSING && v[0].kind != SL_J_NONE)
        sep = str_arg(c, v[0]);
    sl_jinja_arg_int(c->r, c->a, v[1], &max);
    if (c->r->rc)
        return v[0];
    return sl_jinja_split(c->r, c->s, sep, max, from_right);
}

static struct sl_jval splitlines(const struct ctx *c)
{
    struct sl_jval v[1];
    bool keep = false;

    if (!sl_jinja_bind(c->r, c->a, "keepends", 0, v))
        return v[0];
    sl_jinja_arg_bool(c->r, v[0], &keep);
    return sl_jinja_lines(c->r, c->s, keep);
}

static struct sl_jval partition(const struct ctx *c, bool last)
{
    struct sl_jval v[1], t;
    const struct sl_jstr *x;
    const char *hit = NULL, *end = c->s->p + c->s->len;
    size_t part = last ? 2 : 0;

    if (!sl_jinja_bind(c->r, c->a, "sep", 1, v))
        return v[0];
    x = str_arg(c, v[0]);
    if (x && x->len == 0)
        sl_jinja_fail(c->r, SL_EARG, "%s(): empty separator", c->m->name);
    t = sl_jinja_list(c->r, SL_J_TUPLE, 3);
    sl_jinja_spend(c->r, c->s->len / BYTES_PER_STEP);
    if (c->r->rc)
        return v[0];
    if (last)
        hit = find_last(c->r, c->s, x);
    else if (c->s->len)
        hit = memmem(c->s->p, c->s->len, x->p, x->len);
    for (size_t i = 0; i < 3; i++)
        t.u.l->v[i] = sl_jinja_borrow(c->r, "", 0);
    if (!hit) {
        t.u.l->v[part] = sl_jinja_borrow(c->r, c->s->p, c->s->len);
        return t;
    }
    t.u.l->v[0] = sl_jinja_borrow(c->r, c->s->p, (size_t)(hit - c->s->p));
    t.u.l->v[1] = sl_jinja_borrow(c->r, hit, x->len);
    t.u.l->v[2] =
        sl_jinja_borrow(c->r, hit + x->len, (size_t)(end - hit) - x->len);
    return t;
}

static struct sl_jval remove_affix(const struct ctx *c, bool end)
{
    const struct sl_jstr *x, *s = c->s;
    struct sl_jval v[1];

    if (!sl_jinja_bind(c->r, c->a, "affix", 1, v))
        return v[0];
    x = str_arg(c, v[0]);
    if (!x || !affix(s, x, end))
        return c->m->obj;
    return sl_jinja_safe(
        c->r,
        sl_jinja_borrow(c->r, end ? s->p : s->p + x->len, s->len - x->len),
        s->safe);
}

/* What Markup adds is escaped, what is safe already is not. */
static const struct sl_jstr *escaped(const struct ctx *c,
                                     const struct sl_jstr *x)
{
    size_t mark = sl_jinja_mark(c->r);
    struct sl_jval v;

    if (!c->s->safe || !x || x->safe)
        return x;
    sl_jinja_emit_escaped(c->r, x->p, x->len);
    v = sl_jinja_take(c->r, mark);
    return c->r->rc ? NULL : v.u.s;
}

static struct sl_jval replace(const struct ctx *c)
{
    size_t mark = sl_jinja_mark(c->r);
    const struct sl_jstr *old, *with;
    struct sl_jval v[3];
    int64_t max = -1;

    if (!sl_jinja_bind(c->r, c->a, "old new count", 2, v))
        return v[0];
    old = str_arg(c, v[0]);
    with = escaped(c, str_arg(c, v[1]));
    sl_jinja_arg_int(c->r, c->a, v[2], &max);
    if (!old || !with || c->r->rc)
        return v[0];
    sl_jinja_emit_replaced(c->r, c->s, old, with, max);
    return sl_jinja_safe(c->r, sl_jinja_take(c->r, mark), c->s->safe);
}

static struct sl_jval join(const struct ctx *c)
{
    size_t mark = sl_jinja_mark(c->r);
    struct sl_jlist *l;
    struct sl_jval v[1];

    if (!sl_jinja_bind(c->r, c->a, "iterable", 1, v))
        return v[0];
    l = sl_jinja_elements(c->r, v[0], "join");
    for (size_t i = 0; !c->r->rc && i < l->n; i++) {
        const struct sl_jstr *x = escaped(c, str_arg(c, l->v[i]));

        if (i)
            sl_jinja_emit(c->r, c->s->p, c->s->len);
        if (x)
            sl_jinja_emit(c->r, x->p, x->len);
        sl_jinja_spend(c->r, 1);
    }
    return sl_jinja_safe(c->r, sl_jinja_take(c->r, mark), c->s->safe);
}

static struct sl_jval in_case(const struct ctx *c, char what)
{
    size_t mark = sl_jinja_mark(c->r);

    sl_jinja_bind(c->r, c->a, "", 0, NULL);
    sl_jinja_emit_case(c->r, c->s->p, c->s->len, what);
    return sl_jinja_safe(c->r, sl_jinja_take(c->r, mark), c->s->safe);
}

static void emit_times(struct sl_jrun *r, const struct sl_jstr *x, int64_t n)
{
    for (; n > 0 && !r->rc; n--)
        sl_jinja_emit(r, x->p, x->len);
}

static struct sl_jval justify(const struct ctx *c)
{
    static const struct sl_jstr space = {.p = " ", .len = 1, .n_cp = 1};
    size_t mark = sl_jinja_mark(c->r);
    const struct sl_jstr *fill = &space;
    struct sl_jval v[2];
    int64_t width = 0, pad, left;

    if (!sl_jinja_bind(c->r, c->a, "width fillchar", 1, v))
        return v[0];
    sl_jinja_arg_int(c->r, c->a, v[0], &width);
    if (v[1].kind != SL_J_MISSING)
        fill = str_arg(c, v[1]);
    if (!fill || fill->n_cp != 1 || width > MAX_WIDTH)
        sl_jinja_fail(c->r, SL_EARG,
                      "%s() takes one character and a width up to %d",
                      c->m->name, MAX_WIDTH);
    if (c->r->rc)
        return v[0];
    pad = width - (int64_t)c->s->n_cp;
    if (pad <= 0)
        return c->m->obj;
    /* An odd space goes left if the width is odd too, as CPython has it. */
    left = c->m->id == M_LJUST   ? 0
           : c->m->id == M_RJUST ? pad
                                 : pad / 2 + (pad & width & 1);
    emit_times(c->r, fill, left);
    sl_jinja_emit(c->r, c->s->p, c->s->len);
    emit_times(c->r, fill, pad - left);
    return sl_jinja_take(c->r, mark);
}

static struct sl_jval zfill(const struct ctx *c)
{
    static const struct sl_jstr zero = {.p = "0", .len = 1, .n_cp = 1};
    size_t mark = sl_jinja_mark(c->r);
    bool sign = c->s->len && (c->s->p[0] == '-' || c->s->p[0] == '+');
    struct sl_jval v[1];
    int64_t width = 0;

    if (!sl_jinja_bind(c->r, c->a, "width", 1, v))
        return v[0];
    sl_jinja_arg_int(c->r, c->a, v[0], &width);
    if (width > MAX_WIDTH)
        sl_jinja_fail(c->r, SL_EARG, "zfill() takes a width up to %d",
                      MAX_WIDTH);
    if (c->r->rc)
        return v[0];
    sl_jinja_emit(c->r, c->s->p, sign);
    emit_times(c->r, &zero, width - (int64_t)c->s->n_cp);
    sl_jinja_emit(c->r, c->s->p + sign, c->s->len - sign);
    return sl_jinja_take(c->r, mark);
}

static bool is_of(struct sl_jrun *r, int id, uint32_t cp)
{
    switch (id) {
    case M_ISALPHA:
        return sl_jinja_is_alpha(cp);
    case M_ISASCII:
        return cp < 0x80;
    case M_ISDECIMAL:
        return sl_jinja_is_decimal(cp);
    case M_ISSPACE:
        return sl_jinja_is_space(cp);
    default:
        break;
    }
    /* isdigit, isnumeric and isalnum know digits that are no decimals; their
     * lists are not here. */
    if (cp >= 0x80 && !sl_jinja_is_decimal(cp) && !sl_jinja_is_alpha(cp) &&
        sl_jinja_is_printable(cp) && cp > 0xb1)
        sl_jinja_fail(r, SL_EUNSUP,
                      "isdigit, isnumeric and isalnum of U+%04X are not "
                      "supported",
                      cp);
    return sl_jinja_is_decimal(cp) ||
           (id == M_ISALNUM && sl_jinja_is_alpha(cp));
}

static struct sl_jval is_all(const struct ctx *c)
{
    bool all = c->s->len > 0 || c->m->id == M_ISASCII;

    sl_jinja_bind(c->r, c->a, "", 0, NULL);
    sl_jinja_spend(c->r, c->s->len / 8);
    for (size_t i = 0; i < c->s->len && all && !c->r->rc;) {
        uint32_t cp;

        i += sl_utf8_get(&cp, c->s->p + i, c->s->len - i);
        all = is_of(c->r, c->m->id, cp);
    }
    return sl_jinja_bool(all);
}

static struct sl_jval is_case(const struct ctx *c, bool upper)
{
    bool cased = false;

    sl_jinja_bind(c->r, c->a, "", 0, NULL);
    sl_jinja_spend(c->r, c->s->len / 8);
    for (size_t i = 0; i < c->s->len && !c->r->rc;) {
        uint32_t cp;

        i += sl_utf8_get(&cp, c->s->p + i, c->s->len - i);
        if (!sl_jinja_is_cased(cp))
            continue;
        if (upper ? !sl_jinja_is_upper(cp) : !sl_jinja_is_lower(cp))
            return sl_jinja_bool(false);
        cased = true;
    }
    return sl_jinja_bool(cased);
}

static struct sl_jval of_string(const struct ctx *c)
{
    switch (c->m->id) {
    case M_STARTSWITH:
    case M_ENDSWITH:
        return starts_ends(c, c->m->id == M_ENDSWITH);
    case M_FIND:
    case M_INDEX:
        return find_in(c, false, c->m->id == M_INDEX);
    case M_RFIND:
    case M_RINDEX:
        return find_in(c, true, c->m->id == M_RINDEX);
    case M_COUNT:
        return count_in(c);
    case M_STRIP:
        return strip(c, true, true);
    case M_LSTRIP:
        return strip(c, true, false);
    case M_RSTRIP:
        return strip(c, false, true);
    case M_SPLIT:
    case M_RSPLIT:
        return split(c, c->m->id == M_RSPLIT);
    case M_SPLITLINES:
        return splitlines(c);
    case M_PARTITION:
    case M_RPARTITION:
        return partition(c, c->m->id == M_RPARTITION);
    case M_REMOVEPREFIX:
    case M_REMOVESUFFIX:
        return remove_affix(c, c->m->id == M_REMOVESUFFIX);
    case M_REPLACE:
        return replace(c);
    case M_JOIN:
        return join(c);
    case M_UPPER:
        return in_case(c, 'u');
    case M_LOWER:
        return in_case(c, 'l');
    case M_TITLE:
        return in_case(c, 't');
    case M_CAPITALIZE:
        return in_case(c, 'c');
    case M_ZFILL:
        return zfill(c);
    case M_ISUPPER:
    case M_ISLOWER:
        return is_case(c, c->m->id == M_ISUPPER);
    case M_CENTER:
    case M_LJUST:
    case M_RJUST:
        return justify(c);
    default:
        return is_all(c);
    }
}

static struct sl_jval dict_get(const struct ctx *c)
{
    const struct sl_jval *hit;
    struct sl_jval v[2];

    if (!sl_jinja_bind(c->r, c->a, "key default", 1, v))
        return v[0];
    hit = sl_jinja_lookup(c->r, c->m->obj.u.d, v[0]);
    if (hit)
        return *hit;
    return v[1].kind == SL_J_MISSING ? sl_jinja_none() : v[1];
}

static struct sl_jval dict_view(const struct ctx *c)
{
    struct sl_jview *w = sl_jinja_get(c->r, 1, sizeof(*w));

    sl_jinja_bind(c->r, c->a, "", 0, NULL);
    if (w)
        *w = (struct sl_jview){.d = c->m->obj.u.d,
                               .what = c->m->id == M_KEYS     ? 'k'
                                       : c->m->id == M_VALUES ? 'v'
                                                              : 'i'};
    return (struct sl_jval){.kind = SL_J_VIEW, .u.view = w};
}

static struct sl_jval list_find(const struct ctx *c)
{
    const struct sl_jlist *l = c->m->obj.u.l;
    struct sl_jval v[3];
    int64_t n = 0, from = 0, to = (int64_t)l->n;

    if (!sl_jinja_bind(c->r, c->a, "value start stop", 1, v))
        return v[0];
    bound(c, v[1], (int64_t)l->n, &from);
    bound(c, v[2], (int64_t)l->n, &to);
    if (to > (int64_t)l->n)
        to = (int64_t)l->n;
    for (int64_t i = from; i < to && !c->r->rc; i++) {
        if (!sl_jinja_eq(c->r, l->v[i], v[0]))
            continue;
        if (c->m->id == M_LIST_INDEX)
            return sl_jinja_int(i);
        n++;
    }
    if (c->m->id == M_LIST_INDEX)
        sl_jinja_fail(c->r, SL_EARG, "index(): the value is not in the list");
    return sl_jinja_int(n);
}

struct sl_jval sl_jinja_method_call(struct sl_jrun *r,
                                    const struct sl_jmethod *m,
                                    const struct sl_jargs *a)
{
    struct sl_jargs named = *a;
    struct ctx c = {.r = r, .m = m, .a = &named};

    if (r->rc)
        return sl_jinja_none();
    named.who = m->name;
    named.who_len = strlen(m->name);
    switch (m->id) {
    case M_GET:
        return dict_get(&c);
    case M_KEYS:
    case M_VALUES:
    case M_ITEMS:
        return dict_view(&c);
    case M_COPY: /* values never change, so it is its own copy */
        sl_jinja_bind(r, a, "", 0, NULL);
        return m->obj;
    case M_LIST_COUNT:
    case M_LIST_INDEX:
        return list_find(&c);
    default:
        c.s = m->obj.u.s;
        return of_string(&c);
    }
}
