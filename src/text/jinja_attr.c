/* text/jinja_attr.c - x.name, x[key] and x[a:b:c]
 *
 * Jinja looks in two places: `x.name` asks for Python's attribute and then for
 * the item, `x['name']` the other way round. So `message.items` is the method
 * even where the message has a key "items", and `message['items']` is the key.
 * What is in neither place is undefined, and only using that is an error.
 */
#include "text/jinja_attr.h"

#include "text/jinja_method.h"
#include "text/jinja_text.h"

static bool is_dunder(const struct sl_jstr *s)
{
    return s->len > 4 && memcmp(s->p, "__", 2) == 0 &&
           memcmp(s->p + s->len - 2, "__", 2) == 0;
}

static struct sl_jval missed(struct sl_jrun *r, struct sl_jval v,
                             struct sl_jval name)
{
    return sl_jinja_undef_name(r, name, v.kind);
}

/* Python's own attribute; false if there is none. */
static bool own_attr(struct sl_jrun *r, struct sl_jval v,
                     const struct sl_jstr *name, struct sl_jval *out)
{
    const struct sl_jval *hit;

    if (v.kind == SL_J_NS) {
        hit = sl_jinja_lookup_name(r, v.u.d, name->p, name->len);
        if (hit)
            *out = *hit;
        return hit != NULL;
    }
    if (v.kind == SL_J_LOOP) {
        *out = v.u.loop->attr(r, v.u.loop, name);
        return out->kind != SL_J_MISSING;
    }
    if (is_dunder(name)) {
        *out = sl_jinja_undef(r, "names with two underscores at both ends are "
                                 "not for templates");
        return true;
    }
    return sl_jinja_method(r, v, name->p, name->len, out);
}

/* The item of an index; false if there is none. */
static bool by_index(struct sl_jrun *r, struct sl_jval v, int64_t i,
                     struct sl_jval *out)
{
    int64_t n = sl_jinja_len(r, v);

    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return false;
    if (v.kind == SL_J_LIST || v.kind == SL_J_TUPLE)
        *out = v.u.l->v[i];
    else if (v.kind == SL_J_RANGE)
        *out = sl_jinja_int(v.u.range->start + i * v.u.range->step);
    else
        *out = sl_jinja_cut(r, v.u.s, (size_t)i, (size_t)i + 1);
    return true;
}

static bool own_item(struct sl_jrun *r, struct sl_jval v, struct sl_jval key,
                     struct sl_jval *out)
{
    const struct sl_jval *hit;

    switch (v.kind) {
    case SL_J_DICT:
        if (!sl_jinja_is_hashable(key))
            return false;
        hit = sl_jinja_lookup(r, v.u.d, key);
        if (hit)
            *out = *hit;
        return hit != NULL;
    case SL_J_STR:
    case SL_J_LIST:
    case SL_J_TUPLE:
    case SL_J_RANGE:
        return sl_jinja_is_int(key) &&
               by_index(r, v, sl_jinja_int_of(key), out);
    default:
        return false;
    }
}

struct sl_jval sl_jinja_attr(struct sl_jrun *r, struct sl_jval v,
                             const struct sl_jstr *name)
{
    struct sl_jval out = sl_jinja_none();
    struct sl_jval key = {.kind = SL_J_STR, .u.s = name};

    if (r->rc)
        return out;
    if (v.kind == SL_J_UNDEF) {
        sl_jinja_fail_undef(r, v);
        return out;
    }
    if (own_attr(r, v, name, &out) || own_item(r, v, key, &out))
        return out;
    return missed(r, v, key);
}

struct sl_jval sl_jinja_item(struct sl_jrun *r, struct sl_jval v,
                             struct sl_jval key)
{
    struct sl_jval out = sl_jinja_none();

    if (r->rc)
        return out;
    if (v.kind == SL_J_UNDEF) {
        sl_jinja_fail_undef(r, v);
        return out;
    }
    if (own_item(r, v, key, &out))
        return out;
    if (key.kind == SL_J_STR && own_attr(r, v, key.u.s, &out))
        return out;
    return missed(r, v, key);
}

