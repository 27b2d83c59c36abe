/* text/jinja_seq.c - filters over sequences
 *
 * Where Jinja returns a generator the result here is a list that can be read
 * once (SL_J_GEN). It is computed at once rather than when it is read: what
 * runs in between cannot change a value, so only the moment of an error
 * differs.
 */
#include "text/jinja_seq.h"

#include "text/jinja_attr.h"
#include "text/jinja_filter.h"
#include "text/jinja_num.h"
#include "text/jinja_print.h"
#include "text/jinja_text.h"

/* "a.0.b": items of items. */
static struct sl_jval by_path(struct sl_jrun *r, struct sl_jval v,
                              struct sl_jval path, struct sl_jval otherwise)
{
    const char *p, *end;
    int64_t i;

    if (path.kind == SL_J_MISSING || path.kind == SL_J_NONE)
        return v;
    if (path.kind != SL_J_STR)
        return sl_jinja_item(r, v, path);
    p = path.u.s->p;
    end = p + path.u.s->len;
    while (!r->rc && p <= end) {
        size_t n = 0;
        bool digits = true;

        for (; p + n < end && p[n] != '.'; n++)
            digits &= p[n] >= '0' && p[n] <= '9';
        if (n && digits && sl_jinja_int_parse(&i, p, n, 10))
            v = sl_jinja_item(r, v, sl_jinja_int(i));
        else
            v = sl_jinja_item(r, v, sl_jinja_borrow(r, p, n));
        if (v.kind == SL_J_UNDEF && otherwise.kind != SL_J_MISSING &&
            otherwise.kind != SL_J_NONE)
            v = otherwise;
        p += n + 1;
    }
    return v;
}

/* Strings are compared in lower case unless asked otherwise. */
static struct sl_jval fold(struct sl_jrun *r, struct sl_jval v, bool exact)
{
    size_t mark = sl_jinja_mark(r);

    if (exact || v.kind != SL_J_STR)
        return v;
    sl_jinja_emit_case(r, v.u.s->p, v.u.s->len, 'l');
    return sl_jinja_take(r, mark);
}

static struct sl_jval gen(struct sl_jrun *r, size_t n)
{
    return sl_jinja_list(r, SL_J_GEN, n);
}

struct sl_jval sl_jinja_to_list(struct sl_jrun *r, struct sl_jval v,
                                const struct sl_jargs *a)
{
    struct sl_jlist *l;

    sl_jinja_bind(r, a, "", 0, NULL);
    l = sl_jinja_elements(r, v, "list");
    return r->rc ? sl_jinja_none()
                 : (struct sl_jval){.kind = SL_J_LIST, .u.l = l};
}

struct sl_jval sl_jinja_first(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a)
{
    struct sl_jlist *l;

    sl_jinja_bind(r, a, "", 0, NULL);
    if (v.kind == SL_J_GEN && !r->rc && v.u.l->pos < v.u.l->n)
        return v.u.l->v[v.u.l->pos++];
    l = sl_jinja_elements(r, v, "first");
    if (!r->rc && l->n)
        return l->v[0];
    return sl_jinja_undef(r, "No first item, sequence was empty.");
}

struct sl_jval sl_jinja_last(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jargs *a)
{
    struct sl_jlist *l;

    sl_jinja_bind(r, a, "", 0, NULL);
    if (v.kind == SL_J_GEN)
        sl_jinja_fail(r, SL_EARG,
                      "last: a generator has no end; put '|list' before");
    l = sl_jinja_elements(r, v, "last");
    if (!r->rc && l->n)
        return l->v[l->n - 1];
    return sl_jinja_undef(r, "No last item, sequence was empty.");
}

struct sl_jval sl_jinja_items(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a)
{
    struct sl_jview view = {.what = 'i'};
    struct sl_jval all = {.kind = SL_J_VIEW, .u.view = &view};

    sl_jinja_bind(r, a, "", 0, NULL);
    if (v.kind == SL_J_UNDEF)
        return gen(r, 0);
    if (v.kind != SL_J_DICT) {
        sl_jinja_fail(r, SL_EARG,
                      "items: a %s has no pairs, only a mapping has",
                      sl_jinja_type(v));
        return v;
    }
    view.d = v.u.d;
    all.u.l = sl_jinja_elements(r, all, "items");
    all.kind = SL_J_GEN;
    return r->rc ? v : all;
}

struct sl_jval sl_jinja_join(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jargs *a)
{
    struct sl_jval o[2], sep;
    struct sl_jlist *l;
    size_t mark;

