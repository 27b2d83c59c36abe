/* text/jinja_value.c - the values of a template; see jinja_value.h
 *
 * Python's rules for truth, equality, order, membership and length, and the
 * makers. Dictionaries are searched from the front: those of a chat have a
 * handful of keys, and every key that is passed takes from the budget of steps,
 * so a hostile one costs its sender a refusal rather than us the time.
 */
#include "text/jinja_value.h"

#include "base/utf8.h"
#include "text/jinja_num.h"

#define GROW_FROM 128   /* bytes; a shorter concatenation gets no spare room */
#define KEYS_PER_STEP 8 /* comparing a key is cheaper than visiting a node */

struct sl_jval sl_jinja_undef(struct sl_jrun *r, const char *hint)
{
    struct sl_jundef *u = sl_jinja_get(r, 1, sizeof(*u));

    if (u)
        *u = (struct sl_jundef){.hint = hint};
    return (struct sl_jval){.kind = SL_J_UNDEF, .u.undef = u};
}

struct sl_jval sl_jinja_undef_name(struct sl_jrun *r, struct sl_jval name,
                                   enum sl_jkind holder)
{
    struct sl_jundef *u = sl_jinja_get(r, 1, sizeof(*u));

    if (u)
        *u = (struct sl_jundef){.name = name, .holder = holder};
    return (struct sl_jval){.kind = SL_J_UNDEF, .u.undef = u};
}

struct sl_jval sl_jinja_none(void)
{
    return (struct sl_jval){.kind = SL_J_NONE};
}

struct sl_jval sl_jinja_bool(bool b)
{
    return (struct sl_jval){.kind = SL_J_BOOL, .u.b = b};
}

struct sl_jval sl_jinja_int(int64_t i)
{
    return (struct sl_jval){.kind = SL_J_INT, .u.i = i};
}

struct sl_jval sl_jinja_float(double f)
{
    return (struct sl_jval){.kind = SL_J_FLOAT, .u.f = f};
}

void sl_jinja_str_set(struct sl_jstr *s, const char *p, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    *s = (struct sl_jstr){.p = p, .len = len, .n_cp = n};
}

struct sl_jval sl_jinja_borrow(struct sl_jrun *r, const char *p, size_t len)
{
    struct sl_jstr *s = sl_jinja_get(r, 1, sizeof(*s));

    if (!s)
        return (struct sl_jval){.kind = SL_J_UNDEF};
    sl_jinja_str_set(s, p, len);
    return (struct sl_jval){.kind = SL_J_STR, .u.s = s};
}

struct sl_jval sl_jinja_str(struct sl_jrun *r, const char *p, size_t len)
{
    char *copy = sl_jinja_get(r, len, 1);

    if (!copy)
        return (struct sl_jval){.kind = SL_J_UNDEF};
    if (len)
        memcpy(copy, p, len);
    return sl_jinja_borrow(r, copy, len);
}

struct sl_jval sl_jinja_take(struct sl_jrun *r, size_t mark)
{
    struct sl_jval v;

    if (r->rc)
        return (struct sl_jval){.kind = SL_J_UNDEF};
    v = sl_jinja_str(r, r->out->p ? r->out->p + mark : "", r->out->len - mark);
    sl_jinja_drop(r, mark);
    return v;
}

struct sl_jval sl_jinja_safe(struct sl_jrun *r, struct sl_jval v, bool safe)
{
    struct sl_jstr *s;

    if (v.kind != SL_J_STR || v.u.s->safe == safe)
        return v;
    s = sl_jinja_get(r, 1, sizeof(*s));
    if (!s)
        return (struct sl_jval){.kind = SL_J_UNDEF};
    *s = *v.u.s;
    s->safe = safe;
    return (struct sl_jval){.kind = SL_J_STR, .u.s = s};
}

struct sl_jval sl_jinja_list(struct sl_jrun *r, enum sl_jkind kind, size_t n)
{
    struct sl_jlist *l = sl_jinja_get(r, 1, sizeof(*l));
    struct sl_jval *v = sl_jinja_get(r, n, sizeof(*v));