/* PySlice_AdjustIndices: the first index and how many, step not 0. */
static int64_t adjust(struct sl_jrun *r, const struct sl_jval bound[3],
                      int64_t n, int64_t *start, int64_t *step)
{
    int64_t stop = 0, lo, hi;

    *step = 1;
    if (bound[2].kind != SL_J_NONE)
        *step = sl_jinja_int_of(bound[2]);
    if (*step == 0) {
        sl_jinja_fail(r, SL_EARG, "the step of a slice cannot be 0");
        return 0;
    }
    if (*step < -INT64_MAX)
        *step = -INT64_MAX;
    lo = *step < 0 ? -1 : 0;
    hi = *step < 0 ? n - 1 : n;
    *start = *step < 0 ? hi : lo;
    stop = *step < 0 ? lo : hi;
    if (bound[0].kind != SL_J_NONE) {
        *start = sl_jinja_int_of(bound[0]);
        if (*start < 0)
            *start = *start + n < 0 ? lo : *start + n;
        if (*start > hi)
            *start = hi;
    }
    if (bound[1].kind != SL_J_NONE) {
        stop = sl_jinja_int_of(bound[1]);
        if (stop < 0)
            stop = stop + n < 0 ? lo : stop + n;
        if (stop > hi)
            stop = hi;
    }
    if (*step > 0)
        return *start < stop ? (stop - *start - 1) / *step + 1 : 0;
    return stop < *start ? (*start - stop - 1) / -*step + 1 : 0;
}

/* Single characters in another order, or a stretch. */
static struct sl_jval slice_str(struct sl_jrun *r, const struct sl_jstr *s,
                                int64_t start, int64_t step, int64_t n)
{
    size_t mark = sl_jinja_mark(r);
    struct sl_jval all = {.kind = SL_J_STR, .u.s = s};
    struct sl_jlist *l;

    if (n == 0)
        return sl_jinja_safe(r, sl_jinja_borrow(r, "", 0), s->safe);
    if (step == 1)
        return sl_jinja_cut(r, s, (size_t)start, (size_t)(start + n));
    l = sl_jinja_elements(r, all, "slice");
    for (int64_t i = 0; i < n && !r->rc; i++) {
        const struct sl_jstr *c = l->v[start + i * step].u.s;

        sl_jinja_emit(r, c->p, c->len);
    }
    return sl_jinja_safe(r, sl_jinja_take(r, mark), s->safe);
}

struct sl_jval sl_jinja_slice(struct sl_jrun *r, struct sl_jval v,
                              const struct sl_jval bound[3])
{
    struct sl_jval out = sl_jinja_none();
    int64_t start, step, n;

    if (r->rc)
        return out;
    if (v.kind == SL_J_UNDEF)
        sl_jinja_fail_undef(r, v);
    else if (v.kind != SL_J_STR && v.kind != SL_J_LIST && v.kind != SL_J_TUPLE)
        sl_jinja_fail(r, SL_EARG, "a %s cannot be sliced", sl_jinja_type(v));
    for (size_t i = 0; i < 3; i++)
        if (!sl_jinja_is_int(bound[i]) && bound[i].kind != SL_J_NONE)
            sl_jinja_fail(r, SL_EARG,
                          "the bounds of a slice are integers, not %s",
                          sl_jinja_type(bound[i]));
    if (r->rc)
        return out;
    n = adjust(r, bound, sl_jinja_len(r, v), &start, &step);
    if (r->rc)
        return out;
    if (v.kind == SL_J_STR)
        return slice_str(r, v.u.s, start, step, n);
    out = sl_jinja_list(r, v.kind, (size_t)n);
    for (int64_t i = 0; i < n && !r->rc; i++)
        out.u.l->v[i] = v.u.l->v[start + i * step];
    return out;
}