    if (!sl_jinja_bind(r, a, "d attribute", 0, o))
        return v;
    sep = o[0].kind == SL_J_MISSING ? sl_jinja_borrow(r, "", 0)
                                    : sl_jinja_text(r, o[0]);
    l = sl_jinja_elements(r, v, "join");
    mark = sl_jinja_mark(r);
    for (size_t i = 0; !r->rc && i < l->n; i++) {
        if (i)
            sl_jinja_emit(r, sep.u.s->p, sep.u.s->len);
        sl_jinja_print(r, by_path(r, l->v[i], o[1], sl_jinja_none()));
        sl_jinja_spend(r, 1);
    }
    return sl_jinja_take(r, mark);
}

/* The filter's own arguments behind the first `skip`. */
static struct sl_jargs rest(const struct sl_jargs *a, size_t skip,
                            const struct sl_jstr *who)
{
    return (struct sl_jargs){.v = a->v + skip,
                             .n = a->n - skip,
                             .kw = a->kw,
                             .who = who->p,
                             .who_len = who->len};
}

static struct sl_jval map_attribute(struct sl_jrun *r, struct sl_jlist *l,
                                    const struct sl_jargs *a)
{
    struct sl_jval o[2], out;

    if (!sl_jinja_bind(r, a, "attribute default", 1, o))
        return sl_jinja_none();
    out = gen(r, l->n);
    for (size_t i = 0; !r->rc && i < l->n; i++)
        out.u.l->v[i] = by_path(r, l->v[i], o[0], o[1]);
    return out;
}

struct sl_jval sl_jinja_map(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a)
{
    const struct sl_jstr *name;
    struct sl_jargs inner;
    struct sl_jlist *l;
    struct sl_jval out;
    int fn;

    if (!sl_jinja_truth(r, v))
        return gen(r, 0);
    l = sl_jinja_elements(r, v, "map");
    if (r->rc)
        return v;
    if (a->n == 0)
        return map_attribute(r, l, a);
    name = sl_jinja_arg_str(r, a, a->v[0]);
    fn = name ? sl_jinja_filter_find(name->p, name->len) : -1;
    if (fn < 0) {
        sl_jinja_fail(r, SL_EARG, "map: there is no such filter");
        return v;
    }
    inner = rest(a, 1, name);
    out = gen(r, l->n);
    for (size_t i = 0; !r->rc && i < l->n; i++)
        out.u.l->v[i] = sl_jinja_filter(r, fn, l->v[i], &inner);
    return out;
}

/* select and its kin: keep what passes the test, or what does not. */
static struct sl_jval pick(struct sl_jrun *r, struct sl_jval v,
                           const struct sl_jargs *a, bool attr, bool keep)
{
    struct sl_jval path = {.kind = SL_J_MISSING}, out;
    const struct sl_jstr *name = NULL;
    struct sl_jargs inner = *a;
    struct sl_jlist *l;
    size_t off = attr;
    int fn = -1;

    if (!sl_jinja_truth(r, v))
        return gen(r, 0);
    l = sl_jinja_elements(r, v, "select");
    if (attr && a->n == 0)
        sl_jinja_fail(r, SL_EARG, "selectattr needs the name of an attribute");
    if (r->rc)
        return v;
    if (attr)
        path = a->v[0];
    if (a->n > off) {
        name = sl_jinja_arg_str(r, a, a->v[off]);
        fn = name ? sl_jinja_test_find(name->p, name->len) : -1;
        if (fn < 0) {
            sl_jinja_fail(r, SL_EARG, "select: there is no such test");
            return v;
        }
        inner = rest(a, off + 1, name);
    }
    out = gen(r, l->n);
    if (r->rc)
        return v;
    out.u.l->n = 0;
    for (size_t i = 0; !r->rc && i < l->n; i++) {
        struct sl_jval x =
            by_path(r, l->v[i], path, (struct sl_jval){.kind = SL_J_MISSING});
        bool yes =
            fn < 0 ? sl_jinja_truth(r, x) : sl_jinja_test(r, fn, x, &inner);

        if (yes == keep)
            out.u.l->v[out.u.l->n++] = l->v[i];
    }
    return out;
}

struct sl_jval sl_jinja_select(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a)
{
    return pick(r, v, a, false, true);
}

struct sl_jval sl_jinja_reject(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a)
{
    return pick(r, v, a, false, false);
}

struct sl_jval sl_jinja_selectattr(struct sl_jrun *r, struct sl_jval v,
                                   const struct sl_jargs *a)
{
    return pick(r, v, a, true, true);
}