    if (!l || !v || !sl_jinja_spend(r, n))
        return (struct sl_jval){.kind = SL_J_UNDEF};
    for (size_t i = 0; i < n; i++)
        v[i] = sl_jinja_none();
    *l = (struct sl_jlist){.v = v, .n = n};
    return (struct sl_jval){.kind = kind, .u.l = l};
}

struct sl_jval sl_jinja_pair(struct sl_jrun *r, struct sl_jval a,
                             struct sl_jval b)
{
    struct sl_jval v = sl_jinja_list(r, SL_J_TUPLE, 2);

    if (r->rc)
        return v;
    v.u.l->v[0] = a;
    v.u.l->v[1] = b;
    return v;
}

struct sl_jval sl_jinja_dict(struct sl_jrun *r, enum sl_jkind kind)
{
    struct sl_jdict *d = sl_jinja_get(r, 1, sizeof(*d));

    if (!d)
        return (struct sl_jval){.kind = SL_J_UNDEF};
    *d = (struct sl_jdict){0};
    return (struct sl_jval){.kind = kind, .u.d = d};
}

/* a ++ b behind a, where a ends at the used end of its buffer. */
static bool grow_in_place(struct sl_jstr *out, const struct sl_jstr *a,
                          const struct sl_jstr *b)
{
    struct sl_jtail *t = a->tail;

    if (!t || a->p + a->len != t->p + t->used || b->len > t->cap - t->used)
        return false;
    if (b->len)
        memcpy(t->p + t->used, b->p, b->len);
    t->used += b->len;
    *out = (struct sl_jstr){.p = a->p,
                            .len = a->len + b->len,
                            .n_cp = a->n_cp + b->n_cp,
                            .tail = t};
    return true;
}

struct sl_jval sl_jinja_concat(struct sl_jrun *r, const struct sl_jstr *a,
                               const struct sl_jstr *b)
{
    struct sl_jstr *s = sl_jinja_get(r, 1, sizeof(*s));
    size_t len = a->len + b->len, cap = len < GROW_FROM ? len : 2 * len;
    struct sl_jval v = {.kind = SL_J_STR, .u.s = s};
    struct sl_jtail *t;
    char *p;

    if (!s || !sl_jinja_spend(r, len / GROW_FROM) || grow_in_place(s, a, b))
        return r->rc ? (struct sl_jval){.kind = SL_J_UNDEF} : v;
    p = sl_jinja_get(r, cap, 1);
    t = cap > len ? sl_jinja_get(r, 1, sizeof(*t)) : NULL;
    if (r->rc)
        return (struct sl_jval){.kind = SL_J_UNDEF};
    if (a->len)
        memcpy(p, a->p, a->len);
    if (b->len)
        memcpy(p + a->len, b->p, b->len);
    if (t)
        *t = (struct sl_jtail){.p = p, .used = len, .cap = cap};
    *s = (struct sl_jstr){
        .p = p, .len = len, .n_cp = a->n_cp + b->n_cp, .tail = t};
    return v;
}

bool sl_jinja_is_str(struct sl_jval v, const char *s)
{
    return v.kind == SL_J_STR && v.u.s->len == strlen(s) &&
           memcmp(v.u.s->p, s, v.u.s->len) == 0;
}

bool sl_jinja_is_int(struct sl_jval v)
{
    return v.kind == SL_J_INT || v.kind == SL_J_BOOL;
}

bool sl_jinja_is_number(struct sl_jval v)
{
    return v.kind == SL_J_FLOAT || sl_jinja_is_int(v);
}

int64_t sl_jinja_int_of(struct sl_jval v)
{
    return v.kind == SL_J_BOOL ? v.u.b : v.u.i;
}

double sl_jinja_float_of(struct sl_jval v)
{
    return v.kind == SL_J_FLOAT ? v.u.f : (double)sl_jinja_int_of(v);
}