struct sl_jval sl_jinja_rejectattr(struct sl_jrun *r, struct sl_jval v,
                                   const struct sl_jargs *a)
{
    return pick(r, v, a, true, false);
}

struct sl_jval sl_jinja_reverse(struct sl_jrun *r, struct sl_jval v,
                                const struct sl_jargs *a)
{
    struct sl_jval bound[3] = {sl_jinja_none(), sl_jinja_none(),
                               sl_jinja_int(-1)};
    struct sl_jlist *l;
    struct sl_jval out;

    sl_jinja_bind(r, a, "", 0, NULL);
    if (v.kind == SL_J_STR)
        return sl_jinja_slice(r, v, bound);
    l = sl_jinja_elements(r, v, "reverse");
    if (r->rc)
        return v;
    out = sl_jinja_list(r, v.kind == SL_J_GEN ? SL_J_LIST : SL_J_GEN, l->n);
    for (size_t i = 0; !r->rc && i < l->n; i++)
        out.u.l->v[i] = l->v[l->n - 1 - i];
    return out;
}

/* Stable merge of two sorted halves of idx by key; a reversed sort keeps the
 * order of equals as well, as Python's does. */
static void merge_sort(struct sl_jrun *r, size_t *idx, size_t *tmp, size_t n,
                       const struct sl_jval *key, bool reverse)
{
    for (size_t w = 1; w < n && !r->rc; w *= 2) {
        for (size_t lo = 0; lo < n && !r->rc; lo += 2 * w) {
            size_t mid = sl_min(lo + w, n), hi = sl_min(lo + 2 * w, n);
            size_t i = lo, j = mid;

            for (size_t k = lo; k < hi; k++) {
                bool right = i == mid;

                if (i < mid && j < hi)
                    right = reverse ? sl_jinja_order(r, key[idx[i]],
                                                     key[idx[j]], "<") == -1
                                    : sl_jinja_order(r, key[idx[j]],
                                                     key[idx[i]], "<") == -1;
                tmp[k] = right ? idx[j++] : idx[i++];
            }
        }
        memcpy(idx, tmp, n * sizeof(*idx));
    }
}

static struct sl_jval sorted(struct sl_jrun *r, const struct sl_jlist *l,
                             const struct sl_jval *key, bool reverse)
{
    struct sl_jval out = sl_jinja_list(r, SL_J_LIST, l->n);
    size_t *idx = sl_jinja_get(r, l->n, sizeof(*idx));
    size_t *tmp = sl_jinja_get(r, l->n, sizeof(*tmp));

    if (r->rc)
        return out;
    for (size_t i = 0; i < l->n; i++)
        idx[i] = i;
    merge_sort(r, idx, tmp, l->n, key, reverse);
    for (size_t i = 0; i < l->n && !r->rc; i++)
        out.u.l->v[i] = l->v[idx[i]];
    return out;
}

/* A list of one key per comma in the path, as make_multi_attrgetter makes. */
static struct sl_jval sort_key(struct sl_jrun *r, struct sl_jval v,
                               struct sl_jval path, bool exact)
{
    struct sl_jval key = sl_jinja_list(r, SL_J_LIST, 1), parts;
    static const struct sl_jstr comma = {.p = ",", .len = 1, .n_cp = 1};
    struct sl_jval none = {.kind = SL_J_MISSING};

    if (r->rc)
        return key;
    if (path.kind != SL_J_STR) {
        key.u.l->v[0] = fold(r, by_path(r, v, path, none), exact);
        return key;
    }
    parts = sl_jinja_split(r, path.u.s, &comma, -1, false);
    key = sl_jinja_list(r, SL_J_LIST, r->rc ? 0 : parts.u.l->n);
    for (size_t i = 0; !r->rc && i < parts.u.l->n; i++)
        key.u.l->v[i] = fold(r, by_path(r, v, parts.u.l->v[i], none), exact);
    return key;
}

struct sl_jval sl_jinja_sort(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jargs *a)
{
    bool reverse = false, exact = false;
    struct sl_jval o[3], *key;
    struct sl_jlist *l;

    if (!sl_jinja_bind(r, a, "reverse case_sensitive attribute", 0, o))
        return v;
    sl_jinja_arg_bool(r, o[0], &reverse);
    sl_jinja_arg_bool(r, o[1], &exact);
    l = sl_jinja_elements(r, v, "sort");
    key = r->rc ? NULL : sl_jinja_get(r, l->n, sizeof(*key));
    for (size_t i = 0; !r->rc && i < l->n; i++)
        key[i] = sort_key(r, l->v[i], o[2], exact);
    return r->rc ? v : sorted(r, l, key, reverse);
}

struct sl_jval sl_jinja_dictsort(struct sl_jrun *r, struct sl_jval v,
                                 const struct sl_jargs *a)
{
    bool exact = false, reverse = false, by_value;
    struct sl_jargs none = {.who = "items", .who_len = 5};
    struct sl_jval o[3], *key, all;

    if (!sl_jinja_bind(r, a, "case_sensitive by reverse", 0, o))
        return v;
    sl_jinja_arg_bool(r, o[0], &exact);
    sl_jinja_arg_bool(r, o[2], &reverse);
    by_value = sl_jinja_is_str(o[1], "value");
    if (o[1].kind != SL_J_MISSING && !by_value && !sl_jinja_is_str(o[1], "key"))
        sl_jinja_fail(r, SL_EARG, "dictsort: by must be 'key' or 'value'");
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    all = sl_jinja_items(r, v, &none);
    key = r->rc ? NULL : sl_jinja_get(r, all.u.l->n, sizeof(*key));
    for (size_t i = 0; !r->rc && i < all.u.l->n; i++)
        key[i] = fold(r, all.u.l->v[i].u.l->v[by_value], exact);
    return r->rc ? v : sorted(r, all.u.l, key, reverse);
}

struct sl_jval sl_jinja_unique(struct sl_jrun *r, struct sl_jval v,
                               const struct sl_jargs *a)
{
    struct sl_jval o[2], out;
    struct sl_jdict seen = {0};
    struct sl_jlist *l;
    bool exact = false;

    if (!sl_jinja_bind(r, a, "case_sensitive attribute", 0, o))
        return v;
    sl_jinja_arg_bool(r, o[0], &exact);
    l = sl_jinja_elements(r, v, "unique");
    out = gen(r, r->rc ? 0 : l->n);
    if (r->rc)
        return v;
    out.u.l->n = 0;
    for (size_t i = 0; i < l->n && !r->rc; i++) {
        struct sl_jval key =
            by_path(r, l->v[i], o[1], (struct sl_jval){.kind = SL_J_MISSING});

        key = fold(r, key, exact);
        if (r->rc || sl_jinja_lookup(r, &seen, key))
            continue;
        sl_jinja_put(r, &seen, key, sl_jinja_none());
        out.u.l->v[out.u.l->n++] = l->v[i];
    }
    return out;
}

static struct sl_jval extreme(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jargs *a, int sign)
{
    struct sl_jval o[2], best = v, best_key = v;
    struct sl_jlist *l;
    bool exact = false;

    if (!sl_jinja_bind(r, a, "case_sensitive attribute", 0, o))
        return v;
    sl_jinja_arg_bool(r, o[0], &exact);
    l = sl_jinja_elements(r, v, sign < 0 ? "min" : "max");
    if (!r->rc && l->n == 0)
        return sl_jinja_undef(r, "No aggregated item, sequence was empty.");
    for (size_t i = 0; !r->rc && i < l->n; i++) {
        struct sl_jval key =
            by_path(r, l->v[i], o[1], (struct sl_jval){.kind = SL_J_MISSING});

        key = fold(r, key, exact);
        if (i && sl_jinja_order(r, key, best_key, sign < 0 ? "<" : ">") != sign)
            continue;
        best = l->v[i];
        best_key = key;
    }
    return best;
}

struct sl_jval sl_jinja_min(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a)
{
    return extreme(r, v, a, -1);
}

struct sl_jval sl_jinja_max(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a)
{
    return extreme(r, v, a, 1);
}

struct sl_jval sl_jinja_sum(struct sl_jrun *r, struct sl_jval v,
                            const struct sl_jargs *a)
{
    struct sl_jval o[2], sum = sl_jinja_int(0);
    struct sl_jlist *l;

    if (!sl_jinja_bind(r, a, "attribute start", 0, o))
        return v;
    if (o[1].kind != SL_J_MISSING)
        sum = o[1];
    l = sl_jinja_elements(r, v, "sum");
    for (size_t i = 0; !r->rc && i < l->n; i++) {
        struct sl_jval x =
            by_path(r, l->v[i], o[0], (struct sl_jval){.kind = SL_J_MISSING});

        if (x.kind == SL_J_UNDEF)
            sl_jinja_fail_undef(r, x);
        else if (!sl_jinja_is_number(x) || !sl_jinja_is_number(sum))
            sl_jinja_fail(r, SL_EUNSUP, "sum takes numbers only, not %s",
                          sl_jinja_type(x));
        else
            sum = sl_jinja_arith(r, '+', sum, x);
    }
    return sum;
}