const char *sl_jinja_type(struct sl_jval v)
{
    switch (v.kind) {
    case SL_J_MISSING:
    case SL_J_UNDEF:
        return "Undefined";
    case SL_J_NONE:
        return "None";
    case SL_J_BOOL:
        return "bool";
    case SL_J_INT:
        return "int";
    case SL_J_FLOAT:
        return "float";
    case SL_J_STR:
        return "str";
    case SL_J_LIST:
        return "list";
    case SL_J_TUPLE:
        return "tuple";
    case SL_J_DICT:
        return "dict";
    case SL_J_NS:
        return "namespace";
    case SL_J_RANGE:
        return "range";
    case SL_J_GEN:
        return "generator";
    case SL_J_VIEW:
        return "dict view";
    case SL_J_LOOP:
        return "loop";
    case SL_J_MACRO:
        return "macro";
    case SL_J_FUNC:
    case SL_J_METHOD:
        return "function";
    }
    return "value";
}

void sl_jinja_fail_undef(struct sl_jrun *r, struct sl_jval v)
{
    const struct sl_jundef *u = v.u.undef;
    struct sl_jval holder = {.kind = u ? u->holder : SL_J_MISSING};

    if (!u)
        sl_jinja_fail(r, SL_EARG, "a value is undefined");
    else if (u->hint)
        sl_jinja_fail(r, SL_EARG, "%s", u->hint);
    else if (u->name.kind == SL_J_STR && u->holder == SL_J_MISSING)
        sl_jinja_fail(r, SL_EARG, "'%.*s' is undefined",
                      (int)sl_min(u->name.u.s->len, 100), u->name.u.s->p);
    else if (u->name.kind == SL_J_STR)
        sl_jinja_fail(r, SL_EARG, "'%s object' has no attribute '%.*s'",
                      sl_jinja_type(holder), (int)sl_min(u->name.u.s->len, 100),
                      u->name.u.s->p);
    else if (sl_jinja_is_int(u->name))
        sl_jinja_fail(r, SL_EARG, "%s object has no element %lld",
                      sl_jinja_type(holder),
                      (long long)sl_jinja_int_of(u->name));
    else
        sl_jinja_fail(r, SL_EARG, "%s object has no such element",
                      sl_jinja_type(holder));
}

int64_t sl_jinja_len(struct sl_jrun *r, struct sl_jval v)
{
    if (r->rc)
        return 0; /* v may be the half-made result of what failed */
    switch (v.kind) {
    case SL_J_UNDEF:
        return 0;
    case SL_J_STR:
        return (int64_t)v.u.s->n_cp;
    case SL_J_LIST:
    case SL_J_TUPLE:
        return (int64_t)v.u.l->n;
    case SL_J_DICT:
        return (int64_t)v.u.d->n;
    case SL_J_RANGE:
        return (int64_t)v.u.range->n;
    case SL_J_VIEW:
        return (int64_t)v.u.view->d->n;
    case SL_J_MISSING:
    case SL_J_NONE:
    case SL_J_BOOL:
    case SL_J_INT:
    case SL_J_FLOAT:
    case SL_J_NS:
    case SL_J_GEN:
    case SL_J_LOOP:
    case SL_J_MACRO:
    case SL_J_FUNC:
    case SL_J_METHOD:
        break;
    }
    return -1;
}

bool sl_jinja_truth(struct sl_jrun *r, struct sl_jval v)
{
    int64_t n = sl_jinja_len(r, v);

    if (n >= 0)
        return n > 0;
    if (v.kind == SL_J_NONE || v.kind == SL_J_MISSING)
        return false;
    if (sl_jinja_is_int(v))
        return sl_jinja_int_of(v) != 0;
    return v.kind != SL_J_FLOAT || v.u.f != 0;
}

static bool eq_lists(struct sl_jrun *r, const struct sl_jlist *a,
                     const struct sl_jlist *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n && !r->rc; i++)
        if (!sl_jinja_eq(r, a->v[i], b->v[i]))
            return false;
    return true;
}

static bool eq_dicts(struct sl_jrun *r, const struct sl_jdict *a,
                     const struct sl_jdict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n && !r->rc; i++) {
        const struct sl_jval *v = sl_jinja_lookup(r, b, a->p[i].key);

        if (!v || !sl_jinja_eq(r, a->p[i].val, *v))
            return false;
    }
    return true;
}

static bool eq_ranges(const struct sl_jrange *a, const struct sl_jrange *b)
{
    return a->n == b->n && (a->n < 1 || a->start == b->start) &&
           (a->n < 2 || a->step == b->step);
}

static bool eq_inner(struct sl_jrun *r, struct sl_jval a, struct sl_jval b)
{
    if (sl_jinja_is_number(a) && sl_jinja_is_number(b))
        return sl_jinja_order_num(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case SL_J_MISSING:
    case SL_J_UNDEF:
    case SL_J_NONE:
        return true;
    case SL_J_STR:
        return a.u.s->len == b.u.s->len &&
               sl_jinja_spend(r, a.u.s->len / GROW_FROM) &&
               memcmp(a.u.s->p, b.u.s->p, a.u.s->len) == 0;
    case SL_J_LIST:
    case SL_J_TUPLE:
        return eq_lists(r, a.u.l, b.u.l);
    case SL_J_DICT:
        return eq_dicts(r, a.u.d, b.u.d);
    case SL_J_RANGE:
        return eq_ranges(a.u.range, b.u.range);
    case SL_J_NS:
    case SL_J_GEN:
        return a.u.l == b.u.l;
    case SL_J_FUNC:
        return a.u.func == b.u.func;
    case SL_J_LOOP:
    case SL_J_MACRO:
        return a.u.macro == b.u.macro;
    case SL_J_VIEW:
    case SL_J_METHOD:
    case SL_J_BOOL: /* the numbers were compared above */
    case SL_J_INT:
    case SL_J_FLOAT:
        break;
    }
    sl_jinja_fail(r, SL_EUNSUP, "comparing a %s is not supported here",
                  sl_jinja_type(a));
    return false;
}

bool sl_jinja_eq(struct sl_jrun *r, struct sl_jval a, struct sl_jval b)
{
    bool eq;

    if (!sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return false;
    eq = eq_inner(r, a, b);
    sl_jinja_leave(r);
    return eq;
}

static int order_str(const struct sl_jstr *a, const struct sl_jstr *b)
{
    /* Bytes of UTF-8 sort as the code points do. */
    int c = memcmp(a->p, b->p, sl_min(a->len, b->len));

    if (c)
        return c < 0 ? -1 : 1;
    return (a->len > b->len) - (a->len < b->len);
}

static int order_lists(struct sl_jrun *r, const struct sl_jlist *a,
                       const struct sl_jlist *b, const char *op)
{
    size_t n = sl_min(a->n, b->n);

    for (size_t i = 0; i < n && !r->rc; i++)
        if (!sl_jinja_eq(r, a->v[i], b->v[i]))
            return sl_jinja_order(r, a->v[i], b->v[i], op);
    return (a->n > b->n) - (a->n < b->n);
}

int sl_jinja_order(struct sl_jrun *r, struct sl_jval a, struct sl_jval b,
                   const char *op)
{
    int c = 0;

    if (!sl_jinja_spend(r, 1) || !sl_jinja_enter(r))
        return 0;
    if (sl_jinja_is_number(a) && sl_jinja_is_number(b)) {
        c = sl_jinja_order_num(a, b);
    } else if (a.kind == SL_J_STR && b.kind == SL_J_STR) {
        sl_jinja_spend(r, sl_min(a.u.s->len, b.u.s->len) / GROW_FROM);
        c = order_str(a.u.s, b.u.s);
    } else if (a.kind == b.kind &&
               (a.kind == SL_J_LIST || a.kind == SL_J_TUPLE)) {
        c = order_lists(r, a.u.l, b.u.l, op);
    } else if (a.kind == SL_J_UNDEF || b.kind == SL_J_UNDEF) {
        sl_jinja_fail_undef(r, a.kind == SL_J_UNDEF ? a : b);
    } else {
        sl_jinja_fail(r, SL_EARG, "'%s' is not supported between %s and %s", op,
                      sl_jinja_type(a), sl_jinja_type(b));
    }
    sl_jinja_leave(r);
    return c;
}

static bool in_str(struct sl_jrun *r, struct sl_jval x, const struct sl_jstr *s)
{
    if (x.kind != SL_J_STR) {
        sl_jinja_fail(r, SL_EARG,
                      "'in <string>' needs a string as left operand, not %s",
                      sl_jinja_type(x));
        return false;
    }
    sl_jinja_spend(r, s->len / GROW_FROM);
    return x.u.s->len == 0 ||
           (s->len && memmem(s->p, s->len, x.u.s->p, x.u.s->len));
}

bool sl_jinja_in(struct sl_jrun *r, struct sl_jval x, struct sl_jval in)
{
    struct sl_jlist *l;

    if (r->rc)
        return false;
    if (in.kind == SL_J_STR)
        return in_str(r, x, in.u.s);
    if (in.kind == SL_J_DICT ||
        (in.kind == SL_J_VIEW && in.u.view->what == 'k'))
        return sl_jinja_lookup(r, in.kind == SL_J_DICT ? in.u.d : in.u.view->d,
                               x);
    if (!sl_jinja_is_iterable(in)) {
        sl_jinja_fail(r, SL_EARG, "argument of type %s is not iterable",
                      sl_jinja_type(in));
        return false;
    }
    if (in.kind == SL_J_GEN) {
        /* Stops reading at the first hit, as Python does. */
        for (l = in.u.l; l->pos < l->n && !r->rc;)
            if (sl_jinja_eq(r, l->v[l->pos++], x))
                return true;
        return false;
    }
    l = sl_jinja_elements(r, in, "in");
    for (size_t i = 0; !r->rc && i < l->n; i++)
        if (sl_jinja_eq(r, l->v[i], x))
            return true;
    return false;
}

bool sl_jinja_is_iterable(struct sl_jval v)
{
    switch (v.kind) {
    case SL_J_UNDEF:
    case SL_J_STR:
    case SL_J_LIST:
    case SL_J_TUPLE:
    case SL_J_DICT:
    case SL_J_RANGE:
    case SL_J_GEN:
    case SL_J_VIEW:
    case SL_J_LOOP:
        return true;
    case SL_J_MISSING:
    case SL_J_NONE:
    case SL_J_BOOL:
    case SL_J_INT:
    case SL_J_FLOAT:
    case SL_J_NS:
    case SL_J_MACRO:
    case SL_J_FUNC:
    case SL_J_METHOD:
        break;
    }
    return false;
}

static void fill_chars(struct sl_jrun *r, struct sl_jlist *l,
                       const struct sl_jstr *s)
{
    size_t at = 0;

    for (size_t i = 0; i < l->n && !r->rc; i++) {
        uint32_t cp;
        size_t len = sl_utf8_get(&cp, s->p + at, s->len - at);

        l->v[i] = sl_jinja_borrow(r, s->p + at, len);
        l->v[i] = sl_jinja_safe(r, l->v[i], s->safe);
        at += len;
    }
}

static void fill_dict(struct sl_jrun *r, struct sl_jlist *l,
                      const struct sl_jdict *d, char what)
{
    for (size_t i = 0; i < l->n && !r->rc; i++)
        l->v[i] = what == 'k'   ? d->p[i].key
                  : what == 'v' ? d->p[i].val
                                : sl_jinja_pair(r, d->p[i].key, d->p[i].val);
}

static struct sl_jlist *rest_of_gen(struct sl_jrun *r, struct sl_jlist *g)
{
    struct sl_jval v = sl_jinja_list(r, SL_J_LIST, 0);

    if (r->rc)
        return g;
    v.u.l->v = g->v + g->pos;
    v.u.l->n = g->n - g->pos;
    g->pos = g->n;
    return v.u.l;
}

struct sl_jlist *sl_jinja_elements(struct sl_jrun *r, struct sl_jval v,
                                   const char *what)
{
    int64_t n = sl_jinja_len(r, v);
    struct sl_jval list;

    if (r->rc)
        return NULL;
    if (v.kind == SL_J_LIST || v.kind == SL_J_TUPLE)
        return v.u.l;
    if (v.kind == SL_J_GEN)
        return rest_of_gen(r, v.u.l);
    if (!sl_jinja_is_iterable(v) || n < 0) {
        sl_jinja_fail(r, SL_EARG, "%s: a %s is not iterable", what,
                      sl_jinja_type(v));
        return NULL;
    }
    list = sl_jinja_list(r, SL_J_LIST, (size_t)n);
    if (r->rc)
        return NULL;
    if (v.kind == SL_J_STR)
        fill_chars(r, list.u.l, v.u.s);
    else if (v.kind == SL_J_DICT)
        fill_dict(r, list.u.l, v.u.d, 'k');
    else if (v.kind == SL_J_VIEW)
        fill_dict(r, list.u.l, v.u.view->d, v.u.view->what);
    else if (v.kind == SL_J_RANGE)
        for (int64_t i = 0; i < n; i++)
            list.u.l->v[i] =
                sl_jinja_int(v.u.range->start + i * v.u.range->step);
    return list.u.l;
}

bool sl_jinja_is_hashable(struct sl_jval v)
{
    if (v.kind == SL_J_TUPLE)
        for (size_t i = 0; i < v.u.l->n; i++)
            if (v.u.l->v[i].kind == SL_J_TUPLE || /* no recursion here */
                !sl_jinja_is_hashable(v.u.l->v[i]))
                return false;
    return v.kind != SL_J_LIST && v.kind != SL_J_DICT && v.kind != SL_J_VIEW;
}

/* Index of the pair with that string as key, or d->n. */
static size_t find_name(struct sl_jrun *r, const struct sl_jdict *d,
                        const char *p, size_t len)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct sl_jval *k = &d->p[i].key;

        if (i % KEYS_PER_STEP == KEYS_PER_STEP - 1 && !sl_jinja_spend(r, 1))
            return d->n;
        if (k->kind == SL_J_STR && k->u.s->len == len &&
            memcmp(k->u.s->p, p, len) == 0)
            return i;
    }
    return d->n;
}

static size_t find_key(struct sl_jrun *r, const struct sl_jdict *d,
                       struct sl_jval key)
{
    if (!sl_jinja_is_hashable(key)) {
        sl_jinja_fail(r, SL_EARG, "unhashable type: '%s'", sl_jinja_type(key));
        return d->n;
    }
    if (key.kind == SL_J_STR)
        return find_name(r, d, key.u.s->p, key.u.s->len);
    for (size_t i = 0; i < d->n && !r->rc; i++)
        if (sl_jinja_eq(r, d->p[i].key, key))
            return i;
    return d->n;
}

const struct sl_jval *
sl_jinja_lookup(struct sl_jrun *r, const struct sl_jdict *d, struct sl_jval key)
{
    size_t i = find_key(r, d, key);

    return i < d->n ? &d->p[i].val : NULL;
}

const struct sl_jval *sl_jinja_lookup_name(struct sl_jrun *r,
                                           const struct sl_jdict *d,
                                           const char *p, size_t len)
{
    size_t i = find_name(r, d, p, len);

    return i < d->n ? &d->p[i].val : NULL;
}

static bool grow_dict(struct sl_jrun *r, struct sl_jdict *d)
{
    size_t cap = d->cap ? 2 * d->cap : 4;
    struct sl_jpair *p = sl_jinja_get(r, cap, sizeof(*p));

    if (!p)
        return false;
    if (d->n)
        memcpy(p, d->p, d->n * sizeof(*p));
    d->p = p;
    d->cap = cap;
    return true;
}

void sl_jinja_put(struct sl_jrun *r, struct sl_jdict *d, struct sl_jval key,
                  struct sl_jval val)
{
    size_t i = r->rc ? d->n : find_key(r, d, key);

    if (r->rc)
        return;
    if (i < d->n)
        d->p[i].val = val;
    else if (d->n < d->cap || grow_dict(r, d))
        d->p[d->n++] = (struct sl_jpair){.key = key, .val = val};
}
